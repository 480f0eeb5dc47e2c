package store

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
)

// What is brought back is read again where anything has happened to it, also what moves no version.
func TestI7_WhatHasMovedIsReadAgain(t *testing.T) {
	t.Parallel()
	m, ctx := inMemory(t), context.Background()
	s := New(m, digestkey.Named(filepath.Join(t.TempDir(), "key")), "")
	billing, ann := ledger.Actor{Name: "billing", Machine: true}, ledger.Actor{Name: "ann"}
	begin := func(id string) ledger.Operation {
		return need.Get(ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: "c-" + id, OperationID: id, AttemptID: id + ".1", Kind: "k",
			Key: id, Token: "t" + id, Deadline: time.Minute, TokenSent: true, AwaitsDelivery: true, Actor: billing}))(t).Operation
	}
	settle := func(id string, outcome ledger.Outcome) {
		need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: id + ".1", Outcome: outcome,
			ErrorClass: ledger.ClassTimeout, Error: "no answer", Actor: billing}))(t)
	}
	begin("flying")
	begin("doubt")
	settle("doubt", ledger.OutcomeUncertain)
	decide := func(verb ledger.Verb, until time.Time) {
		o := need.Get(s.Read(ctx, ledger.Locator{ID: "doubt"}))(t).Operation
		need.Get(ledger.Decide(ctx, s, ledger.Decision{ChangeID: ledger.NewID(), ID: "doubt", Version: o.Version, Verb: verb,
			Reason: "because", Until: until, Actor: ann}))(t)
	}
	price := ledger.Pricing{OperationID: "doubt", Version: 2, Digest: "p", Downstream: "pay", ReadAt: time.Now().Add(time.Hour)}
	const mark = "what was read before"
	for _, step := range []struct {
		what, id string
		do       func()
	}{
		{"a note", "doubt", func() { decide(ledger.VerbNote, time.Time{}) }},
		{"a price", "doubt", func() { need.OK(t, s.Price(ctx, []ledger.Pricing{price})) }},
		{"another time to look", "doubt", func() {
			price.ReadAt = price.ReadAt.Add(time.Minute)
			need.OK(t, s.Price(ctx, []ledger.Pricing{price}))
		}},
		{"a check", "doubt", func() {
			need.Get(ledger.Observe(ctx, s, ledger.Observation{ChangeID: ledger.NewID(), Version: 2, Actor: billing,
				Read: ledger.Read{ID: ledger.NewID(), OperationID: "doubt", Verdict: ledger.CannotTell, Actor: "checks"}}))(t)
		}},
		{"a park", "doubt", func() { decide(ledger.VerbPark, time.Now().Add(time.Hour)) }},
		{"a decision", "doubt", func() { decide(ledger.VerbConfirm, time.Time{}) }},
		{"a redaction", "doubt", func() { decide(ledger.VerbRedact, time.Time{}) }},
		{"a heartbeat", "flying", func() { need.Get(ledger.Heartbeat(ctx, s, "flying.1", time.Hour))(t) }},
		{"an answer", "flying", func() { settle("flying", ledger.OutcomeCommitted) }},
		{"a delivery", "flying", func() { need.OK(t, ledger.Deliver(ctx, s, "flying")) }},
	} {
		kept := need.Get(s.Kept(ctx, []string{step.id}))(t)[0].Kept.(*loaded)
		kept.rec.Operation.Session = mark
		at := ledger.Locator{ID: step.id, Skip: ledger.AllParts, Seen: kept}
		need.Equal(t, need.Get(load(m, at, nil))(t).rec.Operation.Session, mark, "before "+step.what)
		step.do()
		need.Equal(t, need.Get(load(m, at, nil))(t).rec.Operation.Session, "", "after "+step.what)
	}
}
