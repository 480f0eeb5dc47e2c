package cli

import (
	"context"
	"errors"
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
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	if err == nil && p != nil {
		l.good = p
	}
}

// watchAgain is how long a policy directory that is not there is left alone.
const watchAgain = 5 * time.Second

// watchPolicy loads the policy and follows its file until ctx ends. A file that
// is broken from the start is a problem over the built-in defaults.
func (a *app) watchPolicy(ctx context.Context) *livePolicy {
	p, err := a.policy()
	l := &livePolicy{good: p, err: err, past: a.past}
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
