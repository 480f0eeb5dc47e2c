package feed_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ui/console/feed"
	"indoubt/ui/console/table"

	tea "charm.land/bubbletea/v2"
)

// hasty searches one step of a list for each page, however fast the machine is, and
// counts how many operations were searched.
type hasty struct {
	ledger.Store
	tried int
	block chan bool // a page takes until it is given up; it says when it begins and ends
}

func (h *hasty) Page(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	if h.block != nil {
		h.block <- true
		<-ctx.Done()
		h.block <- false
		return ledger.Page{}, ctx.Err()
	}
	q.Within = min(q.Within, 1)
	page, err := h.Store.Page(ctx, q)
	h.tried += page.Searched
	return page, err
}

// follower is a feed and its list without a screen: each step carries out one command.
type follower struct {
	t     *testing.T
	store *hasty
	feed  *feed.Feed
	table *table.Table
	cmds  []tea.Cmd
}

func follow(t *testing.T, s ledger.Store, tab ledger.Tab, order ledger.Order) *follower {
	t.Helper()
	f := &follower{t: t, store: &hasty{Store: s}, table: table.New(ledger.Filter{})}
	f.table.Tab, f.table.Height = tab, 10
	f.table.SetOrder(order)
	f.feed = feed.New(t.Context(), feed.Options{Store: f.store, Shown: f.table, Clock: time.Now, Zone: time.UTC,
		After: func(_ time.Duration, msg tea.Msg) tea.Cmd { return func() tea.Msg { return msg } },
		Wait:  func(<-chan struct{}) tea.Cmd { return nil }})
	return f
}

// filter shows another selection.
func (f *follower) filter(text string) {
	f.t.Helper()
	filter := need.Get(ledger.ParseFilter(text))(f.t)
	f.table.SetFilter(filter)
	f.feed.Now = time.Now()
	f.cmds = []tea.Cmd{f.feed.Restart()}
}

// step carries out the next command; false when there is none.
func (f *follower) step() bool {
	f.t.Helper()
	for len(f.cmds) > 0 {
		cmd := f.cmds[0]
		if f.cmds = f.cmds[1:]; cmd == nil {
			continue
		}
		f.feed.Now = time.Now()
		news, next := f.feed.Update(cmd())
		need.Must(f.t, f.feed.Lost == nil, "%v", f.feed.Lost)
		if news.More != nil {
			f.table.Extend(news.More.Rows, news.More.Next, time.Now())
		}
		if news.Page != nil {
			f.table.Take(news.Page, false, f.feed.Now)
		}
		f.cmds = append(f.cmds, next)
		return true
	}
	return false
}

// rest carries out all that is left.
func (f *follower) rest() {
	f.t.Helper()
	for f.step() {
	}
}

// changed has the feed look again, as after a commit.
func (f *follower) changed() {
	f.t.Helper()
	_, cmd := f.feed.Update(feed.Changed{})
	f.cmds = append(f.cmds, cmd)
	f.rest()
}

// shows compares the list with what a search from end to end finds, less what is not
// reached yet.
func (f *follower) shows(missing int) {
	f.t.Helper()
	q := ledger.Query{Tab: f.table.Tab, Filter: f.table.Filter, Order: f.table.Order(), Now: time.Now(), Limit: 1000}
	page := need.Get(f.store.Store.Page(f.t.Context(), q))(f.t)
	var want, got []string
	for _, r := range page.Rows[:len(page.Rows)-missing] {
		want = append(want, fmt.Sprint(r.Title, "@", r.Version))
	}
	for _, r := range f.table.Items {
		if r.Gone.Empty() {
			got = append(got, fmt.Sprint(r.Row.Title, "@", r.Row.Version))
		}
	}
	need.That(f.t, slices.Equal(want, got), "the list has %q, a search from end to end %q", got, want)
}

// settled is a ledger with operations that are done.
func settled(t *testing.T, operations, every int) (s ledger.Store, begin func(title string) string) {
	t.Helper()
	s = need.Get(open.Create(t.Context(), t.TempDir()+"/ledger.db", open.Options{}))(t)
	t.Cleanup(func() { s.Close() })
	actor := ledger.Actor{Name: "billing", Machine: true}
	begin = func(title string) string {
		b, err := ledger.Begin(t.Context(), s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay", Key: title, Title: title,
			Token: ledger.NewToken(), Input: []byte(`{}`), Deadline: time.Minute, Actor: actor})
		if err == nil {
			_, err = ledger.Settle(t.Context(), s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: b.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: actor})
		}
		if err != nil {
			t.Error(err)
			return ""
		}
		return b.Operation.ID
	}
	for from := 0; from < operations; from += every {
		var some sync.WaitGroup
		for n := range every {
			some.Go(func() { begin(fmt.Sprintf("hay %d", from+n)) })
		}
		some.Wait()
		begin(fmt.Sprintf("needle %d", from))
	}
	return s, begin
}

// A filter that does not reach the end of its list in a moment goes on in steps. What
// is written meanwhile is followed, and starts no search anew.
func TestASearchGoesInSteps(t *testing.T) {
	t.Parallel()
	const operations, every = 1000, 250
	s, begin := settled(t, operations, every)
	decide := func(id string, version int64, verb ledger.Verb) {
		t.Helper()
		need.Get(ledger.Decide(t.Context(), s, ledger.Decision{ChangeID: ledger.NewID(), ID: id, Version: version, Verb: verb, Reason: "r", Actor: ledger.Actor{Name: "sam", Terminal: true}}))(t)
	}
	for _, order := range []ledger.Order{ledger.OrderNewest, ledger.OrderOldest} {
		t.Run(string(order), func(t *testing.T) {
			f := follow(t, s, ledger.TabSettled, order)
			f.filter("needle state:committed")
			f.step()
			if n := len(f.table.Items); !f.feed.Search.Running || f.feed.Search.Searched != 400 || n > 2 {
				t.Fatalf("after a moment %+v, %d rows", f.feed.Search, n)
			}
			for len(f.table.Items) == 0 {
				f.step()
			}
			fresh := begin("needle of " + string(order))
			known := f.table.Items[0].ID
			decide(known, 2, ledger.VerbUndo)
			decide(known, 3, ledger.VerbConfirm)
			f.step()
			need.That(t, f.table.Find(fresh) >= 0 && f.table.Items[f.table.Find(known)].Row.Version == 4, "what was written during the search is not in the list: %+v", f.table.Items)
			decide(known, 4, ledger.VerbUndo) // it leaves the list
			for f.feed.Search.Running {
				f.step()
			}
			f.rest()
			f.shows(0)
			if all := operations + 10; f.store.tried > 2*all {
				t.Errorf("%d operations were searched, of %d", f.store.tried, all)
			}
			for range 4 { // what is written later costs no search either
				f.store.tried = 0
				decide(fresh, 2, ledger.VerbUndo)
				fresh = begin("needle " + ledger.NewID())
				f.changed()
				f.shows(0)
				need.That(t, f.store.tried <= 800, "after two changes %d operations were searched", f.store.tried)
			}
		})
	}
}

// A search that is stopped keeps what it has found, is not taken up by what is written,
// and goes on where it stopped when that is asked for.
func TestASearchIsStoppedAndGoesOn(t *testing.T) {
	t.Parallel()
	s, begin := settled(t, 1000, 250)
	f := follow(t, s, ledger.TabAll, ledger.OrderNewest)
	f.filter("needle")
	f.step()
	found := len(f.table.Items)
	f.cmds = append(f.cmds, f.feed.Stop())
	f.rest()
	begin("needle at last")
	f.changed()
	if got := len(f.table.Items); got != found+1 || f.feed.Search.Running || !f.feed.Search.Stopped || !f.feed.Search.Unfinished() {
		t.Fatalf("%d rows were found, %d after it was stopped: %+v", found, got, f.feed.Search)
	}
	f.shows(4 - found)
	need.That(t, f.feed.More(f.table.Next) == nil, "the cursor takes up a search that was stopped")
	f.cmds = append(f.cmds, f.feed.GoOn())
	f.store.tried = 0
	f.rest()
	f.shows(0)
	need.That(t, !f.feed.Search.Unfinished() && f.store.tried <= 1000, "it went on over %d operations to %+v", f.store.tried, f.feed.Search)
}

// Another filter ends the search that is under way at once.
func TestAnotherFilterEndsTheSearch(t *testing.T) {
	t.Parallel()
	s, begin := settled(t, 0, 1)
	begin("needle")
	f := follow(t, s, ledger.TabAll, ledger.OrderNewest)
	f.store.block = make(chan bool)
	f.filter("hay")
	under := f.cmds[0]
	done := make(chan tea.Msg)
	go func() { done <- under() }()
	<-f.store.block
	f.filter("needle")
	select {
	case <-f.store.block:
	case <-time.After(time.Minute):
		t.Fatal("the search before still runs")
	}
	f.store.block = nil
	f.feed.Update(<-done)
	f.rest()
	f.shows(0)
	need.That(t, f.feed.Lost == nil && len(f.table.Items) == 1, "%v, %d rows", f.feed.Lost, len(f.table.Items))
}
