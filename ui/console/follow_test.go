package console

import (
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
)

// The console leaves the ledger to its writers after each look: for several
// times what the look took, and for a fifth of a second while no key is pressed.
// Only then does it wait for the next commit.
func TestTheConsoleRestsAfterALook(t *testing.T) {
	b := newBench(t, 80, 24, nightOptions())
	var rests []time.Duration
	waits := 0
	b.m.after = func(d time.Duration, msg tea.Msg) tea.Cmd {
		if _, ok := msg.(restedMsg); ok {
			rests = append(rests, d)
		}
		return nil
	}
	b.m.wait = func(<-chan struct{}) tea.Cmd { waits++; return nil }
	look := func(took time.Duration, lastKey time.Time) time.Duration {
		t.Helper()
		b.m.lastKey, b.m.waiting = lastKey, true
		b.m.Update(changedMsg{})
		for range 3 { // what else comes until the pause is over starts no second look
			b.m.reload()
		}
		before, gen := len(rests), b.m.loadGen
		b.m.Update(loadedMsg{wanted: wanted{gen: gen}, cost: took})
		if waits > 0 || len(rests) != before+1 {
			t.Fatalf("%d waits for a commit and %d pauses after one look", waits, len(rests)-before)
		}
		b.m.Update(restedMsg{gen - 1}) // of a list left since
		b.m.Update(restedMsg{gen})
		if waits != 1 || b.m.loadGen != gen+1 {
			t.Fatalf("after the pause: %d waits, %d looks", waits, b.m.loadGen-gen)
		}
		b.m.Update(loadedMsg{wanted: wanted{gen: gen + 1}})
		b.m.Update(restedMsg{gen + 1})
		waits = 0
		return rests[before]
	}
	now := b.m.now()
	for _, c := range []struct {
		took    time.Duration
		lastKey time.Time
		rest    time.Duration
	}{
		{time.Millisecond, now, time.Second / framesPerSecond},
		{30 * time.Millisecond, now, 120 * time.Millisecond},
		{time.Millisecond, now.Add(-time.Minute), restUnwatched},
		{time.Millisecond, time.Time{}, restUnwatched},
		{100 * time.Millisecond, time.Time{}, 400 * time.Millisecond},
		{5 * time.Second, time.Time{}, restAtMost},
	} {
		if got := look(c.took, c.lastKey); got != c.rest {
			t.Errorf("a look of %s, the last key at %s: a rest of %s, not %s", c.took, c.lastKey, got, c.rest)
		}
	}
}
