package ledger

import (
	"testing"

	"indoubt/ledger/need"
)

// Who does not have the ledger's key redacts nothing. A check of theirs that finds a receipt cannot tell whether it is
// the one that was redacted; one that finds more of them than there were can (I9).
func TestI11_WithoutTheKey(t *testing.T) {
	b := newBench(t)
	_, attempt := b.begin()
	b.settle(attempt, OutcomeUncertain)
	b.observe(Landed, 1, "pi_1")
	need.That(t, b.decide(VerbRedact) != nil && b.rec.Operation.Receipt() == "pi_1", "redacted without the key")
	b.rec.Mask = Mask("the ledger's")
	need.OK(t, b.decide(VerbRedact))
	b.observe(Landed, 1, "pi_1")
	b.want(Committed, 1, NoConflict)

	b.rec.Mask = nil
	b.observe(Landed, 1, "pi_1")
	b.want(Committed, 1, NoConflict)
	b.observe(Twice, 2, "pi_1", "pi_2")
	b.want(Committed, 2, ConflictTwice)
}
