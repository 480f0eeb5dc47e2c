package httpproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ledger/record/roundtrip"
)

// Whatever comes over a connection, in whatever pieces: no panic, an end in
// time, and nothing that reached the upstream is missing in the ledger unless it
// is a read by its method, spelled as it must be.
func FuzzProxyMessages(f *testing.F) {
	for _, s := range []string{
		"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}",
		"GET /a HTTP/1.1\r\nHost: h\r\n\r\nPOST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx",
		"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: Idempotency-Key\r\n\r\n1\r\nx\r\n0\r\nIdempotency-Key: k\r\n\r\n",
		"post /a HTTP/1.0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: h\r\nX-HTTP-Method-Override: PUT\r\nContent-Length: 3\r\n\r\nabc",
		"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", "POST http://o/a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
		"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
		"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\nPUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
		"POST /a?%zz;&x HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 5\r\n\r\n--x--",
		"POST /a HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nIdempotency-Key: \"a\\\"b\"\r\nContent-Length: 12\r\n\r\na[b][c]=1&a=",
		"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nshort", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", "POST /a HTTP/1.1\nHost: h\n\n",
		"DELETE //../%2e%2e/a\x00 HTTP/1.1\r\nHost: h\r\n\r\n", "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	w := newFuzzWorld(f)
	f.Fuzz(func(t *testing.T, message []byte, halves bool) {
		if len(message) > 64<<10 {
			t.Skip()
		}
		c, err := net.Dial("tcp", w.address)
		if err != nil {
			t.Skip(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		go func() {
			rest := message
			if halves {
				_, _ = c.Write(message[:len(message)/2])
				time.Sleep(time.Millisecond)
				rest = message[len(message)/2:]
			}
			_, _ = c.Write(rest)
			_ = c.(*net.TCPConn).CloseWrite()
		}()
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Fatalf("it hangs on %q", message)
		}
		w.idle()
		// Of all messages together: a client that is gone is answered later.
		if passed := w.writes.Load(); passed > w.store.begun.Load() {
			t.Fatalf("%d writes reached the upstream and %d attempts were recorded, at %q", passed, w.store.begun.Load(), message)
		}
		if stack := w.panics.Load(); stack != nil {
			t.Fatalf("panic: %s", *stack)
		}
	})
}

type fuzzWorld struct {
	store   counting
	address string
	writes  atomic.Int64 // that reached the upstream
	busy    atomic.Int64
	panics  atomic.Pointer[string]
}

func newFuzzWorld(f *testing.F) *fuzzWorld {
	w := &fuzzWorld{store: counting{Memory: ledgertest.NewMemory(time.Now, nil)}}
	up := need.Get(net.Listen("tcp", "127.0.0.1:0"))(f)
	// The upstream counts by itself, on the wire, so that a second request smuggled
	// in behind a first one is seen too.
	go func() {
		for {
			c, err := up.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					switch req.Method {
					case "GET", "HEAD", "OPTIONS", "TRACE":
						if overridden(req) {
							w.writes.Add(1)
						}
					default:
						w.writes.Add(1)
					}
					if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil || req.Close {
						return
					}
				}
			}()
		}
	}()
	proxy := need.Get(New(Options{Transport: &roundtrip.Transport{Recorder: record.New(&w.store, nil, record.Options{})},
		Upstream: &url.URL{Scheme: "http", Host: up.Addr().String()}, Hosts: []string{"h"}}))(f)
	l := need.Get(net.Listen("tcp", "127.0.0.1:0"))(f)
	w.address = l.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.busy.Add(1)
		defer w.busy.Add(-1)
		defer func() {
			p := recover()
			if err, _ := p.(error); p != nil && !errors.Is(err, http.ErrAbortHandler) {
				s := fmt.Sprint(p)
				w.panics.Store(&s)
			}
		}()
		proxy.ServeHTTP(rw, r)
	}), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }()
	f.Cleanup(func() {
		server.Close()
		up.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = proxy.transport.Shutdown(ctx)
	})
	return w
}

func overridden(r *http.Request) bool {
	for name, values := range r.Header {
		if name = strings.ToLower(name); name == "x-http-method-override" || name == "x-http-method" || name == "x-method-override" {
			for _, v := range values {
				switch strings.ToUpper(strings.TrimSpace(v)) {
				case "", "GET", "HEAD", "OPTIONS", "TRACE":
				default:
					return true
				}
			}
		}
	}
	return false
}

// idle waits until no request is being answered.
func (w *fuzzWorld) idle() {
	for end := time.Now().Add(patience); w.busy.Load() > 0 && time.Now().Before(end); {
		time.Sleep(100 * time.Microsecond)
	}
}

// counting is a store that counts the attempts that are begun in it.
type counting struct {
	*ledgertest.Memory
	begun atomic.Int64
}

func (s *counting) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	applied, err := s.Memory.Change(ctx, at, id, rule)
	if live := applied.After.LiveAttempt; err == nil && live != "" && live != applied.Before.LiveAttempt {
		s.begun.Add(1)
	}
	return applied, err
}
