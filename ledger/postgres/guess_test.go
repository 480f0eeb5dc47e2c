//go:build soak

package postgres

import (
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// A guess that is wrong leaves nothing, and the change is made from what there is.
func TestAWrongGuessIsMadeGood(t *testing.T) {
	url := made(t)
	here, there := opened(t, url, Options{}), opened(t, url, Options{})
	actor := ledger.Actor{Name: "billing", Machine: true}
	request := func() ledger.BeginRequest {
		return ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "card.charge", Key: ledger.NewID(),
			Sender: "pipeline", Deadline: time.Minute, Actor: actor}
	}
	begin := func(s *Store, r ledger.BeginRequest) ledger.BeginResult { return need.Get(ledger.Begin(ctx, s, r))(t) }
	settle := func(s *Store, attempt string, outcome ledger.Outcome) ledger.Applied {
		return need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: attempt, Outcome: outcome, Status: 200, Actor: actor}))(t)
	}
	events := func(operation string) (verbs []string) {
		for _, e := range need.Get(here.History(ctx, ledger.HistoryQuery{Operation: operation, Limit: 10}))(t) {
			verbs = append(verbs, e.Verb)
		}
		return verbs
	}
	t.Run("it holds", func(t *testing.T) {
		b := begin(here, request())
		settle(here, b.Attempt.ID, ledger.OutcomeCommitted)
		need.That(t, len(events(b.Operation.ID)) == 2, "%v", events(b.Operation.ID))
	})
	t.Run("the key is taken", func(t *testing.T) {
		r := request()
		first := begin(there, r)
		r.ChangeID, r.OperationID, r.AttemptID = ledger.NewID(), ledger.NewID(), ledger.NewID()
		second := begin(here, r)
		need.That(t, second.Answer == ledger.AnswerInProgress && second.Operation.ID == first.Operation.ID, "%s of %s", second.Answer, second.Operation.ID)
	})
	t.Run("it is made twice", func(t *testing.T) {
		r := request()
		first, second := begin(here, r), begin(here, r)
		need.That(t, second.Answer == ledger.AnswerBegun && len(events(first.Operation.ID)) == 1, "%s, %v", second.Answer, events(first.Operation.ID))
		settle(here, r.AttemptID, ledger.OutcomeCommitted)
		need.That(t, begin(here, r).Answer == ledger.AnswerInDoubt, "it may be sent again")
	})
	t.Run("others have ended it", func(t *testing.T) {
		b := begin(here, request())
		settle(there, b.Attempt.ID, ledger.OutcomeUncertain)
		applied := settle(here, b.Attempt.ID, ledger.OutcomeCommitted)
		need.That(t, applied.Before.State == ledger.Uncertain && applied.After.State == ledger.Committed && applied.Attempt.LateOutcome == ledger.OutcomeCommitted, "%+v", applied.Attempt)
	})
	t.Run("plain SQL has changed it", func(t *testing.T) {
		b := begin(here, request())
		psql(t, url, `UPDATE indoubt.operations SET title = 'named' WHERE id = '`+b.Operation.ID+`'`)
		applied := settle(here, b.Attempt.ID, ledger.OutcomeCommitted)
		need.That(t, applied.Before.Title == "named", "before it was %q", applied.Before.Title)
	})
	t.Run("plain SQL has changed the attempt", func(t *testing.T) {
		b := begin(here, request())
		psql(t, url, `UPDATE indoubt.attempts SET token_sent = true WHERE id = '`+b.Attempt.ID+`'`)
		applied := settle(here, b.Attempt.ID, ledger.OutcomeCommitted)
		need.That(t, applied.After.TokenSent, "the token was sent")
	})
	t.Run("the clock was set", func(t *testing.T) {
		for _, by := range []time.Duration{-time.Hour, time.Hour} {
			here.memory.moment.Wall = here.memory.moment.Wall.Add(by)
			b := begin(here, request())
			need.That(t, time.Since(b.Operation.CreatedAt).Abs() < time.Minute, "by %s: begun at %s", by, b.Operation.CreatedAt)
		}
	})
}

// Many who want a known key from far away do not wait for each other: the answers to all
// of them, one after the other, would take longer than a lock is waited for.
func TestManyWantAKnownKeyFromFarAway(t *testing.T) {
	url := made(t)
	near := opened(t, url, Options{})
	_ = need.Get(ledger.Begin(ctx, near, begun("hot", 0)))(t)
	r, address := pgtest.Through(t, url)
	r.Delay = 100 * time.Millisecond
	far := opened(t, with(address, "pool_max_conns=40"), Options{})
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			res, err := ledger.Begin(ctx, far, begun("hot", 0))
			need.That(t, err == nil && res.Answer == ledger.AnswerInProgress, "%s %v", res.Answer, err)
		})
	}
	all.Wait()
}
