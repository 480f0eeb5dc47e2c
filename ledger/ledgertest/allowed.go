package ledgertest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func permissions(t *testing.T, open Open) {
	for _, part := range []struct {
		name string
		run  func(*desk)
	}{
		{"ConsumedOnceByThePipeline", fetched},
		{"ConsumedAtOnce", sentAtOnce},
		{"RunsOut", runsOut},
		{"VoidAfterNews", voidAfterNews},
		{"I7_RemarksVoidNothing", remarksVoidNothing},
		{"ANewerOneReplacesIt", replaced},
		{"I5_RiskNeedsAPerson", riskNeedsAPerson},
		{"I5_NoMachineAllowsASend", noMachineAllows},
		{"I8_ReservedNames", reservedNames},
		{"HoldStopsIt", holdStops},
		{"I3_BeginsAreHeld", beginsHeld},
		{"I5_OvertakenWhileItWaited", overtakenWhileWaiting},
		{"I9_ACallBesideADoubtIsRaised", besideADoubt},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(newDesk(t, open)) })
	}
}

func fetched(d *desk) {
	o := d.allow(d.doubt("k"), ledger.BasisRiskAccepted)
	d.want(o, ledger.Uncertain)
	rec := d.read(o.ID)
	g := rec.OpenAllowed()
	need.Must(d, g != nil && g.Version == o.Version && g.Actor == "maya" && g.Sender == "pipeline",
		"the open permission is %+v, want one of maya's bound to version %d", g, o.Version)
	need.Equal(d, rec.Row().LaneAt(rec.Now), ledger.LaneUnfetched, "its lane")
	res := d.begin("k")
	if res.Answer != ledger.AnswerBegun || res.Attempt.N != 2 || res.Attempt.Basis != ledger.BasisRiskAccepted || res.Attempt.AllowID != g.ID {
		d.Fatalf("%s, attempt %+v; want attempt 2 by permission %s", res.Answer, res.Attempt, g.ID)
	}
	rec = d.read(o.ID)
	if used := rec.Allowed[0]; used.ConsumedAt.IsZero() || used.AttemptID != res.Attempt.ID || rec.OpenAllowed() != nil {
		d.Fatalf("the permission is %+v, want it used up by %s", used, res.Attempt.ID)
	}
	d.settle(res.Attempt.ID, ledger.OutcomeUncertain)
	need.Equal(d, d.begin("k").Answer, ledger.AnswerInDoubt, "with the permission used up")
}

func sentAtOnce(d *desk) {
	applied := d.retry(d.observe(d.doubt("k"), ledger.NotThere), ledger.BasisProof)
	d.want(applied.After, ledger.Pending)
	if applied.Attempt.N != 2 || applied.Attempt.ID != applied.After.LiveAttempt || applied.Allowed.AttemptID != applied.Attempt.ID {
		d.Fatalf("attempt %+v by permission %+v", applied.Attempt, applied.Allowed)
	}
	if res := d.begin("k"); res.Answer != ledger.AnswerInProgress {
		d.Fatalf("its pipeline was told %s while it is being sent", res.Answer)
	}
}

func runsOut(d *desk) {
	o := d.allow(d.doubt("k"), ledger.BasisRiskAccepted)
	d.clock.Advance(time.Hour)
	rec := d.read(o.ID)
	need.Equal(d, rec.OpenAllowed(), nil, "open an hour later")
	need.Equal(d, d.begin("k").Answer, ledger.AnswerInDoubt, "a permission that has run out")
	if lane := rec.Row().LaneAt(rec.Now); lane == ledger.LaneUnfetched {
		d.Fatalf("it still waits to be fetched")
	}
}

func voidAfterNews(d *desk) {
	for key, news := range map[string]func(ledger.Operation){
		"a denial": func(o ledger.Operation) { d.decide(o, ledger.VerbDeny) },
		"a finding": func(o ledger.Operation) {
			d.observe(o, ledger.Different, "pi_1")
		},
		"a late answer": func(o ledger.Operation) {
			d.settle(d.read(o.ID).Attempts[0].ID, ledger.OutcomeCommitted)
		},
	} {
		o := d.allow(d.doubt(key), ledger.BasisRiskAccepted)
		news(o)
		rec := d.read(o.ID)
		if rec.OpenAllowed() != nil || len(rec.Allowed) != 1 || rec.Allowed[0].VoidedAt.IsZero() || rec.Allowed[0].VoidReason == "" {
			d.Fatalf("after %s the permissions are %+v, want it void", key, rec.Allowed)
		}
		if res := d.begin(key); res.Answer == ledger.AnswerBegun {
			d.Fatalf("after %s the permission still let its pipeline send", key)
		}
	}
}

// remarksVoidNothing: a note, a park and a check that cannot tell move no version, and the
// pipeline still comes for what was allowed.
func remarksVoidNothing(d *desk) {
	for key, remark := range map[string]func(ledger.Operation){
		"a note":                   func(o ledger.Operation) { d.decide(o, ledger.VerbNote) },
		"a park":                   func(o ledger.Operation) { d.decide(o, ledger.VerbPark) },
		"a check that cannot tell": func(o ledger.Operation) { d.observe(o, ledger.CannotTell) },
	} {
		o := d.allow(d.doubt(key), ledger.BasisRiskAccepted)
		remark(o)
		rec := d.read(o.ID)
		need.Must(d, rec.Operation.Version == o.Version && rec.OpenAllowed() != nil, "after %s: version %d after %d, permissions %+v", key, rec.Operation.Version, o.Version, rec.Allowed)
		need.Equal(d, d.begin(key).Answer, ledger.AnswerBegun, "after", key)
	}
}

func replaced(d *desk) {
	o := d.allow(d.doubt("k"), ledger.BasisRiskAccepted)
	first := d.read(o.ID).Allowed[0].ID
	o = d.allow(o, ledger.BasisRiskAccepted)
	open := 0
	rec := d.read(o.ID)
	for _, g := range rec.Allowed {
		if g.Open(rec.Now) {
			open++
		} else if g.ID != first || g.VoidedAt.IsZero() {
			d.Fatalf("closed: %+v", g)
		}
	}
	need.Must(d, open == 1, "%d permissions are open, want 1", open)
}

func riskNeedsAPerson(d *desk) {
	o := d.doubt("k")
	for name, mod := range map[string]func(*ledger.AllowRequest){
		"a machine":            func(g *ledger.AllowRequest) { g.Actor = engine },
		"nobody at a terminal": func(g *ledger.AllowRequest) { g.Actor.Terminal = false },
		"no reason":            func(g *ledger.AllowRequest) { g.Reason = " " },
	} {
		g := d.grantRequest(o, ledger.BasisRiskAccepted)
		mod(&g)
		var refused *ledger.RefusedError
		if _, err := ledger.Allow(ctx, d.s, g); !errors.As(err, &refused) || refused.Why == "" {
			d.Fatalf("%s: %v, want a refusal", name, err)
		}
	}
	need.Must(d, len(d.read(o.ID).Allowed) == 0, "a refusal left a permission")
}

// noMachineAllows: a machine gives no permission, apart from a recorder's own repeat under
// a key that the other side remembers, which it makes at once.
func noMachineAllows(d *desk) {
	o := d.observe(d.doubt("not there"), ledger.NotThere)
	for _, basis := range []ledger.Basis{ledger.BasisProof, ledger.BasisKeySafe, ledger.BasisRiskAccepted} {
		for name, mod := range map[string]func(*ledger.AllowRequest){
			"for a pipeline": func(*ledger.AllowRequest) {},
			"at once":        func(g *ledger.AllowRequest) { g.AttemptID, g.Deadline = d.id("attempt"), time.Minute },
			"as its own":     func(g *ledger.AllowRequest) { g.Own = true },
		} {
			g := d.grantRequest(o, basis)
			g.Actor = engine
			mod(&g)
			d.refused(g, "no_person")
			need.Must(d, len(d.read(o.ID).Allowed) == 0, "%s, %s: a refusal left a permission", basis, name)
		}
	}
	need.Get(ledger.Allow(ctx, d.s, d.ownRepeat(d.doubt("lost"))))(d)
}

// reservedNames: a person cannot sign as the machine does.
func reservedNames(d *desk) {
	for _, name := range []string{"checks", "clock", " Checks", "checks, console of vera"} {
		person := ledger.Actor{Name: name, Terminal: true}
		o := d.doubt("k of " + name)
		g := d.grantRequest(o, ledger.BasisRiskAccepted)
		g.Actor = person
		_, allowed := ledger.Allow(ctx, d.s, g)
		_, decided := ledger.Decide(ctx, d.s, ledger.Decision{ChangeID: d.id("change"), ID: o.ID, Version: o.Version, Verb: ledger.VerbConfirm, Actor: person})
		for verb, err := range map[string]error{"retry": allowed, "confirm": decided} {
			var refused *ledger.RefusedError
			need.That(d, errors.As(err, &refused) && refused.Code == "no_person",
				"%s by %q: %v, want a refusal", verb, name, err)
		}
		if err := d.s.Hold(ctx, ledger.Hold{Scope: "all", Actor: person, Reason: "night", ChangeID: d.id("change")}); err == nil {
			d.Errorf("a hold by %q is accepted", name)
		}
		if _, _, err := d.s.Run(ctx, ledger.DecisionRun{ID: d.id("run"), Verb: "confirm", Actor: person}, []ledger.RunItem{{OperationID: o.ID, Version: 1}}); err == nil {
			d.Errorf("a run by %q is accepted", name)
		}
		if after := d.read(o.ID); after.Operation.Version != o.Version || len(after.Allowed) != 0 {
			d.Errorf("%q changed something: %+v", name, after)
		}
	}
	need.Equal(d, len(need.Get(d.s.Holds(ctx, d.clock.Now()))(d)), 0, "holds")
}

func holdStops(d *desk) {
	o := d.doubt("k")
	allowed := d.allow(d.doubt("allowed"), ledger.BasisRiskAccepted)
	d.ok(d.s.Hold(ctx, ledger.Hold{Scope: "kind:card.charge", Actor: maya, Reason: "stripe is down", ChangeID: d.id("change")}))
	var refused *ledger.RefusedError
	if _, err := ledger.Allow(ctx, d.s, d.grantRequest(o, ledger.BasisKeySafe)); !errors.As(err, &refused) || refused.Code != "hold" {
		d.Fatalf("while held: %v, want a refusal", err)
	}
	if res := d.begin("allowed"); res.Answer != ledger.AnswerRefused || res.Operation.ID != allowed.ID {
		d.Fatalf("while held, the pipeline that came for its permission was told %s", res.Answer)
	}
	d.ok(d.s.LiftHold(ctx, ledger.Lift{Scope: "kind:card.charge", Actor: maya, Reason: "it is up", ChangeID: d.id("change")}))
	need.Equal(d, d.begin("allowed").Answer, ledger.AnswerBegun, "after the hold")
}

// beginsHeld: a hold on begins stops machines until it is over. What is in flight settles, and what was sent elsewhere
// is recorded.
func beginsHeld(d *desk) {
	flying, proven := d.begun("flying"), d.settle(d.begun("proven").Attempt.ID, ledger.OutcomeFailed)
	allowed := d.allow(d.doubt("allowed"), ledger.BasisRiskAccepted)
	until := d.clock.Now().Add(30 * time.Minute)
	d.ok(d.s.Hold(ctx, ledger.Hold{Scope: "downstream:bank", Kinds: []string{"card.charge"}, Begins: true, Actor: maya, Reason: "restore", Until: until,
		ChangeID: d.id("change")}))
	d.ok(d.s.Hold(ctx, ledger.Hold{Scope: "all", Actor: maya, Reason: "night", ChangeID: d.id("change")}))
	for _, key := range []string{"new", "proven", "allowed"} {
		res := d.begin(key)
		need.Must(d, res.Answer == ledger.AnswerHeld && strings.Contains(res.Why, "restore") && res.Until.Equal(until), "%s: %+v", key, res)
	}
	_, err := d.s.Read(ctx, ledger.ByName("card.charge", "", "new"))
	need.That(d, errors.Is(err, ledger.ErrNotFound), "what is held is recorded: %v", err)
	need.Equal(d, d.read(proven.ID).Operation.Version, proven.Version, "what was proven has moved")
	rec := d.read(allowed.ID)
	need.That(d, rec.OpenAllowed() != nil, "the permission is gone")
	need.Equal(d, d.begin("flying").Answer, ledger.AnswerInProgress, "what is in flight")
	need.Equal(d, d.settle(flying.Attempt.ID, ledger.OutcomeCommitted).State, ledger.Committed, "and settles")
	need.Equal(d, d.begin("flying").Answer, ledger.AnswerFinished, "and is answered")
	need.Equal(d, d.begin("else", func(r *ledger.BeginRequest) { r.Kind = "mail.send" }).Answer, ledger.AnswerBegun, "another kind")
	need.Equal(d, d.begin("by hand", func(r *ledger.BeginRequest) { r.Actor = maya }).Answer, ledger.AnswerBegun, "a person's")
	need.Equal(d, d.begin("before", func(r *ledger.BeginRequest) { r.SentAt = d.clock.Now().Add(-time.Hour) }).Answer, ledger.AnswerBegun, "what was sent")
	d.clock.Advance(30 * time.Minute)
	need.Equal(d, d.begin("new").Answer, ledger.AnswerBegun, "when it is over")
	need.Equal(d, d.begin("allowed").Answer, ledger.AnswerRefused, "under the other hold")
}

// What was allowed was allowed before the newer one came: sending it now might
// undo that.
func overtakenWhileWaiting(d *desk) {
	target := func(r *ledger.BeginRequest) { r.Target = "deploy web" }
	for _, basis := range []ledger.Basis{ledger.BasisKeySafe, ledger.BasisRiskAccepted} {
		key := string(basis)
		o := d.allow(d.doubt(key, target), basis)
		newer := d.begun("newer than "+key, target)
		if basis == ledger.BasisKeySafe { // also where it had no effect
			d.settle(newer.Attempt.ID, ledger.OutcomeFailed)
		}
		res := d.begin(key, target)
		if res.Answer != ledger.AnswerRefused || !strings.Contains(res.Why, newer.Operation.ID) || !strings.Contains(res.Why, "maya") {
			d.Fatalf("%s: its pipeline was told %s (%s)", basis, res.Answer, res.Why)
		}
		rec := d.read(o.ID)
		need.Must(d, rec.OpenAllowed() == nil && rec.Allowed[0].VoidReason != "" && rec.Operation.State == ledger.Uncertain && len(rec.Attempts) == 1, "%s: %+v", basis, rec.Allowed)
		evs := d.events(o.ID)
		if last := evs[len(evs)-1]; last.Verb != "void" || last.Reason != rec.Allowed[0].VoidReason {
			d.Fatalf("the history ends with %+v", last)
		}
		if res := d.begin(key, target); res.Answer != ledger.AnswerInDoubt {
			d.Fatalf("%s: asked again, it was told %s", basis, res.Answer)
		}
		// A person who has seen the newer one may still allow it.
		d.allow(d.read(o.ID).Operation, ledger.BasisRiskAccepted)
		if res := d.begin(key, target); res.Answer != ledger.AnswerBegun {
			d.Fatalf("%s: allowed beside the newer one, it was told %s (%s)", basis, res.Answer, res.Why)
		}
	}
}
