package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/policy/verdict"
)

// gap remembers when this process first knew until when the ledger may have lost what was sent.
type gap struct {
	mu    sync.Mutex
	until time.Time
	at    ledger.Steady
}

// seen is when that was, by the steady clock.
func (g *gap) seen(rec ledger.Record) ledger.Steady {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.until.Equal(rec.Gap) || g.at.Boot != rec.Steady.Boot {
		g.until, g.at = rec.Gap, rec.Steady
	}
	return g.at
}

// check is how one read is made and what may follow from it.
type check struct {
	actor ledger.Actor
	eager bool // a person waits: try a control that has failed lately again
}

// ReadNow makes one read of one operation now and applies its verdict. Errors:
// ErrNotFound, ErrReadOnly, *RefusedError when the kind has no check (code
// no_check) or an attempt is in flight (code in_flight).
func (e *reader) ReadNow(ctx context.Context, id string) (ReadResult, error) {
	if e.o.ReadOnly {
		return ReadResult{}, ledger.ErrReadOnly
	}
	return e.checkFor(ctx, id, e.checker())
}

// checkFor makes one read that a person waits for. Whoever leads may make one of the same
// operation meanwhile.
func (e *reader) checkFor(ctx context.Context, id string, actor ledger.Actor) (ReadResult, error) {
	rec, _, err := e.current(ctx, id)
	if err != nil {
		return ReadResult{}, err
	}
	o := rec.Operation
	d := e.downs.of(e.policy().Kind(o.Kind))
	d.enter(o.ID)
	defer d.leave(o.ID, false)
	return e.check(ctx, &rec, check{actor, true})
}

// check makes one read, and judges against the version that was seen before. Another process
// may read the same operation meanwhile.
func (e *reader) check(ctx context.Context, rec *ledger.Record, c check) (result ReadResult, err error) {
	pol := e.policy()
	k := pol.Kind(rec.Operation.Kind)
	if err := readable(k, *rec); err != nil {
		return ReadResult{Operation: rec.Operation}, err
	}
	if why := e.mayAsk(ctx); why != "" {
		return ReadResult{Operation: rec.Operation}, cannotAsk(why)
	}
	*rec = e.seeTrees(ctx, *rec, c.actor)
	rec.GapSeen = e.gap.seen(*rec)
	var s seen
	if key, may := e.mayShare(k, *rec, pol.Digest()); may {
		s = e.seeShared(ctx, k, rec, pol.Digest(), key, c.eager)
	} else {
		s = e.judged(ctx, k, rec, pol.Digest(), e.read(ctx, k, *rec), c.eager)
	}
	if ctx.Err() != nil {
		return ReadResult{Operation: rec.Operation}, ctx.Err()
	}
	return e.conclude(ctx, k, rec, pol.Digest(), s, c)
}

// seen is what a read showed, and what follows from it.
type seen struct {
	findings
	proof     verdict.Proof
	judgement verdict.Judgement
}

// judged judges what a read showed.
func (e *reader) judged(ctx context.Context, k *policy.Kind, rec *ledger.Record, digest string, f findings, eager bool) seen {
	p := e.proof(ctx, k, rec, digest, &f, eager)
	return seen{f, p, verdict.Judge(k.Read.Identity(), f.Findings, p)}
}

// conclude records a read, and schedules the next in the same transaction.
func (e *reader) conclude(ctx context.Context, k *policy.Kind, rec *ledger.Record, digest string, f seen, c check) (ReadResult, error) {
	p, j, effects := f.proof, f.judgement, f.Effects
	if j.Verdict.Tells() { // an effect that may be another's gives no receipt
		effects = f.Sure()
	}
	read := ledger.Read{
		ID: ledger.NewID(), OperationID: rec.Operation.ID, BeganAt: f.Began, EndedAt: f.Ended, Found: len(effects),
		Verdict: j.Verdict, Cause: j.Cause, Reason: clip(j.Reason, maxReason), Receipts: receipts(effects),
		Evidence: f.evidence.json(), Digest: digest, Actor: c.actor.Name,
	}
	if p.Provable {
		read.ProofAt = p.At
	}
	moved := e.onlyReads(ctx) || e.policy().Digest() != digest // its rules are those of before
	if moved && read.Verdict.Tells() {
		if read.Reason += "; not settled: the policy has changed meanwhile"; read.Verdict == ledger.NotThere {
			read.Verdict, read.Cause = ledger.CannotTell, ledger.CauseUnchecked
		}
	}
	result := ReadResult{Read: read, Operation: rec.Operation}
	if f.Unasked {
		// Nothing was requested, so there is no read to keep; it is only put off.
		if result.Read.ID = ""; !e.leads(scopeOf(k)) {
			return result, nil
		}
		return result, e.price(ctx, e.putOff(k, digest, *rec, f.wait))
	}
	early := p.Provable && len(effects) == 0 && !f.Began.After(p.At)
	o := ledger.Observation{
		ChangeID: ledger.NewID(), Read: read, Version: rec.Operation.Version, Settles: !moved, Actor: c.actor,
		Looks: k.Looks, Failed: early || f.Trouble != "" || f.Stale != "", Result: f.evidence.result(), Seen: rec.Kept,
	}
	if !moved && e.leads(scopeOf(k)) { // else whoever leads prices it anew
		o.Pricing = e.priceAfter(k, digest, *rec, o, f.wait)
	}
	applied, err := e.observe(ctx, o)
	if err != nil {
		return result, fmt.Errorf("record the check: %w", err)
	}
	result.Operation, result.Read = applied.After, o.Weighed(rec)
	e.reads.add(k.Name, string(read.Verdict))
	return result, nil
}

// proof gathers what the verdict depends on beside the findings, with what is asked for
// it of others. What is recorded for the operation already needs no control.
func (e *reader) proof(ctx context.Context, k *policy.Kind, rec *ledger.Record, digest string, f *findings, eager bool) verdict.Proof {
	p := k.Proof(asOf(*rec, f.from))
	p.Visible = k.VisibleUntil(asOf(*rec, f.to))
	p.Running = mayStillWrite(*rec)
	p.Stranger = func() string { return k.Downstream.Stranger(rec.Operation.Request, f.request.HTTP, e.digest(ctx)) }
	p.Siblings = func() verdict.Siblings {
		return siblingSearch{e, policy.Sighted{Kind: k, Record: *rec}, *f, digest, eager}.siblings(ctx)
	}
	if o := rec.Operation; rec.State() != ledger.Uncertain && known(o, f.Effects) {
		return p
	}
	p.Shared = func(effects []verdict.Effect) (ledger.Cause, string) { return e.shared(ctx, k, *rec, effects) }
	p.Negative = func() (ledger.Cause, string) { return e.negative(ctx, k, *rec, digest, f.from, eager) }
	return p
}

// priceAfter is the price of the operation once the observation is made; nil when
// it has left the list by then.
func (e *reader) priceAfter(k *policy.Kind, digest string, rec ledger.Record, o ledger.Observation, wait time.Time) *ledger.Pricing {
	rec = asOf(rec, e.moment())
	change, err := o.Rule()(&rec)
	if err != nil {
		return nil
	}
	if change.Operation != nil {
		rec.Operation = *change.Operation
	}
	if change.Read != nil {
		rec.Reads = append([]ledger.Read{*change.Read}, rec.Reads...)
	}
	for _, a := range change.Attempts {
		rec.Attempts = slices.Clone(rec.Attempts)
		for i := range rec.Attempts {
			if rec.Attempts[i].ID == a.ID {
				rec.Attempts[i] = a
			}
		}
	}
	rec.Pricing.Reads++ // a price of before this check is known by it
	var p ledger.Pricing
	switch s := rec.Operation.State; {
	case s == ledger.Uncertain:
		p = e.afterRead(k, digest, rec, wait)
	case !change.RecheckAt.IsZero():
		rec.Pricing.ReadAt = change.RecheckAt
		p = e.priced(k, digest, rec)
	case s == ledger.Failed || rec.Operation.Conflict != ledger.NoConflict:
		p = e.priced(k, digest, rec)
	default:
		return nil
	}
	return &p
}

// observe applies the ledger's rule for a read. The change id makes it safe to
// repeat when the ledger did not answer.
func (e *reader) observe(ctx context.Context, o ledger.Observation) (applied ledger.Applied, err error) {
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

// permanent reports whether a repeat would be refused again.
func permanent(err error) bool {
	lasting := []error{ledger.ErrNotFound, ledger.ErrMoved, ledger.ErrRefused, ledger.ErrReadOnly, ledger.ErrCopied, ledger.ErrGone, context.Canceled}
	return slices.ContainsFunc(lasting, func(e error) bool { return errors.Is(err, e) })
}

// price writes prices, unless this engine only reads.
func (e *reader) price(ctx context.Context, prices ...ledger.Pricing) error {
	if len(prices) == 0 || e.onlyReads(ctx) {
		return nil
	}
	if err := e.o.Store.Price(ctx, prices); err != nil {
		return fmt.Errorf("schedule the next check: %w", err)
	}
	return nil
}

// putOff schedules a read that could not be made, without counting it.
func (e *reader) putOff(k *policy.Kind, digest string, rec ledger.Record, wait time.Time) ledger.Pricing {
	now := e.now()
	rec.Pricing.ReadAt = spread(now.Add(5 * time.Second))
	if wait.After(now) {
		rec.Pricing.ReadAt = apart(now, wait)
	}
	return e.priced(k, digest, rec)
}

// readable says why an operation cannot be read now.
func readable(k *policy.Kind, rec ledger.Record) error {
	switch {
	case k.Read == nil:
		return &ledger.RefusedError{Verb: "check", Code: "no_check", Why: fmt.Sprintf("the policy knows no check for %s", k.Name),
			Hint: fmt.Sprintf("give it a `read:` in the policy, or look by hand and say what is so: indoubt confirm|deny %s@%d --reason …", rec.Operation.ID, rec.Operation.Version)}
	case rec.State() == ledger.Pending:
		return &ledger.RefusedError{Verb: "check", Code: "in_progress",
			Why: fmt.Sprintf("attempt %d by %s is in flight until %s", rec.Operation.AttemptCount, rec.Operation.Actor, rec.Operation.DeadlineAt.UTC().Format(time.RFC3339))}
	}
	return nil
}
