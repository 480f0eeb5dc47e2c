package connect

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
)

func post(url string) HTTPRequest {
	return HTTPRequest{Method: "POST", URL: url, Body: []byte(`{"amount":420}`), Timeout: 3 * time.Second,
		Header: http.Header{"Idempotency-Key": {"k-1"}, "Content-Type": {"application/json"}}}
}

// cutter applies each write and then does to the connection what it is told.
type cutter struct {
	*httptest.Server
	effects atomic.Int64
	conns   sync.Map
}

func newCutter(t *testing.T, after func(c *cutter, w http.ResponseWriter, conn func() net.Conn)) *cutter {
	t.Helper()
	c := &cutter{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.conns.Store(r.RemoteAddr, true)
		if r.Method == "GET" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		c.effects.Add(1)
		after(c, w, func() net.Conn {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
			}
			return conn
		})
	}))
	t.Cleanup(c.Server.Close)
	return c
}

func cut(_ *cutter, _ http.ResponseWriter, conn func() net.Conn) { conn().Close() }

func reset(_ *cutter, _ http.ResponseWriter, conn func() net.Conn) {
	c := conn()
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

func TestI3_AppliedAndCutIsOneEffectAndSent(t *testing.T) {
	for name, tc := range map[string]struct {
		after func(*cutter, http.ResponseWriter, func() net.Conn)
		class ledger.ErrorClass
	}{
		"closed": {cut, ledger.ClassEOF},
		"reset":  {reset, ledger.ClassReset},
		"half an answer": {func(_ *cutter, _ http.ResponseWriter, conn func() net.Conn) {
			c := conn()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":")
			c.Close()
		}, ledger.ClassEOF},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCutter(t, tc.after)
			h := &HTTP{}
			defer h.Close()
			for range 3 { // a connection that is kept alive lies ready
				if a := h.Read(t.Context(), HTTPRequest{Method: "GET", URL: s.URL}); a.Status != 200 {
					t.Fatalf("read: %+v", a)
				}
			}
			a := h.Send(t.Context(), post(s.URL))
			time.Sleep(50 * time.Millisecond)
			if got := s.effects.Load(); got != 1 {
				t.Errorf("%d effects from one Send", got)
			}
			if !a.Sent || a.Err == nil || a.Class != tc.class {
				t.Errorf("sent=%v err=%v class=%q, want sent and %q", a.Sent, a.Err, a.Class, tc.class)
			}
		})
	}
}
