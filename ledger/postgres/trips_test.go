//go:build soak

package postgres

import (
	"errors"
	"slices"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// trips is how many round trips are made at most, once the statements are prepared or where none is; with the one
// that ends a look, for which no one waits, and which the next may travel beside.
var trips = map[string]int{"begin": 2, "settle": 2, "begin, in doubt": 2, "begin, allowed": 2, "decision": 5, "page with counts": 6}

// What a person or a pipeline waits for takes few round trips, prepared or not.
func TestRoundTrips(t *testing.T) {
	for _, mode := range append(slices.Clone(modes), "pooler") {
		address := with(made(t), mode)
		if mode == "pooler" {
			address = bouncer(t)(made(t))
		}
		r, url := pgtest.Through(t, address)
		s := opened(t, with(url, "pool_max_conns=1"), Options{}) // on another one the statements are not prepared
		s.notifier.once.Do(func() {})                            // others are told beside a change
		maya := ledger.Actor{Name: "maya", Host: "batch-2", Terminal: true}
		begin := func(key string) (ledger.BeginResult, error) {
			req := begun(key)
			req.Marks, req.Title, req.Target = ledger.Marks{Values: []string{ledger.NewID()}}, "charge", ledger.NewID()
			req.Gate, req.Fingerprint, req.Input = ledger.NewID(), "f", []byte(`{"amount":1}`)
			return ledger.Begin(ctx, s, req)
		}
		settle := func(attempt string, outcome ledger.Outcome) (ledger.Applied, error) {
			return ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: attempt, Outcome: outcome, Status: -1, Actor: begun("").Actor})
		}
		var attempts []string
		var doubts []ledger.Operation
		for range 6 {
			attempts = append(attempts, need.Get(begin(ledger.NewID()))(t).Attempt.ID)
			attempt := need.Get(begin(ledger.NewID()))(t).Attempt.ID
			doubts = append(doubts, need.Get(settle(attempt, ledger.OutcomeUncertain))(t).After)
		}
		for i, o := range doubts[:3] {
			doubts[i] = need.Get(ledger.Allow(ctx, s, ledger.AllowRequest{ChangeID: ledger.NewID(), AllowID: ledger.NewID(), OperationID: o.ID, Version: o.Version,
				Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Reason: "must", Actor: maya, ExpiresAt: time.Now().Add(time.Hour)}))(t).After
		}
		for what, call := range map[string]func(i int) error{
			"begin":  func(int) error { _, err := begin(ledger.NewID()); return err },
			"settle": func(i int) error { _, err := settle(attempts[i], ledger.OutcomeCommitted); return err },
			"begin, in doubt": func(i int) error {
				res, err := begin(doubts[5].Key)
				need.That(t, res.Answer == ledger.AnswerInDoubt, "%s", res.Answer)
				return err
			},
			"begin, allowed": func(i int) error {
				res, err := begin(doubts[i].Key)
				need.That(t, res.Attempt.N == 2, "%s", res.Answer)
				return err
			},
			"decision": func(i int) error {
				o := doubts[4]
				_, err := ledger.Decide(ctx, s, ledger.Decision{ChangeID: ledger.NewID(), ID: o.ID, Version: o.Version, Verb: ledger.VerbNote, Reason: "asked", Actor: maya})
				return err
			},
			"page with counts": func(int) error {
				_, err1 := s.Page(ctx, ledger.Query{Tab: ledger.TabNeedsYou, Now: time.Now(), Limit: 50})
				_, err2 := s.Counts(ctx, time.Now())
				return errors.Join(err1, err2)
			},
		} {
			for i := range 3 { // the first times it is prepared
				var err error
				n := r.Trips(func() { err = call(i); s.background.all.Wait() })
				need.That(t, err == nil && (n <= trips[what] || i < 2), "%q: %s: %d round trips, want at most %d, %v", mode, what, n, trips[what], err)
			}
		}
	}
}
