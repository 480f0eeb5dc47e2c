package record

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// past is a dead letter of a mail.
func past(clock *ledgertest.Clock, id string) Past {
	return Past{Request: Request{ID: ledger.DeriveID("test", id), Kind: "mail", Input: json.RawMessage(`{"to":"` + id + `"}`)},
		SentAt: clock.Now().Add(-time.Hour), Outcome: ledger.OutcomeUncertain, Error: "Net::ReadTimeout: read timed out"}
}

func takeOver(t *testing.T, r *Recorder, p Past, want TakenOver) ledger.Operation {
	t.Helper()
	how, o, err := r.TakeOver(t.Context(), p, false)
	need.OK(t, err)
	need.Equal(t, how, want, "taken over")
	return o
}

// A request that another program gave up is recorded once, in doubt, as old as it is.
func TestWhatWasSentElsewhere(t *testing.T) {
	r, store, clock := recorderOver(t, KindRule{Deadline: time.Minute, Remembers: time.Hour})
	p := past(clock, "ada")
	how, _, err := r.TakeOver(t.Context(), p, true)
	need.OK(t, err)
	need.Equal(t, how, TakenNew, "rehearsed on a store that records")
	o := takeOver(t, r, p, TakenNew) // as after a kill between begin and settle
	if o.State != ledger.Uncertain || o.ErrorClass != "" || !o.StartedAt.Equal(p.SentAt) || o.Key != "import-"+p.ID {
		t.Errorf("%+v", o)
	}
	need.Equal(t, takeOver(t, r, p, TakenKnown).Version, o.Version, "once more")
	rec := need.Get(store.Read(t.Context(), ledger.Locator{ID: p.ID}))(t)
	if a := rec.Attempts[0]; len(rec.Attempts) != 1 || a.KeyWorks || a.TokenSent || a.Sender != ledger.SenderImport {
		t.Errorf("%+v", rec.Attempts)
	}
	sent := past(clock, "key sent")
	sent.KeySent, sent.Token, sent.TokenSent = true, "tok", true
	takeOver(t, r, sent, TakenNew)
	if a := need.Get(store.Read(t.Context(), ledger.Locator{ID: sent.ID}))(t).Attempts[0]; !a.KeyWorks || !a.TokenSent {
		t.Errorf("%+v", a)
	}
	never := past(clock, "never")
	never.Outcome, never.Proof = ledger.OutcomeFailed, ledger.NeverSent
	need.Equal(t, takeOver(t, r, never, TakenNew).State, ledger.Failed, "never sent")
	for _, bad := range []Past{{SentAt: clock.Now()}, {Request: Request{ID: "x"}}} {
		if _, _, err := r.TakeOver(t.Context(), bad, false); err == nil {
			t.Errorf("%+v is taken over", bad)
		}
	}
}

// I5: a key that the ledger knows is left as it is: a permission is not used up, and
// what failed is not begun again.
func TestI5_TakingOverUsesNoPermission(t *testing.T) {
	r, store, clock := recorderOver(t, KindRule{Deadline: time.Minute})
	p := past(clock, "ada")
	p.Key = "k"
	first := begin(t, r, Request{Kind: "mail", Key: "k", Input: p.Input})
	takeOver(t, r, p, TakenKey)
	o := settle(t, r, first.Attempt.ID, ledger.OutcomeFailed).After
	takeOver(t, r, p, TakenKey)
	need.Equal(t, need.Get(store.Read(t.Context(), ledger.Locator{ID: o.ID}))(t).Operation.Version, o.Version, "after a refusal")
	doubt := settle(t, r, begin(t, r, Request{Kind: "mail", Key: "d", Input: p.Input}).Attempt.ID, ledger.OutcomeUncertain).After
	_, err := ledger.Allow(t.Context(), store, ledger.AllowRequest{ChangeID: "c", AllowID: "g", OperationID: doubt.ID, Version: doubt.Version, Basis: ledger.BasisRiskAccepted,
		Sender: "pipeline", Actor: ledger.Actor{Name: "maya", Terminal: true}, Reason: "now", ExpiresAt: clock.Now().Add(time.Hour)})
	need.OK(t, err)
	p.Key = "d"
	takeOver(t, r, p, TakenKey)
	rec := need.Get(store.Read(t.Context(), ledger.Locator{ID: doubt.ID}))(t)
	need.That(t, rec.OpenAllowed() != nil && len(rec.Attempts) == 1, "the permission is gone: %+v", rec.Allowed)
	p.Input = json.RawMessage(`{"to":"eve"}`)
	takeOver(t, r, p, TakenReuse)
}

// Where the policy says what makes a key, the pipeline's next request meets the doubt;
// else each row is a request of its own.
func TestTheKeyOfWhatIsTakenOver(t *testing.T) {
	r, _, clock := recorderOver(t, KindRule{Deadline: time.Minute, KeyFrom: []string{"to"}})
	p := past(clock, "ada")
	takeOver(t, r, p, TakenNew)
	need.Equal(t, begin(t, r, Request{Kind: "mail", Input: p.Input}).Answer, ledger.AnswerInDoubt, "the same request")
	twin := p
	twin.ID = ledger.DeriveID("test", "twin")
	takeOver(t, r, twin, TakenKey)
	twin.Input = json.RawMessage(`{}`)
	if _, _, err := r.TakeOver(t.Context(), twin, false); err == nil || !strings.Contains(err.Error(), "key of mail") {
		t.Errorf("without the field: %v", err)
	}
	r, _, clock = recorderOver(t, KindRule{Deadline: time.Minute})
	p = past(clock, "ada")
	takeOver(t, r, p, TakenNew)
	p.ID = ledger.DeriveID("test", "twin")
	takeOver(t, r, p, TakenNew)
}

// I11: a secret of the input is kept out of it, and out of the error that repeats it.
func TestI11_SecretsOfWhatIsTakenOver(t *testing.T) {
	r, store, clock := recorderOver(t, KindRule{Deadline: time.Minute, Redact: []string{"card"}})
	p := past(clock, "ada")
	p.Input, p.Error = json.RawMessage(`{"card":"4242424242424242","password":"hunter2hunter2"}`), "declined 4242424242424242, hunter2hunter2, Authorization: Bearer abcdefghijkl"
	takeOver(t, r, p, TakenNew)
	all := string(need.Get(json.Marshal(need.Get(store.Read(t.Context(), ledger.Locator{ID: p.ID}))(t)))(t))
	for _, secret := range []string{"4242", "hunter2", "abcdefghijkl"} {
		need.That(t, !strings.Contains(all, secret), "%s is stored: %s", secret, all)
	}
}

// A key that was over when a dead letter was sent may be used again: what it is about is
// another request. One that was sent before is the one that the ledger knows.
func TestI2_AKeyThatWasOverHidesNoDeadLetter(t *testing.T) {
	r, store, clock := recorderOver(t, KindRule{Deadline: time.Minute, TTL: time.Hour})
	p := past(clock, "ada")
	p.Key = "k"
	settle(t, r, begin(t, r, Request{Kind: "mail", Key: "k", Input: p.Input}).Attempt.ID, ledger.OutcomeCommitted)
	clock.Advance(3 * time.Hour)
	p.SentAt = clock.Now().Add(-150 * time.Minute)
	takeOver(t, r, p, TakenKey)
	p.SentAt = clock.Now().Add(-time.Hour)
	o := takeOver(t, r, p, TakenNew)
	need.That(t, o.State == ledger.Uncertain && o.ID == p.ID, "%+v", o)
	takeOver(t, r, p, TakenKnown)
	other := past(clock, "ada")
	other.ID, other.Key = ledger.DeriveID("test", "eve"), "k"
	takeOver(t, r, other, TakenKey)
	now := need.Get(store.Read(t.Context(), ledger.Locator{Kind: "mail", Key: "k"}))(t)
	need.Equal(t, now.Operation.ID, o.ID, "which has the key")
}
