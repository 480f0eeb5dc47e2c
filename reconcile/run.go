package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

const (
	passEvery  = 20 * time.Millisecond // least time between two passes
	pollEvery  = time.Second           // longest, for writers that do not notify
	errorPause = 2 * time.Second       // after the ledger could not be read
	batch      = 500                   // rows taken from the ledger at once
	troubleFor = 5 * time.Second       // before an operation that made trouble is read again
)

// Run takes the lead of what nobody leads, and there expires, prices, reads what is due and
// settles until ctx ends; with Options.Notify it also tells people. It sends no operation (I5). It survives a
// ledger that cannot be read for a while. A read-only engine only waits. Errors:
// ErrReadOnly and ErrCopied of a ledger that may not be written, *ledger.AwayError of one
// that has moved, ErrGone of one that is not where it was.
func (e *Engine) Run(ctx context.Context) error {
	if e.o.ReadOnly {
		<-ctx.Done()
		return nil
	}
	e.apply(ctx)
	defer e.Claim()()
	defer e.background.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end() // what is waited for ends with the loop, whatever ended that
	if e.o.Notify {
		e.background.Go(func() { e.tellPeople(ctx) })
	}
	return e.passes(ctx, false, func(r ReadResult, err error) {
		if err != nil && ctx.Err() == nil {
			e.logf("check %s: %v", r.Operation.ID, err)
		}
	})
}

// passes does what is due until ctx ends; with once, what is due now until all of it is done,
// and it gives up where the ledger cannot be asked.
func (e *Engine) passes(ctx context.Context, once bool, ended func(ReadResult, error)) error {
	watch := e.o.Store.Watch(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	by, trouble := e.now(), "" // what was said last
	for ctx.Err() == nil {
		began, idle := time.Now(), e.checking.Load() == 0 // what ends from here on makes room that this pass may not have seen
		if !once {
			by = e.now()
		}
		begun, more, err := e.pass(ctx, by, ended)
		switch {
		case once && (err != nil || idle && begun == 0 && !more):
			return err
		case err == nil && trouble != "":
			trouble = ""
			e.logf("the ledger can be asked again")
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ledger.ErrReadOnly), errors.Is(err, ledger.ErrCopied), errors.Is(err, ledger.ErrGone):
			return err
		default: // whatever is due meanwhile waits too, and is not told of each time
			if info, bad := e.o.Store.Info(ctx); bad == nil && info.MovedTo != "" {
				return &ledger.AwayError{Ledger: info.Path, To: info.MovedTo}
			}
			if err.Error() != trouble {
				trouble = err.Error()
				e.logf("the ledger could not be asked: %s", trouble)
			}
			if sleep(ctx, errorPause) != nil {
				return nil
			}
			continue
		}
		if sleep(ctx, passEvery-time.Since(began)) != nil {
			return nil
		}
		if more {
			continue
		}
		wait := e.lead.wait(e.now(), pollEvery)
		if e.after.news {
			wait = min(wait, time.Until(e.after.next))
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-e.wake:
		case _, open := <-watch:
			if e.after.news = true; !open {
				watch = nil
			}
		}
	}
	return nil
}

// standbysEvery is how often the ledger's server is asked for a standby that forgets.
const standbysEvery = time.Hour

// Replicated is a ledger on a server that may have standbys. The finding is empty where none follows.
type Replicated interface {
	Standbys(ctx context.Context) (ledger.Finding, error)
}

// askStandbys says where a standby that could be promoted lacks what was acknowledged.
func (e *Engine) askStandbys(ctx context.Context) {
	server, is := e.o.Store.(Replicated)
	if now := time.Now(); is && !now.Before(e.standbys) {
		f, err := server.Standbys(ctx)
		if err != nil { // asked again with the next pass
			return
		}
		if e.standbys = now.Add(standbysEvery); f.Level == ledger.LevelFail {
			e.logf("%s: %s", f.Found, f.Do)
		}
	}
}

// pass does all that is due: it begins the checks that there is room for, of what was due by
// then, and tells when each ends. more reports that there is more to do at once.
func (e *Engine) pass(ctx context.Context, by time.Time, ended func(ReadResult, error)) (begun int, more bool, err error) {
	if err := e.checkClock(ctx); err != nil {
		return 0, false, err
	}
	expired, refused := e.o.Store.Expire(ctx, batch)
	if refused != nil && !errors.Is(refused, ledger.ErrGuard) {
		return 0, false, fmt.Errorf("write down deadlines that passed: %w", refused)
	}
	looks := e.onlyReads(ctx)
	if err := e.asked(); err != nil {
		return 0, false, err
	}
	if !looks { // what cannot be scheduled again would be read without end
		if begun, more, err = e.startChecks(ctx, by, ended); err != nil {
			return begun, false, err
		}
	}
	if e.leads(ledger.LeadLedger) {
		e.askStandbys(ctx)
	}
	unpriced, err := e.keepUp(ctx)
	return begun, more || unpriced || expired == batch, cmp.Or(err, refused) // what is priced may be due at once
}

// dueCheck is an operation whose check begins.
type dueCheck struct {
	ledger.Due
	down *downstream
}

// startChecks begins the checks that are due, of each downstream that this process leads and
// that has room, nearest first. What no one has priced yet is due as well. more says that
// some rows had moved, so that others may be due behind them.
func (e *Engine) startChecks(ctx context.Context, by time.Time, ended func(ReadResult, error)) (begun int, more bool, err error) {
	pol := e.policy()
	var rows []ledger.Due
	for _, k := range append(pol.Checked(), nil) {
		some, err := e.dueOf(ctx, k, by)
		if err != nil {
			return 0, false, err
		}
		rows = append(rows, some...)
	}
	var due []dueCheck
	for _, row := range rows {
		k := pol.Kind(row.Kind)
		if d := e.downs.of(k); k.Read != nil && e.leads(d.scope) && d.take(row.ID) {
			due = append(due, dueCheck{row, d})
		}
	}
	if len(due) == 0 {
		return 0, false, nil
	}
	recs, err := e.o.Store.Kept(ctx, ledger.Each(due, func(c dueCheck) string { return c.ID })) // in this order
	for _, c := range due {
		var rec ledger.Record
		if len(recs) > 0 && recs[0].Operation.ID == c.ID {
			rec, recs = recs[0], recs[1:]
		}
		if p := rec.Pricing; p.OperationID == "" || rec.Operation.Version != c.Version || p.ReadAt.After(by) { // checked or moved since
			c.down.leave(c.ID, false)
			more = true
			continue
		}
		begun++
		e.checking.Add(1)
		e.background.Go(func() { e.checkDue(ctx, c, rec, ended) })
	}
	if err != nil {
		return begun, more, fmt.Errorf("read what is due: %w", err)
	}
	return begun, more, nil
}

// dueOf is what is due of a kind's downstream, as much as there is room for; nil stands for
// what has no price. What cannot be checked now is put off: all of it when the downstream wants
// no request, and what nobody leads, of which whoever leads the ledger says when a person is asked.
func (e *Engine) dueOf(ctx context.Context, k *policy.Kind, by time.Time) ([]ledger.Due, error) {
	name, limit, off, asked := "", batch, time.Time{}, ledger.Never
	if k != nil {
		name = k.DownstreamName()
		d := e.downs.of(k)
		switch until, _ := d.blocked(); {
		case !e.leads(d.scope):
			if asked = e.lead.unchecked(d.scope); !e.leads(ledger.LeadLedger) || !asked.Before(ledger.Never) {
				return nil, nil
			}
			off = e.now().Add(muteFor)
		case until.Sub(e.now()) > patience:
			off = until
		default:
			limit = d.look()
		}
	}
	if limit == 0 {
		return nil, nil
	}
	rows, err := e.o.Store.Due(ctx, name, by, limit)
	if err != nil {
		return nil, fmt.Errorf("find what is due: %w", err)
	}
	if off.IsZero() {
		return rows, nil
	}
	return nil, e.postpone(ctx, rows, off, asked)
}

// postpone puts what is due off, in one write.
func (e *Engine) postpone(ctx context.Context, due []ledger.Due, until, asked time.Time) error {
	recs, err := e.o.Store.Records(ctx, ledger.Each(due, func(d ledger.Due) string { return d.ID }))
	if err != nil {
		return fmt.Errorf("read what is put off: %w", err)
	}
	digest := e.policy().Digest()
	var off []ledger.Pricing
	for _, rec := range recs {
		if p := rec.Pricing; p.Digest == digest {
			p.Version, p.ReadAt, p.DecideAt = rec.Operation.Version, apart(e.now(), until), sooner(p.DecideAt, asked)
			off = append(off, p)
		}
	}
	return e.price(ctx, off...)
}

// checkDue checks one operation that was due, in a goroutine of its own. One that was moved, or
// read by another process, is no error.
func (e *Engine) checkDue(ctx context.Context, c dueCheck, rec ledger.Record, ended func(ReadResult, error)) {
	result, err := e.check(ctx, &rec, check{actor: e.checker()})
	if errors.Is(err, ledger.ErrRefused) {
		result, err = ReadResult{}, nil
	}
	c.down.leave(c.ID, err != nil)
	ended(result, err)
	e.checking.Add(-1)
	e.nudge()
}

// Summary is what Once did.
type Summary struct {
	Read    map[ledger.Verdict]int `json:"read"`    // checks that were made, by what they found
	Skipped int                    `json:"skipped"` // put off, or moved meanwhile
	Errors  int                    `json:"errors"`
	Leaders []ledger.Leader        `json:"-"` // others, who check what this one left to them
}

// Once takes the lead of what nobody leads, and there prices and reads everything that is due
// now, each operation once. It tells of each check that ends, one at a time. Errors: ErrReadOnly,
// ErrCopied, and of the ledger; a read that fails is counted and told.
func (e *Engine) Once(ctx context.Context, tell func(ReadResult, error)) (Summary, error) {
	s := Summary{Read: map[ledger.Verdict]int{}}
	if e.o.ReadOnly {
		return s, ledger.ErrReadOnly
	}
	defer e.Claim()()
	if why := e.mayAsk(ctx); why != "" {
		return s, cannotAsk(why)
	}
	s.Leaders = e.lead.leadOthers()
	e.after.next = time.Time{}
	var mu sync.Mutex
	err := e.passes(ctx, true, func(result ReadResult, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			s.Errors++
		case result.Read.ID == "":
			s.Skipped++
		default:
			s.Read[result.Read.Verdict]++
		}
		if tell != nil {
			tell(result, err)
		}
	})
	e.background.Wait()
	return s, cmp.Or(err, ctx.Err())
}
