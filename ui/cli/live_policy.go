package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"indoubt/policy"
	"indoubt/reconcile"
)

// livePolicy is the policy of a program that runs on: reloaded when the file
// changes. A broken file is kept as a problem, and the last good one stays.
type livePolicy struct {
	mu   sync.RWMutex
	good *policy.Policy
	err  error
	past *reconcile.History // what the odds rest on; nil: on nothing yet
	said func(line string)  // told of every change; nil: not asked for
}

func (l *livePolicy) inForce() *policy.Policy {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.past == nil {
		return l.good
	}
	return l.past.Policy(context.Background(), l.good)
}

func (l *livePolicy) problem() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.err
}

func (l *livePolicy) changed(p *policy.Policy, err error) {
	line := l.take(p, err)
	if l.said != nil && line != "" {
		l.said(line)
	}
}

// take keeps what is good, and says in one line what changed; "" for nothing.
func (l *livePolicy) take(p *policy.Policy, err error) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.err
	l.err = err
	switch {
	case err != nil:
		return "the policy is broken, the last good one stays: " + firstLine(asFailure(err).Message)
	case p == nil:
		return ""
	}
	last := l.good
	l.good = p
	switch {
	case p.Digest() != last.Digest():
		return fmt.Sprintf("the policy has changed: %d %s, %s", len(p.Kinds()), plural(len(p.Kinds()), "kind", "kinds"), prefix(p.Digest(), 12))
	case before != nil:
		return "the policy is good again"
	}
	return ""
}

// watchAgain is how long a policy directory that is not there is left alone.
const watchAgain = time.Second

// watchPolicy loads the policy and follows its file until ctx ends. A file that
// is broken from the start is a problem over the built-in defaults. said is told
// of every change, in one line; nil where it is shown in another way.
func (a *app) watchPolicy(ctx context.Context, said func(line string)) *livePolicy {
	p, err := a.policy()
	l := &livePolicy{good: p, err: err, past: a.past, said: said}
	if p == nil {
		l.good = policy.Default()
	}
	path, _ := a.policyFile()
	go l.watch(ctx, path)
	return l
}

func (l *livePolicy) watch(ctx context.Context, path string) {
	for {
		have := l.inForce()
		if l.problem() != nil {
			have = policy.Default() // whatever can be read is news
		}
		err := policy.Watch(ctx, path, have, l.changed)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.changed(nil, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchAgain):
		}
	}
}

// runPolicy is the policy of a run: read again before each of its rows.
type runPolicy struct {
	*policy.Follower
	app *app
	now *policy.Policy
}

// followPolicy follows the policy from p on.
func followPolicy(a *app, p *policy.Policy) *runPolicy {
	path, _ := a.policyFile()
	return &runPolicy{policy.Follow(path, p), a, p}
}

// again reads the policy as it is now. Nothing is sent under one that cannot be read.
func (r *runPolicy) again() (err error) {
	r.now, err = r.Now()
	return err
}

func (r *runPolicy) inForce() *policy.Policy { return r.app.learned(r.now) }
