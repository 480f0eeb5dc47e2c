//go:build soak

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

// onePolicy asks for one operation by its token.
const onePolicy = `
version: 1
downstreams:
  books: { base: %q, concurrency: 8 }
kinds:
  pay:
    downstream: books
    token: { into: ref }
    lands_within: 300ms
    visible_within: 0s
    read:
      http: { get: /charges, query: { ref: "${token}" } }
      list: body.data
      mark: it.ref
      complete: "!body.more"
      receipt: it.id
`

// Of two engines one checks three hundred doubts. It is killed in the middle: the other takes
// over, and nothing is settled twice.
func TestE2E_TwoEnginesOneReaderEach(t *testing.T) {
	s := newSite(t)
	var mu sync.Mutex
	asked, booked := map[string]int{}, map[string]bool{}
	var waiting, answered atomic.Int64
	const many = 300
	all, gate := make(chan struct{}), make(chan struct{})
	books := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ref := r.URL.Query().Get("ref")
		<-all
		mu.Lock()
		asked[ref]++
		known := booked[ref]
		mu.Unlock()
		// After a good part, the books answer nobody until the one that asks was killed.
		if known && answered.Add(1) > many/4 {
			waiting.Add(1)
			<-gate
		}
		time.Sleep(10 * time.Millisecond)
		if !known {
			fmt.Fprint(w, `{"data":[],"more":false}`)
			return
		}
		fmt.Fprintf(w, `{"data":[{"id":"ch_%s","ref":%q}],"more":false}`, ref, ref)
	}))
	defer books.Close()
	opened := sync.OnceFunc(func() { close(gate) })
	defer opened()
	s.writePolicy(fmt.Sprintf(onePolicy, books.URL))
	store := need.Get(open.Create(t.Context(), s.ledger, open.Options{KeyFile: s.variable(digestkey.Variable)}))(t)
	defer store.Close()
	unsettled := func() int {
		c := need.Get(store.Counts(t.Context(), time.Now()))(t)
		return c.ByState[ledger.Uncertain]
	}
	began := time.Now()
	first := s.start("engine")
	s.eventually("one leads", func() bool {
		led := need.Get(store.Leaders(t.Context()))(t)
		return slices.ContainsFunc(led.All, func(l ledger.Leader) bool { return l.Scope == "downstream:books" })
	})
	address := freeAddress(t)
	metrics := "http://" + address + "/metrics"
	second := s.start("engine", "--metrics", address)
	s.eventually("it counts from here on", func() bool {
		resp, err := http.Get(metrics)
		return err == nil && resp.Body.Close() == nil
	})
	tokens := map[string]string{}
	var each sync.WaitGroup
	for i := range many { // together, so that they share commits
		each.Add(1)
		go func() {
			defer each.Done()
			id, token := doubt(t, store, fmt.Sprint("k", i))
			mu.Lock()
			tokens[id], booked[token] = token, true
			mu.Unlock()
		}()
	}
	each.Wait()
	close(all)
	s.eventually("its hands are full", func() bool { return waiting.Load() >= 8 })
	_ = first.cmd.Process.Signal(syscall.SIGKILL)
	_ = first.cmd.Wait()
	opened()
	left := unsettled()
	s.eventually("the rest is settled", func() bool { return unsettled() == 0 })
	again := 0
	for id, token := range tokens {
		rec := need.Get(store.Read(t.Context(), ledger.Locator{ID: id}))(t)
		events := need.Get(store.History(t.Context(), ledger.HistoryQuery{Operation: id, Limit: 100}))(t)
		settled := 0
		for _, e := range events {
			if e.To == ledger.Committed && e.From != ledger.Committed {
				settled++
			}
		}
		found := 0
		for _, r := range rec.Reads { // on a slow machine some may have met the gate for too long
			if r.Verdict == ledger.Landed {
				found++
			}
		}
		need.That(t, rec.Operation.State == ledger.Committed && settled == 1 && found == 1,
			"%s is %s, settled %d times by %d reads", id, rec.Operation.State, settled, found)
		mu.Lock()
		again += asked[token] - 1
		mu.Unlock()
	}
	mu.Lock()
	about, tried := 0, 0
	for ref := range asked {
		if booked[ref] {
			about++
		} else {
			tried++
		}
	}
	mu.Unlock()
	if tried > 2*(1+int(time.Since(began)/time.Minute)) { // each engine tries once a minute whether the search tells them apart
		t.Errorf("%d questions about tokens that nobody sent", tried)
	}
	// What the killed one had in its hands may have been asked about twice: it begins twice as many
	// as it asks at once.
	if inHand := 2 * 8; again > inHand || about != many {
		t.Errorf("%d questions too many about %d of %d", again, about, many)
	}
	need.That(t, left >= 8 && again != 0,
		"killed when %d were left, and %d were asked about again: nothing was shown", left, again)
	// An interrupt ends it in good order.
	var page []byte
	s.eventually("it has counted all", func() bool {
		resp := need.Get(http.Get(metrics))(t)
		defer resp.Body.Close()
		page, _ = io.ReadAll(resp.Body)
		return bytes.Contains(page, fmt.Appendf(nil, "indoubt_operations{kind=%q,state=%q} %d", "pay", "committed", many))
	})
	_ = second.cmd.Process.Signal(syscall.SIGTERM)
	if r := second.finish(); r.Exit != 0 {
		t.Errorf("exit %d: %s", r.Exit, r.Err)
	}
	if _, err := http.Get(metrics); err == nil {
		t.Error("metrics outlive their engine")
	}
}

// doubt is an operation whose answer never came.
func doubt(t *testing.T, s ledger.Store, key string) (id, token string) {
	actor := ledger.Actor{Name: "billing", Machine: true}
	token = ledger.NewToken()
	b, err := ledger.Begin(context.Background(), s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay", Key: key,
		Token: token, Fingerprint: key, Input: []byte(`{}`), TokenSent: true, Deadline: time.Minute, Actor: actor, Sender: "pipeline"})
	if err == nil {
		_, err = ledger.Settle(context.Background(), s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: b.Attempt.ID, Outcome: ledger.OutcomeUncertain,
			ErrorClass: ledger.ClassTimeout, Status: -1, Actor: actor})
	}
	need.That(t, err == nil, "%v", err)
	return b.Operation.ID, token
}
