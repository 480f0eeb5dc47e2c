package sqlite

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/tables"
)

// Nor may a writer in plain SQL send again on a proof that was contradicted.
func TestI12_AContradictedProofFreesNoKeyInSQL(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	begin(t, s, func(r *ledger.BeginRequest) { r.OperationID, r.AttemptID, r.ChangeID = "o", "o-a", "o-c" })
	c.Advance(time.Second)
	o := settleAs(t, s, "o-a", ledger.OutcomeUncertain)
	for i, v := range []ledger.Verdict{ledger.NotThere, ledger.Landed} {
		c.Advance(time.Second)
		id := string(v)
		o = need.Get(ledger.Observe(ctx, s, ledger.Observation{ChangeID: id, Version: o.Version, Actor: billing, Settles: true,
			Read: ledger.Read{ID: id, OperationID: "o", BeganAt: c.Now(), EndedAt: c.Now(), Verdict: v, Reason: "found", Found: i}}))(t).After
	}
	need.Must(t, o.State == ledger.Failed && o.Conflict == ledger.Contradiction, "%+v", o)
	db := rawDB(t, s.path)
	_, err := db.Exec(`
		UPDATE operations SET state = 'pending', live_attempt = 'o.2', attempt_count = 2, version = version + 1, updated_at = ?1,
		       deadline_at = ?1 + 60000, change_id = 'again', change_of = 'again', actor = 'eve', reason = 'again' WHERE id = 'o'`, tables.Millis(c.Now()))
	need.That(t, err != nil && strings.Contains(err.Error(), "another attempt needs a grant"), "%v", err)
}
