package reconcile

import (
	"io"
	"net/http"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// What was found of another operation before the clock was set back is not newer than a
// check made after it.
func TestI6_ASiblingFromBeforeTheClockWasSetBackProvesNothing(t *testing.T) {
	w := newWorld(t, askPolicy)
	w.known("pay")
	w.pass(time.Hour)
	o := w.doubt("pay", 420)
	w.pass(pastProof)
	res := w.read(o.ID)
	need.Must(t, res.Read.Verdict == ledger.NotThere, "%v", res.Read.Reason)
	w.later(-6 * pastProof)
	again := w.doubt("pay", 421)
	w.pass(pastProof)
	w.side.onList = func(_ *side, rw http.ResponseWriter, r *http.Request) bool {
		_, _ = io.WriteString(rw, emptyList)
		return true
	}
	if res := w.read(again.ID); res.Read.Cause != ledger.CauseBlind {
		t.Error(res.Read.Verdict, res.Read.Reason)
	}
}
