package record

import (
	"path/filepath"
	"regexp"
	"strings"

	"indoubt/ledger"
)

// isCurl tells whether a program is curl by its name.
func isCurl(program string) bool {
	name := strings.ToLower(filepath.Base(program))
	return name == "curl" || name == "curl.exe"
}

// curlClass is the error class of a curl exit code. It says how the answer
// failed to come, which the odds use; it is never proof, because curl re-sends
// on its own where it is told to, and follows redirects.
func curlClass(exit int) ledger.ErrorClass {
	switch exit {
	case 28:
		return ledger.ClassTimeout
	case 52, 18: // empty reply, partial file
		return ledger.ClassEOF
	case 55, 56: // send and receive failures
		return ledger.ClassReset
	}
	return ledger.ClassExit
}

// curlUnconnected finds curl's word that it had no connection: names that do not
// resolve, and refused connections.
var curlUnconnected = regexp.MustCompile(`(?m)^curl: \([567]\) `)

// curlHidesErrors tells whether a curl command line exits 0 when the server
// answers with an error.
func curlHidesErrors(argv []string) bool {
	if len(argv) == 0 || !isCurl(argv[0]) {
		return false
	}
	for _, arg := range argv[1:] {
		switch {
		case arg == "--fail", arg == "--fail-with-body":
			return false
		case strings.HasPrefix(arg, "--"), !strings.HasPrefix(arg, "-"):
		default:
			if shortFlags(arg[1:]) {
				return false
			}
		}
	}
	return true
}

// curlTakesValue are curl's short options that swallow the rest of their
// argument, or the next one.
const curlTakesValue = "AbcCdDeEFhHKmoPQrtTuUwxXyYz"

// shortFlags looks for f among short options written together, as in -sSf.
func shortFlags(flags string) bool {
	for _, c := range flags {
		if c == 'f' {
			return true
		}
		if strings.ContainsRune(curlTakesValue, c) {
			return false
		}
	}
	return false
}
