//go:build soak

package reconcile

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Answers that have no end, or no haste, cost their own downstream's reads and
// nothing else.
func TestHugeAndSlowAnswersAreBounded(t *testing.T) {
	record := `{"id":"x","ref":"somebody else's","amount":1,"note":"` + strings.Repeat("x", 60) + `"}`
	slow := func(kind string, serve http.HandlerFunc) (policy string, close func()) {
		s := httptest.NewServer(serve)
		return fmt.Sprintf("  %s: { base: %q }\n", kind, s.URL), s.Close
	}
	huge, closeHuge := slow("huge", func(w http.ResponseWriter, r *http.Request) {
		chunk := strings.Repeat(" ", 1<<16)
		_, _ = io.WriteString(w, `{"object":"list","data":[`)
		for range 200 << 20 >> 16 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	defer closeHuge()
	drip, closeDrip := slow("drip", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(time.Second):
			}
		}
	})
	defer closeDrip()
	wide, closeWide := slow("wide", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[`+strings.Repeat(record+",", 10_000)+record+`],"more":false,"next":0}`)
	})
	defer closeWide()
	text := payPolicy[:strings.Index(payPolicy, "kinds:")] + huge + drip + wide + payPolicy[strings.Index(payPolicy, "kinds:"):]
	kind := payPolicy[strings.Index(payPolicy, "  pay:\n    downstream: pay"):]
	for _, name := range []string{"huge", "drip", "wide"} {
		k := strings.NewReplacer("  pay:\n    downstream: pay", "  "+name+":\n    downstream: "+name+"").Replace(kind)
		text += k[:strings.Index(k, "    resend:")]
	}
	// A search that looks at every pair is stopped.
	text = strings.Replace(text, "  wide:\n", "  wide:\n    # every pair\n", 1)
	i := strings.Index(text, "# every pair")
	text = text[:i] + strings.Replace(text[i:], "x.ref == token", "body.data.exists(y, y.ref == x.id + token)", 1)
	w := newWorld(t, text)
	var odd []ledger.Operation
	for range 2 {
		odd = append(odd, w.doubt("huge", 1), w.doubt("drip", 1), w.doubt("wide", 1))
	}
	var fine []ledger.Operation
	for range 100 {
		fine = append(fine, w.doubt("pay", 1, 1))
	}
	var most atomic.Uint64
	watch, enough := context.WithCancel(w.ctx)
	go func() {
		for sleep(watch, 20*time.Millisecond) == nil {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
		}
	}()
	stop := w.run(w.engine)
	began := time.Now()
	for _, o := range fine {
		eventually(t, "settled beside them", func() bool { return w.get(o.ID).Operation.State == ledger.Committed })
	}
	beside := time.Since(began)
	for _, o := range odd {
		eventually(t, o.Kind+" is read", func() bool { return len(w.get(o.ID).Reads) > 0 })
	}
	stop()
	enough()
	for _, o := range odd {
		rec := w.get(o.ID)
		r := rec.Reads[len(rec.Reads)-1]
		if r.Verdict != ledger.CannotTell || rec.Operation.State != ledger.Uncertain || len(r.Evidence) > maxEvidence || r.EndedAt.Sub(r.BeganAt) > time.Minute {
			t.Errorf("%s: %s (%s) after %s, %d bytes of evidence", o.Kind, r.Verdict, r.Reason, r.EndedAt.Sub(r.BeganAt), len(r.Evidence))
		}
	}
	mb := most.Load() >> 20
	need.That(t, mb <= 700, "%d MB", mb)
	t.Logf("others settled after %s, at most %d MB", beside, most.Load()>>20)
}
