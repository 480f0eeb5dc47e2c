package ticket

import (
	"testing"

	"indoubt/ledger"
)

// TestCandidatesAreOffered: what the newest check showed without being able to tell
// whose it is, and nothing else.
func TestCandidatesAreOffered(t *testing.T) {
	seen := func(c ledger.Cause) ledger.Read {
		return ledger.Read{Verdict: ledger.CannotTell, Cause: c, Receipts: []string{"190", "190", "191"}}
	}
	for name, tc := range map[string]struct {
		reads []ledger.Read
		want  int
	}{
		"nothing identifies it":  {[]ledger.Read{seen(ledger.CauseUnidentified)}, 3},
		"another has the mark":   {[]ledger.Read{seen(ledger.CauseShared)}, 3},
		"an echo is none":        {[]ledger.Read{seen(ledger.CauseEcho)}, 0},
		"a newer check saw none": {[]ledger.Read{seen(ledger.CauseNone), seen(ledger.CauseUnidentified)}, 0},
		"no check":               {nil, 0},
	} {
		if got := (Ticket{Record: &ledger.Record{Reads: tc.reads}}).Candidates(); len(got) != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
