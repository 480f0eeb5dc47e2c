package console

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Two people at two consoles see of each other which row they are at, and who has a
// dialog open on it. It costs the ledger neither a version nor an event.
func TestTwoPeopleSeeEachOther(t *testing.T) {
	b := nightBench(t, 120, 40)
	events := func() int {
		t.Helper()
		all := need.Get(b.store.History(t.Context(), ledger.HistoryQuery{Limit: 10_000}))(t)
		return len(all)
	}
	before, version := events(), b.op(id(2)).Version
	sam := ledger.Presence{Console: "his", Person: "sam", Subject: id(2), Until: b.now.Add(ledger.PresenceLasts)}
	attend := func(p ledger.Presence) {
		t.Helper()
		need.OK(t, b.store.Attend(t.Context(), p))
		b.tickOver(6 * time.Second)
	}
	attend(sam)
	b.cursorOn(2).shows(" HERE TOO sam is looking")
	sam.Asks = true
	attend(sam)
	b.shows("sam has a dialog open on it").keys("X").shows("HERE TOO", "sam has a dialog open on it")
	mine := func() ledger.Presence {
		t.Helper()
		all := need.Get(b.store.Attending(t.Context()))(t)
		for _, p := range all {
			if p.Person == "maya" {
				return p
			}
		}
		return ledger.Presence{}
	}
	if p := mine(); p.Subject != id(2) || !p.Asks {
		t.Errorf("with her dialog open maya is at %+v", p)
	}
	b.keys("esc").tickOver(6 * time.Second)
	if p := mine(); p.Subject != id(2) || p.Asks {
		t.Errorf("without it maya is at %+v", p)
	}
	b.tickOver(10 * time.Minute) // no key: she is gone, and so is sam
	if p := mine(); p.Subject != "" {
		t.Errorf("after ten minutes maya is at %+v", p)
	}
	b.hides("is looking", "has a dialog open")
	if n := events(); n != before || b.op(id(2)).Version != version {
		t.Errorf("it cost %d events, and version %d after %d", n-before, b.op(id(2)).Version, version)
	}
}

// A console that only looks tells no one anything.
func TestAReadOnlyConsoleIsNotPresent(t *testing.T) {
	o := nightOptions()
	o.ReadOnly = true
	b := newBench(t, 80, 24, o)
	b.keys("j", "k").tickOver(time.Minute)
	if all, err := b.store.Attending(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%+v %v", all, err)
	}
}
