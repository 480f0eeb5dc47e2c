package feed

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"

	tea "charm.land/bubbletea/v2"
)

// nothing is an empty list on the screen.
type nothing struct{}

func (nothing) Wanted() Wanted { return Wanted{Tab: ledger.TabNeedsYou, Limit: 10} }
func (nothing) Chosen() *Row   { return nil }
func (nothing) Visible() []Row { return nil }

// The console leaves the ledger to its writers after each look: for several
// times what the look took, and for a fifth of a second while no key is pressed.
// Only then does it wait for the next commit.
func TestTheFeedRestsAfterALook(t *testing.T) {
	var rests []time.Duration
	waits := 0
	f := New(t.Context(), Options{Store: ledgertest.NewMemory(time.Now, nil), Shown: nothing{}, Clock: time.Now, Zone: time.UTC,
		After: func(d time.Duration, _ tea.Msg) tea.Cmd { rests = append(rests, d); return nil },
		Wait:  func(<-chan struct{}) tea.Cmd { waits++; return nil }})
	f.Now = time.Now()
	look := func(took time.Duration, lastKey time.Time) time.Duration {
		t.Helper()
		f.LastKey, f.waiting = lastKey, true
		f.Update(Changed{})
		for range 3 { // what else comes until the pause is over starts no second look
			f.Reload()
		}
		before, gen := len(rests), f.gen
		f.Update(Looked{Wanted: Wanted{gen: gen}, cost: took})
		if waits > 0 || len(rests) != before+1 {
			t.Fatalf("%d waits for a commit and %d pauses after one look", waits, len(rests)-before)
		}
		f.Update(Rested{gen - 1}) // of a list left since
		f.Update(Rested{gen})
		if waits != 1 || f.gen != gen+1 {
			t.Fatalf("after the pause: %d waits, %d looks", waits, f.gen-gen)
		}
		f.Update(Looked{Wanted: Wanted{gen: gen + 1}})
		f.Update(Rested{gen + 1})
		waits = 0
		return rests[before]
	}
	for _, c := range []struct {
		took    time.Duration
		lastKey time.Time
		rest    time.Duration
	}{
		{time.Millisecond, f.Now, time.Second / FramesPerSecond},
		{30 * time.Millisecond, f.Now, 120 * time.Millisecond},
		{time.Millisecond, f.Now.Add(-time.Minute), restUnwatched},
		{time.Millisecond, time.Time{}, restUnwatched},
		{100 * time.Millisecond, time.Time{}, 400 * time.Millisecond},
		{5 * time.Second, time.Time{}, restAtMost},
	} {
		if got := look(c.took, c.lastKey); got != c.rest {
			t.Errorf("a look of %s, the last key at %s: a rest of %s, not %s", c.took, c.lastKey, got, c.rest)
		}
	}
}
