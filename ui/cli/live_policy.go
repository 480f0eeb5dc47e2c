package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/ui/ticket"
)

// policyEvery is how often a program that runs on looks whether its policy has changed, in
// the ledger or in its file.
const policyEvery = 2 * time.Second

// livePolicy is the policy that a program works by: the one that is in force in the ledger,
// and while none is, the file of this host. Where this host has the text in force as a file,
// or had it before, it is this host's own; else it is lent, and nothing is asked by it.
type livePolicy struct {
	app  *app
	path string
	said func(line string) // told of every change; nil: not asked for

	looking sync.Mutex // one look at a time
	file    *policy.Follower

	mu    sync.RWMutex
	store ledger.Store       // nil: none is open yet
	past  *reconcile.History // of it: what the odds rest on
	known knownPolicy
}

// knownPolicy is what a look has found.
type knownPolicy struct {
	good    *policy.Policy    // what is worked by
	broken  error             // why there is none to work by: not the one in force, nor the file where none is
	differs error             // why the file is not what is worked by
	force   ledger.PolicyText // in force, without its files
}

// rules is the policy of this program, which it looks at for the first time here.
func (a *app) rules() *livePolicy {
	if a.live == nil {
		path, _ := a.policyFile()
		a.live = rulesAt(path, a)
	}
	return a.live
}

// rulesAt is the policy of a program where its file is at the path; "" is none.
func rulesAt(path string, a *app) *livePolicy {
	l := &livePolicy{app: a, path: path, file: policy.Follow(path, policy.Default()), store: a.store, past: a.past}
	l.look(context.Background())
	return l
}

func (l *livePolicy) now() knownPolicy {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.known
}

func (l *livePolicy) inForce() *policy.Policy {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.past == nil {
		return l.known.good
	}
	return l.past.Policy(context.Background(), l.known.good)
}

// numbered is inForce with its number; 0: none is in force.
func (l *livePolicy) numbered() (*policy.Policy, int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.known.good, l.known.force.Number // recording asks for no odds
}

// ledger opens the ledger for who records, checks or sends, with a policy to work by. No
// ledger is made under one that cannot be read.
func (l *livePolicy) ledger(ctx context.Context, why purpose) (ledger.Store, error) {
	_, broken := l.app.policy()
	if broken != nil && why == toCreate {
		why = toSettle
	}
	s, err := l.app.ledgerFor(ctx, why)
	if err != nil {
		return nil, cmp.Or(broken, err)
	}
	_, err = l.app.policy()
	return s, err
}

// problem is why the file of this host is not what is worked by, or nil.
func (l *livePolicy) problem() error {
	now := l.now()
	return cmp.Or(now.broken, now.differs)
}

// over has the policy be the one in force in this ledger from now on.
func (l *livePolicy) over(s ledger.Store) {
	l.mu.Lock()
	l.store, l.past, l.known.force = s, l.app.past, ledger.PolicyText{}
	l.mu.Unlock()
	l.look(context.Background())
}

// look looks at the file and at the ledger, and tells what has changed.
func (l *livePolicy) look(ctx context.Context) {
	l.looking.Lock()
	defer l.looking.Unlock()
	file, broken := l.file.Now()
	l.mu.RLock()
	store, was := l.store, l.known
	l.mu.RUnlock()
	now := knownPolicy{good: file, broken: broken, force: was.force}
	if store != nil {
		if force, err := store.Policy(ctx, was.force); err == nil { // else what was known stays
			now.force = force
		}
	}
	if now.force.Number > 0 { // a fault of the file stops nothing then
		now.broken, now.differs = nil, broken
	}
	switch force := now.force; {
	case force.Number == 0:
	case force.Digest == file.Digest():
		policiesOf(l.app.env).keep(file)
	default:
		now.good, now.broken = l.textOf(ctx, store, force, was.good)
		if now.differs == nil && !file.Empty() {
			now.differs = l.difference(force)
		}
	}
	if now.force.Lapsed {
		now.differs = &failure{Code: "refused", Message: ledger.Lapsed, Hint: ledger.ApplyAnew}
	}
	now.force.Text = ""
	l.mu.Lock()
	l.known = now
	l.mu.Unlock()
	if line := now.news(was); line != "" && l.said != nil {
		l.said(line)
	}
}

// textOf is the policy in force, which is not the file of this host as it is now: the one
// that this host had before, or the ledger's. Where this program cannot read that, the error
// says so, and what it had before stays.
func (l *livePolicy) textOf(ctx context.Context, store ledger.Store, force ledger.PolicyText, was *policy.Policy) (*policy.Policy, error) {
	if was != nil && was.Digest() == force.Digest {
		return was, nil
	}
	if kept := policiesOf(l.app.env).of(force.Digest); kept != nil {
		return kept, nil
	}
	was = cmp.Or(was, policy.Default())
	force, err := store.Policy(ctx, ledger.PolicyText{})
	if err != nil {
		return was, err
	}
	lent, err := policy.Lend(force)
	if err != nil {
		return was, fmt.Errorf("policy %d, which is in force, cannot be read by this program: %w", force.Number, err)
	}
	return lent, nil
}

// difference is why a file that is good is not what is worked by.
func (l *livePolicy) difference(force ledger.PolicyText) error {
	return fmt.Errorf("%s is not the policy in force, which is number %d, by %s: %s; `indoubt policy apply` puts it in force",
		short(l.path), force.Number, force.Actor.Name, force.Reason)
}

// news says in one line what a look has changed; "" for nothing.
func (now knownPolicy) news(was knownPolicy) string {
	switch {
	case was.good == nil:
		return ""
	case now.broken != nil && (was.broken == nil || now.broken.Error() != was.broken.Error()):
		return "the last good policy stays: " + firstLine(asFailure(now.broken).Message)
	case now.good.Digest() != was.good.Digest():
		return fmt.Sprintf("the policy has changed: %s, %s", ticket.Plural(len(now.good.Kinds()), "kind", "kinds"), prefix(now.good.Digest(), 12))
	case now.broken == nil && was.broken != nil:
		return "the policy is good again"
	case now.differs != nil && (was.differs == nil || now.differs.Error() != was.differs.Error()):
		return "the policy in force stays: " + firstLine(asFailure(now.differs).Message)
	}
	return ""
}

// watchPolicy follows the policy until ctx ends. A file that is broken from the start is a
// problem over what is in force, or over the built-in defaults. said is told of every
// change, in one line; nil where it is shown in another way.
func (a *app) watchPolicy(ctx context.Context, said func(line string)) *livePolicy {
	l := a.rules()
	l.said = said
	go func() {
		tick := time.NewTicker(policyEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				l.look(ctx)
			}
		}
	}()
	return l
}

// again looks at the policy as it is now. Nothing is sent under one that cannot be read.
func (l *livePolicy) again(ctx context.Context) error {
	l.look(ctx)
	return l.now().broken
}

// keptPolicies is where an account keeps the policies that were in force and its own files,
// so that a file that is rolled out before it is put in force stops nothing; "" where it has
// no home.
type keptPolicies string

func policiesOf(env func(string) string) keptPolicies {
	state := stateDir(env)
	if state == "" {
		return ""
	}
	return keptPolicies(filepath.Join(state, "policies"))
}

const maxKept = 4

// keep keeps a policy of this host that is in force. One that cannot be kept has its file.
func (k keptPolicies) keep(p *policy.Policy) {
	name := filepath.Join(string(k), p.Digest()+".yaml")
	if k == "" || exists(name) || os.MkdirAll(string(k), 0o700) != nil {
		return
	}
	if os.WriteFile(name+".new", []byte(p.Text()), 0o600) != nil || os.Rename(name+".new", name) != nil {
		return
	}
	entries, err := os.ReadDir(string(k))
	if err != nil {
		return
	}
	slices.SortFunc(entries, func(x, y os.DirEntry) int { return modified(y).Compare(modified(x)) })
	for _, old := range entries[min(maxKept, len(entries)):] {
		_ = os.Remove(filepath.Join(string(k), old.Name()))
	}
}

func modified(e os.DirEntry) (at time.Time) {
	if info, err := e.Info(); err == nil {
		at = info.ModTime()
	}
	return at
}

// of is the policy of this host with that digest, or nil.
func (k keptPolicies) of(digest string) *policy.Policy {
	if k == "" || strings.ContainsFunc(digest, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }) {
		return nil
	}
	p, err := policy.Load(filepath.Join(string(k), digest+".yaml"))
	if err != nil || p.Digest() != digest {
		return nil
	}
	return p
}
