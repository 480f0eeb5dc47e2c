package outcome

import (
	"indoubt/ledger"
	"indoubt/ledger/wire/curl"
)

// Command adds to a failed curl's answer what its exit code says: how the answer failed to
// come, and whether it never had a connection. env is the environment it ran in.
func Command(a ledger.Answer, argv, env []string) ledger.Answer {
	if !a.Exited || a.Exit == 0 || len(argv) == 0 || !curl.Is(argv[0]) {
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
