//go:build soak

package postgres

import (
	"fmt"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A guess that was right when it was sent, and waited for a row that another transaction
// was writing, is made good from what that one has left.
func TestAGuessThatWaitsForAnother(t *testing.T) {
	const of = ` WHERE id = $1`
	url := made(t)
	other := opened(t, url, Options{})
	for _, mode := range modes {
		here := opened(t, with(url, mode), Options{})
		need.OK(t, begins(ctx, here, ledger.NewID())) // it knows the clock from now on
		for _, c := range []struct {
			writes  string // $1: the operation
			commits bool
			left    func(ledger.Applied) bool
		}{
			{`UPDATE indoubt.operations SET title = 'named'` + of, true, func(a ledger.Applied) bool { return a.Before.Title == "named" }},
			{`UPDATE indoubt.operations SET title = 'named'` + of, false, func(a ledger.Applied) bool { return a.Before.Title == "" }},
			{`UPDATE indoubt.attempts SET token_sent = true WHERE operation_id = $1`, true, func(a ledger.Applied) bool { return a.After.TokenSent }},
			{`UPDATE indoubt.attempts SET token_sent = true WHERE operation_id = $1`, false, func(a ledger.Applied) bool { return !a.After.TokenSent }},
			{`SELECT FROM indoubt.operations` + of + ` FOR UPDATE`, true, func(a ledger.Applied) bool { return a.Before.State == ledger.Pending }},
			{`UPDATE indoubt.operations SET state = 'uncertain', change_id = gen_random_uuid()::text, actor = 'sql', reason = 'by hand'` + of, true,
				func(a ledger.Applied) bool {
					return a.Before.State == ledger.Uncertain && a.Attempt.LateOutcome == ledger.OutcomeCommitted
				}},
		} {
			b := need.Get(ledger.Begin(ctx, here, begun(ledger.NewID(), 0)))(t)
			var a ledger.Applied
			var err error
			behind(t, other, c.writes, b.Operation.ID, c.commits, func() {
				a, err = ledger.Settle(ctx, here, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: b.Attempt.ID, Outcome: ledger.OutcomeCommitted, Status: 200, Actor: ledger.Actor{Name: "billing", Machine: true}})
			})
			need.That(t, err == nil && a.After.State == ledger.Committed && c.left(a), "%s %s: %v: %s from %s, %+v", mode, c.writes, err, a.After.State, a.Before.State, a.Attempt)
		}
		for _, commits := range []bool{true, false} {
			req := begun(ledger.NewID(), 0)
			req.Marks = ledger.Marks{Rules: "r", Values: []string{"m" + req.Key}} // between the operation and its attempt
			var res ledger.BeginResult
			var err error
			behind(t, other, `INSERT INTO indoubt.operations (id, kind, key, deadline_at, actor) VALUES ($1, 'charge', $1, now() + interval '1 hour', 'sql')`, req.Key, commits, func() {
				res, err = ledger.Begin(ctx, here, req)
			})
			want := map[bool]string{true: req.Key, false: req.OperationID}[commits]
			need.That(t, err == nil && res.Operation.ID == want && (res.Answer == ledger.AnswerBegun) != commits, "%s: %v: %s of %s, want %s", mode, err, res.Answer, res.Operation.ID, want)
		}
	}
}

// behind has something done behind what another transaction writes, which then commits or
// is undone.
func behind(t *testing.T, other *Store, writes, id string, commits bool, do func()) {
	t.Helper()
	conn := need.Get(other.pool.Load().Acquire(ctx))(t)
	defer conn.Release()
	tx := need.Get(conn.Begin(ctx))(t)
	need.Get(tx.Exec(ctx, writes, id))(t)
	done := make(chan struct{})
	go func() { do(); close(done) }()
	for end := time.Now().Add(amply); scalar(t, other, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0; time.Sleep(time.Millisecond) {
		need.Must(t, time.Now().Before(end), "nothing waits behind %s", writes)
	}
	if commits {
		need.OK(t, tx.Commit(ctx))
	} else {
		need.OK(t, tx.Rollback(ctx))
	}
	<-done
}

// An operation and its attempt are of one transaction whatever is written between them, and
// are remembered as that.
func TestMarksBetweenAnOperationAndItsAttempt(t *testing.T) {
	for _, mode := range modes {
		s := opened(t, with(made(t), mode), Options{})
		need.OK(t, begins(ctx, s, ledger.NewID()))
		req := begun(ledger.NewID(), 0)
		req.Marks = ledger.Marks{Rules: "r", Values: []string{"one", "two"}}
		need.Get(ledger.Begin(ctx, s, req))(t)
		xid := fmt.Sprint(scalar(t, s, `SELECT min(o.xmin::text::bigint) FROM indoubt.operations o JOIN indoubt.attempts a ON a.operation_id = o.id AND a.xmin = o.xmin JOIN indoubt.marks m ON m.operation_id = o.id AND m.xmin = o.xmin WHERE o.id = ? HAVING count(*) = 2`, req.OperationID))
		need.That(t, s.memory.begun[req.AttemptID].xid == xid, "%s: transaction %s is remembered as %s", mode, xid, s.memory.begun[req.AttemptID].xid)
		a := need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: req.AttemptID, Outcome: ledger.OutcomeCommitted, Actor: req.Actor}))(t)
		need.That(t, a.After.State == ledger.Committed, "it is %s", a.After.State)
	}
}
