package transmit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func post(t *testing.T, url string) *http.Request {
	t.Helper()
	req := need.Get(http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(`{"amount":420}`)))(t)
	req.Header = http.Header{"Idempotency-Key": {"k-1"}, "Content-Type": {"application/json"}}
	return req
}

var soon = Limits{Timeout: 3 * time.Minute}

// cutter applies each write and then does to the connection what it is told.
type cutter struct {
	*httptest.Server
	effects atomic.Int64
	conns   sync.Map
}

func newCutter(t *testing.T, after func(c *cutter, w http.ResponseWriter, conn func() net.Conn)) *cutter {
	t.Helper()
	return cutterAt(t, need.Get(net.Listen("tcp", "127.0.0.1:0"))(t), after)
}

func cutterAt(t *testing.T, at net.Listener, after func(c *cutter, w http.ResponseWriter, conn func() net.Conn)) *cutter {
	c := &cutter{}
	c.Server = &httptest.Server{Listener: at, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.conns.Store(r.RemoteAddr, true)
		if r.Method == "GET" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		c.effects.Add(1)
		after(c, w, func() net.Conn {
			conn, _, err := http.NewResponseController(w).Hijack()
			need.That(t, err == nil, "%v", err)
			return conn
		})
	})}}
	c.Server.Start()
	t.Cleanup(c.Server.Close)
	return c
}

// pipes is a network in memory. In a bubble of synctest, time passes only where all wait.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inABubble runs a test whose sender reaches its cutter through memory.
func inABubble(t *testing.T, after func(c *cutter, w http.ResponseWriter, conn func() net.Conn), test func(t *testing.T, s *cutter, h *Sender)) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		test(t, cutterAt(t, p, after), &Sender{Dial: p.dial})
	})
}

// hang takes a write and does not answer it before its client has gone.
func hang(_ *cutter, _ http.ResponseWriter, conn func() net.Conn) {
	c := conn()
	_, _ = io.Copy(io.Discard, c)
	c.Close()
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
			a := new(Sender).Send(post(t, s.URL), soon)
			time.Sleep(50 * time.Millisecond)
			need.Equal(t, s.effects.Load(), 1, "effects from one Send")
			need.That(t, a.Sent && a.Err != nil && a.Class == tc.class, "sent=%v err=%v class=%q, want sent and %q", a.Sent, a.Err, a.Class, tc.class)
			need.That(t, !strings.Contains(a.Err.Error(), "127.0.0.1"), "%q has ports in it", a.Err)
		})
	}
}

// The trap: net/http sends the same again over a kept connection that was cut.
// If this stops holding, the precautions taken here can be looked at again.
func TestPlainClientWouldSendTwice(t *testing.T) {
	s := newCutter(t, cut)
	client := s.Client()
	resp, err := client.Get(s.URL)
	need.OK(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	req, _ := http.NewRequest("POST", s.URL, bytes.NewReader([]byte("x")))
	req.Header.Set("Idempotency-Key", "k")
	_, err = client.Do(req)
	need.Must(t, err != nil, "an answer came")
	need.Equal(t, s.effects.Load(), 2, "net/http made")
}

func TestI2_ListenerGoneAfterApplyingIsStillSent(t *testing.T) {
	s := newCutter(t, func(c *cutter, _ http.ResponseWriter, conn func() net.Conn) {
		c.Listener.Close() // the next dial is refused
		conn().Close()
	})
	a := new(Sender).Send(post(t, s.URL), soon)
	need.That(t, a.Sent && a.Class == ledger.ClassEOF && s.effects.Load() == 1, "sent=%v class=%q err=%v effects=%d", a.Sent, a.Class, a.Err, s.effects.Load())
}

func TestNeverSent(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	private := httptest.NewTLSServer(http.NotFoundHandler())
	defer private.Close()
	private.Config.ErrorLog = nil
	for name, url := range map[string]string{
		"connection refused":        "http://127.0.0.1:1", // a port that no other test is given
		"unknown host":              "http://nowhere.invalid/",
		"no TLS there":              strings.Replace(plain.URL, "http:", "https:", 1),
		"a certificate of nobody":   private.URL,
		"no such scheme":            "ftp://127.0.0.1/",
		"an address without a host": "http:///x",
	} {
		t.Run(name, func(t *testing.T) {
			a := new(Sender).Send(post(t, url), soon)
			need.That(t, !a.Sent && a.Err != nil, "sent=%v err=%v", a.Sent, a.Err)
		})
	}
}

func TestCutWhileConnectingIsNeverSent(t *testing.T) {
	h := &Sender{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		theirs.Close()
		return ours, nil
	}}
	// The pipe takes no byte at all: the write fails with nothing written.
	a := h.Send(post(t, "http://pay.example/"), soon)
	need.That(t, !a.Sent && a.Err != nil, "sent=%v err=%v", a.Sent, a.Err)
}

func TestHangIsTimeoutAndSent(t *testing.T) {
	inABubble(t, hang, func(t *testing.T, s *cutter, h *Sender) {
		a := h.Send(post(t, s.URL), Limits{Timeout: 150 * time.Millisecond})
		need.That(t, a.Sent && a.Class == ledger.ClassTimeout, "sent=%v class=%q", a.Sent, a.Class)
	})
}

func TestHangInTheHandshakeIsNeverSent(t *testing.T) {
	l := need.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	a := new(Sender).Send(post(t, "https://"+l.Addr().String()), Limits{Timeout: 150 * time.Millisecond})
	need.That(t, !a.Sent && a.Class == ledger.ClassTimeout, "sent=%v class=%q err=%v", a.Sent, a.Class, a.Err)
}

func TestSlowDripEndsAtTheTimeout(t *testing.T) {
	drip := func(_ *cutter, w http.ResponseWriter, _ func() net.Conn) {
		for range 200 {
			if _, err := io.WriteString(w, "x"); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	}
	inABubble(t, drip, func(t *testing.T, s *cutter, h *Sender) {
		a := h.Send(post(t, s.URL), Limits{Timeout: 200 * time.Millisecond})
		need.That(t, a.Sent && a.Class == ledger.ClassTimeout && a.Status == 200 && a.Truncated && len(a.Body) != 0, "%+v", a)
	})
}

func TestWriteNeverFollowsRedirects(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var second atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/second" {
				second.Add(1)
				return
			}
			http.Redirect(w, r, "/second", status)
		}))
		a := new(Sender).Send(post(t, s.URL), soon)
		need.That(t, a.Status == status && second.Load() == 0 && a.Err == nil, "%d: status %d, %d followed, err %v", status, a.Status, second.Load(), a.Err)
		s.Close()
	}
}

func TestSendOverTLSKnowsHandshakeFromRequest(t *testing.T) {
	var got atomic.Int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Add(1)
		w.WriteHeader(201)
	}))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	h := &Sender{TLS: &tls.Config{RootCAs: roots}}
	a := h.Send(post(t, s.URL), soon)
	need.That(t, a.Status == 201 && a.Sent && a.Err == nil, "%+v", a)
	need.Equal(t, got.Load(), 1, "requests")
}

func TestSendThroughAProxy(t *testing.T) {
	// A proxy that answers CONNECT and then hangs up: bytes were written to it,
	// but none of them was the request.
	l := need.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	says := make(chan string, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, "HTTP/1.1 "+<-says+"\r\n\r\n")
			c.Close()
		}
	}()
	// How the end of a connection is seen depends on what lay unread in it.
	for said, want := range map[string]string{"200 OK": "EOF|connection reset|broken pipe", "503 No": "the HTTP proxy http://" + l.Addr().String() + " does not connect: 503 No"} {
		g := &sendDeadline{}
		tr := new(Sender).transport(g)
		tr.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse("http://u:hunter2@" + l.Addr().String()) }
		req, _ := http.NewRequest("POST", "https://pay.example/", strings.NewReader("x"))
		says <- said
		_, err := tr.RoundTrip(req)
		need.That(t, err != nil && regexp.MustCompile(want+"$").MatchString(err.Error()) && !g.seal(), "err=%v sent=%v", err, g.sent)
	}
}

func TestI3_NoByteAfterTheDeadline(t *testing.T) {
	s := newCutter(t, cut)
	t.Run("deadline past before the call", func(t *testing.T) {
		a := new(Sender).Send(post(t, s.URL), Limits{Deadline: time.Now().Add(-time.Millisecond)})
		need.That(t, !a.Sent && a.Class == ledger.ClassDeadline && s.effects.Load() == 0, "%+v effects=%d", a, s.effects.Load())
	})
	t.Run("deadline passes while connecting", func(t *testing.T) {
		l := Limits{Deadline: time.Now().Add(60 * time.Millisecond)}
		h := &Sender{Dial: func(_ context.Context, network, address string) (net.Conn, error) {
			time.Sleep(120 * time.Millisecond) // deaf to the context, as a stopped process is
			return net.Dial(network, address)
		}}
		a := h.Send(post(t, s.URL), l)
		time.Sleep(150 * time.Millisecond)
		need.That(t, !a.Sent && s.effects.Load() == 0, "%+v effects=%d", a, s.effects.Load())
	})
	t.Run("deadline", func(t *testing.T) {
		var wrote bytes.Buffer
		g := &sendDeadline{deadline: time.Now().Add(30 * time.Millisecond), armed: true}
		c := deadlineConn{recordingConn{w: &wrote}, g}
		time.Sleep(40 * time.Millisecond)
		n, err := c.Write([]byte("POST"))
		need.That(t, n == 0 && errors.Is(err, ErrPastDeadline) && wrote.Len() == 0 && !g.seal(), "n=%d err=%v wrote=%d", n, err, wrote.Len())
	})
	t.Run("wall clock jumped ahead", func(t *testing.T) {
		need.That(t, Past(time.Now().Add(-time.Hour).Round(0)), "a wall clock deadline is not heeded")
	})
}

func TestSealedGateLetsNothingThrough(t *testing.T) {
	var wrote bytes.Buffer
	g := &sendDeadline{armed: true}
	c := deadlineConn{recordingConn{w: &wrote}, g}
	need.Must(t, !g.seal(), "nothing was written yet")
	_, err := c.Write([]byte("late"))
	need.That(t, errors.Is(err, errSealed) && wrote.Len() == 0, "err=%v, wrote %q", err, wrote.String())
}

func TestWriteInProgressCountsAsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		g := &sendDeadline{armed: true}
		go func() { _, _ = deadlineConn{ours, g}.Write([]byte("nobody reads this")) }()
		synctest.Wait()
		need.That(t, g.seal(), "a write that has begun may have left")
	})
}

func TestCancelledByTheCaller(t *testing.T) {
	inABubble(t, hang, func(t *testing.T, s *cutter, h *Sender) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		time.AfterFunc(100*time.Millisecond, cancel)
		a := h.Send(post(t, s.URL).WithContext(ctx), Limits{Timeout: 3 * time.Second})
		need.That(t, a.Sent && a.Class == ledger.ClassKilled, "sent=%v class=%q", a.Sent, a.Class)
	})
}

type recordingConn struct {
	net.Conn
	w *bytes.Buffer
}

func (c recordingConn) Write(p []byte) (int, error) { return c.w.Write(p) }

func TestReplyComesAsItIsSaid(t *testing.T) {
	next := make(chan struct{})
	s := newCutter(t, func(_ *cutter, w http.ResponseWriter, conn func() net.Conn) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 {
			_, _ = io.WriteString(w, "data: one\n\n")
			w.(http.Flusher).Flush()
			<-next
		}
		conn().Close() // in the middle
	})
	r, _ := new(Sender).Open(post(t, s.URL), Limits{Timeout: soon.Timeout, MaxBody: 15})
	need.Must(t, r != nil && r.StatusCode == 200, "%+v", r)
	buf := make([]byte, 100)
	for range 2 {
		if n, err := r.Read(buf); string(buf[:n]) != "data: one\n\n" || err != nil {
			t.Errorf("%q %v", buf[:n], err)
		}
		next <- struct{}{}
	}
	n, err := r.Read(buf)
	need.That(t, n == 0 && errors.Is(err, io.ErrUnexpectedEOF), "%d %v", n, err)
	a := r.Answer()
	need.That(t, a.Sent && a.Status == 200 && a.Class == ledger.ClassEOF && string(a.Body) == "data: one\n\ndata" && a.Truncated, "%+v", a)
	_, err = r.Read(buf)
	need.That(t, errors.Is(err, io.ErrUnexpectedEOF), "after the end: %v", err)
}

func TestReplyEndsWhenItIsTold(t *testing.T) {
	for name, end := range map[string]func(*Reply){
		"by its timeout":  func(*Reply) {},
		"by an extension": func(r *Reply) { r.Extend(time.Now().Add(20 * time.Millisecond)) },
	} {
		t.Run(name, func(t *testing.T) {
			headOnly := func(c *cutter, w http.ResponseWriter, conn func() net.Conn) {
				w.(http.Flusher).Flush()
				hang(c, w, conn)
			}
			inABubble(t, headOnly, func(t *testing.T, s *cutter, h *Sender) {
				r, a := h.Open(post(t, s.URL), Limits{Timeout: 300 * time.Millisecond})
				need.Must(t, r != nil, "%v", a.Err)
				end(r)
				_, err := r.Read(make([]byte, 1))
				need.That(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
				if a := r.Answer(); a.Class != ledger.ClassTimeout || !a.Sent {
					t.Errorf("%+v", a)
				}
			})
		})
	}
	t.Run("an extension holds", func(t *testing.T) {
		late := func(_ *cutter, w http.ResponseWriter, _ func() net.Conn) {
			w.(http.Flusher).Flush()
			time.Sleep(300 * time.Millisecond)
			_, _ = io.WriteString(w, "done")
		}
		inABubble(t, late, func(t *testing.T, s *cutter, h *Sender) {
			r, a := h.Open(post(t, s.URL), Limits{Timeout: 200 * time.Millisecond})
			need.Must(t, r != nil, "%v", a.Err)
			r.Extend(time.Now().Add(10 * time.Second))
			b, err := io.ReadAll(r)
			need.That(t, string(b) == "done" && err == nil && !r.Answer().Truncated, "%q %v", b, err)
		})
	})
}

func TestAnswerIsKeptToItsBound(t *testing.T) {
	s := newCutter(t, func(_ *cutter, w http.ResponseWriter, _ func() net.Conn) { _, _ = io.WriteString(w, "0123456789") })
	for bound, want := range map[int64]string{4: "0123", 10: "0123456789", 11: "0123456789"} {
		a := new(Sender).Send(post(t, s.URL), Limits{MaxBody: bound})
		need.That(t, string(a.Body) == want && a.Truncated == (bound < 10) && a.Err == nil, "%d: %+v", bound, a)
	}
}

// What an answer says behind its body, it says; and it takes nothing back of what stood before it.
func TestAnswerEndsWithItsTrailer(t *testing.T) {
	c := newCutter(t, func(_ *cutter, w http.ResponseWriter, _ func() net.Conn) {
		w.Header().Set("Trailer", "Grpc-Status, Content-Type, Grpc-Message")
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("Grpc-Status", "13")
		w.Header().Set("Content-Type", "text/html")
	})
	a := new(Sender).Send(post(t, c.URL), soon)
	header := http.Header(a.Header)
	need.That(t, header.Get("Grpc-Status") == "13" && header.Get("Content-Type") == "application/grpc", "%v", header)
}

// Over HTTP/2 a transport sends a request again by itself when its stream was refused or
// the server said goodbye (GOAWAY). Here each request has a connection of its own, over
// HTTP/1.1, also where the server would rather speak HTTP/2. One that speaks nothing else
// gets no byte of it; without TLS that is not known before it was sent.
func TestI3_HTTP2IsNotSpoken(t *testing.T) {
	var got atomic.Int64
	start := func(set func(*httptest.Server)) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got.Add(1)
			need.Equal(t, r.Proto, "HTTP/1.1", "the protocol")
			w.WriteHeader(201)
		}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		set(s)
		t.Cleanup(s.Close)
		return s
	}
	send := func(s *httptest.Server) ledger.Answer {
		got.Store(0)
		h := &Sender{TLS: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}}
		return h.Send(post(t, s.URL), soon)
	}
	both := start(func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() })
	a := send(both)
	need.That(t, a.Status == 201 && got.Load() == 1, "both: %+v", a)
	only := start(func(s *httptest.Server) { s.TLS = &tls.Config{NextProtos: []string{"other"}}; s.StartTLS() }) // Go takes HTTP/1.1 where h2 stands alone
	a = send(only)
	need.That(t, !a.Sent && a.Err != nil && got.Load() == 0, "another protocol only: %+v", a)
	plain := start(func(s *httptest.Server) {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	})
	a = send(plain)
	need.That(t, a.Sent && a.Status != 201 && got.Load() == 0, "unencrypted HTTP/2 only: %+v", a)
}
