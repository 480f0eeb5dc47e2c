package curl

import (
	"bytes"
	"strconv"
	"strings"
)

// Hides says why the exit code 0 of a curl command line does not show that the server
// accepted the write; "" where the command line writes the status, which Status reads.
func Hides(argv []string) string {
	if len(argv) == 0 || !Is(argv[0]) {
		return ""
	}
	fails := false
	for _, o := range Options(argv) {
		switch o.Name {
		case "location", "location-trusted":
			return "curl -L follows a redirect with a GET, or sends the write once more, " +
				"and its status is that of the last answer; leave -L out"
		case "fail", "fail-with-body":
			fails = true
		}
	}
	switch _, written := written(argv); {
	case written:
		return ""
	case fails:
		return `curl exits 0 at a redirect and at a 202, which would count as committed; add -w '%{stderr}%{http_code}\n'`
	}
	return "curl exits 0 when the server answers with an error, a redirect or a 202, which would count as committed; " +
		`add --fail-with-body -w '%{stderr}%{http_code}\n'`
}

// Status is the HTTP status that a curl has written by its command line, 0 where what it
// has written is none. asked is false for a command line that writes none.
func Status(argv []string, stdout, stderr []byte) (status int, asked bool) {
	if len(argv) == 0 || !Is(argv[0]) {
		return 0, false
	}
	toStderr, asked := written(argv)
	said := stdout
	if toStderr {
		said = stderr
	}
	if said = bytes.TrimRight(said, " \t\r\n"); asked && len(said) >= 3 {
		status, _ = strconv.Atoi(string(said[len(said)-3:]))
	}
	return status, asked
}

// written reports whether a command line has curl write the status as the last word of what
// it says, and whether that goes to standard error.
func written(argv []string) (toStderr, asked bool) {
	format := ""
	for _, o := range Options(argv) {
		switch o.Name {
		case "write-out": // the last one counts
			format = o.Value
		case "stderr", "next": // it goes elsewhere, or is that of one request of several
			return false, false
		}
	}
	for {
		cut := strings.TrimRight(format, " \t\r\n")
		cut = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(cut, `\n`), `\r`), `\t`)
		if cut == format {
			break
		}
		format = cut
	}
	format, code := strings.CutSuffix(format, "%{http_code}")
	if !code {
		format, code = strings.CutSuffix(format, "%{response_code}")
	}
	if !code || strings.HasPrefix(format, "@") || strings.Contains(format, "%output{") {
		return false, false
	}
	return strings.LastIndex(format, "%{stderr}") > strings.LastIndex(format, "%{stdout}"), true
}
