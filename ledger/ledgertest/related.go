package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// sameAs makes a begin have the target of the operation of that key.
func sameAs(key string) func(*ledger.BeginRequest) {
	return func(r *ledger.BeginRequest) { r.Target = "thing of " + key }
}

// sameTarget holds what is refused beside another operation on the same target.
func sameTarget(t *testing.T, open Open) {
	for _, part := range []struct {
		name string
		run  func(*desk)
	}{
		{"I5_TheyStopTheMachine", othersStopTheMachine},
		{"I5_BesideOneThatMayHaveLanded", besideALanding},
		{"I5_BesideOneWithoutEffect", besideNoEffect},
		{"I5_ManyWithoutEffectHideNone", besideMany},
		{"I7_OneThatCameSinceItWasShown", cameSince},
		{"I9_ARiskBesideAnotherIsRaised", riskIsRaised},
		{"I5_BeginAgainBesideALaterOne", beginBesideALaterOne},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(newDesk(t, open)) })
	}
}

func onTarget(r *ledger.BeginRequest) { r.Target = "invoice INV-1187" }

// refused is a retry that must be refused with a code.
func (d *desk) refused(g ledger.AllowRequest, code string) {
	d.Helper()
	var refused *ledger.RefusedError
	if _, err := ledger.Allow(ctx, d.s, g); !errors.As(err, &refused) || refused.Code != code {
		d.Fatalf("%s: %v, want the refusal %q", g.Basis, err, code)
	}
}

// They are shown wherever a record or a list is, and no recorder repeats what one of them has
// overtaken. Where no kind names the target, the request itself is it, under its gate.
func othersStopTheMachine(d *desk) {
	o := d.doubt("k")
	d.clock.Advance(time.Second)
	later := d.begun("k2", sameAs("k"), func(r *ledger.BeginRequest) { r.Kind, r.Fingerprint = "mail", "another" })
	rec, other := d.read(o.ID), d.read(later.Operation.ID)
	need.Must(d, len(rec.Related) == 1 && rec.Related[0].Overtook && rec.Related[0].ID == later.Operation.ID && rec.Row().Overtaken,
		"related are %+v, want one that overtook", rec.Related)
	need.Must(d, len(other.Related) == 1 && !other.Related[0].Overtook && other.Related[0].ID == o.ID && !other.Row().Overtaken && other.Overtaken() == nil,
		"related are %+v, want one that is earlier", other.Related)
	page := need.Get(d.s.Page(ctx, ledger.Query{Tab: ledger.TabAll, Now: d.clock.Now(), Limit: 10}))(d)
	for _, row := range page.Rows {
		need.Must(d, row.Overtaken == (row.ID == o.ID), "the list shows %s as overtaken: %v", row.Key, row.Overtaken)
	}
	d.refused(d.ownRepeat(o), "related")
	gate := strings.Repeat("a", 64)
	asks := func(r *ledger.BeginRequest) { r.Target, r.Gate = "", gate }
	first := d.begun("first", asks)
	d.settle(first.Attempt.ID, ledger.OutcomeUncertain, func(r *ledger.SettleRequest) { r.Passes = true })
	d.clock.Advance(time.Second)
	second := d.begun("second", asks)
	rec = d.read(first.Operation.ID)
	need.Must(d, len(rec.Related) == 1 && rec.Related[0].Overtook && rec.Related[0].ID == second.Operation.ID, "the same request: %+v", rec.Related)
	need.Equal(d, ledger.NamedTarget(rec.Operation.Target), "", "the name of a target that is the request itself")
	without := func(r *ledger.BeginRequest) { r.Target = "" }
	d.doubt("nothing", without)
	if none := d.doubt("nothing either", without); len(d.read(none.ID).Related) != 0 {
		d.Fatalf("without a target and a gate it has others on its target")
	}
}

// However sure it is that this one did not land: beside another that landed or
// may have, proof and key allow nothing, and a person takes a risk.
func besideALanding(d *desk) {
	for name, other := range map[string]func(key string){
		"in flight": func(key string) { d.begun(key+" again", sameAs(key)) },
		"in doubt":  func(key string) { d.doubt(key+" again", sameAs(key)) },
		"landed":    func(key string) { d.settle(d.begun(key+" again", sameAs(key)).Attempt.ID, ledger.OutcomeCommitted) },
		"given up":  func(key string) { d.decide(d.doubt(key+" again", sameAs(key)), ledger.VerbAbandon) },
		"denied":    func(key string) { d.decide(d.doubt(key+" again", sameAs(key)), ledger.VerbDeny) },
		"undone": func(key string) {
			o := d.settle(d.begun(key+" again", sameAs(key)).Attempt.ID, ledger.OutcomeFailed)
			d.decide(d.decide(o, ledger.VerbUndo), ledger.VerbAbandon)
		},
	} {
		gone := d.observe(d.doubt(name+" not there"), ledger.NotThere)
		other(name + " not there")
		safe := d.doubt(name + " safe")
		other(name + " safe")
		for basis, o := range map[ledger.Basis]ledger.Operation{ledger.BasisProof: gone, ledger.BasisKeySafe: safe} {
			d.refused(d.grantRequest(o, basis), "related")
			d.allow(o, ledger.BasisRiskAccepted)
		}
	}
}

// What is known to have had no effect makes no retry a risk.
func besideNoEffect(d *desk) {
	for name, other := range map[string]func(key string){
		"refused":   func(key string) { d.settle(d.begun(key+" again", sameAs(key)).Attempt.ID, ledger.OutcomeFailed) },
		"not there": func(key string) { d.observe(d.doubt(key+" again", sameAs(key)), ledger.NotThere) },
		"given up": func(key string) {
			d.decide(d.observe(d.doubt(key+" again", sameAs(key)), ledger.NotThere), ledger.VerbAbandon)
		},
		"said late": func(key string) {
			o := d.begun(key+" again", sameAs(key))
			d.settle(o.Attempt.ID, ledger.OutcomeUncertain)
			d.settle(o.Attempt.ID, ledger.OutcomeFailed)
		},
	} {
		o := d.observe(d.doubt(name), ledger.NotThere)
		other(name)
		rec := d.read(o.ID)
		need.Must(d, len(rec.Related) == 1 && !rec.Related[0].MayHaveLanded && len(rec.Landings()) == 0,
			"%s: %+v", name, rec.Related)
		d.allow(o, ledger.BasisProof)
		if res := d.begin(name); res.Answer != ledger.AnswerBegun {
			d.Fatalf("%s: its pipeline was told %s (%s)", name, res.Answer, res.Why)
		}
	}
}

// Any number of newer ones without effect hides none that landed.
func besideMany(d *desk) {
	o := d.observe(d.doubt("k"), ledger.NotThere)
	landed := d.settle(d.begun("landed", sameAs("k")).Attempt.ID, ledger.OutcomeCommitted)
	later := d.doubt("later", sameAs("k"))
	for i := range 50 {
		d.settle(d.begun(fmt.Sprint("refused ", i), sameAs("k")).Attempt.ID, ledger.OutcomeFailed)
	}
	rec := d.read(o.ID)
	found := map[string]bool{}
	for _, rel := range rec.Landings() {
		found[rel.ID] = true
	}
	need.Must(d, len(found) == 2 && found[landed.ID] && found[later.ID],
		"of the others, these may have landed: %v; want %s and %s", found, landed.ID, later.ID)
	d.refused(d.grantRequest(o, ledger.BasisProof), "related")
}

// A risk is taken of what was shown: another one that came since is not in it,
// whether it is sent at once or waits for its pipeline.
func cameSince(d *desk) {
	o := d.doubt("k")
	shown := d.grantRequest(o, ledger.BasisRiskAccepted)
	o = d.allow(o, ledger.BasisRiskAccepted)
	shown.Version = o.Version
	since := d.begun("since", sameAs("k"))
	d.refused(shown, "related")
	res := d.begin("k")
	need.Must(d, res.Answer == ledger.AnswerRefused && strings.Contains(res.Why, since.Operation.ID),
		"another came, and the pipeline was told %s (%s)", res.Answer, res.Why)
	d.retry(d.read(o.ID).Operation, ledger.BasisRiskAccepted)
}

// What was sent beside another that may have landed is raised when it lands,
// from any source, and no sooner.
func riskIsRaised(d *desk) {
	for name, lands := range map[string]func(a ledger.Applied) ledger.Operation{
		"by its answer": func(a ledger.Applied) ledger.Operation { return d.settle(a.Attempt.ID, ledger.OutcomeCommitted) },
		"by a check": func(a ledger.Applied) ledger.Operation {
			return d.observe(d.settle(a.Attempt.ID, ledger.OutcomeUncertain), ledger.Landed, "re_1")
		},
		"by a person": func(a ledger.Applied) ledger.Operation {
			return d.decide(d.settle(a.Attempt.ID, ledger.OutcomeUncertain), ledger.VerbConfirm)
		},
	} {
		o := d.observe(d.doubt(name), ledger.NotThere)
		other := d.settle(d.begun(name+" again", sameAs(name)).Attempt.ID, ledger.OutcomeCommitted)
		sent := d.retry(o, ledger.BasisRiskAccepted)
		if sent.After.Conflict != ledger.NoConflict || len(sent.Allowed.Related) != 1 || d.read(o.ID).Allowed[0].Related[0] != other.ID {
			d.Fatalf("%s: sent as %+v by %+v", name, sent.After, sent.Allowed)
		}
		if o := lands(sent); o.State != ledger.Committed || o.Conflict != ledger.ConflictMaybeTwice || !strings.Contains(o.ConflictNote, other.ID) {
			d.Fatalf("%s: %s, conflict %q (%s); want maybe twice beside %s", name, o.State, o.Conflict, o.ConflictNote, other.ID)
		}
	}
	o := d.observe(d.doubt("refused"), ledger.NotThere)
	d.begun("refused again", sameAs("refused"))
	if o := d.settle(d.retry(o, ledger.BasisRiskAccepted).Attempt.ID, ledger.OutcomeFailed); o.State != ledger.Failed || o.Conflict != ledger.NoConflict {
		d.Fatalf("refused: %s, conflict %q", o.State, o.Conflict)
	}
}

// A call that the policy lets go out beside the same one in doubt is a possible
// duplicate once it lands, by any proof; unless the other one is known by then
// to have had no effect.
func besideADoubt(d *desk) {
	begun := func(name string) (ledger.Operation, ledger.BeginResult) {
		doubt := d.doubt(name)
		res := d.begun(name+" again", sameAs(name), func(r *ledger.BeginRequest) { r.Beside = doubt.ID })
		if res.Attempt.Basis != ledger.BasisRiskAccepted || res.Operation.Conflict != ledger.NoConflict || !strings.Contains(res.Operation.Reason, doubt.ID) {
			d.Fatalf("%s: begun as %+v", name, res)
		}
		return doubt, res
	}
	for name, lands := range map[string]func(attempt string) ledger.Operation{
		"by its answer": func(attempt string) ledger.Operation { return d.settle(attempt, ledger.OutcomeCommitted) },
		"by a check": func(attempt string) ledger.Operation {
			return d.observe(d.settle(attempt, ledger.OutcomeUncertain), ledger.Landed, "re_1")
		},
		"by a person": func(attempt string) ledger.Operation {
			return d.decide(d.settle(attempt, ledger.OutcomeUncertain), ledger.VerbConfirm)
		},
	} {
		doubt, res := begun(name)
		o := lands(res.Attempt.ID)
		if o.State != ledger.Committed || o.Conflict != ledger.ConflictMaybeTwice || !strings.Contains(o.ConflictNote, doubt.ID) {
			d.Fatalf("%s: %s, conflict %q (%s); want maybe twice beside %s", name, o.State, o.Conflict, o.ConflictNote, doubt.ID)
		}
	}
	for name, ends := range map[string]func(doubt ledger.Operation, attempt string) ledger.Operation{
		"refused": func(_ ledger.Operation, attempt string) ledger.Operation {
			return d.settle(attempt, ledger.OutcomeFailed)
		},
		"not there meanwhile": func(doubt ledger.Operation, attempt string) ledger.Operation {
			d.observe(doubt, ledger.NotThere)
			return d.settle(attempt, ledger.OutcomeCommitted)
		},
	} {
		doubt, res := begun(name)
		if o := ends(doubt, res.Attempt.ID); o.Conflict != ledger.NoConflict {
			d.Fatalf("%s: conflict %q (%s)", name, o.Conflict, o.ConflictNote)
		}
	}
}

// A pipeline that begins again after a proven failure is a machine: where another one came
// later on the target, a person decides. One that came before was no secret then.
func beginBesideALaterOne(d *desk) {
	ended := d.settle(d.begun("yesterday", sameAs("today")).Attempt.ID, ledger.OutcomeCommitted)
	d.clock.Advance(24 * time.Hour)
	d.settle(d.begun("today").Attempt.ID, ledger.OutcomeFailed)
	again := d.begun("today")
	need.Must(d, again.Attempt.N == 2, "attempt %d", again.Attempt.N)
	d.settle(again.Attempt.ID, ledger.OutcomeFailed)
	anew := d.doubt("anew", sameAs("today"))
	before := d.read(again.Operation.ID).Operation
	res := d.begin("today")
	if res.Answer != ledger.AnswerRefused || !strings.Contains(res.Why, anew.ID) || strings.Contains(res.Why, ended.ID) {
		d.Fatalf("beside %s its pipeline was told %s (%s)", anew.ID, res.Answer, res.Why)
	}
	if after := d.read(before.ID).Operation; after.Version != before.Version {
		d.Fatalf("the refusal moved it from version %d to %d", before.Version, after.Version)
	}
	d.observe(anew, ledger.NotThere)
	d.begun("today")
}

// Who is beside an operation is found from either end: from it, those that it has
// related; from what has moved, those in doubt that it has overtaken.
func beside(t *testing.T, open Open) {
	d := newDesk(t, open)
	var all []string
	put := func(o ledger.Operation) { all = append(all, o.ID) }
	for _, key := range []string{"a", "b"} {
		place := sameAs(key)
		put(d.doubt(key, place))
		put(d.doubt(key + " elsewhere"))
		put(d.doubt(key+" of another kind", place, func(r *ledger.BeginRequest) { r.Kind = "mail" }))
		put(d.begun(key+" in flight", place).Operation)
		put(d.settle(d.begun(key+" landed", place).Attempt.ID, ledger.OutcomeCommitted))
		put(d.observe(d.doubt(key+" not there", place), ledger.NotThere))
	}
	without := func(r *ledger.BeginRequest) { r.Target = "" }
	put(d.doubt("nothing", without))
	put(d.doubt("nothing either", without))
	want := map[string][]string{} // by the one that moved
	for _, id := range all {
		rec := d.read(id)
		for _, rel := range rec.Related {
			if rec.Operation.State == ledger.Uncertain && rel.Overtook {
				want[rel.ID] = append(want[rel.ID], id)
			}
		}
	}
	found := func(ids ...string) []string {
		d.Helper()
		out := need.Get(d.s.Beside(ctx, ids))(d)
		slices.Sort(out)
		return out
	}
	var any []string
	for _, id := range all {
		slices.Sort(want[id])
		if got := found(id); !slices.Equal(got, want[id]) {
			d.Errorf("%s has moved: %v are beside it, want %v", d.read(id).Operation.Key, got, want[id])
		}
		any = append(any, want[id]...)
	}
	slices.Sort(any)
	if any = slices.Compact(any); len(any) < 4 {
		d.Fatalf("only %v have others beside them", any)
	}
	if got := found(append(all, d.id("no operation"))...); !slices.Equal(got, any) {
		d.Errorf("all have moved: %v, want %v", got, any)
	}
	if got := found(); len(got) != 0 {
		d.Errorf("none has moved: %v", got)
	}
}
