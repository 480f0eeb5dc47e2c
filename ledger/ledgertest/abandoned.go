package ledgertest

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// abandonedAndUndone: abandoning changes no fact, and undo gives back exactly what was.
func abandonedAndUndone(d *desk) {
	origins := map[string]func(key string) ledger.Operation{
		"in doubt": func(key string) ledger.Operation { return d.doubt(key) },
		"seen, a person settles": func(key string) ledger.Operation {
			return d.observe(d.decide(d.decide(d.doubt(key), ledger.VerbConfirm), ledger.VerbUndo), ledger.Landed, "pi_"+key)
		},
		"refused": func(key string) ledger.Operation { return d.settle(d.begun(key).Attempt.ID, ledger.OutcomeFailed) },
		"proven":  func(key string) ledger.Operation { return d.observe(d.doubt(key), ledger.NotThere) },
		"on a word": func(key string) ledger.Operation {
			return d.decide(d.doubt(key), ledger.VerbDeny)
		},
		"in conflict": func(key string) ledger.Operation {
			return d.observe(d.decide(d.doubt(key), ledger.VerbDeny), ledger.Landed, "pi_"+key)
		},
	}
	for name, make := range origins {
		before := d.read(make(name).ID)
		was := before.Operation
		left := d.decide(was, ledger.VerbAbandon)
		d.want(left, ledger.Abandoned)
		kept := d.read(was.ID)
		need.Must(d, kept.Operation.Fact == was.State && cmp.Equal(kept.Attempts, before.Attempts) && kept.Operation.Version == was.Version+1,
			"%s: abandoned as %q: %s", name, kept.Operation.Fact, cmp.Diff(before.Attempts, kept.Attempts))
		if res := d.begin(name); res.Answer == ledger.AnswerBegun || d.read(was.ID).Operation.Version != left.Version {
			d.Fatalf("%s: sent again: %+v", name, res)
		}
		back := d.decide(left, ledger.VerbUndo)
		after := d.read(was.ID)
		if diff := cmp.Diff(was, after.Operation, cmpopts.IgnoreFields(ledger.Operation{}, "Version", "Actor", "Reason", "UpdatedAt", "Hands")); diff != "" {
			d.Fatalf("%s: undo gives back something else: %s", name, diff)
		}
		need.Must(d, back.Version == was.Version+2 && cmp.Equal(after.Attempts, before.Attempts) && after.Row().LaneAt(after.Now) == before.Row().LaneAt(before.Now), "%s: %+v", name, back)
		evs := d.events(was.ID)
		last := evs[len(evs)-1]
		need.Must(d, last.Verb == "undo" && last.From == ledger.Abandoned && last.To == was.State, "%s: the history says %s %s→%s", name, last.Verb, last.From, last.To)
	}
	// It is what it was, so a check may settle it, and its pipeline begin it, as before.
	d.want(d.observe(d.decide(d.decide(d.doubt("again"), ledger.VerbAbandon), ledger.VerbUndo), ledger.NotThere), ledger.Failed)
	res := d.begin("again")
	need.Must(d, res.Answer == ledger.AnswerBegun, "a proof that came back lets no one send: %s", res.Why)
}

// abandonedAndFound: late truth is kept beside the decision, and undo does not lose it (I9).
func abandonedAndFound(d *desk) {
	given := func(key string) (ledger.Operation, string) {
		a := d.begun(key).Attempt.ID
		return d.decide(d.settle(a, ledger.OutcomeUncertain), ledger.VerbAbandon), a
	}
	_, a := given("refused late")
	o := d.settle(a, ledger.OutcomeFailed)
	need.Must(d, o.State == ledger.Abandoned && o.Fact == ledger.Failed && o.Conflict == ledger.NoConflict, "a late refusal: %+v", o)
	d.want(d.decide(o, ledger.VerbUndo), ledger.Failed)

	o, _ = given("proven late")
	o = d.observe(o, ledger.NotThere)
	need.Must(d, o.State == ledger.Abandoned && o.Fact == ledger.Failed && d.read(o.ID).Attempts[0].Proof == ledger.ProofNotThere, "proven late: %+v", o)
	d.want(d.decide(o, ledger.VerbUndo), ledger.Failed)

	for name, found := range map[string]func(o ledger.Operation, attempt string) ledger.Operation{
		"found": func(o ledger.Operation, _ string) ledger.Operation { return d.observe(o, ledger.Landed, "pi_1") },
		"answered late": func(_ ledger.Operation, attempt string) ledger.Operation {
			return d.settle(attempt, ledger.OutcomeCommitted, withReceipt("pi_1"))
		},
	} {
		o, a = given(name)
		o = found(o, a)
		need.Must(d, o.State == ledger.Abandoned && o.Conflict == ledger.ConflictDisputed && o.PersonOnly, "%s: %+v", name, o)
		o = d.decide(o, ledger.VerbUndo)
		need.Must(d, o.State == ledger.Uncertain && o.Conflict == ledger.ConflictDisputed && o.PersonOnly && o.Receipt() == "pi_1", "%s and undone: %+v", name, o)
	}
	// What was seen before it was abandoned does not hide that it is seen again.
	o = d.observe(d.decide(d.decide(d.doubt("seen"), ledger.VerbConfirm), ledger.VerbUndo), ledger.Landed, "pi_2")
	o = d.observe(d.decide(o, ledger.VerbAbandon), ledger.Landed, "pi_2")
	need.Must(d, o.Conflict == ledger.ConflictDisputed, "seen, abandoned and seen again: %+v", o)
	// What is true of the conflict ends it.
	dec := d.decision(o, ledger.VerbAck)
	saying(ledger.TakenBack)(&dec)
	applied, err := ledger.Decide(ctx, d.s, dec)
	d.ok(err)
	need.Must(d, applied.After.State == ledger.Abandoned && applied.After.Fact == "", "taken back: %+v", applied.After)
	d.want(d.decide(applied.After, ledger.VerbUndo), ledger.Uncertain)
}
