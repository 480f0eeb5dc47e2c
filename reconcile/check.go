package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// errOnlyLooking is why this engine settles nothing for the moment.
var errOnlyLooking = errors.New("another engine works on this ledger under another policy")

// errNotDue: somebody else has read it meanwhile.
var errNotDue = errors.New("it is not due any more")

// check is how one read is made and what may follow from it.
type check struct {
	actor ledger.Actor
	eager bool          // somebody waits: try a control that has failed lately again
	wait  time.Duration // how long a lease held by somebody else is waited for
	due   bool          // only if it is due still
	kind  string        // of the operation, where due
	// recheck schedules one more read of an operation that is settled then.
	recheck time.Time
}

// ReadNow makes one read of one operation now and applies its verdict. Errors:
// ErrNotFound, ErrReadOnly, *RefusedError when the kind has no check (code
// no_check) or an attempt is in flight (code in_flight), *LeasedError.
func (e *Engine) ReadNow(ctx context.Context, id string) (ReadResult, error) {
	if e.o.ReadOnly {
		return ReadResult{}, ledger.ErrReadOnly
	}
	actor := e.o.Actor
	if actor.Host == "" {
		actor.Host = e.host
	}
	rec, err := e.o.Store.Read(ctx, ledger.Locator{ID: id}) // a prefix may be given
	if err != nil {
		return ReadResult{}, err
	}
	return e.check(ctx, rec.Operation.ID, check{actor: actor, eager: true, wait: 5 * time.Second})
}

// check makes one read. It holds the operation's lease meanwhile and judges
// against the version it saw under it.
func (e *Engine) check(ctx context.Context, id string, c check) (ReadResult, error) {
	free, err := e.ops.lock(ctx, id)
	if err != nil {
		return ReadResult{}, err
	}
	defer free()
	return e.checkLocked(ctx, id, c)
}

func (e *Engine) checkLocked(ctx context.Context, id string, c check) (ReadResult, error) {
	pol := e.policy()
	digest := pol.Digest()
	if !c.due { // what is due was seen a moment ago
		rec, _, err := e.current(ctx, id)
		if err != nil {
			return ReadResult{}, err
		}
		if err := readable(pol.Kind(rec.Operation.Kind), rec); err != nil {
			return ReadResult{Operation: rec.Operation}, err
		}
		c.kind = rec.Operation.Kind
	}
	ttl := leaseFor(pol.Kind(c.kind))
	lease, err := e.lease(ctx, id, digest, ttl, c.wait)
	if err != nil {
		return ReadResult{}, err
	}
	defer func() {
		if err := e.o.Store.Release(context.WithoutCancel(ctx), lease); err != nil {
			e.logf("release the lease on %s: %v", id, err)
		}
	}()
	// What is judged is what is seen under the lease.
	rec, err := e.o.Store.Read(ctx, ledger.Locator{ID: id})
	if err != nil {
		return ReadResult{}, err
	}
	k := pol.Kind(rec.Operation.Kind)
	if err := readable(k, rec); err != nil {
		return ReadResult{Operation: rec.Operation}, err
	}
	if c.due && rec.Pricing.Digest == digest && rec.Pricing.ReadAt.After(e.now()) {
		return ReadResult{Operation: rec.Operation}, errNotDue
	}
	f := e.look(ctx, k, rec, func() error {
		renewed, err := e.o.Store.Lease(ctx, id, e.holder, digest, ttl)
		if err != nil {
			return err
		}
		if renewed.Generation != lease.Generation {
			return ledger.ErrLeaseLost
		}
		return nil
	})
	if ctx.Err() != nil {
		return ReadResult{Operation: rec.Operation}, ctx.Err()
	}
	return e.conclude(ctx, k, digest, rec, lease, f, c)
}

// conclude judges what a read showed, records it and schedules the next.
func (e *Engine) conclude(ctx context.Context, k *policy.Kind, digest string, rec ledger.Record, lease ledger.Lease, f findings, c check) (ReadResult, error) {
	p := proofOf(k, rec)
	p.control = func() (bool, string) { return e.control(ctx, k, digest, f.began, c.eager) }
	read := ledger.Read{
		ID: ledger.NewID(), OperationID: rec.Operation.ID, BeganAt: f.began, EndedAt: f.ended, Found: len(f.effects),
		Receipts: receipts(f.effects), Evidence: f.evidence.json(), Digest: digest, Actor: c.actor.Name,
	}
	if p.provable {
		read.ProofAt = p.at
	}
	read.Verdict, read.Reason = judge(f, p)
	settles := !e.rivals.about(e.now())
	if !settles && read.Verdict != ledger.Inconclusive {
		read.Reason += "; not settled: " + errOnlyLooking.Error()
	}
	result := ReadResult{Read: read, Operation: rec.Operation}
	if f.unasked {
		// No question was put, so there is no read to keep; it is only put off.
		result.Read.ID = ""
		return result, e.price(ctx, e.putOff(k, digest, rec, f.wait))
	}
	applied, err := e.observe(ctx, ledger.Observation{
		ChangeID: ledger.NewID(), Read: read, Version: rec.Operation.Version, Lease: lease,
		Confirm: settles && k.Auto.Confirm, Deny: settles && k.Auto.Deny, Actor: c.actor, RecheckAt: c.recheck,
		Result: f.evidence.result(),
	})
	if err != nil {
		return result, fmt.Errorf("record the check: %w", err)
	}
	result.Operation = applied.After
	if applied.After.State != ledger.Uncertain {
		return result, nil // no further read of it is due
	}
	rec.Operation, rec.Reads = applied.After, append([]ledger.Read{read}, rec.Reads...)
	return result, e.price(ctx, e.afterRead(k, digest, rec, f.wait))
}

// observe hands the read to the ledger's rule. Its change id makes it safe to
// say it again when the ledger did not answer.
func (e *Engine) observe(ctx context.Context, o ledger.Observation) (applied ledger.Applied, err error) {
	for try := range 4 {
		if applied, err = ledger.Observe(ctx, e.o.Store, o); err == nil || permanent(err) {
			return applied, err
		}
		if sleep(ctx, time.Duration(try+1)*50*time.Millisecond) != nil {
			return applied, err
		}
	}
	return applied, err
}

// permanent tells that saying it again would bring the same refusal.
func permanent(err error) bool {
	for _, e := range []error{ledger.ErrNotFound, ledger.ErrLeaseLost, ledger.ErrMoved, ledger.ErrRefused, ledger.ErrReadOnly, ledger.ErrCopied, context.Canceled} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// price writes what quotes say, unless this engine only looks.
func (e *Engine) price(ctx context.Context, quotes ...quote) error {
	if len(quotes) == 0 || e.rivals.about(e.now()) {
		return nil
	}
	prices := make([]ledger.Pricing, len(quotes))
	for i, q := range quotes {
		prices[i] = q.Pricing
	}
	if err := e.o.Store.Price(ctx, prices); err != nil {
		return fmt.Errorf("schedule the next check: %w", err)
	}
	e.rivals.priced(quotes, e.now())
	return nil
}

// putOff schedules a read that could not be made, without counting it.
func (e *Engine) putOff(k *policy.Kind, digest string, rec ledger.Record, wait time.Time) quote {
	now := e.now()
	rec.Pricing.ReadAt = spread(now.Add(5 * time.Second))
	if wait.After(now) {
		rec.Pricing.ReadAt = spread(wait)
	}
	return e.priced(k, digest, rec)
}

// readable tells why an operation cannot be read now.
func readable(k *policy.Kind, rec ledger.Record) error {
	switch {
	case k.Read == nil:
		return &ledger.RefusedError{Verb: "check", Code: "no_check", Why: fmt.Sprintf("the policy knows no check for %s", k.Name),
			Hint: "indoubt policy show " + k.Name}
	case rec.Operation.StateAt(rec.Now) == ledger.Pending:
		return &ledger.RefusedError{Verb: "check", Code: "in_flight",
			Why: fmt.Sprintf("attempt %d is in flight until %s", rec.Operation.AttemptCount, rec.Operation.DeadlineAt.UTC().Format(time.RFC3339))}
	}
	return nil
}

// leaseFor is how long one page may take, with room for writing down.
func leaseFor(k *policy.Kind) time.Duration {
	return max(k.Timeout, readTimeout)*2 + 10*time.Second
}

// lease takes the operation's lease, waiting a little for whoever holds it.
func (e *Engine) lease(ctx context.Context, id, digest string, ttl, patience time.Duration) (ledger.Lease, error) {
	until := time.Now().Add(patience)
	for {
		lease, err := e.o.Store.Lease(ctx, id, e.holder, digest, ttl)
		var held *ledger.LeasedError
		if !errors.As(err, &held) || time.Now().After(until) {
			return lease, err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return lease, err
		}
	}
}
