package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/policy/transport"
)

const (
	// leadEvery is how often a process renews its leads and looks for what has none.
	leadEvery = 3 * time.Second
	// nobodyFor is how long no process can check a downstream before a person is asked.
	nobodyFor = 10 * time.Minute
)

// lead is what this process knows of the policy in force, and of who leads what.
type lead struct {
	mu      sync.Mutex
	claims  bool // it takes the lead of what is free
	checked time.Time
	digest  string            // this engine's policy at that time
	inForce ledger.PolicyText // at that time, without its files
	looks   bool              // this engine's policy is not the one in force, or not its host's own, or it has lapsed
	failed  error             // why the ledger did not say what is in force and who leads

	mine   map[string]bool          // the scopes that this process leads
	gained bool                     // there is one that it did not lead before
	others map[string]ledger.Leader // who leads the others
	free   map[string]time.Time     // since when nobody leads the rest
}

// scopeOf is what a kind is checked within: its downstream, or it alone.
func scopeOf(k *policy.Kind) string {
	if k.Downstream == nil {
		return k.DownstreamName()
	}
	return "downstream:" + k.DownstreamName()
}

// onlyReads reports whether this engine must settle, price and ask nothing for the moment:
// it works only under the policy that is in force, and as its own host has it. It must
// not either where the ledger does not say what is in force.
func (e *reader) onlyReads(ctx context.Context) bool {
	pol := e.policy()
	x := &e.lead
	x.mu.Lock()
	defer x.mu.Unlock()
	now := e.now()
	if x.digest == pol.Digest() && !x.checked.IsZero() && now.Sub(x.checked).Abs() < leadEvery {
		return x.looks
	}
	did := x.looks
	inForce, err := e.o.Store.Policy(ctx, x.inForce)
	if err == nil {
		x.inForce, x.inForce.Text = inForce, ""
		x.looks = pol.Lent() || inForce.Lapsed || inForce.Number > 0 && inForce.Digest != pol.Digest()
		err = e.takeLead(ctx, pol)
	}
	if x.failed = err; err != nil {
		return true
	}
	x.digest, x.checked = pol.Digest(), now
	if x.looks && !did {
		e.logf("only looking: %s", x.why())
	}
	return x.looks
}

// takeLead renews what this process leads and takes what is free, where it claims any. It
// claims nothing of what it lacks a secret for, nor while it only looks. It needs x.mu.
func (e *reader) takeLead(ctx context.Context, pol *policy.Policy) (err error) {
	x := &e.lead
	scopes := append(ledger.Each(pol.Checked(), scopeOf), ledger.LeadLedger)
	lacks := lacking(pol)
	var led ledger.Leaders
	if x.claims {
		rank := ledger.RankConsole
		if e.o.Program == "engine" {
			rank = ledger.RankEngine
		}
		mine := slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return x.looks || lacks[s] != "" })
		led, err = e.o.Store.Lead(ctx, e.holder, rank, mine)
	} else {
		led, err = e.o.Store.Leaders(ctx)
	}
	if err != nil {
		return err
	}
	had, free, now := x.mine, x.free, e.now()
	x.mine, x.others, x.free = map[string]bool{}, map[string]ledger.Leader{}, map[string]time.Time{}
	for _, scope := range scopes { // no one ever led it, as far as is known
		if x.free[scope] = now; !free[scope].IsZero() {
			x.free[scope] = free[scope]
		}
	}
	for _, l := range led.All {
		switch {
		case !l.Leads(led.Now):
			x.free[l.Scope] = now.Add(min(l.Until.Sub(led.Now), 0))
			continue
		case l.Holder == e.holder:
			x.mine[l.Scope] = true
			x.gained = x.gained || !had[l.Scope]
		default:
			x.others[l.Scope] = l
		}
		delete(x.free, l.Scope)
	}
	for _, k := range pol.Checked() { // who leads has what it takes
		if scope := scopeOf(k); x.claims && x.others[scope].Holder == "" {
			e.downs.of(k).lack(lacks[scope])
		}
	}
	return nil
}

// leads reports whether this process leads a scope.
func (e *reader) leads(scope string) bool {
	e.lead.mu.Lock()
	defer e.lead.mu.Unlock()
	return e.lead.mine[scope]
}

// wait is how long until the next look at who leads, at most as long as given.
func (x *lead) wait(now time.Time, most time.Duration) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return min(most, max(leadEvery-now.Sub(x.checked), 0))
}

// takenOver reports, once, that this process leads what it did not lead before.
func (x *lead) takenOver() (gained bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	gained, x.gained = x.gained, false
	return gained
}

// leadOthers are who leads what beside this process.
func (x *lead) leadOthers() []ledger.Leader {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.SortedFunc(maps.Values(x.others), func(a, b ledger.Leader) int { return strings.Compare(a.Scope, b.Scope) })
}

// Nobody is who makes the checks where no process leads.
const Nobody = "no one"

// CheckedBy is who makes the checks: "this console", "engine on HOST", "console on HOST" or
// Nobody; "" where that is not known yet. Where several do, each of some downstreams, it is
// the first of these.
func (e *reader) CheckedBy() string {
	e.lead.mu.Lock()
	asked := e.lead.mine != nil
	e.lead.mu.Unlock()
	if !asked {
		return ""
	}
	if e.leads(ledger.LeadLedger) {
		return "this console"
	}
	others := e.lead.leadOthers()
	if len(others) == 0 {
		return Nobody
	}
	program := "console"
	if others[0].Rank == ledger.RankEngine {
		program = "engine"
	}
	_, host, _ := strings.Cut(others[0].Holder, "@")
	host, _, _ = strings.Cut(host, "/")
	return program + " on " + host
}

// lacking are the scopes of which this process lacks a secret, with its name.
func lacking(pol *policy.Policy) map[string]string {
	secrets := map[string]string{}
	for _, name := range pol.Kinds() {
		k, secret := pol.Kind(name), (*transport.MissingError)(nil)
		if k.Read != nil && errors.As(k.Read.Lacks(), &secret) {
			secrets[scopeOf(k)] = secret.Name
		}
	}
	return secrets
}

// unchecked is from when a person is asked about what this process cannot check: at once
// where it leads, and Never while another does.
func (x *lead) unchecked(scope string) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, led := x.others[scope]; led {
		return ledger.Never
	}
	if since, free := x.free[scope]; free {
		return since.Add(nobodyFor)
	}
	return time.Time{}
}

// why says what keeps this engine from asking; "" when nothing does.
func (x *lead) why() string {
	switch {
	case x.failed != nil:
		return "the ledger did not say which policy is in force: " + x.failed.Error()
	case x.looks && x.inForce.Lapsed:
		return ledger.Lapsed
	case x.looks:
		return fmt.Sprintf("this host does not have the policy that is in force, number %d by %s", x.inForce.Number, x.inForce.Actor.Name)
	}
	return ""
}

// mayAsk says why nothing may be asked of the other side, or sent to it, from here; "" when
// it may.
func (e *reader) mayAsk(ctx context.Context) string {
	e.onlyReads(ctx)
	e.lead.mu.Lock()
	defer e.lead.mu.Unlock()
	return e.lead.why()
}

func cannotAsk(why string) error {
	return &ledger.RefusedError{Verb: "check", Why: why,
		Hint: "roll that policy out here, or put the file of this host in force: indoubt policy apply"}
}

// asked is why the ledger did not say who leads when it was last asked, or nil.
func (e *reader) asked() error {
	e.lead.mu.Lock()
	defer e.lead.mu.Unlock()
	return e.lead.failed
}

// OnlyReads reports whether this engine asks and settles nothing, because the policy in
// force is not the one of its host. It is what onlyReads last found.
func (e *reader) OnlyReads() bool {
	e.lead.mu.Lock()
	defer e.lead.mu.Unlock()
	return e.lead.looks
}

// apply puts this engine's policy in force where none is: two that differ would undo each
// other's work.
func (e *reader) apply(ctx context.Context) {
	pol := e.policy()
	if pol.Empty() || pol.Lent() {
		return
	}
	first := ledger.PolicyText{Number: 1, Digest: pol.Digest(), Text: pol.Text(),
		Actor: e.o.Actor, Reason: "none was in force", ChangeID: ledger.NewID()}
	if had, err := e.o.Store.Policy(ctx, ledger.PolicyText{}); err == nil && had.Number == 0 {
		if err := e.o.Store.ApplyPolicy(ctx, first); err != nil {
			e.logf("the policy could not be put in force: %v", err)
		}
	}
}

// Claim has this process take the lead of what is free, until leave is called: only who leads
// writes what a check makes of a price.
func (e *reader) Claim() (leave func()) {
	x := &e.lead
	set := func(claims bool) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.claims, x.checked = claims, time.Time{}
	}
	set(true)
	return func() {
		set(false)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = e.o.Store.Lead(ctx, e.holder, 0, nil) // else its time passes
	}
}
