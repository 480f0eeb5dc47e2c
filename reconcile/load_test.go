package reconcile

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// counted counts what is asked of a ledger.
type counted struct {
	ledger.Store
	change, records, price, due atomic.Int64
}

func (c *counted) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	c.change.Add(1)
	return c.Store.Change(ctx, at, id, rule)
}

func (c *counted) Records(ctx context.Context, ids []string) ([]ledger.Record, error) {
	c.records.Add(1)
	return c.Store.Records(ctx, ids)
}

func (c *counted) Kept(ctx context.Context, ids []string) ([]ledger.Record, error) {
	c.records.Add(1)
	return c.Store.Kept(ctx, ids)
}

func (c *counted) Price(ctx context.Context, p []ledger.Pricing) error {
	c.price.Add(1)
	return c.Store.Price(ctx, p)
}

func (c *counted) Due(ctx context.Context, downstream string, now time.Time, limit int) ([]ledger.Due, error) {
	c.due.Add(1)
	return c.Store.Due(ctx, downstream, now, limit)
}

// outrun is a ledger in which another process checks the first page of what is due.
type outrun struct {
	ledger.Store
	once  sync.Once
	check func(id string)
}

func (s *outrun) Due(ctx context.Context, downstream string, now time.Time, limit int) ([]ledger.Due, error) {
	if downstream == "" { // what has no price comes all at once
		return nil, nil
	}
	rows, err := s.Store.Due(ctx, downstream, now, limit)
	if len(rows) > 0 {
		s.once.Do(func() {
			for _, row := range rows {
				s.check(row.ID)
			}
		})
	}
	return rows, err
}

// What is due behind a page that another process has checked is checked all the same.
func TestOnceGoesOnBehindWhatAnotherChecked(t *testing.T) {
	w := newWorld(t, payPolicy)
	const all = 3 * 2 * politeness
	for i := range all {
		w.doubt("pay", 1+i, 1+i)
	}
	var first atomic.Int64
	e := New(Options{Store: &outrun{Store: w.store, check: func(id string) { w.read(id); first.Add(1) }}, Policy: w.inForce, Clock: w.now, Steady: w.steady, Actor: maya})
	defer e.Close()
	s, err := e.Once(w.ctx, nil)
	made := 0
	for _, n := range s.Read {
		made += n
	}
	need.Must(t, err == nil && first.Load() > 0 && made == all-int(first.Load()), "%d were checked by another: %+v %v", first.Load(), s, err)
}

func TestOneWriteARead(t *testing.T) {
	w := newWorld(t, payPolicy)
	const landed, early = 60, 20
	for i := range landed + early {
		w.doubt("pay", 1+i, []int{1 + i}[:min(1, (i+1)/(early+1))]...)
	}
	c := &counted{Store: w.store}
	e := New(Options{Store: c, Policy: w.inForce, Clock: w.now, Steady: w.steady, Actor: maya})
	defer e.Close()
	s, err := e.Once(w.ctx, nil)
	need.Must(t, err == nil && s.Read[ledger.CannotTell] == early && s.Read[ledger.Landed] == landed, "%+v %v", s, err)
	if c.change.Load() != landed+early || c.records.Load() > landed+early || c.price.Load() > 10 || c.due.Load() > 2*(landed+early) {
		t.Errorf("%d changes, %d looks at records, %d prices, %d looks for what is due", c.change.Load(), c.records.Load(), c.price.Load(), c.due.Load())
	}
	page := need.Get(w.store.Page(w.ctx, ledger.Query{Tab: ledger.TabAll, Now: w.now(), Limit: 1000}))(t)
	for _, row := range page.Rows {
		if row.State == ledger.Uncertain && (row.Pricing.Reads != 1 || !row.Pricing.ReadAt.After(w.get(row.ID).Reads[0].EndedAt)) {
			t.Errorf("next read of %s after %d at %s", row.ID, row.Pricing.Reads, row.Pricing.ReadAt)
		}
	}
}

// arrivals notes when questions come, and answers those about what was sent.
type arrivals struct {
	mu     sync.Mutex
	at     []time.Time
	never  int // questions about what was never sent
	sent   map[string]bool
	inside atomic.Int64
	most   atomic.Int64
}

func (a *arrivals) handle(latency time.Duration) func(*side, http.ResponseWriter, *http.Request) bool {
	return func(_ *side, rw http.ResponseWriter, r *http.Request) bool {
		a.mu.Lock()
		a.at = append(a.at, time.Now())
		a.mu.Unlock()
		n := a.inside.Add(1)
		for most := a.most.Load(); n > most && !a.most.CompareAndSwap(most, n); most = a.most.Load() {
		}
		time.Sleep(latency)
		a.inside.Add(-1)
		ref := r.URL.Query().Get("ref")
		a.mu.Lock()
		sent := a.sent[ref]
		if !sent {
			a.never++
		}
		a.mu.Unlock()
		if !sent {
			fmt.Fprint(rw, emptyList)
			return true
		}
		fmt.Fprintf(rw, `{"object":"list","data":[{"id":"ch_%s","ref":"%s","amount":1}],"more":false,"next":1}`, ref, ref)
		return true
	}
}

// doubts makes operations in doubt that the other side knows.
func (a *arrivals) doubts(w *world, n int) {
	a.sent = map[string]bool{}
	for range n {
		a.sent[w.doubt("pay", 1).Token] = true
	}
}

// askingOne asks for one operation by its token.
func askingOne(limits string) string {
	return strings.NewReplacer("    base:", limits+"    base:", `after: "${cursor}"`, `ref: "${token}", after: "${cursor}"`).Replace(payPolicy)
}

func TestTheRateIsNeverExceeded(t *testing.T) {
	inABubble(t, askingOne("    rate: 50/s\n    concurrency: 64\n"), func(t *testing.T, w *world) {
		var a arrivals
		w.side.onList = a.handle(time.Millisecond)
		a.doubts(w, 80)
		began := time.Now()
		s, err := w.engine.Once(w.ctx, nil)
		need.Must(t, err == nil && s.Read[ledger.Landed] == 80, "%+v %v", s, err)
		took := time.Since(began)
		need.That(t, took >= 79*20*time.Millisecond, "80 reads at 50 a second in %s", took)
		// The n-th cannot come before n times 20 ms; one held up on the way comes later.
		slices.SortFunc(a.at, time.Time.Compare)
		for i, at := range a.at {
			need.Must(t, at.Sub(began) >= time.Duration(i)*20*time.Millisecond-time.Millisecond, "%d questions within %s", i+1, at.Sub(began))
		}
	})
}

// A console that opens on many doubts is gentle where the policy says nothing.
func TestNoHerd(t *testing.T) {
	w := newWorld(t, askingOne(""))
	var a arrivals
	w.side.onList = a.handle(3 * time.Millisecond)
	a.doubts(w, 150)
	w.run(w.engine)
	eventually(t, "all settled", func() bool {
		c, err := w.store.Counts(w.ctx, w.now())
		return err == nil && c.ByState[ledger.Uncertain] == 0
	})
	most := a.most.Load()
	need.That(t, most <= politeness, "%d questions at once", most)
	need.That(t, len(a.at) == 151 && a.never == 1, "%d questions about 150, %d of them for what was never sent", len(a.at), a.never) // what was never sent is asked for once in a minute
}

// What was put off for one downstream does not come back all at once.
func TestWhatWaitsIsSpread(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.side.onList = answer(429, map[string]string{"Retry-After": "60"}, "")
	for range 80 {
		w.doubt("pay", 1)
	}
	began := w.now()
	for range 3 {
		need.Get(w.engine.Once(w.ctx, nil))(t)
	}
	lists := w.side.asked()
	need.That(t, lists <= politeness, "%d questions to one that asked to be left alone", lists)
	page := need.Get(w.store.Page(w.ctx, ledger.Query{Tab: ledger.TabAll, Now: w.now(), Limit: 1000}))(t)
	var at []time.Time
	for _, row := range page.Rows {
		at = append(at, row.Pricing.ReadAt)
	}
	slices.SortFunc(at, time.Time.Compare)
	first, last := at[0].Sub(began), at[len(at)-1].Sub(at[0])
	need.That(t, first >= time.Minute && last >= 15*time.Second, "from %s on, over %s", first, last)
}

// lister answers lists in a process of its own, for benchmarks: it knows the
// tokens that come line by line, and says ready at an empty line.
func lister() {
	a := arrivals{sent: map[string]bool{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.handle(20*time.Millisecond)(nil, w, r) }))
	defer s.Close()
	fmt.Println(s.URL)
	for tokens := bufio.NewScanner(os.Stdin); tokens.Scan(); {
		if tokens.Text() == "" {
			fmt.Println("ready")
			continue
		}
		a.mu.Lock()
		a.sent[tokens.Text()] = true
		a.mu.Unlock()
	}
}
