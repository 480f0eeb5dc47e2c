// Package drill makes an outage one can practise on: a downstream that loses
// answers, pipelines that write to it, and the ledger they leave behind.
//
// Everything in it is real except the money: the downstream is an HTTP server
// with a database, cut connections are cut, a pipeline that is killed records nothing
// more, and all are HTTP clients that record, as any Go program can be. Only the
// clock of the past is set by hand, so that an hour of history is made in seconds.
// It may import the ledger, its recorder of HTTP, the policy and the reconcile
// package; nothing but the command line imports it.
package drill

import (
	"context"
	_ "embed"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/record"
	"indoubt/policy"
	"indoubt/reconcile"
)

// Options say how a world is made.
type Options struct {
	Seed uint64
	Dir  string // exists, and is empty or was left by an earlier world; everything is kept in it
	// Now is when the history ends. When it is set, time stands still there: for
	// pictures and golden screens. Zero: the history ends now, and time goes on.
	Now  time.Time
	Open Open
	// Rules are a recorder's rules under a policy.
	Rules func(inForce func() *policy.Policy) record.Rules
	// Progress is told what is being made, and how much of it, from 0 to 1.
	Progress func(what string, share float64)
}

// Open opens a ledger for writers of operations and makes one that is missing, under a
// clock and for an actor.
type Open func(ctx context.Context, name string, clock ledger.Clock, actor ledger.Actor) (ledger.Store, error)

// World is a downstream, a policy, and a ledger with the history of a bad night.
type World struct {
	LedgerPath, PolicyPath string
	Env                    []string // what the policy needs in the environment, NAME=value
	Downstream             *Downstream

	options   Options
	start     time.Time
	set       atomic.Pointer[time.Time] // the time in the history that is being made; nil afterwards
	store     ledger.Store
	policy    *policy.Policy
	engine    *reconcile.Engine
	pipelines map[string]*pipeline
	fetched   wish        // what billing comes for a while after the history has ended
	unclear   wish        // of the outage, whose next answer is lost
	hanging   int         // requests that were told to hang
	again     bool        // the history was there before
	later     *time.Timer // when billing comes for what it was allowed
	closed    sync.Once
}

//go:embed policy.yaml
var policyText string

// bearer is the account of every pipeline and of the policy.
const bearer = "sk_demo_shop"

// Kept reports whether a directory was left by an earlier world.
func Kept(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ledgerName))
	return err == nil
}

const ledgerName = "payments.db"

// Setup makes a world: it starts the downstream and the pipelines, and has the
// pipelines live through the history of the night, killed ones included. Where the
// directory has the world of an earlier call, that one goes on as it was left. On an
// error nothing is left running.
func Setup(ctx context.Context, o Options) (*World, error) {
	if o.Progress == nil {
		o.Progress = func(string, float64) {}
	}
	w := &World{
		LedgerPath: filepath.Join(o.Dir, ledgerName), PolicyPath: filepath.Join(o.Dir, "policy.yaml"),
		Env: []string{"INDOUBT_DEMO_KEY=" + bearer}, options: o, start: o.Now.Truncate(time.Millisecond), pipelines: map[string]*pipeline{},
	}
	if o.Now.IsZero() {
		w.start = time.Now().Truncate(time.Millisecond)
	}
	w.again = Kept(o.Dir)
	if err := w.live(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// live goes through the whole history and arrives at the present.
func (w *World) live(ctx context.Context) error {
	if err := w.open(ctx); err != nil {
		return err
	}
	s := &script{w: w, random: rand.New(rand.NewPCG(w.options.Seed, 1))}
	if !w.again {
		s.ordinaryDays()
		s.outage()
		s.cases()
		if err := s.play(ctx); err != nil {
			return err
		}
	}
	w.set.Store(nil) // every clock shows the present
	if !w.options.Now.IsZero() {
		w.set.Store(&w.start)
	}
	for _, p := range w.pipelines {
		p.setClock(w.options.Now)
	}
	return w.moved(ctx)
}

// moved puts the policy in force again where the downstream has another address than in an
// earlier world: checks are made only by the policy in force.
func (w *World) moved(ctx context.Context) error {
	last, err := w.store.Policy(ctx, ledger.PolicyText{})
	if err != nil || last.Number == 0 || last.Digest == w.policy.Digest() {
		return err
	}
	return w.store.ApplyPolicy(ctx, ledger.PolicyText{Number: last.Number + 1, Digest: w.policy.Digest(), Text: w.policy.Text(),
		Actor: ledger.Actor{Name: "demo"}, Reason: "the demo's downstream has another address now", ChangeID: ledger.NewID()})
}

// open starts everything that the history needs.
func (w *World) open(ctx context.Context) error {
	long := w.start.Add(-30 * time.Hour)
	w.set.Store(&long)
	var err error
	w.Downstream, err = StartDownstream(DownstreamOptions{Path: filepath.Join(w.options.Dir, "downstream.db"),
		Seed: w.options.Seed, Clock: w.now})
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(policyText, "@BASE@", w.Downstream.URL())
	if err := os.WriteFile(w.PolicyPath, []byte(text), 0o644); err != nil {
		return err
	}
	for _, pair := range w.Env {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	if w.policy, err = policy.Load(w.PolicyPath); err != nil {
		return err
	}
	host, _ := os.Hostname()
	checks := ledger.Actor{Name: "checks", Host: host, Machine: true}
	if w.store, err = w.options.Open(ctx, w.LedgerPath, w.now, checks); err != nil {
		return err
	}
	w.engine = reconcile.New(reconcile.Options{Store: w.store, Policy: func() *policy.Policy { return w.policy }, Actor: checks, Clock: w.now, Steady: hostclock.With(w.now)})
	for _, name := range staff {
		if w.pipelines[name], err = w.hire(name); err != nil {
			delete(w.pipelines, name)
			return err
		}
	}
	return nil
}

func (w *World) now() time.Time {
	if t := w.set.Load(); t != nil {
		return *t
	}
	return time.Now()
}

// Go lets time go on. The outage is over: stripe loses one answer of what is sent again. After
// a while billing comes for the younger of the two sends it was allowed, where the history was
// made by this world.
func (w *World) Go() {
	if !w.again {
		w.Downstream.Meet(Trouble{Fault: CommitAndCut, Match: w.unclear.Token, Times: 1})
		w.later = time.AfterFunc(25*time.Second, func() { w.pipelines["billing"].send(w.fetched, time.Time{}) })
	}
}

// Close stops the pipelines and the downstream. The directory stays. Closing
// again does nothing.
func (w *World) Close() error {
	var all []error
	w.closed.Do(func() {
		if w.later != nil {
			w.later.Stop()
		}
		for _, p := range w.pipelines {
			p.kill()
			all = append(all, p.store.Close())
		}
		if w.store != nil {
			all = append(all, w.store.Close())
		}
		if w.Downstream != nil {
			all = append(all, w.Downstream.Close())
		}
	})
	return errors.Join(all...)
}

// person is a person at a terminal.
func person(name string) ledger.Actor {
	return ledger.Actor{Name: name, OSUser: name, Host: "ops-1", Terminal: true}
}
