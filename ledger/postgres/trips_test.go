//go:build soak && unported

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

// What a person or a pipeline waits for takes few round trips, prepared or not.
func TestRoundTripsOfChanges(t *testing.T) {
	for _, mode := range append(slices.Clone(modes), "pooler") {
		t.Run(mode, func(t *testing.T) {
			address := with(made(t), mode)
			if mode == "pooler" {
				address = bouncer(t)(made(t))
			}
			r, url := pgtest.Through(t, address)
			s := opened(t, url, Options{})
			s.notifier.once.Do(func() {}) // others are told beside a change
			actor := ledger.Actor{Name: "billing", Host: "batch-2", Machine: true}
			maya := ledger.Actor{Name: "maya", Host: "batch-2", Terminal: true}
			begin := func() (ledger.BeginResult, error) {
				return ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "card.charge", Key: ledger.NewID(),
					Marks: ledger.Marks{Values: []string{ledger.NewID()}}, Title: "charge", Target: ledger.NewID(), Fingerprint: ledger.NewID(), Input: []byte(`{"amount":1}`),
					Sender: "pipeline", Deadline: time.Minute, Actor: actor})
			}
			settle := func(b ledger.BeginResult, outcome ledger.Outcome) (ledger.Applied, error) {
				return ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: b.Attempt.ID, Outcome: outcome, Status: -1, Actor: actor})
			}
			again := func(o ledger.Operation) (ledger.BeginResult, error) {
				return ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: o.ID + ".2", Kind: o.Kind, Key: o.Key, Fingerprint: o.Fingerprint,
					Sender: "pipeline", Deadline: time.Minute, Actor: actor})
			}
			settled := func(o ledger.Operation) (ledger.Operation, error) {
				applied, err := ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: o.ID + ".2", Outcome: ledger.OutcomeUncertain, Status: -1, Actor: actor})
				return applied.After, err
			}
			must := func(err error) {
				t.Helper()
				need.OK(t, err)
			}
			count := func(what string, most int, call func() error) {
				t.Helper()
				for range 2 { // the first time, and prepared
					time.Sleep(4 * linger) // the last look is over
					s.background.all.Wait()
					var err error
					if n := r.Trips(func() { err = call() }); n > most || err != nil {
						t.Errorf("%q: %s: %d round trips, want %d, %v", mode, what, n, most, err)
					}
				}
			}
			var b ledger.BeginResult
			count("begin", 1, func() (err error) { b, err = begin(); return err })
			b, err := begin()
			must(err)
			done := []ledger.BeginResult{b, {}}
			done[1], err = begin()
			must(err)
			count("settle", 1, func() error {
				_, err := settle(done[0], ledger.OutcomeCommitted)
				done = done[1:]
				return err
			})
			var doubts []ledger.Operation
			for range 2 {
				b, err := begin()
				must(err)
				applied, err := settle(b, ledger.OutcomeUncertain)
				must(err)
				doubts = append(doubts, applied.After)
			}
			// A key that is found is guessed to be new once. Behind a pooler the end of that guess, where
			// the next try is late, and the end of a lock travel in a round trip each that no one waits
			// for; in a session there is no such end of a guess.
			count("a begin of what is in doubt", map[bool]int{true: 2, false: 4}[mode == ""], func() error { _, err := again(doubts[0]); return err })
			count("a begin of what is known to be in doubt", 2, func() error { _, err := again(doubts[0]); return err })
			for _, o := range doubts {
				_, err = again(o)
				must(err)
				_, err = ledger.Allow(ctx, s, ledger.GrantRequest{ChangeID: ledger.NewID(), GrantID: ledger.NewID(), OperationID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted,
					Sender: "pipeline", Reason: "must", Actor: maya, ExpiresAt: time.Now().Add(time.Hour)})
				must(err)
			}
			granted := slices.Clone(doubts)
			count("a begin of what is granted", 2, func() error {
				res, err := again(granted[0])
				granted = granted[1:]
				need.That(t, res.Attempt.N == 2, "%q: begun again: %s", mode, res.Answer)
				return err
			})
			for i, o := range doubts {
				doubts[i], err = settled(o)
				must(err)
			}
			// Which outages the rows are in is asked once they are known.
			count("a page with counts", 3, func() error {
				_, err1 := s.Page(ctx, ledger.Query{Tab: ledger.TabNeedsYou, Now: time.Now(), Limit: 50})
				_, err2 := s.Counts(ctx, time.Now())
				return errors.Join(err1, err2)
			})
			count("a decision", 3, func() error {
				o := doubts[0]
				doubts = doubts[1:]
				_, err := ledger.Decide(ctx, s, ledger.Decision{ChangeID: ledger.NewID(), ID: o.ID, Version: o.Version, Verb: ledger.VerbConfirm, Reason: "asked", Actor: maya})
				return err
			})
		})
	}
}
