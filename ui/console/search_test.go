package console

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ui/console/feed"
)

// deep is a ledger in which each row of the list stands for a million operations, and a
// page of a search has time for two of them.
type deep struct{ ledger.Store }

const million = 1_000_000

func (d deep) Page(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	if q.Within == 0 || len(q.Filter.Terms) == 0 {
		return d.Store.Page(ctx, q)
	}
	from, _ := strconv.Atoi(q.After)
	filter := q.Filter
	q.Filter, q.After, q.Limit = ledger.Filter{}, "", 1000
	all, err := d.Store.Page(ctx, q)
	if err != nil {
		return ledger.Page{}, err
	}
	page := ledger.Page{Searched: 2 * million}
	for i, r := range all.Rows[from:] {
		if i == 2 {
			page.Next = strconv.Itoa(from + i)
			break
		}
		if filter.Match(r, q.Now) {
			page.Rows = append(page.Rows, r)
		}
	}
	return page, nil
}

func (d deep) Counts(ctx context.Context, now time.Time) (ledger.Counts, error) {
	c, err := d.Store.Counts(ctx, now)
	c.All, c.Settled = c.All*million, c.Settled*million
	return c, err
}

// deepBench is a console on every operation of a deep ledger, whose looks wait for
// release once the next key is pressed.
func deepBench(t *testing.T) *bench {
	o := nightOptions()
	o.Store = deep{o.Store}
	b := newBench(t, 80, 24, o).judged(nightFacts).keys("0")
	b.busy = true
	return b
}

// release carries out the looks that wait, and n times what follows from them.
func (b *bench) release(n int) *bench {
	for range n {
		held := b.held
		b.held = nil
		for _, cmd := range held {
			b.step(cmd)
		}
	}
	return b
}

func TestALongSearchShowsHowFarItHasCome(t *testing.T) {
	b := deepBench(t).text("/billing")
	b.hides("Nothing").release(1)
	b.shows("searched about 2.00M of 10.0M… ↵ keeps the filter", "charge cus_4Tz")
	b.keys("enter").shows("searched about 2.00M of 10.0M… esc stops")
	b.release(2).shows("searched about 6.00M of 10.0M… esc stops", "charge cus_4Tz", "payout 420.00")
	golden(t, "searching_80x24", b.screen())
	b.keys("esc").shows("stopped after about 6.00M of 10.0M: not all was searched", "payout 420.00").hides("charge cus_77a")
	b.release(9).shows("stopped after about 6.00M of 10.0M")
	golden(t, "search_stopped_80x24", b.screen())
	b.keys("/", "enter").release(1).shows("searched about 8.00M of 10.0M", "charge cus_77a").release(9)
	b.shows("charge cus_77a", "mail Receipt").hides("searched", "stopped")
	b.keys("esc").release(9).shows("deploy web").hides("searched")
}

// What is found so far is never taken for all there is.
func TestASearchThatHasFoundNothingYetSaysSo(t *testing.T) {
	b := deepBench(t).text("/bo@").release(1)
	b.shows("Nothing matches /bo@ so far.", "searched about 2.00M of 10.0M").hides("in this list")
	b.keys("enter", "esc").shows("Nothing matches /bo@ in what was searched. The rest may hold some.").hides("in this list")
	b.keys("/", "enter").release(9).shows("mail Receipt").hides("Nothing")
	b.keys("/", "backspace").text("x").release(9).shows("Nothing in this list matches /bo@x").hides("so far", "stopped")
}

// The next letter of the filter is searched for at once: what the search for the one
// before brings is dropped.
func TestTheNextLetterReplacesTheSearch(t *testing.T) {
	b := deepBench(t).text("/c")
	before := b.held
	b.text("us").release(1)
	for _, cmd := range before {
		b.step(cmd)
	}
	b.shows("searched about 2.00M of 10.0M").hides("deploy")
	if strings.Count(b.screen(), "searched") != 1 {
		t.Error(b.screen())
	}
}

// What a key has asked for, and is being worked out, is said at once.
func TestWhatIsWorkedOutIsSaid(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(4)
	b.busy = true
	b.keys("R").shows("one moment: what it would do is being worked out, esc gives up")
	b.busy = false
	b.release(1).shows("Retry").hides("one moment")
}

func TestNextPageIsNoNews(t *testing.T) {
	s := newMemory(night)
	for n := 100; n < 500; n++ {
		s.put(doubt(n, "x.post", fmt.Sprintf("post %d", n), "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(1), amount(float64(n))))
	}
	o := nightOptions()
	o.Store = s
	b := newBench(t, 80, 24, o).judged(nightFacts).keys("j")
	b.sam(450, ledger.VerbConfirm, "r")
	b.send(feed.Changed{})
	b.hides("↑")
}
