package base

import (
	"cmp"
	"context"
	"errors"
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

// LivePolicy is the policy that a program works by: the one that is in force in the ledger,
// and while none is, the file of this host. Where this host has the text in force as a file,
// or had it before, it is this host's own; else it is lent, and nothing is asked by it.
type LivePolicy struct {
	App  *App
	path string
	Said func(line string) // told of every change; nil: not asked for

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
	Differs error             // why the file is not what is worked by
	Force   ledger.PolicyText // in force, without its files
}

// Rules is the policy of this program, which it looks at for the first time here.
func (a *App) Rules() *LivePolicy {
	if a.Live == nil {
		path, _ := a.PolicyFile()
		a.Live = RulesAt(path, a)
	}
	return a.Live
}

// RulesAt is the policy of a program where its file is at the path; "" is none.
func RulesAt(path string, a *App) *LivePolicy {
	l := &LivePolicy{App: a, path: path, file: policy.Follow(path, policy.Default()), store: a.Store, past: a.past}
	l.Look(context.Background())
	return l
}

// Now is what the last look has found.
func (l *LivePolicy) Now() knownPolicy {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.known
}

// InForce is the policy to work by, with the odds of the ledger's history.
func (l *LivePolicy) InForce() *policy.Policy {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.past == nil {
		return l.known.good
	}
	return l.past.Policy(context.Background(), l.known.good)
}

// Numbered is inForce with its number; 0: none is in force.
func (l *LivePolicy) Numbered() (*policy.Policy, int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.known.good, l.known.Force.Number // recording asks for no odds
}

// Ledger opens the ledger for who records, checks or sends, with a policy to work by. No
// ledger is made under one that cannot be read.
func (l *LivePolicy) Ledger(ctx context.Context, why Purpose) (ledger.Store, error) {
	_, broken := l.App.Policy()
	if broken != nil && why == ToCreate {
		why = ToSettle
	}
	s, err := l.App.LedgerFor(ctx, why)
	if err != nil {
		return nil, cmp.Or(broken, err)
	}
	_, err = l.App.Policy()
	return s, err
}

// Problem is why the file of this host is not what is worked by, or nil.
func (l *LivePolicy) Problem() error {
	now := l.Now()
	return cmp.Or(now.broken, now.Differs)
}

// Over has the policy be the one in force in this ledger from now on.
func (l *LivePolicy) Over(s ledger.Store) {
	l.mu.Lock()
	l.store, l.past, l.known.Force = s, l.App.past, ledger.PolicyText{}
	l.mu.Unlock()
	l.Look(context.Background())
}

// Look looks at the file and at the ledger, and tells what has changed.
func (l *LivePolicy) Look(ctx context.Context) {
	l.looking.Lock()
	defer l.looking.Unlock()
	file, broken := l.file.Now()
	l.mu.RLock()
	store, was := l.store, l.known
	l.mu.RUnlock()
	now := knownPolicy{good: file, broken: broken, Force: was.Force}
	if store != nil {
		if force, err := store.Policy(ctx, was.Force); err == nil { // else what was known stays
			now.Force = force
		}
	}
	if now.Force.Number > 0 { // a fault of the file stops nothing then
		now.broken, now.Differs = nil, broken
	}
	switch force := now.Force; {
	case force.Number == 0:
	case force.Digest == file.Digest():
		policiesOf(l.App.Env).keep(file)
	default:
		now.good, now.broken = l.textOf(ctx, store, force, was.good)
		if now.Differs == nil && !file.Empty() {
			now.Differs = l.difference(force)
		}
	}
	if now.Force.Lapsed {
		now.Differs = &Failure{Code: "refused", Message: ledger.Lapsed, Hint: ledger.ApplyAnew}
	}
	now.Force.Text = ""
	l.mu.Lock()
	l.known = now
	l.mu.Unlock()
	if line := now.news(was); line != "" && l.Said != nil {
		l.Said(line)
	}
}

// textOf is the policy in force, which is not the file of this host as it is now: the one
// that this host had before, or the ledger's. Where this program cannot read that, the error
// says so, and what it had before stays.
func (l *LivePolicy) textOf(ctx context.Context, store ledger.Store, force ledger.PolicyText, was *policy.Policy) (*policy.Policy, error) {
	if was != nil && was.Digest() == force.Digest {
		return was, nil
	}
	if kept := policiesOf(l.App.Env).of(force.Digest); kept != nil {
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
func (l *LivePolicy) difference(force ledger.PolicyText) error {
	return fmt.Errorf("%s is not the policy in force, which is number %d, by %s: %s; `indoubt policy apply` puts it in force",
		Short(l.path), force.Number, force.Actor.Name, force.Reason)
}

// news says in one line what a look has changed; "" for nothing.
func (now knownPolicy) news(was knownPolicy) string {
	switch {
	case was.good == nil:
		return ""
	case now.broken != nil && (was.broken == nil || now.broken.Error() != was.broken.Error()):
		return "the last good policy stays: " + FirstLine(AsFailure(now.broken).Message)
	case now.good.Digest() != was.good.Digest():
		return fmt.Sprintf("the policy has changed: %s, %s",
			ticket.Plural(len(now.good.Kinds()), "kind", "kinds"), Prefix(now.good.Digest(), 12))
	case now.broken == nil && was.broken != nil:
		return "the policy is good again"
	case now.Differs != nil && (was.Differs == nil || now.Differs.Error() != was.Differs.Error()):
		return "the policy in force stays: " + FirstLine(AsFailure(now.Differs).Message)
	}
	return ""
}

// WatchPolicy follows the policy until ctx ends. A file that is broken from the start is a
// problem over what is in force, or over the built-in defaults. said is told of every
// change, in one line; nil where it is shown in another way.
func (a *App) WatchPolicy(ctx context.Context, said func(line string)) *LivePolicy {
	l := a.Rules()
	l.Said = said
	go func() {
		tick := time.NewTicker(policyEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				l.Look(ctx)
			}
		}
	}()
	return l
}

// Again looks at the policy as it is now. Nothing is sent under one that cannot be read.
func (l *LivePolicy) Again(ctx context.Context) error {
	l.Look(ctx)
	return l.Now().broken
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
	if k == "" || Exists(name) || os.MkdirAll(string(k), 0o700) != nil {
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

// Exists reports whether there is a file of that name, or none can be told.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// WhenLost is what the policy says of a request of a kind that the ledger may have lost.
func WhenLost(k *policy.Kind) ledger.WhenLost {
	switch {
	case k.Effect.Safe() || k.Effect.Access() == "read":
		return ledger.NoHarm
	case k.Read != nil && k.Read.Proves():
		return ledger.CheckLooks
	}
	return ledger.PersonLooks
}

// LookedFor says what begins wait for since an adoption, and which kinds stay held.
func LookedFor(l *ledger.Look, p *policy.Policy) []string {
	var looked, held []string
	for _, name := range p.Kinds() {
		switch when := WhenLost(p.Kind(name)); {
		case when == ledger.NoHarm || slices.Contains(l.Kinds, name):
		case when == ledger.CheckLooks:
			looked = append(looked, name)
		default:
			held = append(held, name)
		}
	}
	until := "for now, "
	if !l.Until.IsZero() {
		until = "until " + ClockTime(l.Until) + " "
	}
	unlooked := strings.Join(append(held, "what the policy does not name"), ", ")
	which := cmp.Or(strings.Join(looked, ", "), "no kind of the policy")
	return []string{until + "begins whose key is unknown are looked for first: " + which,
		"held until a person has looked, for no check can tell: " + unlooked + " (" + ledger.ReleaseUnlooked("KIND") + ")"}
}
