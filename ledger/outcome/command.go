package outcome

import (
	"indoubt/ledger"
	"indoubt/ledger/wire/curl"
)

// Command adds to a command's answer what a known program says by its exit code and by
// the status that it writes: how the answer failed to come, whether the program never had
// a connection, and whether its exit code 0 shows a success. A curl exits 0 at a redirect
// and at a 202. env is the environment it ran in.
func Command(a ledger.Answer, argv, env []string) ledger.Answer {
	if !a.Exited || len(argv) == 0 || !curl.Is(argv[0]) {
		return a
	}
	if a.Exit == 0 {
		if status, asked := curl.Status(argv, a.Stdout, a.Stderr); asked && !committedStatus[status] {
			doubt := "the status that curl writes is missing"
			if status != 0 {
				doubt, a.Class = statusLine(status), statusClass(status)
			}
			a.Doubt = joined(a.Doubt, doubt)
		}
		return a
	}
	if a.Class == "" {
		a.Class = curlClass(a.Exit)
	}
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
