//go:build soak

package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

const readsPolicy = `version: 1
downstreams:
  pay: { base: %s, concurrency: 64 }
kinds:
  pay:
    downstream: pay
    title: pay ${input.amount}
    cost: { duplicate: input.amount, miss: input.amount }
    token: { into: ref }
    lands_within: 20s
    visible_within: 10s
    read:
      http: { get: /charges, query: { ref: "${token}" } }
      valid: status == 200 && body.object == "list"
      list: body.data
      mark: it.ref
      complete: "!body.more"
      same: it.amount == input.amount
      receipt: it.id
`

// BenchmarkReconcile runs the program itself, held to one processor, on 10,000
// operations in doubt whose reads take 20 ms each, 64 at a time: its time beside
// what the waiting alone would take, the processors it kept busy, and its
// resident memory at most. An operation of the benchmark is one run.
func BenchmarkReconcile(b *testing.B) {
	const n, latency, width = 10_000, 20 * time.Millisecond, 64
	side := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(latency)
		w.Header().Set("Content-Type", "application/json")
		ref := r.URL.Query().Get("ref")
		if !strings.HasPrefix(ref, "tok-") { // never sent: the negative control
			fmt.Fprint(w, `{"object":"list","more":false,"data":[]}`)
			return
		}
		fmt.Fprintf(w, `{"object":"list","more":false,"data":[{"id":"ch_%s","ref":%q,"amount":100}]}`, ref, ref)
	}))
	defer side.Close()
	var wall, cpu time.Duration
	var memory int64
	for range b.N {
		b.StopTimer()
		dir := b.TempDir()
		need.OK(b, os.WriteFile(filepath.Join(dir, "policy.yaml"), fmt.Appendf(nil, readsPolicy, side.URL), 0o600))
		inDoubt(b, filepath.Join(dir, "ledger.db"), n, 1)
		cmd := binary(dir, "--ledger", "ledger.db", "--policy", "policy.yaml", "check", "--json")
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
		began := time.Now()
		b.StartTimer()
		out, err := cmd.Output()
		b.StopTimer()
		wall += time.Since(began)
		if err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		var answer struct {
			Data struct{ Read struct{ Landed int } }
		}
		if err := json.Unmarshal(out, &answer); err != nil || answer.Data.Read.Landed != n {
			b.Fatalf("%v\n%s", err, out)
		}
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		memory = max(memory, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
		b.StartTimer()
	}
	ideal := time.Duration(b.N) * n * latency / width
	b.ReportMetric(wall.Seconds()/ideal.Seconds(), "x-ideal")
	b.ReportMetric(cpu.Seconds()/wall.Seconds(), "cores")
	b.ReportMetric(float64(memory)/1e3, "MB")
}

// inDoubt makes a ledger with n operations in doubt.
func inDoubt(b *testing.B, path string, n, kinds int) {
	s := need.Get(open.Create(context.Background(), path, open.Options{}))(b)
	defer s.Close()
	var wg sync.WaitGroup
	room := make(chan struct{}, 16*runtime.GOMAXPROCS(0))
	for i := range n {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			id := ledger.NewID()
			res, err := ledger.Begin(context.Background(), s, ledger.BeginRequest{
				ChangeID: ledger.NewID(), AttemptID: ledger.NewID(), OperationID: id, Kind: payKind(i % kinds), Key: fmt.Sprint("k", i), Token: "tok-" + id,
				Input: []byte(`{"amount":100}`), Deadline: time.Minute, Actor: ledger.Actor{Name: "billing", Machine: true}})
			if err == nil {
				r := ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID,
					Outcome: ledger.OutcomeUncertain, ErrorClass: "timeout", TokenSent: true, Actor: ledger.Actor{Name: "billing", Machine: true}}
				_, err = ledger.Settle(context.Background(), s, r)
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	need.OK(b, s.Fold(context.Background(), nil, nil, true, func(string) ledger.Burst { return ledger.Burst{} }))
}

// payKind is the n-th kind of those that pay.
func payKind(n int) string { return map[bool]string{true: "pay", false: fmt.Sprint("pay.", n)}[n == 0] }
