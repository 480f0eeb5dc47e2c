package postgres

import (
	"errors"
	"testing"
	"time"

	"indoubt/ledger"
)

// What a person or a pipeline waits for takes few round trips, prepared or not.
func TestRoundTripsOfChanges(t *testing.T) {
	for _, mode := range modes {
		r, url := through(t, made(t))
		s := opened(t, with(url, mode), Options{})
		s.notifier.once.Do(func() {}) // others are told beside a change
		s.folding.Store(true)         // and counts are folded
		actor := ledger.Actor{Name: "billing", Host: "batch-2", Machine: true}
		maya := ledger.Actor{Name: "maya", Host: "batch-2", Terminal: true}
		begin := func() (ledger.BeginResult, error) {
			return ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "card.charge", Key: ledger.NewID(),
				Marks: ledger.Marks{Values: []string{ledger.NewID()}}, Title: "charge", Target: "card", Fingerprint: ledger.NewID(), Input: []byte(`{"amount":1}`),
				Sender: "pipeline", Deadline: time.Minute, Actor: actor})
		}
		settle := func(b ledger.BeginResult, outcome ledger.Outcome) (ledger.Applied, error) {
			return ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: b.Attempt.ID, Outcome: outcome, Status: -1, Actor: actor})
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		count := func(what string, most int, call func() error) {
			t.Helper()
			for range 2 { // the first time, and prepared
				time.Sleep(4 * linger) // the last look is over
				s.background.Wait()
				var err error
				if n := r.trips(func() { err = call() }); n > most || err != nil {
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
		count("a page with counts", 2, func() error {
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
	}
}
