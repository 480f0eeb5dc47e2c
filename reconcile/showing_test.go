package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// What a person agreed to is sent, or nothing is: whatever the policy has become
// between the dialog and the answer.
func TestI7_WhatWasShownIsWhatIsSent(t *testing.T) {
	t.Setenv("SHOWING_KEY", "1")
	t.Setenv("SHOWING_NEW", "2")
	const send = "    resend: here\n"
	for name, c := range map[string]struct {
		before, after [2]string // in the policy: instead of the first, the second
		is            string    // in the difference; "": it is sent
	}{
		"the same":           {},
		"another limit":      {after: [2]string{"deadline: 20s", "deadline: 30s"}},
		"another header":     {after: [2]string{"X-Key: 1", "X-Other: 1"}, is: "+ one send is allowed; billing makes it"},
		"another value":      {after: [2]string{"X-Key: 1", "X-Key: 2"}, is: "+ It cannot be sent from here: it was sent with another X-Key than the downstream's `headers` say."},
		"another secret":     {before: [2]string{"X-Key: 1", `X-Key: "${env.SHOWING_KEY}"`}, after: [2]string{"SHOWING_KEY", "SHOWING_OTHER"}, is: "+ X-Key: ${env.SHOWING_OTHER}"},
		"a rotated secret":   {before: [2]string{"X-Key: 1", `X-Key: "${env.SHOWING_KEY}"`}, after: [2]string{"SHOWING_KEY", "SHOWING_NEW"}, is: "+ one send is allowed; billing makes it"},
		"handed back":        {after: [2]string{send, ""}, is: "+ one send is allowed; billing makes it"},
		"taken from it":      {before: [2]string{send, "    verify: 5m\n"}, after: [2]string{"    verify: 5m\n", send}, is: "- one send is allowed; billing makes it"},
		"still its pipeline": {before: [2]string{send, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SHOWING_OTHER", "1")
			text := replaced(t, strings.Replace(payPolicy, "headers: {", "headers: { X-Key: 1,", 1), c.before)
			w := newWorldAlone(t, text)
			o := w.proven("pay")
			ask := w.shown(w.engine, RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof, Actor: maya})
			w.policy(fmt.Sprintf(replaced(t, text, c.after), w.side.URL))
			res, err := w.engine.Retry(w.ctx, ask)
			posts := w.side.posted()
			if c.is == "" {
				var detail struct{ Request string }
				events, _ := w.store.History(w.ctx, ledger.HistoryQuery{Operation: o.ID, Limit: 100})
				for _, e := range events {
					if e.Verb == "retry" || e.Verb == "allow" {
						_ = json.Unmarshal(e.Detail, &detail)
					}
				}
				need.Must(t, err == nil && res.Did != DidRefuse && detail.Request == ask.Showing.Digest,
					"%s, %v; the history has digest %q", res.Did, err, detail.Request)
				return
			}
			changed := new(ChangedError)
			need.Must(t, errors.As(err, &changed) && res.Did == DidRefuse && posts == 0 && w.get(o.ID).Operation.Version == o.Version, "%s, %v, %d sent", res.Did, err, posts)
			if want := strings.ReplaceAll(c.is, "%s", w.side.URL); !slices.Contains(changed.Difference(), want) {
				t.Errorf("%q is without %q", changed.Difference(), want)
			}
		})
	}
}

func replaced(t *testing.T, text string, pair [2]string) string {
	t.Helper()
	if pair[0] == "" {
		return text
	}
	need.Must(t, strings.Contains(text, pair[0]), "%q is not in\n%s", pair[0], text)
	return strings.Replace(text, pair[0], pair[1], 1)
}

// What nobody was shown, no person has agreed to.
func TestI7_NothingUnseenIsSent(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.proven("pay")
	_, err := w.engine.Retry(w.ctx, RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof, Actor: maya})
	need.That(t, code(err) == "refused", "%v", err)
	need.Equal(t, w.side.posted(), 0, "posts")
}

// again begins another one on the same target, under another key.
func (w *world) again(o ledger.Operation) ledger.BeginResult {
	w.Helper()
	w.n++
	res, err := ledger.Begin(w.ctx, w.store, ledger.BeginRequest{
		ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: o.Kind, Key: fmt.Sprintf("k-%d", w.n), Token: ledger.NewToken(),
		Target: o.Target, Fingerprint: o.Fingerprint, Input: o.Input, Request: o.Request, Sender: "pipeline", TokenSent: true, KeyWorks: w.keyWorks, Deadline: time.Minute, Actor: pipeline,
	})
	need.Must(w, err == nil && res.Answer == ledger.AnswerBegun, "%s %v", res.Answer, err)
	return res
}

// Proof of one does not prove the other: beside a later one that landed or may have, the
// proven side is a risk too, of what was shown, and it is raised afterwards.
func TestI5_ARetryOfWhatWasOvertakenIsARisk(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.proven("pay")
	before := w.shown(w.engine, RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof, Actor: maya})
	landed := w.settle(w.again(o), ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 201, Receipt: "ch_twin"})
	if _, err := w.engine.Retry(w.ctx, before); code(err) != "refused" || !strings.Contains(err.Error(), "same target") {
		t.Errorf("another came after the dialog: %v", err)
	}
	script := maya
	script.Terminal = false
	if _, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted, Reason: "x", Actor: script}); code(err) != "no_person" {
		t.Errorf("without a terminal: %v", err)
	}
	risk := w.shown(w.engine, RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted, Reason: "both are wanted", LossTyped: true, Actor: maya})
	second := w.again(o)
	if _, err := w.engine.Retry(w.ctx, risk); code(err) != "related" || !strings.Contains(err.Error(), second.Operation.ID) {
		t.Errorf("a third came after the dialog: %v", err)
	}
	need.Equal(t, w.side.posted(), 0, "posts")
	risk.Showing = Showing{}
	res, err := w.retry(risk)
	if err != nil || res.Did != DidSend || res.Operation.Conflict != ledger.ConflictMaybeTwice || !strings.Contains(res.Operation.ConflictNote, landed.ID) {
		t.Errorf("%s, %v: conflict %q (%s)", res.Did, err, res.Operation.Conflict, res.Operation.ConflictNote)
	}
}

// A retry without a terminal looks first: what landed and what is not there
// are no risk.
func TestRetryLooksBeforeItAsksForAPerson(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	script := ledger.Actor{Name: "script"}
	risk := func(o ledger.Operation) RetryRequest {
		return RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted, Actor: script}
	}
	landed, unclear := w.doubt("pay", 420, 420), w.doubt("pay", 420)
	res, err := w.retry(risk(landed))
	need.That(t, err == nil && res.Did == DidLand && res.Operation.State == ledger.Committed, "landed: %s %v", res.Did, err)
	_, err = w.retry(risk(unclear))
	need.That(t, code(err) == "no_person" && strings.Contains(err.Error(), "none found"), "unclear: %v", err)
	need.Equal(t, w.side.posted(), 0, "posts")
	w.pass(pastProof)
	res, err = w.retry(risk(unclear))
	need.That(t, err == nil && res.Did == DidSend && res.Attempt.Basis == ledger.BasisProof, "not there: %s %v", res.Did, err)
}

// What a list shows is no answer to a write, unless the policy says that it is.
func TestACallerGetsWhatReplySaysAndNothingElse(t *testing.T) {
	for reply, want := range map[string]string{"": "", "it": `"amount":420`, "'{\"charge\": it.id}'": `"charge":"ch_2"`} {
		t.Run(reply, func(t *testing.T) {
			said := "      receipt: it.id\n"
			if reply != "" {
				said += "      reply: " + reply + "\n"
			}
			w := newWorld(t, strings.Replace(payPolicy, "      receipt: it.id\n", said, 1))
			w.known("pay")
			o := w.read(w.doubt("pay", 420, 420).ID).Operation
			need.Equal(t, o.State, ledger.Committed, "state")
			need.That(t, strings.Contains(string(o.Result), want) && (len(o.Result) > 0) == (want != ""), "%s", o.Result)
		})
	}
}
