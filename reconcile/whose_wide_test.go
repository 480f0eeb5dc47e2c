package reconcile

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
)

// asked begins an operation and leaves it in doubt.
func (w *world) asked(kind, key, print, input string) ledger.Operation {
	w.Helper()
	res, err := ledger.Begin(w.ctx, w.store, ledger.BeginRequest{
		ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: kind, Key: key, Token: ledger.NewToken(),
		Fingerprint: print, Input: json.RawMessage(input), Sender: "pipeline", TokenSent: true, Deadline: time.Minute, TTL: time.Second, Actor: pipeline,
	})
	if err != nil || res.Answer != ledger.AnswerBegun {
		w.Fatal(res.Answer, err)
	}
	return w.settle(res, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
}

// Somebody else's effect settles nothing, however the check looks for ours.
func TestI2_WhatAnotherOperationMadeIsNotOurs(t *testing.T) {
	found := func(by string) string { return strings.Replace(payPolicy, "x.ref == token", by, 1) }
	two := func(s string) string {
		return s + strings.Replace(strings.SplitAfterN(s, "kinds:\n", 2)[1], "  pay:", "  pay.urgent:", 1)
	}
	idempotent := func(s string) string { return strings.Replace(s, "    send:", "    idempotent: true\n    send:", 1) }
	const same, input = "the same", `{"amount":420}`
	for name, tc := range map[string]struct {
		text             string
		kind, key, print string // of the other one
		input            string
		makes            charge
		says             string
	}{
		"of another kind on the same downstream":     {two(found("x.amount == input.amount")), "pay.urgent", "other", same, input, charge{Amount: 420}, "wants the same"},
		"recorded without a fingerprint":             {found("x.amount == input.amount"), "pay", "other", "", input, charge{Amount: 420}, "wants the same"},
		"alike in what is looked for":                {found("x.amount == input.amount"), "pay", "other", "another", `{"amount":420,"to":"b"}`, charge{Amount: 420}, "wants the same"},
		"alike, and found to be something else":      {strings.Replace(found("x.amount == input.amount"), "same: it.amount == input.amount", "same: it.key == key", 1), "pay", "other", same, input, charge{Amount: 420, Key: "other"}, "wants the same"},
		"alike, and judged by the token":             {strings.Replace(found("x.amount == input.amount"), "same: it.amount == input.amount", "same: it.ref == token", 1), "pay", "other", same, input, charge{Amount: 420}, "wants the same"},
		"the same key in another kind":               {two(found("x.key == key")), "pay.urgent", "mine", "another", input, charge{Amount: 420, Key: "mine"}, "same key"},
		"a key that begins like ours":                {found("x.key.startsWith(key)"), "pay", "mine-2", "another", input, charge{Amount: 420, Key: "mine-2"}, "resembles"},
		"a key that begins like ours, shown alone":   {found("x.key.startsWith(key) && (key != \"min\" || x.key == key)"), "pay", "mine-2", "another", input, charge{Amount: 420, Key: "mine-2"}, "resembles"},
		"a key of another case":                      {found("x.key.lowerAscii() == key.lowerAscii()"), "pay", "MINE", "another", input, charge{Amount: 420, Key: "MINE"}, "resembles"},
		"safe to repeat, and a search for anything":  {idempotent(strings.Replace(found("true"), `query: { after: "${cursor}" }`, `query: { after: "${cursor}", ref: "${token}" }`, 1)), "pay", "other", "another", `{"amount":7}`, charge{Amount: 420}, "never sent"},
		"something else, and a search for anything":  {strings.Replace(found("true"), `query: { after: "${cursor}" }`, `query: { after: "${cursor}", ref: "${token}" }`, 1), "pay", "other", "another", `{"amount":7}`, charge{Amount: 7}, "never sent"},
		"safe to repeat, and looked for in part":     {idempotent(found("x.amount == input.amount")), "pay", "other", "another", `{"amount":420,"to":"b"}`, charge{Amount: 420}, "wants the same"},
		"a search for anything, later than we began": {strings.Replace(found(`op.created_at != null`), `query: { after: "${cursor}" }`, `query: { after: "${cursor}", ref: "${token}" }`, 1), "pay", "other", "another", `{"amount":7}`, charge{Amount: 420}, "never sent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, payPolicy)
			w.policy(strings.Replace(tc.text, "%s", w.side.URL, 1))
			w.asked(tc.kind, tc.key, tc.print, tc.input)
			if strings.Contains(name, "shown alone") {
				w.side.apply(charge{Amount: 7, Key: "min"})
			}
			w.side.apply(tc.makes)
			ours := w.asked("pay", "mine", same, input)
			w.later(pastProof)
			r := w.read(ours.ID)
			if r.Read.Verdict != ledger.Inconclusive || r.Operation.State != ledger.Uncertain || r.Operation.Conflict != ledger.NoConflict || !strings.Contains(r.Read.Reason, tc.says) {
				t.Errorf("%s %q, %s: %s", r.Operation.State, r.Operation.Conflict, r.Read.Verdict, r.Read.Reason)
			}
		})
	}
}

// What is safe to repeat is there, whoever made it; so what it is known by need
// not be what it made itself.
func TestI2_WhatIsSafeToRepeatMayHaveBeenMadeTwice(t *testing.T) {
	text := strings.Replace(payPolicy, "x.ref == token", "x.amount == input.amount", 1)
	kind := strings.SplitAfterN(text, "kinds:\n", 2)[1]
	safe := strings.Replace(strings.Replace(kind, "    send:", "    idempotent: true\n    send:", 1), "  pay:", "  put:", 1)
	w := newWorld(t, payPolicy)
	w.policy(strings.Replace(text, "%s", w.side.URL, 1) + safe)
	w.side.apply(charge{Amount: 420})
	put := w.asked("put", "put", "the same", `{"amount":420}`)
	w.later(pastProof)
	if r := w.read(put.ID); r.Operation.State != ledger.Committed {
		t.Fatalf("%s: %s", r.Operation.State, r.Read.Reason)
	}
	w.side.mu.Lock()
	w.side.charges[0].Amount = 1 // somebody's, and dealt with
	w.side.mu.Unlock()
	w.side.apply(charge{Amount: 420}) // by the put itself
	ours := w.asked("pay", "mine", "the same", `{"amount":420}`)
	w.later(pastProof)
	if r := w.read(ours.ID); r.Read.Verdict != ledger.Inconclusive || !strings.Contains(r.Read.Reason, put.ID+" wants the same") {
		t.Errorf("%s: %s", r.Read.Verdict, r.Read.Reason)
	}
}

// What a twin is known by since it was in doubt need not be all that it made: the
// other side may have acted twice.
func TestI2_ATwinInDoubtMayHaveMadeMore(t *testing.T) {
	for name, by := range map[string]string{"by content": "x.amount == input.amount", "by key": "x.key == key"} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(payPolicy, "x.ref == token", by, 1)
			kind := strings.Replace(strings.SplitAfterN(text, "kinds:\n", 2)[1], "  pay:", "  pay.urgent:", 1)
			w := newWorld(t, payPolicy)
			w.policy(strings.Replace(text, "%s", w.side.URL, 1) + kind)
			twin := w.asked("pay.urgent", "mine", "the same", `{"amount":420}`)
			c := w.side.apply(charge{Amount: 420, Key: "mine"})
			if _, err := ledger.Settle(w.ctx, w.store, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: w.get(twin.ID).Attempts[0].ID,
				Outcome: ledger.OutcomeCommitted, Receipt: c.ID, Status: 201, Actor: pipeline}); err != nil {
				t.Fatal(err)
			}
			w.side.mu.Lock()
			w.side.charges[0].ID = "ch_0" // and what is shown is its second
			w.side.mu.Unlock()
			ours := w.asked("pay", "mine", "the same", `{"amount":420}`)
			w.later(pastProof)
			if r := w.read(ours.ID); r.Read.Verdict != ledger.Inconclusive || !strings.Contains(r.Read.Reason, twin.ID) {
				t.Errorf("%s: %s", r.Read.Verdict, r.Read.Reason)
			}
		})
	}
}

// Nobody who wants something else altogether stands in the way.
func TestI2_WhatAKindOfItsOwnMadeIsNotMistaken(t *testing.T) {
	for name, tc := range map[string]struct{ kind, input string }{
		"of no downstream": {"note", `{"text":"420"}`}, "of another amount": {"pay", `{"amount":42}`}, "of no input": {"note", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, strings.Replace(payPolicy, "x.ref == token", "x.amount == input.amount", 1)+"  note: { title: a note }\n")
			w.asked(tc.kind, "other", "another", tc.input)
			w.side.apply(charge{Amount: 420})
			ours := w.asked("pay", "mine", "the same", `{"amount":420}`)
			w.later(pastProof)
			if r := w.read(ours.ID); r.Read.Verdict != ledger.Landed || r.Operation.State != ledger.Committed {
				t.Errorf("%s, %s: %s", r.Operation.State, r.Read.Verdict, r.Read.Reason)
			}
		})
	}
}

// What is safe to repeat is there, whoever made it; whose receipt it has is not
// known then, and a late answer with another one makes no duplicate.
func TestI9_WhatATwinMadeIsNoDuplicateOfWhatIsSafeToRepeat(t *testing.T) {
	w := newWorld(t, strings.Replace(byContent, "    send:", "    idempotent: true\n    send:", 1))
	w.asked("pay", "other", "the same", `{"amount":420}`)
	w.side.apply(charge{Amount: 420})
	ours := w.asked("pay", "mine", "the same", `{"amount":420}`)
	w.later(pastProof)
	if r := w.read(ours.ID); r.Operation.State != ledger.Committed {
		t.Fatalf("%s: %s", r.Operation.State, r.Read.Reason)
	}
	late, err := ledger.Settle(w.ctx, w.store, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: w.get(ours.ID).Attempts[0].ID,
		Outcome: ledger.OutcomeCommitted, Receipt: "ch_2", Status: 201, Actor: pipeline})
	if err != nil || late.After.Conflict != ledger.NoConflict || late.After.Receipt() != "ch_2" {
		t.Errorf("%v %q %v", err, late.After.Conflict, late.After.Receipts)
	}
}

// To have no token either is no likeness.
func TestI2_TwoWithoutATokenAreNotOne(t *testing.T) {
	text := strings.Replace(payPolicy, "x.ref == token", "x.amount == input.amount", 1)
	w := newWorld(t, strings.Replace(text, "same: it.amount == input.amount", "same: it.ref == token", 1))
	begin := func(key string) ledger.Operation {
		res, err := ledger.Begin(w.ctx, w.store, ledger.BeginRequest{
			ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay", Key: key,
			Fingerprint: "the same", Input: json.RawMessage(`{"amount":420}`), Sender: "pipeline", Deadline: time.Minute, Actor: pipeline,
		})
		if err != nil {
			t.Fatal(err)
		}
		return w.settle(res, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
	}
	begin("other")
	w.side.apply(charge{Amount: 420})
	ours := begin("mine")
	w.later(pastProof)
	if r := w.read(ours.ID); r.Read.Verdict != ledger.Inconclusive || !strings.Contains(r.Read.Reason, "wants the same") {
		t.Errorf("%s: %s", r.Read.Verdict, r.Read.Reason)
	}
}

// A key that was given up was another operation's.
func TestI2_WhatAnEarlierOwnerOfTheKeyMadeIsNotOurs(t *testing.T) {
	w := newWorld(t, strings.Replace(payPolicy, "x.ref == token", "x.key == key", 1))
	before := w.asked("pay", "mine", "f-1", `{"amount":420}`)
	w.side.apply(charge{Amount: 420, Key: "mine"})
	w.later(pastProof)
	if r := w.read(before.ID); r.Operation.State != ledger.Committed {
		t.Fatalf("%s: %s", r.Operation.State, r.Read.Reason)
	}
	w.later(time.Minute)
	ours := w.asked("pay", "mine", "f-2", `{"amount":420,"again":true}`)
	w.later(pastProof)
	if r := w.read(ours.ID); r.Read.Verdict != ledger.Inconclusive || !strings.Contains(r.Read.Reason, before.ID+" has the same key") {
		t.Errorf("%s: %s", r.Read.Verdict, r.Read.Reason)
	}
}

// What is settled is not called into question by what a twin has made.
func TestI9_ATwinsEffectContradictsNothing(t *testing.T) {
	for name, text := range map[string]string{"plain": byContent, "safe to repeat": strings.Replace(byContent, "    send:", "    idempotent: true\n    send:", 1)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, text)
			w.asked("pay", "other", "the same", `{"amount":420}`)
			w.side.apply(charge{Amount: 420})
			refused := w.alike()
			w.settle(refused, ledger.SettleRequest{Outcome: ledger.OutcomeFailed, Proof: ledger.Refused, Status: 422})
			w.later(pastProof)
			if r := w.read(refused.Operation.ID); r.Operation.Conflict != ledger.NoConflict || r.Read.Verdict != ledger.Inconclusive {
				t.Errorf("%q, %s: %s", r.Operation.Conflict, r.Read.Verdict, r.Read.Reason)
			}
		})
	}
}

// Only an answer tells that there is no such thing: a page to sign in, or half of
// an answer, does not vouch for a search.
func TestI2_NoSieveOutOfNonsense(t *testing.T) {
	for name, text := range map[string]string{"HTML": "<html>Sign in</html>", "half": `{"object":"list","data":[{"id":"ch_`} {
		t.Run(name, func(t *testing.T) {
			search := strings.Replace(payPolicy, `query: { after: "${cursor}" }`, `query: { after: "${cursor}", ref: "${token}" }`, 1)
			w := newWorld(t, strings.Replace(search, "body.data.filter(x, x.ref == token)", "body.data", 1))
			w.side.apply(charge{Ref: "another's", Amount: 420})
			o := w.doubt("pay", 420)
			w.side.onList = func(_ *side, rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("ref") == o.Token {
					return false
				}
				_, _ = rw.Write([]byte(text))
				return true
			}
			w.later(pastProof)
			if r := w.read(o.ID); r.Read.Verdict != ledger.Inconclusive || !strings.Contains(r.Read.Reason, "never sent is not known") {
				t.Errorf("%s: %s", r.Read.Verdict, r.Read.Reason)
			}
		})
	}
}

// A control that finds anybody's effect shows nothing of a check that finds none.
func TestI6_AControlFindsItsOwn(t *testing.T) {
	search := strings.Replace(payPolicy, `query: { after: "${cursor}" }`, `query: { after: "${cursor}", ref: "${token}" }`, 1)
	search = strings.Replace(search, "body.data.filter(x, x.ref == token)", "body.data", 1)
	for name, tc := range map[string]struct {
		shown string
		want  ledger.Verdict
	}{
		"another's":        {`{"id":"ch_9","amount":7}`, ledger.Inconclusive},
		"its own":          {`{"id":"ch_1","amount":7}`, ledger.Absent},
		"its own, by name": {`{"id":"other name","amount":7,"ref":"TOKEN"}`, ledger.Absent},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, search)
			w.known("pay")
			o := w.doubt("pay", 420)
			w.side.onList = func(_ *side, rw http.ResponseWriter, r *http.Request) bool {
				shown := strings.Replace(tc.shown, "TOKEN", r.URL.Query().Get("ref"), 1)
				if r.URL.Query().Get("ref") == o.Token {
					shown = ""
				}
				_, _ = rw.Write([]byte(`{"object":"list","data":[` + shown + `],"more":false}`))
				return true
			}
			w.later(pastProof)
			if r := w.read(o.ID); r.Read.Verdict != tc.want || tc.want == ledger.Inconclusive && !strings.Contains(r.Read.Reason, "never sent") {
				t.Errorf("%s: %s", r.Read.Verdict, r.Read.Reason)
			}
		})
	}
}
