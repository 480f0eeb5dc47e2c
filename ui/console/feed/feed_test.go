package feed

import (
	"errors"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
)

// nothing is an empty list on the screen.
type nothing struct{}

func (nothing) Wanted() Wanted { return Wanted{Tab: ledger.TabNeedsYou, Limit: 10} }
func (nothing) Chosen() *Row   { return nil }
func (nothing) Visible() []Row { return nil }

// The console leaves the ledger to its writers after each look: for several
// times what the look took, and far longer while no key is pressed.
// Only then does it wait for the next commit.
func TestTheFeedRestsAfterALook(t *testing.T) {
	var rests []time.Duration
	waits := 0
	f := New(t.Context(), Options{Store: ledgertest.NewMemory(time.Now, nil), Shown: nothing{}, Clock: time.Now, Zone: time.UTC,
		After: func(d time.Duration, _ tea.Msg) tea.Cmd { rests = append(rests, d); return nil },
		Wait:  func(<-chan struct{}) tea.Cmd { waits++; return nil }})
	f.Now = time.Now()
	look := func(took time.Duration, lastKey time.Time, busy int) time.Duration {
		t.Helper()
		f.LastKey, f.waiting = lastKey, true
		f.Update(Changed{})
		for range 3 { // what else comes until the pause is over starts no second look
			f.Reload()
		}
		before, gen := len(rests), f.gen
		f.busy = busy
		f.Update(Looked{Wanted: Wanted{gen: gen}, cost: took})
		if waits > 0 || len(rests) != before+1 {
			t.Fatalf("%d waits for a commit and %d pauses after one look", waits, len(rests)-before)
		}
		f.Update(Rested{gen - 1}) // of a list left since
		f.Update(Rested{gen})
		if waits != 1 || f.gen != gen+1 {
			t.Fatalf("after the pause: %d waits, %d looks", waits, f.gen-gen)
		}
		if f.busy != busy+1 {
			t.Fatalf("a look that followed at once counts as %d in a row, not %d", f.busy, busy+1)
		}
		f.Update(Looked{Wanted: Wanted{gen: gen + 1}})
		f.Update(Rested{gen + 1})
		waits = 0
		return rests[before]
	}
	for _, c := range []struct {
		took    time.Duration
		lastKey time.Time
		busy    int
		rest    time.Duration
	}{
		{time.Millisecond, f.Now, 9, restAtKeys},
		{30 * time.Millisecond, f.Now, 9, 270 * time.Millisecond},
		{time.Millisecond, f.Now.Add(-time.Minute), 9, restAtLeast},
		{time.Millisecond, time.Time{}, 9, restAtLeast},
		{60 * time.Millisecond, time.Time{}, 0, 540 * time.Millisecond},
		{20 * time.Millisecond, time.Time{}, 2, 720 * time.Millisecond},
		{20 * time.Millisecond, time.Time{}, 99, 800 * time.Millisecond},
		{5 * time.Second, time.Time{}, 9, restAtMost},
	} {
		need.Equal(t, look(c.took, c.lastKey, c.busy), c.rest, "a look of", c.took, c.lastKey)
	}
}

// However much was written about others, a look finds what was written about the
// rows on the screen, and takes the rest for changed.
func TestALookFindsWhatChangedBesideABusyWriter(t *testing.T) {
	s := ledgertest.NewMemory(time.Now, nil)
	begin := func(key string) string {
		t.Helper()
		r := need.Get(ledger.Begin(t.Context(), s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay", Key: key, Token: ledger.NewToken(),
			Input: []byte(`{}`), Deadline: time.Minute, Actor: ledger.Actor{Name: "billing", Machine: true}}))(t)
		return r.Operation.ID
	}
	noted, quiet, below := begin("noted"), begin("quiet"), begin("below")
	for name, others := range map[string]int{"a quiet ledger": 3, "a busy one": 3 * manyEvents} {
		info := need.Get(s.Info(t.Context()))(t)
		for range others {
			begin(ledger.NewID())
		}
		need.Get(ledger.Decide(t.Context(), s, ledger.Decision{ChangeID: ledger.NewID(), ID: noted, Verb: ledger.VerbNote, Reason: "r", Actor: ledger.Actor{Name: "sam"}}))(t)
		one := func() *Brief { return &Brief{ticket: ticket.Ticket{Record: &ledger.Record{}}} }
		f := &Feed{briefs: map[string]*Brief{noted: one(), quiet: one(), below: one()}, o: Options{Shown: nothing{}}}
		msg := look(t.Context(), s, Wanted{Tab: ledger.TabInFlight, Limit: 10, Known: []string{noted, quiet, below}, Visible: 2}, time.Now(), info.Cursor)
		need.Must(t, msg.err == nil, "%v", msg.err)
		msg.Rows = nil // only the history tells
		f.took(msg)
		if busy := others > manyEvents; !f.briefs[noted].old || f.briefs[quiet].old || f.briefs[below].old != busy {
			t.Errorf("%s: of what was noted %t is read again, of what was not %t, of what is not on the screen %t", name, f.briefs[noted].old, f.briefs[quiet].old, f.briefs[below].old)
		}
		if now, _ := s.Info(t.Context()); msg.place != now.Cursor {
			t.Errorf("%s: the next look begins at %s, not %s", name, msg.place, now.Cursor)
		}
	}
}

// A console that was opened over a standby is opened anew once that is promoted, and
// stays as it is while it cannot be.
func TestAPromotedStandbyIsOpenedAnew(t *testing.T) {
	here, anew := ledgertest.NewMemory(time.Now, nil), ledgertest.NewMemory(time.Now, nil)
	var fails error
	f := New(t.Context(), Options{Store: here, Shown: nothing{}, Clock: time.Now, After: func(time.Duration, tea.Msg) tea.Cmd { return nil }, Wait: func(<-chan struct{}) tea.Cmd { return nil },
		Reopen: func(reads func(ledger.Store) error) (ledger.Store, error) {
			return anew, errors.Join(fails, reads(anew))
		}})
	f.Now = time.Now()
	f.lastLook = f.Now
	need.Must(t, f.Tick() == nil, "a ledger that stays what it was is opened anew")
	f.Info.Promoted, fails = true, errors.New("not yet")
	f.Update(f.Tick()())
	need.Must(t, f.Store == ledger.Store(here) && f.Lost == nil, "what cannot be opened took over")
	need.That(t, f.Tick() == nil, "it is tried again at once")
	fails, f.Now = nil, f.Now.Add(3*time.Second)
	if news, _ := f.Update(f.Tick()()); !news.Other || f.Store != ledger.Store(anew) {
		t.Error("it is not opened anew")
	}
}
