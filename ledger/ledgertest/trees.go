package ledgertest

import (
	"errors"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// trees follows attempts whose commands may leave processes behind.
func trees(t *testing.T, open Open) {
	for _, part := range []struct {
		name string
		run  func(*desk)
	}{
		{"I6_NothingIsAbsentWhileAProcessMayWrite", nothingAbsent},
		{"I6_AReadBeforeTheEndProvesNothing", readBeforeTheEnd},
		{"I6_AnEarlierAttemptsProcess", earlierProcess},
		{"I8_TheEndOfATreeIsTold", treeIsTold},
		{"SettleSeesIt", settleSeesIt},
		{"AnotherAccountsProcess", anotherAccount},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(newDesk(t, open)) })
	}
}

var herePlace = ledger.Place{BootID: "boot-1", PIDNamespace: "pid:[4026531836]", UID: 1000}

func command(r *ledger.BeginRequest) {
	r.Sender, r.Tree, r.Place, r.Host, r.PID = "command", ledger.TreeOpen, herePlace, "batch-2", 42
}

func (d *desk) treeEmpty(attempt string) ledger.Applied {
	d.Helper()
	applied := need.Get(ledger.SeeTreeEmpty(ctx, d.s, ledger.TreeRequest{ChangeID: d.id("change"), AttemptID: attempt, Actor: engine}))(d)
	d.clock.Advance(time.Second)
	return applied
}

func nothingAbsent(d *desk) {
	o := d.doubt("k", command)
	a := d.read(o.ID).Attempts[0]
	need.Must(d, a.Tree == ledger.TreeOpen && a.Place == herePlace && a.TreeAt.IsZero(), "the attempt is %+v", a)
	d.want(d.observe(o, ledger.NotThere), ledger.Uncertain)
	rec := d.read(o.ID)
	if rec.Reads[0].Verdict != ledger.CannotTell || rec.Attempts[0].Proof != "" || rec.Operation.Version != o.Version {
		d.Fatalf("the read is %s, its attempt's proof %q", rec.Reads[0].Verdict, rec.Attempts[0].Proof)
	}
	// What a person says is no proof either, and a later read makes none of it.
	o = d.decide(rec.Operation, ledger.VerbDeny)
	d.want(o, ledger.Failed)
	d.observe(o, ledger.NotThere)
	if a := d.read(o.ID).Attempts[0]; a.Proof != "" {
		d.Fatalf("the proof is %q", a.Proof)
	}
	need.Equal(d, d.begin("k").Answer, ledger.AnswerRefused, "begin")
	d.treeEmpty(a.ID)
	d.observe(d.read(o.ID).Operation, ledger.NotThere)
	if a := d.read(o.ID).Attempts[0]; a.Proof != ledger.ProofNotThere || a.Tree != ledger.TreeEmpty {
		d.Fatalf("afterwards the proof is %q of a tree that is %s", a.Proof, a.Tree)
	}
}

func readBeforeTheEnd(d *desk) {
	o := d.doubt("k", command)
	early := d.observation(o, ledger.NotThere)
	d.clock.Advance(time.Second)
	d.treeEmpty(d.read(o.ID).Attempts[0].ID)
	applied := need.Get(ledger.Observe(ctx, d.s, early))(d)
	d.want(applied.After, ledger.Uncertain)
	d.clock.Advance(time.Second)
	d.want(d.observe(applied.After, ledger.NotThere), ledger.Failed)
}

// earlierProcess: the second attempt is over, what the first had started is not.
func earlierProcess(d *desk) {
	o := d.doubt("k", command)
	first := d.read(o.ID).Attempts[0]
	again := d.retry(o, ledger.BasisRiskAccepted)
	o = d.settle(again.Attempt.ID, ledger.OutcomeUncertain)
	d.want(d.observe(o, ledger.NotThere), ledger.Uncertain)
	if rec := d.read(o.ID); rec.OpenTree() == nil || rec.OpenTree().ID != first.ID {
		d.Fatalf("the open one is %v, want %s", rec.OpenTree(), first.ID)
	}
	d.treeEmpty(first.ID)
	d.want(d.observe(d.read(o.ID).Operation, ledger.NotThere), ledger.Failed)
}

func treeIsTold(d *desk) {
	o := d.doubt("k", command)
	a := d.read(o.ID).Attempts[0]
	at := d.clock.Now()
	if applied := d.treeEmpty(a.ID); applied.Noop || applied.Attempt.Tree != ledger.TreeEmpty {
		d.Fatalf("%+v", applied)
	}
	rec := d.read(o.ID)
	if a := rec.Attempts[0]; a.Tree != ledger.TreeEmpty || !a.TreeAt.Equal(at) || rec.Operation.Version != o.Version {
		d.Fatalf("tree %s at %s, version %d; want %s, version %d", a.Tree, a.TreeAt, rec.Operation.Version, at, o.Version)
	}
	evs := d.events(o.ID)
	if last := evs[len(evs)-1]; last.Verb != "tree" || last.Actor.Name != engine.Name || last.To != ledger.Uncertain {
		d.Fatalf("the last event is %+v", last)
	}
	if applied := d.treeEmpty(a.ID); !applied.Noop || len(d.events(o.ID)) != len(evs) {
		d.Fatalf("the second time changed something: %+v", applied)
	}
	none := d.doubt("no command")
	if applied := d.treeEmpty(d.read(none.ID).Attempts[0].ID); !applied.Noop {
		d.Fatalf("an attempt without a command: %+v", applied)
	}
	if _, err := ledger.SeeTreeEmpty(ctx, d.s, ledger.TreeRequest{ChangeID: d.id("change"), AttemptID: "nobody", Actor: engine}); !errors.Is(err, ledger.ErrNotFound) {
		d.Fatalf("an attempt that is not there: %v", err)
	}
}

// settleSeesIt: in time, and after the deadline had ended the attempt.
func settleSeesIt(d *desk) {
	empty := func(r *ledger.SettleRequest) { r.Tree = ledger.TreeEmpty }
	res := d.begun("k", command)
	at := d.clock.Now()
	d.settle(res.Attempt.ID, ledger.OutcomeUncertain, empty)
	if a := d.read(res.Operation.ID).Attempts[0]; a.Tree != ledger.TreeEmpty || !a.TreeAt.Equal(at) {
		d.Fatalf("%+v", a)
	}
	late := d.begun("late", command)
	d.clock.Advance(time.Hour)
	need.Equal(d, need.Get(d.s.Expire(ctx, 10))(d), 1, "expired")
	d.settle(late.Attempt.ID, ledger.OutcomeUncertain, empty)
	rec := d.read(late.Operation.ID)
	if a := rec.Attempts[0]; a.Tree != ledger.TreeEmpty || a.ErrorClass != ledger.ClassDeadline {
		d.Fatalf("%+v", a)
	}
	d.want(d.observe(rec.Operation, ledger.NotThere), ledger.Failed)
	none := d.begun("no command")
	d.settle(none.Attempt.ID, ledger.OutcomeUncertain, empty)
	if a := d.read(none.Operation.ID).Attempts[0]; a.Tree != ledger.TreeNone {
		d.Fatalf("%+v", a)
	}
}

// anotherAccount: what is left is another account's, so that only root can tell
// when it is gone.
func anotherAccount(d *desk) {
	foreign := func(r *ledger.SettleRequest) { r.TreeForeign = true }
	res := d.begun("k", command)
	d.settle(res.Attempt.ID, ledger.OutcomeUncertain, foreign)
	late := d.begun("late", command)
	d.clock.Advance(time.Hour)
	need.Get(d.s.Expire(ctx, 10))(d)
	d.settle(late.Attempt.ID, ledger.OutcomeUncertain, foreign)
	for _, id := range []string{res.Operation.ID, late.Operation.ID} {
		if a := d.read(id).Attempts[0]; a.Tree != ledger.TreeOpen || a.UID != 0 || a.BootID != herePlace.BootID {
			d.Fatalf("%+v", a)
		}
	}
}
