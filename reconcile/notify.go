package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/wire/procgroup"
	"indoubt/policy"
)

const (
	notifyEvery = 5 * time.Second  // between two looks at what people must be told
	guardEvery  = 15 * time.Second // the same, for whether an engine is at work
	noticesMost = 20               // that one notifier is sent by this engine
	noticesIn   = 10 * time.Minute // within this
)

// notifying is what this engine knows of its notifiers. What they were told the ledger knows.
type notifying struct {
	e     *Engine
	every time.Duration // tests shorten it

	mu   sync.Mutex
	busy map[string]bool        // notifiers at work
	said map[string]string      // trouble that was logged last, by notifier
	sent map[string][]time.Time // by notifier's kind
}

func newNotifying(e *Engine) *notifying {
	return &notifying{e: e, busy: map[string]bool{}, said: map[string]string{}, sent: map[string][]time.Time{}}
}

// take takes a notifier, unless it is at work.
func (t *notifying) take(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[name] {
		return false
	}
	t.busy[name] = true
	return true
}

func (t *notifying) give(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, name)
}

// room reports whether the notifier may be sent one more now.
func (t *notifying) room(name string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent[name] = slices.DeleteFunc(t.sent[name], func(at time.Time) bool { return now.Sub(at) >= noticesIn })
	if len(t.sent[name]) >= noticesMost {
		return false
	}
	t.sent[name] = append(t.sent[name], now)
	return true
}

// trouble logs what is wrong with a notifier, once; "" is nothing.
func (t *notifying) trouble(name, why string) {
	t.mu.Lock()
	said := t.said[name]
	t.said[name] = why
	t.mu.Unlock()
	if why != "" && why != said {
		t.e.logf("notifier %s: %s", name, why)
	}
}

// run tells people what happened until ctx ends. It never holds up the engine:
// each notifier has its own goroutine while it is at work.
func (t *notifying) run(ctx context.Context) {
	every := t.every
	if every == 0 {
		every = notifyEvery
	}
	for sleep(ctx, every) == nil {
		pol := t.e.policy()
		if len(pol.Notifiers()) == 0 || t.e.onlyReads(ctx) || !t.e.leads(ledger.LeadLedger) {
			continue
		}
		f, err := gather(ctx, t.e.o.Store, pol, t.e.now())
		if err != nil {
			continue // the run loop says so
		}
		for _, n := range pol.Notifiers() {
			t.tellAll(ctx, n, f.notices(n, func(in ledger.Outage) bool { return t.grewTenfold(ctx, n, f, in) }))
		}
	}
}

// tellAll tells a notifier what it was not told yet, in the background.
func (t *notifying) tellAll(ctx context.Context, n *policy.Notifier, notices []Notice) {
	if len(notices) == 0 || !t.take(n.Name) {
		return
	}
	t.e.background.Go(func() {
		defer t.give(n.Name)
		trouble := ""
		for _, notice := range notices {
			if ctx.Err() != nil {
				return
			}
			why, err := t.tell(ctx, n, notice)
			if err != nil {
				why = err.Error()
			}
			trouble = cmp.Or(trouble, why)
		}
		t.trouble(n.Name, trouble)
	})
}

// tell tells a notifier one thing, if the ledger says that it was not told. why is
// what stands in the way for now.
func (t *notifying) tell(ctx context.Context, n *policy.Notifier, notice Notice) (why string, err error) {
	k := t.e.policy().Kind(ledger.NoticeKind(n.Name))
	rec, err := t.e.o.Store.Read(ctx, ledger.Locator{Kind: k.Name, Scope: noticeScope, Key: notice.Key, Skip: ledger.AllParts})
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		rec = notice.Record(n.Name, t.e.now())
	case err != nil:
		return "", fmt.Errorf("ask the ledger: %w", err)
	case rec.State() != ledger.Failed && !(rec.State() == ledger.Uncertain && k.Effect.Safe()), rec.Operation.AttemptCount > k.Retry.Max,
		t.e.now().Before(rec.Operation.UpdatedAt.Add(pause(k.Retry, rec.Operation.AttemptCount))):
		return "", nil
	}
	if why, err = t.stands(ctx, k); why != "" || err != nil {
		return why, err
	}
	return t.send(ctx, k, rec)
}

// stands is what stands in the way of any notice to a notifier: its downstream, or a
// hold on it. A hold on everything stops what acts for pipelines, and not the notices
// of it.
func (t *notifying) stands(ctx context.Context, k *policy.Kind) (string, error) {
	if until, why := t.e.downs.of(k).blocked(); !until.IsZero() {
		return why, nil
	}
	now := t.e.now()
	holds, err := t.e.o.Store.Holds(ctx, now)
	if err != nil {
		return "", fmt.Errorf("ask for holds: %w", err)
	}
	for _, h := range holds {
		if h.Scope != "all" && h.Covers(k.Name, now) {
			return "held by " + h.Actor.Name, nil
		}
	}
	return "", nil
}

// pause is how long the attempt after n waits, the same in every engine.
func pause(r policy.RetryRule, n int) time.Duration {
	return min(r.BackoffMax, r.BackoffMin<<min(n-1, 20))
}

// send begins the operation of a notice, or repeats one in doubt where a repeat does no
// harm, and transmits it once. What cannot be recorded is not sent.
func (t *notifying) send(ctx context.Context, k *policy.Kind, rec ledger.Record) (why string, err error) {
	sending := policy.Sending{Kind: k, Record: rec}
	made, err := sending.Request(nil)
	if err != nil {
		return "what it would be told cannot be sent: " + err.Error(), nil
	}
	if !t.room(k.Name, t.e.now()) {
		return fmt.Sprintf("%d notices within %s: the next waits", noticesMost, noticesIn), nil
	}
	leave, err := t.e.writes.enter()
	if err != nil {
		return "", err
	}
	defer leave()
	free, err := t.e.downs.of(k).admit(ctx)
	if err != nil {
		return "", err
	}
	defer free()
	o, actor, change := rec.Operation, ledger.Actor{Name: ledger.ActorNotify, Machine: true, Host: t.e.host}, ledger.NewID()
	fence := time.Now().Add(k.Deadline)
	key, token := sending.Carries(made)
	req := ledger.BeginRequest{
		ChangeID: change, OperationID: o.ID, AttemptID: ledger.DeriveID(change, "attempt"), Kind: k.Name, Scope: o.Scope, Key: o.Key, Token: o.Token,
		Title: o.Title, Input: o.Input, Source: o.Source, Sender: sending.Via(), TokenSent: token, Safe: k.Effect.Safe(),
		KeyWorks: k.KeyWorks() && (key || k.Effect.Safe()),
		Deadline: k.Deadline, Host: t.e.host, PID: os.Getpid(), Actor: actor,
	}
	if req.Sender == "command" {
		req.Tree, req.Place = ledger.TreeOpen, procgroup.Here()
	}
	res, err := ledger.Begin(ctx, t.e.o.Store, req)
	if err != nil {
		return "", fmt.Errorf("record it: %w", err)
	}
	if res.Answer != ledger.AnswerBegun { // another engine was first
		return "", nil
	}
	rec.Operation = res.Operation
	a := &attempt{q: RetryRequest{ID: o.ID, ChangeID: change, Actor: actor}, k: k, rec: rec, began: ledger.SentOf(req, res)}
	a.req, _ = policy.Sending{Kind: k, Record: rec}.Request(nil) // another engine may have recorded it in other words
	settled, err := t.e.carryOut(ctx, a, ledger.GrantRequest{ChangeID: change, OperationID: res.Operation.ID, AttemptID: req.AttemptID,
		Actor: actor, TokenSent: token}, fence)
	if err != nil || settled.Attempt.Final() == ledger.OutcomeCommitted {
		return "", err
	}
	return fmt.Sprintf("%s: %s %s", settled.After.Title, settled.Attempt.Final(), settled.Attempt.Error), nil
}

// grewTenfold reports whether an outage has ten times the errors that a notifier was
// told of when it opened.
func (t *notifying) grewTenfold(ctx context.Context, n *policy.Notifier, f facts, in ledger.Outage) bool {
	rec, err := t.e.o.Store.Read(ctx, ledger.Locator{Kind: ledger.NoticeKind(n.Name), Scope: noticeScope, Key: in.ID + " " + policy.NotifyOpened, Skip: ledger.AllParts})
	var told NoticeInput
	if errors.Is(err, ledger.ErrNotFound) && n.Wants(policy.NotifyOpened, in.Kinds...) || err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return false // it is told with the opening
	}
	_ = json.Unmarshal(rec.Operation.Input, &told)
	return f.level(in, told.Errors) < f.level(in, in.Errors())
}

// Guard says when no engine has checked for a while, until ctx ends: with say, and to
// the notifiers of the policy. A proxy runs it; what checks by itself needs none.
func (e *Engine) Guard(ctx context.Context, say func(string)) { e.notify.guard(ctx, say) }

func (t *notifying) guard(ctx context.Context, say func(string)) {
	every := t.every
	if every == 0 {
		every = guardEvery
	}
	said := ""
	for sleep(ctx, every) == nil {
		notice, age, err := t.unchecked(ctx)
		switch {
		case err != nil: // a recorder that cannot record says so
			continue
		case age < policy.UncheckedAfter:
			said = ""
			continue
		}
		if notice.Key != said {
			said = notice.Key
			say(notice.Title)
		}
		for _, n := range t.e.policy().Notifiers() {
			if n.Wants(notice.Event) {
				t.tellAll(ctx, n, []Notice{notice})
			}
		}
	}
}

// unchecked is the notice that no engine checks, and for how long that is so: since one
// was at work, or where none ever was, since something is in doubt.
func (t *notifying) unchecked(ctx context.Context) (notice Notice, age time.Duration, err error) {
	now := t.e.now()
	info, err := t.e.o.Store.Info(ctx)
	if err != nil {
		return notice, 0, err
	}
	states, err := t.e.o.Store.StateCounts(ctx, now)
	if err != nil {
		return notice, 0, err
	}
	doubts, since := 0, now
	for _, c := range states {
		if c.State == ledger.Uncertain {
			doubts += c.Count
			if c.Oldest.Before(since) {
				since = c.Oldest
			}
		}
	}
	if !info.EngineAt.IsZero() {
		since = info.EngineAt
	}
	return noticeWriter{t.e.policy(), info.Path, now}.Unchecked(info.EngineAt, doubts), now.Sub(since), nil
}
