package sqlite

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
)

// A host that is renamed, a container that is made anew and a machine that starts
// again have the same file; a copy has another one.
func TestHomeIsToldByWhatACopyCannotHave(t *testing.T) {
	at := home{device: "1", inode: "7", born: "100", boot: "b1", machine: "m1"}
	with := func(change func(*home)) home {
		h := at
		change(&h)
		return h
	}
	for name, c := range map[string]struct {
		was, is home
		copied  string // part of why, "" for home
	}{
		"the same":                      {at, at, ""},
		"after a restart, other device": {at, with(func(h *home) { h.boot, h.device = "b2", "5" }), ""},
		"in a container":                {at, with(func(h *home) { h.machine = "" }), ""},
		"no birth times here":           {with(func(h *home) { h.born = "" }), at, ""},
		"a plain copy":                  {at, with(func(h *home) { h.inode = "8" }), "copied"},
		"a copy with a reused inode":    {at, with(func(h *home) { h.born = "200" }), "copied"},
		"a copy on a restarted host":    {at, with(func(h *home) { h.boot, h.born = "b2", "200" }), "copied"},
		"a snapshot mounted beside it":  {at, with(func(h *home) { h.device = "5" }), "copied"},
		"a disk on another machine":     {at, with(func(h *home) { h.boot, h.machine = "b2", "m2" }), "another machine"},
	} {
		if why := c.is.differs(c.was); (why == "") != (c.copied == "") || !strings.Contains(why, c.copied) {
			t.Errorf("%s: %q, want %q", name, why, c.copied)
		}
	}
}

// TestI13_AdoptedAtTheNewestEvent: where the event is here that was the newest when begins were held, and no attempt
// began after it, the ledger goes on as it is; else it may lack what was sent.
func TestI13_AdoptedAtTheNewestEvent(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	copied := func() string {
		to := filepath.Join(t.TempDir(), "copy.db")
		need.Get(s.Backup(ctx, to, 0))(t)
		return to
	}
	settleAs(t, s, begin(t, s).Attempt.ID, ledger.OutcomeCommitted)
	before := copied()
	c.Advance(time.Second)
	need.OK(t, s.Hold(ctx, ledger.Hold{Scope: "all", Begins: true, Actor: ann, Reason: "move", ChangeID: "held"}))
	to := copied()
	var no ledger.Trouble
	err := Adopt(ctx, before, Options{Actor: ann, At: "held"})
	need.That(t, errors.As(err, &no) && no.Code == "not_found", "a copy of before: %v", err)
	need.OK(t, Adopt(ctx, to, Options{Actor: ann, At: "held"}))
	moved := need.Get(Open(ctx, to, Options{Clock: c.Now, Steady: hostclock.With(c.Now)}))(t)
	defer moved.Close()
	need.Equal(t, need.Get(ledger.Begin(ctx, moved, request()))(t).Answer, ledger.AnswerHeld, "under the hold that came with it")
	need.OK(t, moved.LiftHold(ctx, ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: ann, Reason: "moved"}))
	rec := need.Get(moved.Read(ctx, ledger.Locator{ID: begin(t, moved).Operation.ID}))(t)
	need.That(t, rec.Gap.IsZero() && len(rec.Holds) == 0, "it lacks nothing: %s, %+v", rec.Gap, rec.Holds)

	need.OK(t, s.LiftHold(ctx, ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: ann, Reason: "over"}))
	c.Advance(time.Second)
	begin(t, s)
	err = Adopt(ctx, copied(), Options{Actor: ann, At: "held"})
	need.That(t, errors.As(err, &no) && no.Code == "moved", "attempts began since: %v", err)
}
