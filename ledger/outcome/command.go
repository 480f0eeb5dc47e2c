package outcome

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/wire/curl"
)

// Command adds to a curl's answer what its exit code says: how the answer failed to come,
// and whether it never had a connection. A curl exits 0 at a redirect and at a 202, so a
// status that it writes counts more. env is the environment it ran in.
func Command(a ledger.Answer, argv, env []string) ledger.Answer {
	if !a.Exited || len(argv) == 0 || !curl.Is(argv[0]) {
		return a
	}
	if a.Exit == 0 {
		if status, asked := written(argv, a.Stderr); asked && !committedStatus[status] {
			doubt := "the status that curl writes is missing"
			if status != 0 {
				doubt, a.Class = statusLine(status), statusClass(status)
			}
			a.Doubt = joined(a.Doubt, doubt)
		}
		return a
	}
	a.Class = cmp.Or(a.Class, curlClass(a.Exit))
	a.Unconnected = a.Err == nil && curl.NeverConnected(argv, env, a.Exit)
	return a
}

// curlClass is the error class of a curl exit code, which the odds use.
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

// written is the HTTP status that a curl wrote last on standard error, 0 where none is
// there; asked is whether it was told to, with -w '%{stderr}%{http_code}\n'.
func written(argv []string, stderr []byte) (status int, asked bool) {
	asked = slices.ContainsFunc(argv, func(arg string) bool {
		return strings.HasSuffix(strings.TrimSuffix(arg, `\n`), "%{stderr}%{http_code}")
	})
	if words := bytes.Fields(stderr); asked && len(words) > 0 {
		status, _ = strconv.Atoi(string(words[len(words)-1]))
	}
	return status, asked
}
