package ledgertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func events(t *testing.T, open Open) {
	d := newDesk(t, open)
	var ids []string
	for _, key := range []string{"a", "b", "c"} {
		ids = append(ids, d.decide(d.doubt(key), ledger.VerbConfirm).ID)
	}
	all := d.events("")
	need.Must(d, len(all) == 9, "%d events, want 9", len(all))
	for i, e := range all {
		if i > 0 && (e.Seq <= all[i-1].Seq || e.At.Before(all[i-1].At)) {
			d.Fatalf("event %d (seq %d) comes after seq %d", i, e.Seq, all[i-1].Seq)
		}
		need.Must(d, e.Detail == nil || json.Valid(e.Detail), "the detail of event %d is no JSON: %s", e.Seq, e.Detail)
	}
	if own := d.events(ids[1]); len(own) != 3 || own[0].OperationID != ids[1] || own[0].Seq != all[3].Seq {
		d.Fatalf("the events of b are %+v", own)
	}
	info, err := d.s.Info(ctx)
	d.ok(err)
	reversed := slices.Clone(all)
	slices.Reverse(reversed)
	for _, limit := range []int{1, 2, 4, 9, 100} {
		for _, beginning := range []ledger.Cursor{"", "0"} {
			got, place := d.follow(beginning, limit)
			d.same(fmt.Sprintf("the feed in pages of %d", limit), got, all)
			if got, _ = d.follow(place, limit); len(got) > 0 {
				d.Fatalf("behind the feed come %+v", got)
			}
		}
		d.same(fmt.Sprintf("the history, newest first, in pages of %d", limit), d.back(ledger.HistoryQuery{Limit: limit}), reversed)
	}
	// A place divides the history in what was seen there and what was not.
	for seen := range len(all) {
		place := ledger.Cursor("0")
		if seen > 0 {
			_, place, err = d.s.Follow(ctx, "", seen)
			d.ok(err)
		}
		d.same("what was seen", d.history(ledger.HistoryQuery{Until: place, Limit: 100}), all[:seen])
		d.same("what was not", d.history(ledger.HistoryQuery{Since: place, Limit: 100}), all[seen:])
		d.same("what was not, of b", d.history(ledger.HistoryQuery{Operation: ids[1], Since: place, Limit: 100}), all[max(3, min(seen, 6)):6])
		d.same("what was not, of b and others", d.history(ledger.HistoryQuery{Among: []string{ids[1], "", "other"}, Since: place, Limit: 100}), all[max(3, min(seen, 6)):6])
		d.same("what was seen, newest first", d.back(ledger.HistoryQuery{Until: place, Limit: 2}), reversed[9-seen:])
	}
	d.same("what the ledger says was seen", d.history(ledger.HistoryQuery{Until: info.Cursor, Limit: 100}), all)
	if late, _ := d.follow(info.Cursor, 100); len(late) > 0 {
		d.Fatalf("behind the place of now come %+v", late)
	}
	for _, wrong := range []ledger.Cursor{"x", "-1", "1 ", "01", "1.5", "99999999999999999999", "1:2:3:4:5:6"} {
		_, _, err1 := d.s.Follow(ctx, wrong, 1)
		_, err2 := d.s.History(ctx, ledger.HistoryQuery{Since: wrong, Limit: 1})
		_, err3 := d.s.History(ctx, ledger.HistoryQuery{Until: wrong, Limit: 1})
		for _, err := range []error{err1, err2, err3} {
			if no := (*ledger.CursorError)(nil); !errors.As(err, &no) || no.Cursor != wrong {
				d.Fatalf("the place %q: %v", wrong, err)
			}
		}
	}
	if info.LastSeq != all[8].Seq || !info.LastWrite.Equal(all[8].At) || info.LastBy != "billing" || info.LastError.IsZero() || info.ID == "" {
		d.Fatalf("the ledger says of itself %+v", info)
	}
}

func (d *desk) history(q ledger.HistoryQuery) []ledger.Event {
	d.Helper()
	page := need.Get(d.s.History(ctx, q))(d)
	need.Must(d, len(page) <= q.Limit, "%d events, asked for %d", len(page), q.Limit)
	return page
}

// back reads the history from its end, page by page.
func (d *desk) back(q ledger.HistoryQuery) (all []ledger.Event) {
	d.Helper()
	for q.Newest = true; ; {
		page := d.history(q)
		if len(page) == 0 {
			return all
		}
		all, q.Before = append(all, page...), page[len(page)-1].Seq
	}
}

// follow reads what there is after a place, page by page.
func (d *desk) follow(place ledger.Cursor, limit int) (all []ledger.Event, _ ledger.Cursor) {
	d.Helper()
	for {
		page, next, err := d.s.Follow(ctx, place, limit)
		d.ok(err)
		need.Must(d, len(page) <= limit, "%d events, asked for %d", len(page), limit)
		if all, place = append(all, page...), next; len(page) == 0 {
			return all, place
		}
	}
}

func (d *desk) same(what string, got, want []ledger.Event) {
	d.Helper()
	seqs := func(events []ledger.Event) (out []int64) {
		for _, e := range events {
			out = append(out, e.Seq)
		}
		return out
	}
	if !slices.Equal(seqs(got), seqs(want)) {
		d.Fatalf("%s: %d, want %d", what, seqs(got), seqs(want))
	}
}

// fullPages holds that a page is shorter than asked for only where there is no more, also where
// it would end between two events of one transaction.
func fullPages(t *testing.T, open Open) {
	lost := newDesk(t, open).begun("lost")
	d := newDesk(t, open)
	d.n = 100
	d.begun("before")
	d.settleSent(lost, ledger.OutcomeCommitted) // writes its begin and its outcome
	d.begun("after")
	all := d.events("")
	need.Must(d, len(all) == 4, "%d events, want 4", len(all))
	for limit := 1; limit <= 5; limit++ {
		var got []ledger.Event
		for place, last := ledger.Cursor(""), false; !last; {
			page, next, err := d.s.Follow(ctx, place, limit)
			d.ok(err)
			got, place, last = append(got, page...), next, len(page) < limit
		}
		d.same(fmt.Sprintf("the feed in full pages of %d", limit), got, all)
		_, whole, err := d.s.OutagesSince(ctx, "", limit)
		need.That(d, whole == (limit >= len(all)) && err == nil, "%d events are all: %t, %v", limit, whole, err)
	}
}

// followers read while many write: each sees each event once, whatever its page, and
// one that looks back from its place sees what it will not follow.
func followers(t *testing.T, open Open) {
	d := newDesk(t, open)
	const writers = 8
	rounds := need.Steps(4, 12)
	requests := d.requests("k", writers*rounds)
	var writing, reading sync.WaitGroup
	written := make(chan struct{})
	type follower struct {
		back  bool
		limit int
		seen  []ledger.Event
	}
	all := make([]follower, 8)
	for i := range all {
		f := &all[i]
		f.limit, f.back = []int{1, 2, 7, 1000}[i%4], i >= 4
		reading.Go(func() {
			var place ledger.Cursor
			if f.back {
				time.Sleep(time.Duration(i) * time.Millisecond)
				info, err := d.s.Info(ctx)
				if err == nil {
					f.seen, err = d.s.History(ctx, ledger.HistoryQuery{Until: info.Cursor, Limit: 10_000})
				}
				if place = info.Cursor; err != nil {
					d.Errorf("read: %v", err)
					return
				}
			}
			for last := false; ; {
				page, next, err := d.s.Follow(ctx, place, f.limit)
				if err != nil {
					d.Errorf("read: %v", err)
					return
				}
				f.seen, place = append(f.seen, page...), next
				if len(page) > 0 {
					continue
				}
				if last {
					return
				}
				select {
				case <-written:
					last = true
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	for w := range writers {
		writing.Go(func() {
			for n := range rounds {
				req := requests[w*rounds+n]
				req.Key = fmt.Sprintf("k%d.%d", w, n)
				res, err := ledger.Begin(ctx, d.s, req)
				if err == nil {
					_, err = ledger.Settle(ctx, d.s, ledger.SettleRequest{ChangeID: "s" + req.ChangeID, AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, Status: -1, Actor: billing})
				}
				need.That(d, err == nil, "write: %v", err)
			}
		})
	}
	writing.Wait()
	close(written)
	reading.Wait()
	want := d.events("")
	need.Must(d, len(want) == 2*writers*rounds, "%d events of %d writes", len(want), 2*writers*rounds)
	for i, f := range all {
		slices.SortFunc(f.seen, func(a, b ledger.Event) int { return cmp.Compare(a.Seq, b.Seq) })
		d.same(fmt.Sprintf("follower %d", i), f.seen, want)
	}
}

func watch(t *testing.T, open Open) {
	d := newDesk(t, open)
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	w := d.s.Watch(wctx)
	drain := func() {
		for {
			select {
			case <-w:
			case <-time.After(50 * time.Millisecond):
				return
			}
		}
	}
	drain()
	for i := range 3 {
		d.begun(string(rune('a' + i)))
		select {
		case <-w:
		case <-time.After(time.Minute):
			d.Fatalf("commit %d went unnoticed", i+1)
		}
		drain()
	}
	stop()
	for deadline := time.After(time.Minute); ; {
		select {
		case _, more := <-w:
			if !more {
				return
			}
		case <-deadline:
			d.Fatalf("the channel stays open after its context ended")
		}
	}
}
