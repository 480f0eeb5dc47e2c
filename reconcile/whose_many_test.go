package reconcile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
)

// byContent is a check that looks for what was wanted, not for the token.
var byContent = strings.Replace(payPolicy, "x.ref == token", "x.amount == input.amount", 1)

// alike begins one more operation that wants the same as the others.
func (w *world) alike() ledger.BeginResult {
	w.Helper()
	w.n++
	res, err := ledger.Begin(w.ctx, w.store, ledger.BeginRequest{
		ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay", Key: fmt.Sprintf("k-%d", w.n),
		Token: ledger.NewToken(), Fingerprint: "the same", Input: json.RawMessage(`{"amount":420}`),
		Sender: "pipeline", TokenSent: true, Deadline: time.Minute, Actor: pipeline,
	})
	if err != nil {
		w.Fatal(err)
	}
	return res
}

// Two effects that twins are known to have made are no two of ours.
func TestI2_EffectsOfTwinsAreNotOurs(t *testing.T) {
	w := newWorld(t, byContent)
	for range 2 {
		twin := w.alike()
		c := w.side.apply(charge{Ref: twin.Operation.Token, Amount: 420})
		w.settle(twin, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Receipt: c.ID, Status: 201})
	}
	ours := w.settle(w.alike(), ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
	w.later(pastProof)
	r := w.read(ours.ID)
	if r.Read.Verdict != ledger.Inconclusive || r.Operation.State != ledger.Uncertain || !strings.Contains(r.Read.Reason, "wants the same") {
		t.Errorf("%s, %s: %s", r.Operation.State, r.Read.Verdict, r.Read.Reason)
	}
}

// However many there are, the one that made it is found.
func TestI2_EffectOfATwinFarBack(t *testing.T) {
	w := newWorld(t, byContent)
	first := w.alike()
	c := w.side.apply(charge{Ref: first.Operation.Token, Amount: 420})
	w.settle(first, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Receipt: c.ID, Status: 201})
	for range 25 {
		w.settle(w.alike(), ledger.SettleRequest{Outcome: ledger.OutcomeFailed, Proof: ledger.NeverSent, Status: -1})
	}
	ours := w.settle(w.alike(), ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
	w.later(pastProof)
	r := w.read(ours.ID)
	if r.Read.Verdict != ledger.Inconclusive || r.Operation.State != ledger.Uncertain || !strings.Contains(r.Read.Reason, first.Operation.ID+" wants the same") {
		t.Errorf("%s, %s: %s", r.Operation.State, r.Read.Verdict, r.Read.Reason)
	}
}

// A search for a token that there is none of finds anything at all.
func TestI2_NoSearchForNothing(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"in the expression": func(s string) string { return s },
		"in the question": func(s string) string {
			s = strings.Replace(s, `query: { after: "${cursor}" }`, `query: { after: "${cursor}", ref: "${token}" }`, 1)
			return strings.Replace(s, "body.data.filter(x, x.ref == token)", "body.data", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, edit(payPolicy))
			w.n++
			b, err := ledger.Begin(w.ctx, w.store, ledger.BeginRequest{
				ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay", Key: "k",
				Fingerprint: "f", Input: json.RawMessage(`{"amount":420}`), Sender: "pipeline", Deadline: time.Minute, Actor: pipeline,
			})
			if err != nil {
				t.Fatal(err)
			}
			w.side.apply(charge{Amount: 420}) // somebody else's, without a reference
			o := w.settle(b, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
			w.later(pastProof)
			r := w.read(o.ID)
			if r.Read.Verdict != ledger.Inconclusive || r.Operation.State != ledger.Uncertain || !strings.Contains(r.Read.Reason, "token") {
				t.Errorf("%s, %s: %s", r.Operation.State, r.Read.Verdict, r.Read.Reason)
			}
		})
	}
}

// A search that the other side does not understand finds everything, and
// everything is nobody's.
func TestI2_WhatASearchFindsForAnybodyIsNotOurs(t *testing.T) {
	search := strings.Replace(payPolicy, `query: { after: "${cursor}" }`, `query: { after: "${cursor}", ref: "${token}" }`, 1)
	search = strings.Replace(search, "body.data.filter(x, x.ref == token)", "body.data", 1)
	for name, tc := range map[string]struct {
		others int
		knows  bool // the other side knows the parameter
		want   ledger.Verdict
	}{
		"one of somebody else's": {1, false, ledger.Inconclusive}, "several": {3, false, ledger.Inconclusive}, "ours": {3, true, ledger.Landed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, search)
			for range tc.others {
				w.side.apply(charge{Ref: "another's", Amount: 420})
			}
			landed := []int{}
			if tc.knows {
				landed = []int{420}
				w.side.onList = func(s *side, rw http.ResponseWriter, r *http.Request) bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					found := []charge{}
					for _, c := range s.charges {
						if c.Ref == r.URL.Query().Get("ref") {
							found = append(found, c)
						}
					}
					_ = json.NewEncoder(rw).Encode(map[string]any{"object": "list", "data": found, "more": false})
					return true
				}
			}
			o := w.doubt("pay", 420, landed...)
			w.later(pastProof)
			r := w.read(o.ID)
			if r.Read.Verdict != tc.want || tc.want == ledger.Inconclusive && (r.Operation.State != ledger.Uncertain || !strings.Contains(r.Read.Reason, "never sent")) {
				t.Errorf("%s, %s: %s", r.Operation.State, r.Read.Verdict, r.Read.Reason)
			}
			w.side.mu.Lock()
			w.side.onList = nil // it knows the parameter no longer
			w.later(sieveHolds)
			w.side.mu.Unlock()
			next := w.doubt("pay", 420)
			w.later(pastProof)
			if r := w.read(next.ID); r.Read.Verdict != ledger.Inconclusive || !strings.Contains(r.Read.Reason, "never sent") {
				t.Errorf("later: %s, %s: %s", r.Operation.State, r.Read.Verdict, r.Read.Reason)
			}
		})
	}
}

// While it cannot be told whether a check finds something for anybody, it settles
// nothing. One that answers a token that was never sent with an error is sound.
func TestI2_AnUnansweredSieveSettlesNothing(t *testing.T) {
	search := strings.Replace(payPolicy, `query: { after: "${cursor}" }`, `query: { after: "${cursor}", ref: "${token}" }`, 1)
	search = strings.Replace(search, "body.data.filter(x, x.ref == token)", "body.data", 1)
	w := newWorld(t, search)
	o := w.doubt("pay", 420, 420)
	var nobody atomic.Int32
	nobody.Store(503)
	w.side.onList = func(_ *side, rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("ref") == o.Token { // it does not show what it was asked for
			_, _ = rw.Write([]byte(`{"object":"list","data":[{"id":"ch_1","amount":420}],"more":false}`))
			return true
		}
		rw.WriteHeader(int(nobody.Load()))
		return true
	}
	w.later(pastProof)
	if r := w.read(o.ID); r.Read.Verdict != ledger.Inconclusive || r.Operation.State != ledger.Uncertain || !strings.Contains(r.Read.Reason, "never sent is not known: downstream answered 503") {
		t.Errorf("%s, %s: %s", r.Operation.State, r.Read.Verdict, r.Read.Reason)
	}
	nobody.Store(404)
	if r := w.read(o.ID); r.Read.Verdict != ledger.Landed || r.Operation.State != ledger.Committed {
		t.Errorf("%s, %s: %s", r.Operation.State, r.Read.Verdict, r.Read.Reason)
	}
}
