package ledgertest

import (
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// anotherKey: what is in flight or in doubt under a key that was made of its input stands
// for the same request under any other key, until it is settled.
func anotherKey(d *desk) {
	content, fields := "content-"+strings.Repeat("a", 32), "fields-"+strings.Repeat("b", 32)
	set := func(input, kind, scope string) func(*ledger.BeginRequest) {
		return func(r *ledger.BeginRequest) {
			r.Fingerprint, r.Input, r.Kind, r.Scope = "print of "+input, []byte(`{"of":"`+input+`"}`), kind, scope
		}
	}
	anyKind := func(r *ledger.BeginRequest) { r.AnyAlike = true }
	apart := func(r *ledger.BeginRequest) { r.AlikeOver = func(rec ledger.Record) bool { return rec.Found } }
	was := func(r *ledger.BeginRequest) { r.SentAt = d.clock.Now().Add(-1) }
	for name, c := range map[string]struct {
		held, asked string
		input       string // of the other; "": the same
		kind, scope string
		how         func(*ledger.BeginRequest)
		stands      bool
	}{
		"content, then given":            {held: content, asked: "INV-1", stands: true},
		"fields, then given":             {held: fields, asked: "INV-1", stands: true},
		"fields, then content":           {held: fields + ".3", asked: content, stands: true},
		"content, then a session's":      {held: content, asked: "session-" + strings.Repeat("c", 32), stands: true},
		"another generation":             {held: content, asked: content + ".2"},
		"another input":                  {held: content, asked: "INV-1", input: "other"},
		"another scope":                  {held: content, asked: "INV-1", scope: "other"},
		"another kind":                   {held: content, asked: "INV-1", kind: "other"},
		"any kind":                       {held: content, asked: "INV-1", kind: "other", how: anyKind, stands: true},
		"what is never held back":        {held: content, asked: "INV-1", how: apart},
		"what was sent already":          {held: content, asked: "INV-1", how: was},
		"two that were given":            {held: "INV-0", asked: "INV-1"},
		"a given one that looks like it": {held: "content-of-June", asked: "INV-1"},
		"a session's":                    {held: "session-" + strings.Repeat("c", 32), asked: "INV-1"},
	} {
		same, kind := set(name, "kind of "+name, "scope"), "kind of "+name
		first := d.begun(c.held, same)
		other := func(r *ledger.BeginRequest) {
			set(name+c.input, kind+c.kind, "scope"+c.scope)(r)
			if c.how != nil {
				c.how(r)
			}
		}
		want := func(stands ledger.BeginAnswer) {
			d.Helper()
			res := d.begin(c.asked, other)
			if !c.stands {
				stands = ledger.AnswerBegun
			}
			need.Must(d, res.Answer == stands && res.Alike == c.stands && (res.Operation.ID == first.Operation.ID) == c.stands, "%s: %s of %s, want %s", name, res.Answer, res.Operation.Key, stands)
		}
		want(ledger.AnswerInProgress)
		if !c.stands {
			continue
		}
		o := d.settle(first.Attempt.ID, ledger.OutcomeUncertain)
		want(ledger.AnswerInDoubt)
		d.grant(o, ledger.BasisRiskAccepted)
		want(ledger.AnswerInDoubt) // for its own key
		d.decide(d.read(o.ID).Operation, ledger.VerbConfirm)
		res := d.begin(c.asked, other)
		need.That(d, res.Answer == ledger.AnswerBegun && !res.Alike, "%s: settled, another is %s", name, res.Answer)
	}
}
