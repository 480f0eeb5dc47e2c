package command

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"

	"indoubt/ledger/wire/curl"
	"indoubt/ledger/wire/transmit"
)

// curlHides says why the exit code 0 of a curl does not show that the server accepted the
// write.
func curlHides(argv []string) string {
	if len(argv) == 0 || !curl.Is(argv[0]) {
		return ""
	}
	for _, o := range curl.Options(argv) {
		if strings.HasPrefix(o.Name, "location") {
			return "curl -L follows a redirect with a GET, or sends the write once more, and its status is that of the last answer; leave -L out"
		}
	}
	if !slices.ContainsFunc(argv, func(arg string) bool { return strings.Contains(arg, "%{http_code}") }) {
		return `curl exits 0 at an error, a redirect or a 202, which would count as committed; add --fail-with-body -w '%{stderr}%{http_code}'`
	}
	return ""
}

// spelled are the words of a command as they are compared: the address of a curl in one spelling,
// where all of its words are known.
func spelled(argv []string) []string {
	if !curl.Is(argv[0]) || !curl.AsksOnce(argv) {
		return argv
	}
	words := slices.Clone(argv)
	for _, o := range curl.Options(argv) {
		if u, err := url.Parse(o.Value); o.Name == "url" && err == nil {
			words[o.Arg] = words[o.Arg][:o.At] + transmit.Spelled(u).String()
		}
	}
	return words
}

// digestOf is of what a command is fed, where that is a file; "" where it can be read once.
func digestOf(in io.Reader) (string, error) {
	f, ok := in.(*os.File)
	if !ok {
		return "", nil
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	from, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, io.NewSectionReader(f, from, math.MaxInt64-from))
	return hex.EncodeToString(sum.Sum(nil)), err
}
