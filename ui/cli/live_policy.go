package cli

import (
	"context"
	"sync"

	"indoubt/policy"
)

// livePolicy is the policy of a program that runs on: reloaded when the file
// changes. A broken file is kept as a problem, and the last good one stays.
type livePolicy struct {
	mu   sync.RWMutex
	good *policy.Policy
	err  error
}

func (l *livePolicy) inForce() *policy.Policy {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.good
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

// watchPolicy loads the policy and follows its file until ctx ends. A file that
// is broken from the start is a problem over the built-in defaults.
func (a *app) watchPolicy(ctx context.Context) *livePolicy {
	p, err := a.policy()
	l := &livePolicy{good: p, err: err}
	if p == nil {
		l.good = policy.Default()
	}
	path, _ := a.policyFile()
	go func() {
		if err := policy.Watch(ctx, path, l.changed); err != nil && ctx.Err() == nil {
			l.changed(nil, err)
		}
	}()
	return l
}
