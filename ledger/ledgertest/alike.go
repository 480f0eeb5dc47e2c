package ledgertest

import (
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// anotherKey: what is in flight or in doubt stands for the same request under another key,
// until it is settled, where one of the two keys was made of the input.
func anotherKey(d *desk) {
	content, fields, session := "content-"+strings.Repeat("a", 32), "fields-"+strings.Repeat("b", 32), "session-"+strings.Repeat("c", 32)
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
		"content, then given":              {held: content, asked: "INV-1", stands: true},
		"fields, then given":               {held: fields, asked: "INV-1", stands: true},
		"fields, then content":             {held: fields + ".3", asked: content, stands: true},
		"content, then a session's":        {held: content, asked: session, stands: true},
		"given, then content":              {held: "INV-1", asked: content, stands: true},
		"given, then fields":               {held: "INV-1", asked: fields + ".3", stands: true},
		"a session's, then content":        {held: session, asked: content, stands: true},
		"given and like it, then content":  {held: "content-of-June", asked: content, stands: true},
		"another generation":               {held: content, asked: content + ".2"},
		"another input":                    {held: content, asked: "INV-1", input: "other"},
		"another scope":                    {held: content, asked: "INV-1", scope: "other"},
		"another kind":                     {held: content, asked: "INV-1", kind: "other"},
		"any kind":                         {held: content, asked: "INV-1", kind: "other", how: anyKind, stands: true},
		"what is never held back":          {held: content, asked: "INV-1", how: apart},
		"what was sent already":            {held: content, asked: "INV-1", how: was},
		"another input, made":              {held: "INV-1", asked: content, input: "other"},
		"another scope, made":              {held: "INV-1", asked: content, scope: "other"},
		"another kind, made":               {held: "INV-1", asked: content, kind: "other"},
		"any kind, made":                   {held: "INV-1", asked: content, kind: "other", how: anyKind, stands: true},
		"what is never held back, made":    {held: "INV-1", asked: content, how: apart},
		"what was sent already, made":      {held: "INV-1", asked: content, how: was},
		"two that were given":              {held: "INV-0", asked: "INV-1"},
		"two that were given, of any kind": {held: "INV-0", asked: "INV-1", how: anyKind},
		"a given one that looks like it":   {held: "content-of-June", asked: "INV-1"},
		"a session's":                      {held: session, asked: "INV-1"},
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

// anotherKeyThatSends: so it does where the operation of the asked key would be sent again,
// or anew.
func anotherKeyThatSends(d *desk) {
	made := "content-" + strings.Repeat("a", 32)
	anotherKeyWouldSend(d, "INV-1", made)
	anotherKeyWouldSend(d, made, "INV-1")
}

func anotherKeyWouldSend(d *desk, key, doubtKey string) {
	committed := func(b ledger.BeginResult) { d.settle(b.Attempt.ID, ledger.OutcomeCommitted) }
	failed := func(b ledger.BeginResult) { d.settle(b.Attempt.ID, ledger.OutcomeFailed) }
	doubted := func(b ledger.BeginResult) { d.settle(b.Attempt.ID, ledger.OutcomeUncertain) }
	granted := func(o ledger.Operation) { d.grant(o, ledger.BasisRiskAccepted) }
	for name, c := range map[string]struct {
		own    func(ledger.BeginResult)
		kind   string                 // of the doubt; "": the same
		then   func(ledger.Operation) // with the own one, once the other is in doubt
		answer ledger.BeginAnswer
		stands bool
	}{
		"in flight":                   {own: func(ledger.BeginResult) {}, answer: ledger.AnswerInProgress},
		"in doubt":                    {own: doubted, answer: ledger.AnswerInDoubt},
		"committed":                   {own: committed, answer: ledger.AnswerFinished},
		"failed":                      {own: failed, answer: ledger.AnswerRefused},
		"failed, of another kind":     {own: failed, kind: "other", stands: true},
		"expired":                     {own: committed, then: func(ledger.Operation) { d.clock.Advance(2 * time.Hour) }, stands: true},
		"overtaken":                   {own: committed, then: func(o ledger.Operation) { d.begun(o.Target, func(r *ledger.BeginRequest) { r.Target = o.Target }) }, stands: true},
		"granted beside it":           {own: doubted, then: granted, answer: ledger.AnswerBegun},
		"granted where it was unseen": {own: doubted, kind: "other", then: granted, stands: true},
	} {
		same := func(r *ledger.BeginRequest) {
			r.Fingerprint, r.Input, r.Kind, r.Scope = "print of "+name, []byte(`{"of":"`+name+`"}`), "kind of "+name, "scope of "+key
			r.Target, r.Deadline, r.TTL, r.Supersedes, r.AnyAlike = "target of "+name+" "+key, 3*time.Hour, time.Hour, true, true
		}
		own := d.begun(key, same)
		c.own(own)
		doubt := d.doubt(doubtKey, same, func(r *ledger.BeginRequest) {
			r.Kind, r.Target, r.SentAt = r.Kind+c.kind, "", d.clock.Now() // it was sent, whatever stood for it
		})
		if c.then != nil {
			c.then(d.read(own.Operation.ID).Operation)
		}
		want := own.Operation.ID
		if c.stands {
			c.answer, want = ledger.AnswerInDoubt, doubt.ID
		}
		was := d.read(own.Operation.ID).Operation.Version
		res := d.begin(key, same)
		need.Must(d, res.Answer == c.answer && res.Alike == c.stands && res.Operation.ID == want, "%s, %s: %s of %s (%s), want %s", key, name, res.Answer, res.Operation.Key, res.Why, c.answer)
		if c.stands {
			need.Equal(d, d.read(own.Operation.ID).Operation.Version, was, key+", "+name+": its own one")
			d.decide(d.read(doubt.ID).Operation, ledger.VerbConfirm)
			res = d.begin(key, same)
			need.That(d, res.Answer == ledger.AnswerBegun && !res.Alike, "%s, %s: settled, another is %s", key, name, res.Answer)
		}
	}
}

// anotherKeyOfSeveral: the newest that stands for the request is the answer, whatever is
// newer and does not.
func anotherKeyOfSeveral(d *desk) {
	made := func(digit string) string { return "content-" + strings.Repeat(digit, 32) }
	anotherOfSeveral(d, "INV-1", made("a"), made("b"), made("c"))
	anotherOfSeveral(d, made("a"), "INV-1", "INV-2", made("b"))
}

func anotherOfSeveral(d *desk, key string, keys ...string) {
	same := func(r *ledger.BeginRequest) { r.Fingerprint, r.Scope, r.Marks.Fields = "print", key, "" }
	var ids []string
	dismissed := map[string]bool{}
	over := func(r *ledger.BeginRequest) {
		r.AlikeOver = func(rec ledger.Record) bool {
			return dismissed[rec.Operation.ID] && len(rec.Attempts) == 1 && rec.Related == nil
		}
	}
	for _, held := range keys {
		o := d.doubt(held, same, over)
		ids, dismissed[o.ID] = append(ids, o.ID), true
	}
	for i, id := range ids {
		dismissed[id] = false
		res := d.begin(key, same, over)
		need.Must(d, res.Answer == ledger.AnswerInDoubt && res.Alike && res.Operation.ID == id, "number %d stands: %s of %s", i, res.Answer, res.Operation.Key)
	}
	for _, id := range ids {
		dismissed[id] = true
	}
	need.Equal(d, d.begin(key, same, over).Answer, ledger.AnswerBegun, "none stands")
}

// besideAnotherKey: what goes out although another key's operation with its input is in doubt
// may double that one, unless the policy says that a repeat does no harm.
func besideAnotherKey(d *desk) {
	made := "content-" + strings.Repeat("a", 32)
	for held, asked := range map[string]string{made: "INV-1", "INV-1": made} {
		for _, idempotent := range []bool{false, true} {
			name := fmt.Sprint(asked, " beside ", held, ", idempotent ", idempotent)
			same := func(r *ledger.BeginRequest) {
				r.Fingerprint, r.Scope, r.Marks.Fields, r.Idempotent = "print of "+name, name, "", idempotent
				r.AlikeOver = func(ledger.Record) bool { return true }
			}
			doubt := d.doubt(held, same)
			o := d.settle(d.begun(asked, same).Attempt.ID, ledger.OutcomeCommitted)
			raised := o.Conflict == ledger.PossibleDuplicate && strings.Contains(o.ConflictNote, doubt.ID)
			need.That(d, raised != idempotent && (raised || o.Conflict == ledger.NoConflict), "%s: conflict %q (%s)", name, o.Conflict, o.ConflictNote)
		}
	}
}
