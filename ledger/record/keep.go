package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"indoubt/ledger"
)

const (
	// settlePatience is how long a caller waits for the ledger to take an outcome.
	settlePatience = 5 * time.Second
	keepEvery      = time.Second
	// mostKept bounds the outcomes that wait for the ledger, and mostKeptBytes their
	// results; what is over goes without its result, and then not at all.
	mostKept      = 20_000
	mostKeptBytes = 64 << 20
	// appearsWithin is how long a transaction whose COMMIT got no answer may take to end
	// once the ledger is reached again.
	appearsWithin = time.Minute
)

// keeping are outcomes that the ledger did not take. Only this
// process knows them: they are offered again until it does, as long as the process
// lives.
type keeping struct {
	mu    sync.Mutex
	all   []kept
	bytes int
	empty chan struct{} // closed when the last one is recorded; nil when there is none
}

type kept struct {
	ledger.SettleRequest
	unsure bool      // whether its attempt is recorded at all is not known
	missed time.Time // when it was first found not to be
}

// neverSent keeps that an attempt was not sent, which is perhaps recorded: then it must
// not end in doubt.
func (r *Recorder) neverSent(attemptID string, why error) {
	r.keep(kept{unsure: true, SettleRequest: ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: attemptID, Outcome: ledger.OutcomeFailed, Proof: ledger.NeverSent,
		Error: "whether it was recorded could not be told, so nothing was sent", Status: -1}}, why)
}

// SettleSurely offers an outcome to the ledger until it takes it. After some
// seconds the caller gets the error, and the outcome is kept and offered again
// until it is recorded; see Drain. The change id makes the repetition harmless. A
// result that the ledger refuses is left out.
func (r *Recorder) SettleSurely(ctx context.Context, req ledger.SettleRequest) (ledger.Applied, error) {
	req.ChangeID = cmp.Or(req.ChangeID, ledger.NewID())
	applied, err := r.SettleUntil(ctx, &req, time.Now().Add(settlePatience), nil)
	if err != nil && mayPass(err) {
		r.keep(kept{SettleRequest: req}, err)
	}
	return applied, err
}

// SettleUntil repeats a settle until the ledger has it, the time is over, or stop
// is closed.
func (r *Recorder) SettleUntil(ctx context.Context, req *ledger.SettleRequest, until time.Time, stop <-chan struct{}) (ledger.Applied, error) {
	said, gone := false, time.Now().Add(settlePatience) // a ledger that was taken away is not waited for
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, keepEvery) {
		applied, err := r.Settle(ctx, *req)
		if err == nil || !mayPass(err) || time.Now().Add(pause).After(until) {
			return applied, err
		}
		switch {
		case errors.Is(err, ledger.ErrGuard) && len(req.Result) == 0, errors.Is(err, ledger.ErrGone) && time.Now().After(gone):
			return applied, err
		case errors.Is(err, ledger.ErrGuard):
			req.Result = nil
		}
		if pause == keepEvery && !said {
			said = true
			r.Log(fmt.Sprintf("the outcome (%s) is not recorded yet, trying on: %v", req.Outcome, err))
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-stop:
			timer.Stop()
			return applied, err
		}
	}
}

// mayPass reports whether the same settle may be taken later. What is wrong with the
// settle itself was left out of it the first time.
func mayPass(err error) bool {
	return !errors.Is(err, ledger.ErrNotFound) && !errors.Is(err, ledger.ErrCopied)
}

// keep takes an outcome to be offered again.
func (r *Recorder) keep(req kept, why error) {
	k := &r.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.all) >= mostKept {
		r.Log(fmt.Sprintf("an outcome (%s of attempt %s) is lost: %d wait to be recorded already: %v", req.Outcome, req.AttemptID, len(k.all), why))
		return
	}
	if k.bytes+len(req.Result) > mostKeptBytes {
		req.Result = nil
	}
	k.all, k.bytes = append(k.all, req), k.bytes+len(req.Result)
	if k.empty == nil {
		k.empty = make(chan struct{})
		r.Log("outcomes that are known cannot be recorded; they are kept and offered again: " + why.Error())
		go r.offerKept(k.empty)
	}
}

// offerKept offers what is kept, oldest first, until all of it is recorded. What is not
// taken goes behind the others.
func (r *Recorder) offerKept(empty chan struct{}) {
	k, recorded := &r.kept, 0
	for {
		k.mu.Lock()
		if len(k.all) == 0 {
			k.all, k.bytes, k.empty = nil, 0, nil
			k.mu.Unlock()
			close(empty)
			r.Log(fmt.Sprintf("%d outcomes that were kept are recorded now", recorded))
			return
		}
		next := k.all[0]
		k.mu.Unlock()
		_, err := r.Settle(context.Background(), next.SettleRequest)
		if errors.Is(err, ledger.ErrGuard) && len(next.Result) > 0 {
			next.Result = nil
			_, err = r.Settle(context.Background(), next.SettleRequest)
		}
		switch {
		case err == nil:
			recorded++
		case next.unsure && errors.Is(err, ledger.ErrNotFound):
			if next.missed.IsZero() {
				next.missed = time.Now()
			}
			if time.Since(next.missed) < appearsWithin {
				k.later(next)
				continue
			}
		case errors.Is(err, ledger.ErrGuard) || !mayPass(err):
			r.Log(fmt.Sprintf("an outcome (%s of attempt %s) is lost: %v", next.Outcome, next.AttemptID, err))
		default:
			k.later(next)
			continue
		}
		k.mu.Lock()
		k.bytes -= len(k.all[0].Result)
		k.all = k.all[1:]
		k.mu.Unlock()
	}
}

// later puts the first behind the others, after a pause.
func (k *keeping) later(first kept) {
	k.mu.Lock()
	k.bytes += len(first.Result) - len(k.all[0].Result)
	k.all = append(k.all[1:], first)
	k.mu.Unlock()
	time.Sleep(keepEvery)
}

// Drain waits until every outcome that is known is recorded, or ctx ends; it
// returns how many are not.
func (r *Recorder) Drain(ctx context.Context) int {
	k := &r.kept
	k.mu.Lock()
	empty := k.empty
	k.mu.Unlock()
	if empty != nil {
		select {
		case <-empty:
		case <-ctx.Done():
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.all)
}

// Log says a line to who runs the recorder.
func (r *Recorder) Log(line string) {
	if r.options.Log != nil {
		r.options.Log(line)
	}
}

// mostSent bounds the attempts that a long-lived recorder remembers and that are never
// settled, and mostSentBytes their inputs.
const (
	mostSent      = 10_000
	mostSentBytes = 64 << 20
)

// remembered are the attempts that were begun here and are not settled for good. A ledger
// that failed over may lack them, and no one else knows what was sent.
type remembered struct {
	mu    sync.Mutex
	all   map[string]ledger.Sent // by attempt
	bytes int
}

func (m *remembered) keep(s ledger.Sent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	size := len(s.Operation.Input)
	for id := range m.all {
		if len(m.all) < mostSent && m.bytes+size <= mostSentBytes {
			break
		}
		m.remove(id)
	}
	if m.all == nil {
		m.all = map[string]ledger.Sent{}
	}
	m.all[s.Attempt.ID], m.bytes = s, m.bytes+size
}

// of is the attempt as it was begun here, or one without an id.
func (m *remembered) of(attemptID string) ledger.Sent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[attemptID]
}

func (m *remembered) drop(attemptID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(attemptID)
}

func (m *remembered) remove(attemptID string) {
	m.bytes -= len(m.all[attemptID].Operation.Input)
	delete(m.all, attemptID)
}

// mostMoves bounds how often a ledger is followed that has moved on.
const mostMoves = 8

// settleElsewhere records an outcome where the ledger is that has moved: its attempt went
// along. Until it is known to be there, why is the error.
func settleElsewhere(ctx context.Context, r *Recorder, sent ledger.Sent, req ledger.SettleRequest, why error) (ledger.Applied, error) {
	here, err := r.store.Info(ctx)
	if err != nil || here.MovedTo == "" || r.options.Elsewhere == nil {
		return ledger.Applied{}, why
	}
	there, err := within(ctx, func(ctx context.Context) (ledger.Store, error) { return follow(ctx, r.options.Elsewhere, here.MovedTo) })
	if err != nil {
		return ledger.Applied{}, fmt.Errorf("%w; it is not reached there: %v", why, err) //nolint:errorlint // what is wrong there says nothing of the outcome
	}
	defer there.Close()
	there = bounded{there}
	if is, err := there.Info(ctx); err != nil || is.ID != here.ID {
		return ledger.Applied{}, fmt.Errorf("%w; what is there is not known to be this ledger (%v)", why, err) //nolint:errorlint // nor does this
	}
	return ledger.SettleSent(ctx, there, sent, req)
}

// follow opens the ledger where it is now, going by what each place says of the next.
func follow(ctx context.Context, opens func(context.Context, string) (ledger.Store, error), name string) (s ledger.Store, err error) {
	for range mostMoves {
		s, err = opens(ctx, name)
		var away *ledger.AwayError
		if !errors.As(err, &away) {
			return s, err
		}
		name = away.To
	}
	return s, err
}
