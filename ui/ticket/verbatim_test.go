package ticket

import (
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A check's reason quotes the policy as its author wrote it; what a terminal would act on
// is written out all the same.
func TestAReasonQuotesThePolicyAsItIsWritten(t *testing.T) {
	const why = `size(stdout.split("\n")) > input.rows: the input has no ` + "`rows`"
	need.Equal(t, Verdict(ledger.Read{Verdict: ledger.CannotTell, Reason: why}).String(), "cannot tell: "+why)
	need.Equal(t, Colon("\x1b[2J\n\u202e").String(), `: \x1b[2J\n\u202e`)
}
