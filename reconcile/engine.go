package reconcile

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/policy"
	"indoubt/policy/advice"
)

// Engine reconciles one ledger. It is safe for use by many goroutines. It decides
// what is read, and when; its reader does the reading.
type Engine struct {
	reader

	writes     writes         // transmissions in flight
	background sync.WaitGroup // checks and notices
	checking   atomic.Int64   // checks that are due and under way
	clock      ledger.Moment  // that the clocks are compared with
	after      follower       // of the history
	notify     notifying      // who was told
	standbys   time.Time      // when it is asked for them next

	settleWithin time.Duration // how long an outcome is tried to be written down; tests shorten it
}

// reader reads one operation at its downstream, and writes down what the read
// proves and what that makes of its price.
type reader struct {
	o      Options
	moment func() ledger.Moment
	host   string
	holder string // names this engine where it leads

	over     Connections
	downs    downstreams // the limits of each downstream
	controls controls    // what controls and siblings showed
	gap      gap         // what the ledger may have lost
	lists    lists       // where that is looked for
	lead     lead        // who works on this ledger
	reads    counting    // for metrics
	sends    counting
	past     *History      // how doubts ended
	wake     chan struct{} // something became due

	maxPages int // tests shorten it
}

// MaxPages bounds how far a list is followed.
const MaxPages = 20

// New makes an engine. It starts nothing.
func New(o Options) *Engine {
	moment := hostclock.Of(o.Clock, o.Steady)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.Policy == nil {
		o.Policy = func() *policy.Policy { return nil }
	}
	host, _ := os.Hostname()
	host = cmp.Or(o.Actor.Host, host)
	var id [6]byte
	_, _ = rand.Read(id[:])
	e := &Engine{
		reader: reader{
			o: o, moment: moment, host: host,
			holder: fmt.Sprintf("%s@%s/%d/%s", o.Actor.Name, host, os.Getpid(), hex.EncodeToString(id[:])),
			wake:   make(chan struct{}, 1), past: NewHistory(o.Store), maxPages: MaxPages,
		},
		settleWithin: time.Minute,
	}
	e.downs.probe, e.downs.now = probeAfter, e.now
	return e
}

// Close ends the connections that were kept open for more requests. Call it
// when the engine is not used any more.
func (e *Engine) Close() {
	e.over.Close()
	e.downs.mu.Lock()
	defer e.downs.mu.Unlock()
	for _, d := range e.downs.byScope {
		d.http.Close()
	}
}

func (e *reader) now() time.Time { return e.o.Clock() }

// policy is the policy in force now, with odds from the ledger's history; the
// built-in defaults where there is none.
func (e *reader) policy() *policy.Policy {
	return e.past.Policy(context.Background(), cmp.Or(e.o.Policy(), noPolicy()))
}

var noPolicy = sync.OnceValue(policy.Default)

// nudge wakes the run loop.
func (e *reader) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *reader) logf(format string, args ...any) { e.o.Log(fmt.Sprintf(format, args...)) }

// checker is the actor of reads: what a check found is the check's word, and
// not that of the person who asked for it.
func (e *reader) checker() ledger.Actor { return e.checkerFor(e.o.Actor) }

func (e *reader) checkerFor(a ledger.Actor) ledger.Actor {
	if !a.Machine {
		a.Name = ledger.ChecksOf(e.o.Program, a.Name)
	}
	a.Machine, a.Terminal, a.Host = true, false, cmp.Or(a.Host, e.host)
	return a
}

// current reads an operation as it stands: a deadline that has
// passed is written down first. The version is the one to decide about; a
// version seen before the writing down is moved along by moved.
func (e *reader) current(ctx context.Context, id string) (rec ledger.Record, moved func(seen int64) int64, err error) {
	moved = func(seen int64) int64 { return seen }
	rec, err = e.o.Store.Read(ctx, ledger.Locator{ID: id})
	if err != nil {
		return rec, moved, err
	}
	o := rec.Operation
	if e.o.ReadOnly || o.State != ledger.Pending || rec.State() != ledger.Uncertain {
		return rec, moved, nil
	}
	applied, err := e.o.Store.Change(ctx, ledger.Locator{ID: o.ID}, ledger.NewID(), ledger.ExpireRule())
	if err != nil {
		return rec, moved, fmt.Errorf("write down the deadline that passed: %w", err)
	}
	if !applied.Noop {
		before, after := applied.Before.Version, applied.After.Version
		moved = func(seen int64) int64 {
			if seen == before {
				return after
			}
			return seen
		}
	}
	rec, err = e.o.Store.Read(ctx, ledger.Locator{ID: o.ID})
	return rec, moved, err
}

// sleep waits, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// asOf is the record as the clocks stand at the moment. What is computed from a
// record goes by its clocks, and the wall clock may have been set since it was read.
func asOf(rec ledger.Record, at ledger.Moment) ledger.Record {
	rec.Now, rec.Steady = at.Wall, at.Steady
	return rec
}

// checkClock notices that the wall clock was set. Only the first engine to do so
// writes it down.
func (e *Engine) checkClock(ctx context.Context) error {
	now := e.moment()
	step := now.Step(e.clock)
	switch {
	case step != 0:
		first, err := e.o.Store.Stepped(ctx, step)
		if err != nil {
			return fmt.Errorf("tell of the clock: %w", err)
		}
		if first {
			e.logf("%s", ledger.StepEvent(step).Reason)
		}
	case e.clock.Steady.Boot != "":
		return nil
	}
	e.clock = now
	return nil
}

// Count names one counter: what came of a kind, a verdict or an outcome.
type Count struct{ Kind, What string }

type counting struct {
	mu sync.Mutex
	by map[Count]uint64
}

func (c *counting) add(kind, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[Count]uint64{}
	}
	c.by[Count{kind, what}]++
}

func (c *counting) so() map[Count]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.by)
}

// Counters returns how many reads, by verdict, and sends, by outcome, there were since it was made.
func (e *reader) Counters() (reads, sends map[Count]uint64) { return e.reads.so(), e.sends.so() }

// historyAge is how old counts may be before they are fetched again.
const historyAge = 5 * time.Second

// History lets a policy's odds learn from how the ledger's own doubts ended. It
// is cheap to call all the time: the ledger keeps the counts, and they are
// fetched every few seconds at most, while those of before serve. It is safe for use by
// many goroutines.
type History struct {
	store ledger.Statistics

	mu       sync.Mutex
	fetching bool
	fetched  time.Time // zero: never
	past     *advice.Past
	from     *policy.Policy // the last one that was given
	wise     *policy.Policy // and the same with its history
}

func NewHistory(store ledger.Statistics) *History { return &History{store: store} }

// Policy is the policy with odds that rest on the ledger's history. Where the
// ledger cannot tell, the newest history that is known serves. Only the first call waits
// for the ledger: a screen is drawn while its server is silent.
func (h *History) Policy(ctx context.Context, p *policy.Policy) *policy.Policy {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.fetched.IsZero():
		h.take(h.store.DoubtCounts(ctx))
	case !h.fetching && time.Since(h.fetched) > historyAge:
		h.fetching = true
		go func() {
			counts, err := h.store.DoubtCounts(ctx)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.take(counts, err)
		}()
	}
	if h.from != p {
		h.from, h.wise = p, p.WithHistory(h.past)
	}
	return h.wise
}

// take takes in what was fetched.
func (h *History) take(counts []ledger.DoubtCount, err error) {
	h.fetching, h.fetched = false, time.Now()
	if err == nil {
		h.past, h.from = advice.History(counts), nil
	}
}
