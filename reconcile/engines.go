package reconcile

import (
	"context"
	"fmt"
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

// engines is what this engine knows of the policy in force, and of other engines.
type engines struct {
	mu      sync.Mutex
	since   time.Time // when this engine was registered; zero while it is not
	checked time.Time
	digest  string            // this engine's policy at that time
	inForce ledger.PolicyText // at that time, without its files
	looks   bool              // this engine's policy is not the one in force, or not its host's own
	alone   bool              // no other engine was at work
	failed  error             // why the ledger did not say what is in force and who is at work
}

// alone reports whether no other engine was at work when this one last checked.
func (e *reader) alone() bool {
	e.engines.mu.Lock()
	defer e.engines.mu.Unlock()
	return e.engines.alone
}

// onlyReads reports whether this engine must settle, price and ask nothing for the moment:
// it works only under the policy that is in force, and as its own host has it. It must
// not either where the ledger does not say what is in force.
func (e *reader) onlyReads(ctx context.Context) bool {
	pol := e.policy()
	x := &e.engines
	x.mu.Lock()
	defer x.mu.Unlock()
	now := e.now()
	if x.digest == pol.Digest() && !x.checked.IsZero() && now.Sub(x.checked).Abs() < registerEvery {
		return x.looks
	}
	did := x.looks
	me := ledger.Registration{Holder: e.holder, Since: x.since, Until: now.Add(registeredFor)}
	others, err := e.register(ctx, me)
	if err == nil {
		x.inForce, err = e.o.Store.Policy(ctx, x.inForce)
		x.inForce.Files = nil
	}
	if x.failed = err; err != nil {
		return true
	}
	x.digest, x.checked = pol.Digest(), now
	x.looks = pol.Lent() || x.inForce.Number > 0 && x.inForce.Digest != pol.Digest()
	x.alone = !slices.ContainsFunc(others, func(p ledger.Registration) bool { return p.Holder != e.holder })
	if x.looks && !did {
		e.logf("only looking: %s", x.why())
	}
	return x.looks
}

// why says what keeps this engine from asking; "" when nothing does.
func (x *engines) why() string {
	switch {
	case x.failed != nil:
		return "the ledger did not say which policy is in force: " + x.failed.Error()
	case x.looks:
		return fmt.Sprintf("this host does not have the policy that is in force, number %d by %s", x.inForce.Number, x.inForce.Actor.Name)
	}
	return ""
}

// mayAsk says why nothing may be asked of the other side, or sent to it, from here; "" when
// it may.
func (e *reader) mayAsk(ctx context.Context) string {
	e.onlyReads(ctx)
	e.engines.mu.Lock()
	defer e.engines.mu.Unlock()
	return e.engines.why()
}

func cannotAsk(why string) error {
	return &ledger.RefusedError{Verb: "check", Why: why,
		Hint: "roll that policy out here, or put the file of this host in force: indoubt policy apply"}
}

// registered is why the ledger did not say which engines are at work when it was last
// asked, or nil.
func (e *reader) registered() error {
	x := &e.engines
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failed
}

// OnlyReads reports whether this engine asks and settles nothing, because the policy in
// force is not the one of its host. It is what onlyReads last found.
func (e *reader) OnlyReads() bool {
	x := &e.engines
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.looks
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

// join registers this engine until leave is called. Where no policy is in force, this one's
// is from now on: two that differ would undo each other's work.
func (e *reader) join(ctx context.Context) (leave func()) {
	if pol := e.policy(); !pol.Empty() && !pol.Lent() && !pol.Secret() { // a secret would stand in the history
		first := ledger.PolicyText{Number: 1, Digest: pol.Digest(), Files: pol.Files(),
			Actor: e.o.Actor, Reason: "none was in force", ChangeID: ledger.NewID()}
		if had, err := e.o.Store.Policy(ctx, ledger.PolicyText{}); err == nil && had.Number == 0 {
			if err := e.o.Store.ApplyPolicy(ctx, first); err != nil {
				e.logf("the policy could not be put in force: %v", err)
			}
		}
	}
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
