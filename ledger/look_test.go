package ledger

import (
	"testing"
	"time"

	"indoubt/ledger/need"
)

// I6: what may be lost is over when the adoption and its deadline were: by the steady clock since a process knew of that.
func TestI6_WhatMayBeLostIsOverWithTheAdoption(t *testing.T) {
	adopted := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	a := Attempt{N: 1, Sender: SenderForgotten, StartedAt: adopted.Add(-time.Hour), DeadlineAt: adopted.Add(time.Minute)}
	rec := Record{Gap: adopted, GapSeen: Steady{Boot: "b", At: time.Hour}, Steady: Steady{Boot: "b", At: time.Hour + 10*time.Minute}}
	waits := func(what string, want time.Duration, rec Record, a Attempt) {
		t.Helper()
		waited, seen := rec.Waited(a)
		need.That(t, waited == want && seen == (want > 0), "%s: %s, %t", what, waited, seen)
	}
	waits("ten minutes less its deadline", 9*time.Minute, rec, a)
	early := rec
	early.Steady.At = time.Hour + 30*time.Second
	waits("within its deadline", 0, early, a)
	other := rec
	other.GapSeen.Boot = "c"
	waits("under another boot", 0, other, a)
	none := rec
	none.GapSeen = Steady{}
	waits("by no process", 0, none, a)
	stepped := rec
	stepped.Gap = adopted.Add(time.Hour)
	waits("after the clock was set", 0, stepped, a)
	a.Sender = "http"
	waits("of an attempt that is known", 0, rec, a)
}
