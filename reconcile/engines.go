package reconcile

import (
	"context"
	"slices"
	"sync"
	"time"

	"indoubt/ledger"
)

const (
	// registeredFor is how long an engine that says nothing more is taken to be at
	// work, and registerEvery how often it renews that and checks for others.
	registeredFor = 20 * time.Second
	registerEvery = 5 * time.Second
)

// engines notices other engines that work on the same ledger under another policy.
// All but those of the first one's policy only read: they neither price, settle nor
// send.
type engines struct {
	mu      sync.Mutex
	since   time.Time // when this engine was registered; zero while it is not
	checked time.Time
	digest  string // this engine's policy at that time
	yields  bool   // an engine with another policy came first
	alone   bool   // no other engine was at work
	failed  error  // why the ledger did not say which engines are at work
}

// alone reports whether no other engine was at work when this one last checked.
func (e *reader) alone() bool {
	e.engines.mu.Lock()
	defer e.engines.mu.Unlock()
	return e.engines.alone
}

// onlyReads reports whether this engine must settle nothing for the moment. It must
// not either where the ledger does not say which engines are at work.
func (e *reader) onlyReads(ctx context.Context) bool {
	pol := e.policy()
	digest := pol.Digest()
	if pol.Empty() {
		digest = ""
	}
	x := &e.engines
	x.mu.Lock()
	defer x.mu.Unlock()
	now := e.now()
	if x.digest == digest && !x.checked.IsZero() && now.Sub(x.checked).Abs() < registerEvery {
		return x.yields
	}
	did := x.yields
	me := ledger.Registration{Holder: e.holder, Digest: digest, Since: x.since, Until: now.Add(registeredFor)}
	others, err := e.register(ctx, me)
	if x.failed = err; err != nil {
		return true
	}
	x.digest, x.checked, x.yields = digest, now, me.GivesWay(others)
	x.alone = !slices.ContainsFunc(others, func(p ledger.Registration) bool { return p.Holder != e.holder })
	if x.yields && !did {
		e.logf("%v: only looking", errOnlyReading)
	}
	return x.yields
}

// registered is why the ledger did not say which engines are at work when it was last
// asked, or nil.
func (e *reader) registered() error {
	x := &e.engines
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failed
}

// OnlyReads reports whether this engine settles nothing, because another one works
// on the ledger under another policy. It is what onlyReads last found.
func (e *reader) OnlyReads() bool {
	x := &e.engines
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.yields
}

// register renews this engine's registration, if it has one, and returns all engines.
func (e *reader) register(ctx context.Context, me ledger.Registration) ([]ledger.Registration, error) {
	if !me.Since.IsZero() {
		if err := e.o.Store.RegisterEngine(ctx, me); err != nil {
			return nil, err
		}
	}
	return e.o.Store.Engines(ctx)
}

// join registers this engine until leave is called.
func (e *reader) join() (leave func()) {
	x := &e.engines
	x.mu.Lock()
	defer x.mu.Unlock()
	x.since, x.checked = e.now(), time.Time{}
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.since = time.Time{}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = e.o.Store.RegisterEngine(ctx, ledger.Registration{Holder: e.holder}) // else it is forgotten by itself
	}
}
