package feed

import (
	"context"
	"time"

	"indoubt/ledger"

	tea "charm.land/bubbletea/v2"
)

const (
	// moment is how long a filter may search before what it found is shown, and stride
	// how long it searches from one look to the next.
	moment = 100 * time.Millisecond
	stride = 250 * time.Millisecond
)

// Search is how far a filter has come that needs more than a moment. The zero Search is
// none: the list is read whole by each look.
//
// The rows of a long search are found once. What is written meanwhile and later is
// followed: the operations that changed last are tried on the filter again, as many as
// there are new events, and rows that are known and changed are read by their id.
type Search struct {
	Running, Stopped bool
	Searched         int // about how many operations were searched
	Of               int // of so many

	long bool
	next string // cursor where it goes on
	want int    // rows to find before it waits for the cursor to come near
}

// Unfinished reports whether there may be rows that were not searched for.
func (s *Search) Unfinished() bool { return s.Running || s.Stopped }

// Stop ends a search with what it has found.
func (f *Feed) Stop() tea.Cmd {
	f.Search.Running, f.Search.Stopped = false, true
	f.forsake()
	return f.Reload()
}

// GoOn takes up a search that was stopped.
func (f *Feed) GoOn() tea.Cmd {
	if !f.Search.Stopped {
		return nil
	}
	f.Search.Running, f.Search.Stopped = true, false
	f.forsake()
	return f.Reload()
}

// forsake ends the looks that are under way; what they bring is dropped.
func (f *Feed) forsake() {
	f.gen++
	f.loading, f.resting, f.extending = false, false, false
	f.dropLooks()
	f.looks, f.dropLooks = context.WithCancel(f.ctx)
}

// searched takes in how far a look has come.
func (f *Feed) searched(msg *Looked) {
	s := &f.Search
	s.Of = msg.counts.All
	if msg.Tab == ledger.TabSettled {
		s.Of = msg.counts.Settled
	}
	left := msg.Limit - msg.found
	cut := left > 0 && msg.cursor != ""
	switch {
	case msg.missed && !s.Stopped: // more was written than one look follows: it is searched again
		*s = Search{Running: true, Of: s.Of, long: true, want: msg.Limit}
	case msg.steps || msg.after != "" && cut:
		s.Searched, s.next, s.want = s.Searched+msg.tried, msg.cursor, left
		s.Running, s.long = cut, true
	case msg.lately || !cut:
	case len(msg.Known) > 0: // a list that was read in a moment before, and is kept
		s.long = true
	default:
		*s = Search{Running: true, Searched: msg.tried, Of: s.Of, long: true, next: msg.cursor, want: left}
	}
}

// recent adds the rows in the list that changed since the look before: of the operations
// that were written last as many as there are new events.
func (msg *Looked) recent(ctx context.Context, store ledger.Lister) error {
	msg.Part = true
	q := ledger.Query{Tab: msg.Tab, Filter: msg.Filter, Order: ledger.OrderNewest, Now: msg.took, Limit: 500}
	q.Within = 1 // one step at a time
	msg.missed = msg.cut
	for began, tried := time.Now(), 0; tried < msg.events; {
		page, err := store.Page(ctx, q)
		if err != nil {
			return err
		}
		msg.add(page.Rows)
		if tried, q.After = tried+page.Searched, page.Next; q.After == "" {
			msg.missed = false
			return nil
		}
		if time.Since(began) > stride {
			msg.missed = msg.missed || tried < msg.events
			return nil
		}
	}
	return nil
}

// extends is the further page that a look has read.
func (msg *Looked) extends() *Page { return &Page{Rows: msg.more, Next: msg.cursor} }
