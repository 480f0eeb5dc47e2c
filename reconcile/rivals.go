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
	// work, and registerEvery how often it says so and looks who else is.
	registeredFor = 20 * time.Second
	registerEvery = 5 * time.Second
)

// rivals notices engines that work on the same ledger under another policy. All
// but those of the first one's policy only look: they neither price, settle nor
// send.
type rivals struct {
	mu     sync.Mutex
	since  time.Time // when this engine began; zero while it is none that stays
	looked time.Time
	digest string // this engine's, when it looked
	about  bool
	alone  bool // no other engine was at work then
}

// alone reports whether no other engine was at work when this one last looked.
func (e *reader) alone() bool {
	e.rivals.mu.Lock()
	defer e.rivals.mu.Unlock()
	return e.rivals.alone
}

// onlyLooks reports whether this engine must settle nothing for the moment. Where
// the ledger does not tell who else is at work, it must not.
func (e *reader) onlyLooks(ctx context.Context) bool {
	pol := e.policy()
	digest := pol.Digest()
	if pol.Empty() {
		digest = ""
	}
	r := &e.rivals
	r.mu.Lock()
	defer r.mu.Unlock()
	now := e.now()
	if r.digest == digest && !r.looked.IsZero() && now.Sub(r.looked) < registerEvery {
		return r.about
	}
	was := r.about
	others, err := e.meet(ctx, ledger.Registration{Holder: e.holder, Digest: digest, Since: r.since, Until: now.Add(registeredFor)})
	if err != nil {
		return true
	}
	me := ledger.Registration{Holder: e.holder, Digest: digest, Since: r.since}
	r.digest, r.looked, r.about = digest, now, me.GivesWay(others)
	r.alone = !slices.ContainsFunc(others, func(p ledger.Registration) bool { return p.Holder != e.holder })
	if r.about && !was {
		e.logf("%v: only looking", errOnlyLooking)
	}
	return r.about
}

// OnlyLooks reports whether this engine settles nothing, because another one works
// on the ledger under another policy, as it was when it last looked.
func (e *reader) OnlyLooks() bool {
	r := &e.rivals
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.about
}

// meet says that this engine is at work, where it stays, and returns who is.
func (e *reader) meet(ctx context.Context, me ledger.Registration) ([]ledger.Registration, error) {
	if !me.Since.IsZero() {
		if err := e.o.Store.RegisterEngine(ctx, me); err != nil {
			return nil, err
		}
	}
	return e.o.Store.Engines(ctx)
}

// arrive makes this engine one that stays, until leave is called.
func (e *reader) arrive() (leave func()) {
	r := &e.rivals
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.looked = e.now(), time.Time{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.since = time.Time{}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = e.o.Store.RegisterEngine(ctx, ledger.Registration{Holder: e.holder}) // else it is forgotten by itself
	}
}
