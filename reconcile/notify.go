package reconcile

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/policy"
)

const (
	notifyEvery = 5 * time.Second  // between two looks at what people must be told
	guardEvery  = 15 * time.Second // the same, for whether an engine is at work
	noticesMost = 20               // that one notifier is sent by this engine
	noticesIn   = 10 * time.Minute // within this
	noticeTries = 3                // for one notice, until a notifier says that it has it
)

// notifying is what this engine told its notifiers. What they were told by others the ledger knows.
type notifying struct {
	every time.Duration // tests shorten it: between two looks
	pause time.Duration // the same: before another try

	mu    sync.Mutex
	lines map[string]*line // by notifier
}

// line is the way to one notifier.
type line struct {
	busy sync.Mutex
	told map[string]bool // ids of notices
	sent []time.Time     // within noticesIn
}

// to is the line to a notifier, taken until it is unlocked; nil while it is at work.
func (t *notifying) to(name string) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines == nil {
		t.lines = map[string]*line{}
	}
	if t.lines[name] == nil {
		t.lines[name] = &line{told: map[string]bool{}}
	}
	if l := t.lines[name]; l.busy.TryLock() {
		return l
	}
	return nil
}

// tellPeople tells people what happened until ctx ends. It never holds up the engine:
// each notifier has its own goroutine while it is at work.
func (e *Engine) tellPeople(ctx context.Context) {
	for sleep(ctx, cmp.Or(e.notify.every, notifyEvery)) == nil {
		pol := e.policy()
		if len(pol.Notifiers()) == 0 || e.onlyReads(ctx) || !e.leads(ledger.LeadLedger) {
			continue
		}
		f, err := gather(ctx, e.o.Store, pol, e.now())
		if err != nil {
			continue // the run loop says so
		}
		for _, n := range pol.Notifiers() {
			e.tell(ctx, n, f.notices(n))
		}
	}
}

// tell tells a notifier what it was not told yet, in the background. What cannot be recorded
// is not sent.
func (e *Engine) tell(ctx context.Context, n *policy.Notifier, notices []Notice) {
	l := e.notify.to(n.Name)
	if l == nil {
		return
	}
	e.background.Go(func() {
		defer l.busy.Unlock()
		for _, notice := range notices {
			event, now := notice.event(n.Name, e.host), e.now()
			l.sent = slices.DeleteFunc(l.sent, func(at time.Time) bool { return now.Sub(at) >= noticesIn })
			switch {
			case l.told[event.ID]:
				continue
			case len(l.sent) >= noticesMost || ctx.Err() != nil:
				return
			}
			if until, _ := e.downs.to(n).blocked(); until.After(now) { // it is told later
				return
			}
			first, err := e.o.Store.Tell(ctx, event)
			if err != nil {
				return // the run loop says so
			}
			l.told[event.ID] = true
			if first {
				l.sent = append(l.sent, now)
				e.send(ctx, n, event)
			}
		}
	})
}

// send sends a notice that is recorded until its notifier has it, a few times at most.
func (e *Engine) send(ctx context.Context, n *policy.Notifier, event ledger.Event) {
	pause := cmp.Or(e.notify.pause, 10*time.Second)
	for try := 1; ; {
		err, wait := e.sendNotice(ctx, n, event), pause
		if err == nil {
			return
		}
		if !errors.As(err, new(*waitError)) { // else nothing was sent
			try, pause = try+1, 6*pause
		}
		if try > noticeTries || sleep(ctx, wait) != nil {
			e.logf("%s: it may not have arrived: %s", event.Reason, err)
			return
		}
	}
}

// sendNotice sends a notice once. It errs where the notifier may not have it.
func (e *Engine) sendNotice(ctx context.Context, n *policy.Notifier, event ledger.Event) error {
	req, err := n.Request(event.ID, event.Detail)
	if err != nil {
		return err
	}
	leave, err := e.writes.enter()
	if err != nil {
		return err
	}
	defer leave()
	a := &attempt{k: n.Kind, req: req, q: RetryRequest{ChangeID: ledger.NewID()}}
	answer, err := e.downs.to(n).query(ctx, func() {}, func(ctx context.Context) ledger.Answer {
		return e.sendOnce(context.WithoutCancel(ctx), ctx, a, time.Now().Add(n.Kind.Deadline))
	})
	if err != nil {
		return err
	}
	said := outcome.Tidy(outcome.Judge(ctx, nil, ledger.Record{}, answer), req.Secrets)
	if answer.Err == nil && answer.Status == http.StatusAccepted { // it was to arrive, and no more
		said.Outcome = ledger.OutcomeCommitted
	}
	e.sends.add(n.Kind.Name, string(said.Outcome))
	if said.Outcome == ledger.OutcomeCommitted {
		return nil
	}
	return errors.New(cmp.Or(said.Error, string(said.Outcome)))
}

// Guard says when no engine has checked for a while, until ctx ends: with say, and to
// the notifiers of the policy. A proxy runs it; what checks by itself needs none.
func (e *Engine) Guard(ctx context.Context, say func(string)) {
	said := ""
	for sleep(ctx, cmp.Or(e.notify.every, guardEvery)) == nil {
		notice, age, err := unchecked(ctx, e.o.Store, e.policy(), e.now())
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
		for _, n := range e.policy().Notifiers() {
			if n.Wants(notice.Input.Event) {
				e.tell(ctx, n, []Notice{notice})
			}
		}
	}
}

// unchecked is the notice that no engine checks, and for how long that is so: since one
// was at work, or where none ever was, since something is in doubt.
func unchecked(ctx context.Context, s ledger.Store, pol *policy.Policy, now time.Time) (notice Notice, age time.Duration, err error) {
	info, err := s.Info(ctx)
	if err != nil {
		return notice, 0, err
	}
	states, err := s.StateCounts(ctx, now)
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
	return noticeWriter{pol, info.Path, now}.Unchecked(info.EngineAt, doubts), now.Sub(since), nil
}
