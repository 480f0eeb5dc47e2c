package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/outcome"
)

// real is a recorder over a ledger with the host's clocks.
func real(t testing.TB, rule KindRule) (*Recorder, ledger.Store) {
	t.Helper()
	store := newLedger(t, time.Now, nil)
	return New(store, oneRule(rule), Options{}), store
}

func recorded(t *testing.T, store ledger.Store, id string) ledger.Record {
	t.Helper()
	rec := need.Get(store.Read(context.Background(), ledger.Locator{ID: id}))(t)
	return rec
}

// says is a send function that gives the same every time.
func says(res Result, err error) func(context.Context, Call) (Result, error) {
	return func(context.Context, Call) (Result, error) { return res, err }
}

func TestDoSettlesByWhatSendReturns(t *testing.T) {
	boom := errors.New("read: connection reset by peer")
	for _, c := range []struct {
		name  string
		res   Result
		err   error
		state ledger.State
		proof ledger.Proof
		class ledger.ErrorClass
	}{
		{"nil", Result{Receipt: "ch_1", Output: []byte(`{"id":"ch_1"}`)}, nil, "committed", "", ""},
		{"an error", Result{}, boom, "uncertain", "", ""},
		{"a reset", Result{}, fmt.Errorf("post: %w", syscall.ECONNRESET), "uncertain", "", "reset"},
		{"connection refused, says a client", Result{}, fmt.Errorf("post: %w", syscall.ECONNREFUSED), "uncertain", "", ""},
		{"a context's end", Result{}, context.DeadlineExceeded, "uncertain", "", "timeout"},
		{"an error with a receipt", Result{Receipt: "ch_1"}, boom, "uncertain", "", ""},
		{"not sent", Result{}, NotSent(boom), "failed", "never_sent", ""},
		{"not sent, wrapped again", Result{}, fmt.Errorf("charge: %w", NotSent(boom)), "failed", "never_sent", ""},
		{"refused", Result{}, Refused(boom), "failed", "refused", ""},
		{"not sent beside something else", Result{}, errors.Join(NotSent(boom), boom), "uncertain", "", ""},
		{"two hosts, one not reached", Result{}, fmt.Errorf("%w, %w", NotSent(boom), boom), "uncertain", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, store := real(t, KindRule{})
			res, err := Do(t.Context(), r, Request{Kind: "charge", Key: "INV-1"}, says(c.res, c.err))
			rec := recorded(t, store, res.Operation.ID)
			a := rec.Attempts[0]
			if rec.Operation.State != c.state || res.Operation.State != c.state || a.Proof != c.proof || a.ErrorClass != c.class {
				t.Errorf("%s, proof %q, class %q (%s): %v", rec.Operation.State, a.Proof, a.ErrorClass, a.Error, err)
			}
			var failed *FailedError
			switch {
			case (In(err).Answer == ledger.AnswerInDoubt) != (c.state == ledger.Uncertain), errors.As(err, &failed) != (c.state == ledger.Failed),
				(err == nil) != (c.state == ledger.Committed):
				t.Errorf("error %v", err)
			case c.err != nil && !errors.Is(err, c.err):
				t.Errorf("error %v does not hold what send said", err)
			case err == nil && (res.Replayed || string(res.Output) == ""):
				t.Errorf("result %+v", res)
			}
		})
	}
}

// TestDoGivesWhatIsKnown: the second call sends only where the first is known to
// have had no effect.
func TestDoGivesWhatIsKnown(t *testing.T) {
	r, store := real(t, KindRule{Deadline: time.Minute})
	never := func(context.Context, Call) (Result, error) {
		t.Error("it was sent again")
		return Result{}, nil
	}
	request := Request{Kind: "charge", Key: "done", Input: []byte(`{"amount":1}`)}
	need.Get(Do(t.Context(), r, request, says(Result{Receipt: "ch_1", Output: []byte("a text")}, nil)))(t)
	res, err := Do(t.Context(), r, request, never)
	need.That(t, err == nil && res.Replayed && string(res.Output) == "a text" && res.Receipt == "ch_1", "a finished one: %+v, %v", res, err)
	other := request
	other.Input = []byte(`{"amount":2}`)
	if _, err := Do(t.Context(), r, other, never); !errors.Is(err, ledger.ErrKeyReused) {
		t.Errorf("another input: %v", err)
	}
	request.Key = "doubt"
	first, _ := Do(t.Context(), r, request, says(Result{}, io.ErrUnexpectedEOF))
	_, err = Do(t.Context(), r, request, never)
	need.That(t, In(err).Answer == ledger.AnswerInDoubt && In(err).Operation.ID == first.Operation.ID, "in doubt: %v", err)
	o := recorded(t, store, first.Operation.ID).Operation
	need.Get(ledger.Decide(t.Context(), store, ledger.Decision{ChangeID: ledger.NewID(), ID: o.ID, Version: o.Version, Verb: ledger.VerbAbandon,
		Reason: "no more", Actor: ledger.Actor{Name: "ana", Terminal: true}}))(t)
	if _, err = Do(t.Context(), r, request, never); !errors.Is(err, ledger.ErrRefused) {
		t.Errorf("abandoned: %v", err)
	}
	request.Key = "busy"
	if _, err := Do(t.Context(), r, request, func(ctx context.Context, _ Call) (Result, error) {
		if _, err := Do(ctx, r, request, never); In(err).Answer != ledger.AnswerInProgress || In(err).Operation.DeadlineAt.IsZero() {
			t.Errorf("in flight: %v", err)
		}
		return Result{}, Refused(errors.New("no"))
	}); err == nil {
		t.Error("refused, and no error")
	}
	var calls []Call
	for range 2 {
		_, _ = Do(t.Context(), r, request, func(_ context.Context, c Call) (Result, error) {
			calls = append(calls, c)
			return Result{}, Refused(errors.New("no"))
		})
	}
	if len(calls) != 2 || calls[0].N != 2 || calls[1].N != 3 || calls[0].Key != "busy" || calls[0].Token != calls[1].Token || calls[0].Token == "" {
		t.Errorf("after a refusal: %+v", calls)
	}
}

// TestI1_DoSendsNothingUnrecorded: no ledger, no write.
func TestI1_DoSendsNothingUnrecorded(t *testing.T) {
	for broken, says := range map[error]string{errDisk: errDisk.Error(), ledger.ErrUnknown: "cannot tell whether the intent is recorded; nothing was sent"} {
		r, store, _ := recorderOver(t, KindRule{})
		store.Break(broken)
		sent := false
		_, err := Do(t.Context(), r, Request{Kind: "charge", Key: "k"}, func(context.Context, Call) (Result, error) {
			sent = true
			return Result{}, nil
		})
		need.That(t, !sent && errors.Is(err, broken) && strings.Contains(err.Error(), says), "sent %v, %v", sent, err)
	}
}

func TestI3_DoEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := ledgertest.NewMemory(time.Now, hostclock.With(time.Now))
		r := New(store, oneRule(KindRule{Deadline: 150 * time.Millisecond}), Options{})
		res, err := Do(t.Context(), r, Request{Kind: "charge", Key: "hang"}, func(ctx context.Context, c Call) (Result, error) {
			<-ctx.Done()
			need.That(t, !time.Now().Before(c.Deadline.Add(-time.Millisecond)), "it ended early")
			return Result{}, ctx.Err()
		})
		need.That(t, In(err).Answer == ledger.AnswerInDoubt && recorded(t, store, res.Operation.ID).Attempts[0].ErrorClass == ledger.ClassDeadline, "%v", err)
		// One that minds no context is not believed without something to show.
		late := func(key string, out Result) ledger.State {
			res, _ := Do(t.Context(), r, Request{Kind: "charge", Key: key}, func(ctx context.Context, _ Call) (Result, error) {
				<-ctx.Done()
				return out, nil
			})
			return recorded(t, store, res.Operation.ID).Operation.State
		}
		need.Equal(t, late("nothing", Result{}), ledger.Uncertain, "late, with nothing to show")
		if state := late("receipt", Result{Receipt: "ch_9"}); state != ledger.Committed { // I9
			t.Errorf("late, with a receipt: %s", state)
		}
	})
	// One that comes to its turn too late does not begin.
	slow, memory, clock := recorderOver(t, KindRule{Deadline: time.Second})
	slow.store = bounded{&slowStore{memory, func() { clock.Advance(2 * time.Second) }}}
	_, err := Do(t.Context(), slow, Request{Kind: "charge", Key: "k"}, func(context.Context, Call) (Result, error) {
		t.Error("it was sent after the deadline")
		return Result{}, nil
	})
	var failed *FailedError
	need.That(t, errors.As(err, &failed) && failed.Proof == ledger.NeverSent, "too late to begin: %v", err)
}

// slowStore takes its time after each change.
type slowStore struct {
	ledger.Store
	after func()
}

func (s *slowStore) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	defer s.after()
	return s.Store.Change(ctx, at, id, rule)
}

func TestI10_DoOutlivesAPanic(t *testing.T) {
	r, store := real(t, KindRule{})
	id := ""
	func() {
		defer func() {
			need.Equal(t, recover(), "boom", "the panic became")
		}()
		_, _ = Do(t.Context(), r, Request{Kind: "charge", Key: "k"}, func(_ context.Context, c Call) (Result, error) {
			id = c.OperationID
			panic("boom")
		})
	}()
	if rec := recorded(t, store, id); rec.Operation.State != ledger.Uncertain || rec.Attempts[0].ErrorClass != ledger.ClassKilled {
		t.Errorf("after a panic: %s", rec.Operation.State)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = Do(t.Context(), r, Request{Kind: "charge", Key: "k2"}, func(_ context.Context, c Call) (Result, error) {
			id = c.OperationID
			runtime.Goexit()
			return Result{}, nil
		})
	}()
	<-done
	if rec := recorded(t, store, id); rec.Operation.State != ledger.Uncertain {
		t.Errorf("after Goexit: %s", rec.Operation.State)
	}
	// A caller that has gone is no reason to forget.
	ctx, leave := context.WithCancel(t.Context())
	res, _ := Do(ctx, r, Request{Kind: "charge", Key: "k3"}, func(ctx context.Context, c Call) (Result, error) {
		leave()
		<-ctx.Done()
		return Result{Receipt: "r"}, nil
	})
	if rec := recorded(t, store, res.Operation.ID); rec.Operation.State != ledger.Committed {
		t.Errorf("after the caller left: %s", rec.Operation.State)
	}
}

// TestDoRetriesWhatIsSafe goes over real sockets: nothing is sent, then the answer is lost,
// then the other side gives it again because it remembers the key.
func TestDoRetriesWhatIsSafe(t *testing.T) {
	rule := KindRule{Remembers: time.Hour, RepeatUntil: func(rec ledger.Record) time.Time { return rec.Now.Add(time.Hour) }}
	rule.Retry = outcome.Retry{Max: 3, BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond}
	r, store := real(t, rule)
	var mu sync.Mutex
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if keys = append(keys, req.Header.Get("Idempotency-Key")); len(keys) == 1 {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, `{"id":"ch_1"}`)
	}))
	defer server.Close()
	post := func(ctx context.Context, c Call) (Result, error) {
		if c.N == 1 {
			return Result{}, NotSent(syscall.ECONNREFUSED)
		}
		req, err := http.NewRequestWithContext(ctx, "POST", server.URL, strings.NewReader(`{}`))
		if err != nil {
			return Result{}, NotSent(err)
		}
		req.Header.Set("Idempotency-Key", c.Key)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return Result{}, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return Result{Output: body}, err
	}
	res, err := Do(t.Context(), r, Request{Kind: "charge", Input: []byte(`{"a":1}`)}, post)
	if err != nil || string(res.Output) != `{"id":"ch_1"}` || len(keys) != 2 || keys[0] != keys[1] || keys[0] == "" {
		t.Fatalf("%v, %s, keys %q", err, res.Output, keys)
	}
	var outcomes []string
	for _, a := range recorded(t, store, res.Operation.ID).Attempts {
		outcomes = append(outcomes, string(a.Outcome)+" "+string(a.Proof))
	}
	need.Equal(t, strings.Join(outcomes, ", "), "failed never_sent, uncertain , committed ", "attempts")
	// The kind's bound holds, and so does the caller's patience.
	n := 0
	down := func(context.Context, Call) (Result, error) { n++; return Result{}, NotSent(syscall.ECONNREFUSED) }
	var failed *FailedError
	if _, err := Do(t.Context(), r, Request{Kind: "charge", Key: "down"}, down); !errors.As(err, &failed) || !errors.Is(err, syscall.ECONNREFUSED) || n != 4 {
		t.Errorf("%d attempts: %v", n, err)
	}
	slow := rule
	slow.Retry.BackoffMin, slow.Retry.BackoffMax = 100_000*time.Hour, 100_000*time.Hour // a pause is any part of it
	patient := New(store, oneRule(slow), Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	n = 0
	began := time.Now()
	if _, err := Do(ctx, patient, Request{Kind: "charge", Key: "later"}, down); !errors.As(err, &failed) || n != 1 || time.Since(began) > 5*time.Minute {
		t.Errorf("%d attempts in %s: %v", n, time.Since(began), err)
	}
}

// TestI5_DoNeverRetriesDoubt where no key makes it safe, however many attempts the kind allows.
func TestI5_DoNeverRetriesDoubt(t *testing.T) {
	r, _ := real(t, KindRule{Retry: outcome.Retry{Max: 100, BackoffMin: time.Microsecond, BackoffMax: time.Microsecond}})
	n := 0
	for range 2 {
		_, err := Do(t.Context(), r, Request{Kind: "charge", Input: json.RawMessage(`{}`)}, func(context.Context, Call) (Result, error) {
			n++
			return Result{}, errors.New("connection refused")
		})
		need.That(t, In(err).Answer == ledger.AnswerInDoubt, "%v", err)
	}
	if n != 1 { // the second request is the same one
		t.Errorf("sent %d times", n)
	}
}

// TestI3_ManyDoOneSend: of many callers of one request, in many recorders, one sends.
func TestI3_ManyDoOneSend(t *testing.T) {
	r, store := real(t, KindRule{})
	var sent atomic.Int32
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			mine := r
			if i%2 == 0 {
				mine = New(store, nil, Options{})
			}
			_, err := Do(t.Context(), mine, Request{Kind: "charge", Key: fmt.Sprint("k", i%4), Wait: true}, func(context.Context, Call) (Result, error) {
				sent.Add(1)
				time.Sleep(5 * time.Millisecond)
				return Result{Receipt: "r"}, nil
			})
			need.That(t, err == nil, "%v", err)
		})
	}
	wg.Wait()
	if sent.Load() != 4 {
		t.Errorf("sent %d times", sent.Load())
	}
}

// TestDoWithoutRoomForTheOutcome: what was sent is not called undone because it
// could not be written down.
func TestDoWithoutRoomForTheOutcome(t *testing.T) {
	r, store, _ := recorderOver(t, KindRule{})
	res, err := Do(t.Context(), r, Request{Kind: "charge", Key: "k"}, func(context.Context, Call) (Result, error) {
		store.Break(ledger.ErrCopied) // the kind that is not waited for
		return Result{Receipt: "ch_1"}, nil
	})
	need.That(t, In(err).Answer == ledger.AnswerInDoubt && res.Receipt == "ch_1" && strings.Contains(err.Error(), "committed"), "%+v, %v", res, err)
}
