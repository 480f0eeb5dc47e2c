package ticket

import (
	"time"

	"indoubt/ledger"
)

// Lag is how long after its last attempt ended a check still missed the effect that a later
// check found: it took longer than this to land and to show. 0: no check missed it.
func Lag(rec ledger.Record) (lag time.Duration) {
	if rec.Operation.State != ledger.Committed || rec.Operation.ByAnswer {
		return 0
	}
	found := false
	for _, r := range rec.Reads { // newest first
		found = found || r.Verdict == ledger.Landed
		if found && r.FoundNone() {
			lag = max(lag, r.BeganAt.Sub(rec.Operation.EndedAt))
		}
	}
	return lag
}
