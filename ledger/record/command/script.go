package command

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"indoubt/ledger/wire/curl"
	"indoubt/ledger/wire/transmit"
)

// shells are programs that take a script after -c.
var shells = []string{"sh", "bash", "dash", "ash", "ksh", "zsh"}

// curlHides says why the exit code 0 of a curl does not show that the server accepted the
// write.
func curlHides(argv []string) string {
	if len(argv) == 0 || !curl.Is(argv[0]) {
		return ""
	}
	writes := slices.ContainsFunc(argv, func(arg string) bool { return strings.Contains(arg, "%{http_code}") })
	for _, o := range curl.Options(argv) {
		switch o.Name {
		case "location", "location-trusted":
			return "curl -L follows a redirect with a GET, or sends the write once more, and its status is that of the last answer; leave -L out"
		}
	}
	if !writes {
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

// hides says why the exit code 0 of a shell's script (sh -c SCRIPT) may hide a failure; ""
// where it does not, as far as the script's words tell.
func hides(argv []string) string {
	script, stops, pipes := scriptOf(argv)
	bare := bare(script)
	words := strings.FieldsFunc(bare, func(r rune) bool { return strings.ContainsRune(" \t\n;|&(){}", r) })
	if i := slices.Index(words, "set") + 1; i > 0 && i < len(words) {
		stops = stops || strings.HasPrefix(words[i], "-") && strings.Contains(words[i], "e")
	}
	pipes = pipes || slices.Contains(words, "pipefail")
	rest := strings.NewReplacer("&&", " ", "||", " ", ">&", " ", "<&", " ", "&>", " ", "|&", "|", ">|", " ").Replace(bare)
	switch {
	case strings.Contains(bare, "||"):
		return "the script has ||, which hides that a command failed: an exit code 0 would count as committed"
	case strings.Contains(rest, "|") && !pipes:
		return "the script has a pipe, whose exit code is that of its last command: " +
			"a failure before it would count as committed; use bash -o pipefail -c"
	case strings.Contains(rest, "&"):
		return "the script runs a command in the background, whose failure would not be seen: " +
			"an exit code 0 would count as committed"
	case strings.ContainsAny(strings.Trim(rest, " \t\n;"), ";\n") && !stops && !slices.Contains(words, "exit"):
		return "the script goes on after a command that failed, which would count as committed; begin it with set -e"
	}
	return ""
}

// scriptOf is the script of a shell's command line, with its options -e and pipefail.
func scriptOf(argv []string) (script string, errexit, pipefail bool) {
	if len(argv) == 0 || !slices.Contains(shells, filepath.Base(argv[0])) {
		return "", false, false
	}
	takes := false
	for i := 1; i < len(argv); i++ {
		arg := argv[i]
		if len(arg) < 2 || arg[0] != '-' || arg[1] == '-' {
			if takes {
				return arg, errexit, pipefail
			}
			return "", false, false
		}
		takes = takes || strings.Contains(arg, "c")
		errexit = errexit || strings.Contains(arg, "e")
		if strings.HasSuffix(arg, "o") && i+1 < len(argv) {
			i++
			pipefail, errexit = pipefail || argv[i] == "pipefail", errexit || argv[i] == "errexit"
		}
	}
	return "", false, false
}

// bare is a script without what it quotes and without its comments.
func bare(script string) string {
	var out strings.Builder
	quote := byte(0)
	for i := 0; i < len(script); i++ {
		b := script[i]
		switch {
		case b == '\\' && quote != '\'':
			i++
		case quote != 0:
			if b == quote {
				quote = 0
			}
		case b == '\'' || b == '"':
			quote = b
			out.WriteByte('_')
		case b == '#' && (i == 0 || strings.IndexByte(" \t\n;", script[i-1]) >= 0):
			for i+1 < len(script) && script[i+1] != '\n' {
				i++
			}
		default:
			out.WriteByte(b)
		}
	}
	return out.String()
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
