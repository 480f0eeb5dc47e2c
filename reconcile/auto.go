package reconcile

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

const (
	autoPages = 20  // pages of the list that one search goes through
	autoPage  = 200 // rows each
	autoRows  = 10_000
	autoAgain = 10 * time.Second
)

// autoSends are the operations the machine is about to send or has just
// considered.
type autoSends struct {
	mu   sync.Mutex
	busy map[string]bool
	next map[string]considered
}

// considered is until when an operation is left alone, unless it moves.
type considered struct {
	version   int64
	notBefore time.Time
}

func (s *autoSends) take(id string, version int64, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy == nil {
		s.busy, s.next = map[string]bool{}, map[string]considered{}
	}
	if last := s.next[id]; s.busy[id] || last.version == version && now.Before(last.notBefore) {
		return false
	}
	delete(s.next, id)
	s.busy[id] = true
	return true
}

func (s *autoSends) give(id string, version int64, now, notBefore time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, id)
	s.next[id] = considered{version, notBefore}
	if len(s.next) > autoRows {
		for old, last := range s.next {
			if now.After(last.notBefore) {
				delete(s.next, old)
			}
		}
	}
}

// sendWhatMayBe searches the list for what the policy lets the machine send.
func (e *Engine) sendWhatMayBe(ctx context.Context) {
	pol := e.policy()
	for _, tab := range []ledger.Tab{ledger.TabNeedsYou, ledger.TabChecking} {
		q := ledger.Query{Tab: tab, Order: ledger.OrderOldest, Limit: autoPage}
		for range autoPages {
			q.Now = e.now()
			page, err := e.o.Store.Page(ctx, q)
			if err != nil {
				e.logf("search for what may be sent: %v", err)
				return
			}
			for _, row := range page.Rows {
				if worthConsidering(pol.Kind(row.Kind), row, q.Now) {
					e.consider(ctx, row.ID, row.Version)
				}
			}
			if page.Next == "" {
				break
			}
			q.After = page.Next
		}
	}
}

// mayEver reports whether the policy lets the machine send this kind at all.
func mayEver(k *policy.Kind) bool { return k.Auto.Retry == "absent" || k.Auto.Retry == "key_safe" }

// worthConsidering rules out by the row alone.
func worthConsidering(k *policy.Kind, row ledger.Row, now time.Time) bool {
	return mayEver(k) && row.Conflict == ledger.NoConflict && !row.HandsOff &&
		!row.Parked(now) && row.SameInput == 0 && !row.Overtaken && row.GrantUntil.Before(now) && row.Attempts-1 < k.Retry.Max
}

// consider sends an operation, last seen at a version, in the background if the
// machine may, now or when its pause is over.
func (e *Engine) consider(ctx context.Context, id string, version int64) {
	if e.o.ReadOnly || !e.o.Send || !e.autos.take(id, version, e.now()) {
		return
	}
	e.active.idle.Add(1)
	go func() {
		defer e.active.idle.Done()
		again := e.sendIfAllowed(ctx, id)
		e.autos.give(id, version, e.now(), again)
	}()
}

// sendIfAllowed is the machine's retry (I5). It returns when to consider the
// operation again at the earliest.
func (e *Engine) sendIfAllowed(ctx context.Context, id string) time.Time {
	again := e.now().Add(autoAgain)
	rec, err := e.o.Store.Read(ctx, ledger.Locator{ID: id})
	if err != nil {
		return again
	}
	pol := e.policy()
	rec = asOf(rec, e.moment())
	now := rec.Now
	basis, due, may := mayAuto(pol.Kind(rec.Operation.Kind), rec, now)
	if !may {
		return again
	}
	if wait := due.Sub(now); wait > autoAgain {
		return due
	} else if sleep(ctx, wait) != nil || e.policy().Digest() != pol.Digest() {
		return again
	}
	actor := e.o.Actor
	actor.Name, actor.Host, actor.Machine, actor.Terminal = ledger.ActorAuto+e.host, e.host, true, false
	result, err := e.Retry(ctx, RetryRequest{ID: id, Version: rec.Operation.Version, Basis: basis, Actor: actor})
	switch {
	case err == nil:
		e.logf("%s: %s", id, result.Did)
	case errors.Is(err, ledger.ErrRefused), errors.Is(err, ledger.ErrMoved), ctx.Err() != nil:
	default:
		e.logf("send %s: %v", id, err)
	}
	return again
}

// mayAuto reports whether the machine may send the operation, on what basis and
// when: only with proof or a working key, only where the policy says so, only
// where nothing about it is odd.
func mayAuto(k *policy.Kind, rec ledger.Record, now time.Time) (basis ledger.Basis, due time.Time, may bool) {
	o := rec.Operation
	if o.HandsOff || o.Conflict != ledger.NoConflict || len(rec.Related) > 0 || now.Before(o.ParkedUntil) ||
		rec.HeldBy() != nil || rec.OpenGrant() != nil || o.AttemptCount-1 >= k.Retry.Max || o.AttemptCount == 0 || !o.Doubted {
		return "", due, false
	}
	advice := k.Advise(rec, now)
	if advice.Verb != policy.AdviseRetry {
		return "", due, false
	}
	basis, _, lapses := k.AllowedBasis(rec, now)
	switch {
	case basis == ledger.BasisAbsent && (k.Auto.Retry == "absent" || k.Auto.Retry == "key_safe"):
		if k.Send.Via() == "pipeline" {
			return "", due, false // its pipeline may begin again without being allowed to
		}
	case basis == ledger.BasisKeySafe && k.Auto.Retry == "key_safe":
	default:
		return "", due, false
	}
	since := o.EndedAt
	if o.SettledAt.After(since) {
		since = o.SettledAt
	}
	due = since.Add(autoPause(k.Retry, o.ID, o.AttemptCount))
	return basis, due, due.Before(lapses)
}

// autoPause is the pause before the machine's next attempt after n: exponential,
// with jitter that is the same in every engine.
func autoPause(r policy.RetryRule, id string, n int) time.Duration {
	top := r.BackoffMin
	for range n - 1 {
		if top = 2 * top; top >= r.BackoffMax {
			break
		}
	}
	if r.BackoffMax > 0 {
		top = min(top, r.BackoffMax)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	_, _ = h.Write([]byte{byte(n)})
	return time.Duration(float64(top) * (0.5 + float64(h.Sum32()%1000)/2000))
}
