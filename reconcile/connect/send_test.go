package connect

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

func post(url string) transport.HTTPRequest {
	return transport.HTTPRequest{Method: "POST", URL: url, Body: []byte(`{"amount":420}`),
		Header: http.Header{"Idempotency-Key": {"k-1"}, "Content-Type": {"application/json"}}, Limits: transport.Limits{Timeout: 3 * time.Second}}
}

// newCutter applies each write, counts it, and cuts the connection.
func newCutter(t *testing.T) (url string, effects *atomic.Int64) {
	t.Helper()
	effects = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		effects.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}))
	t.Cleanup(s.Close)
	return s.URL, effects
}

// How a cut is told from a reset or half an answer, the tests of transmit say. Here
// a connection that reads have kept alive lies ready, and is not used.
func TestI3_AppliedAndCutBesideAKeptConnection(t *testing.T) {
	url, effects := newCutter(t)
	h := &HTTP{}
	defer h.Close()
	for range 3 {
		a := h.Read(t.Context(), transport.HTTPRequest{Method: "GET", URL: url})
		need.Must(t, a.Status == 200, "read: %+v", a)
	}
	a := h.Send(t.Context(), post(url))
	time.Sleep(50 * time.Millisecond) // a second one would come now
	got := effects.Load()
	need.That(t, got == 1 && a.Sent && a.Err != nil && a.Class == ledger.ClassEOF, "%d effects from one Send: sent=%v err=%v class=%q", got, a.Sent, a.Err, a.Class)
}
