// Package transmit sends one HTTP write, once.
//
// An attempt is one transmission (I3), and net/http is not made for that: on a
// kept connection it sends a request again by itself, and its last error may
// say "connection refused" of a request that was applied. So each write gets a
// fresh connection of its own over HTTP/1.1, nothing to replay it from and no
// redirects, and whether a byte of it left is decided by what passed the send deadline in
// front of the connection, never by what an error says.
//
// The proxy, the Go client and the engine's sender share it. It knows no
// operation and no policy, and imports ledger for Answer and the names of error
// classes only.
package transmit

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"indoubt/ledger"
)

const (
	// DefaultTimeout bounds an exchange that names neither a timeout nor a deadline.
	DefaultTimeout = 30 * time.Second
	// NoTimeout is that of an exchange whose answer takes as long as it takes: the caller has a clock of its own.
	NoTimeout = 10 * 365 * 24 * time.Hour
	// DefaultMaxBody bounds what is kept of an answer's body, in bytes.
	DefaultMaxBody = 4 << 20

	connectTimeout = 10 * time.Second // each of dialling and the TLS handshake
	maxHeader      = 256 << 10
	idlePerHost    = 64 // connections that are kept for further reads
)

// Sender makes transmissions. Its zero value is ready and safe for use by many
// goroutines; it keeps no connection between them.
type Sender struct {
	TLS *tls.Config // for https; nil takes the system's roots
	// Dial makes connections; nil dials TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Limits bound one transmission.
type Limits struct {
	Deadline time.Time     // no byte of the request leaves after it; zero: none
	Timeout  time.Duration // of the whole exchange; 0: until Deadline, else DefaultTimeout; NoTimeout: also after Deadline
	MaxBody  int64         // bytes kept of the answer; DefaultMaxBody when 0
}

// Send transmits a request and reads its answer to the bound. The request's
// body should be in memory: a body that fails to be read half-way is a request
// half sent.
func (s *Sender) Send(req *http.Request, l Limits) ledger.Answer {
	reply, a := s.Open(req, l)
	if reply == nil {
		return a
	}
	_, _ = io.CopyN(io.Discard, reply, reply.keep+1)
	return reply.Answer()
}

// Open transmits a request and returns as soon as the head of an answer is
// there. When none came the Reply is nil, and the Answer says why and whether
// anything was sent. A Reply must be closed, or read until it errs.
func (s *Sender) Open(req *http.Request, l Limits) (*Reply, ledger.Answer) {
	a := ledger.Answer{Via: "http", BeganAt: time.Now()}
	if req.URL == nil || req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.Host == "" {
		return nil, Failed(a, fmt.Errorf("%q is not an http or https address with a host", WithoutSecrets(req.URL)))
	}
	g := &sendDeadline{deadline: l.Deadline}
	life := newLifetime(req.Context(), Ends(a.BeganAt, l.Timeout, l.Deadline))
	req = req.Clone(httptrace.WithClientTrace(life.ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { g.arm() },
	}))
	req.GetBody = nil
	if u := req.URL.User; u != nil && req.Header.Get("Authorization") == "" { // a transport does not do it, as an http.Client would
		password, _ := u.Password()
		req.SetBasicAuth(u.Username(), password)
	}
	if Past(l.Deadline) {
		life.end()
		return nil, Failed(a, ErrPastDeadline)
	}
	resp, err := s.transport(g).RoundTrip(req) //nolint:bodyclose // the Reply closes it
	if err != nil {
		a.Sent = g.seal()
		err = life.cause(err)
		life.end()
		return nil, Failed(a, err)
	}
	a.Sent, a.Status, a.Header = true, resp.StatusCode, resp.Header // it was answered, so it was sent
	a.Unframed = resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && req.Method != http.MethodHead
	r := &Reply{Response: resp, answer: a, sent: g, life: life, keep: cmp.Or(max(l.MaxBody, 0), DefaultMaxBody)}
	if resp.StatusCode < 200 { // 101, which was not asked for and has no end, or what is no status
		r.finish(fmt.Errorf("the server ended with the status %d, which is no answer", resp.StatusCode))
	}
	return r, a
}

// base is what reads and writes have in common: how a connection comes about, and the bounds
// of what comes before a body.
func (s *Sender) base() *http.Transport {
	dial := s.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}).DialContext
	}
	return &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: dial,
		OnProxyConnectResponse: func(_ context.Context, proxy *url.URL, _ *http.Request, said *http.Response) error {
			if said.StatusCode != http.StatusOK { // else its words alone would be the error
				return fmt.Errorf("the HTTP proxy %s does not connect: %s", WithoutSecrets(proxy), said.Status)
			}
			return nil
		},
		TLSHandshakeTimeout:    connectTimeout,
		TLSClientConfig:        s.TLS.Clone(),
		MaxResponseHeaderBytes: maxHeader,
	}
}

// Reads is a transport for requests that may be repeated: it keeps connections for the next
// ones, and sends again by itself what was not answered on a kept one.
func (s *Sender) Reads() *http.Transport {
	t := s.base()
	t.ForceAttemptHTTP2 = true
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.IdleConnTimeout = 4*idlePerHost, idlePerHost, 30*time.Second
	return t
}

// transport is for one request: one fresh connection, given up afterwards.
func (s *Sender) transport(g *sendDeadline) *http.Transport {
	t := s.base()
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return deadlineConn{conn, g}, nil
	}
	t.DisableKeepAlives, t.DisableCompression = true, true
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true) // one request on one connection; HTTP/2 may put a stream on another by itself
	t.TLSClientConfig = cmp.Or(t.TLSClientConfig, new(tls.Config))
	t.TLSClientConfig.NextProtos = []string{"http/1.1"} // what speaks HTTP/2 only says so before a byte of the request leaves
	return t
}

// Past reports whether a deadline has passed. A deadline made by time.Now carries
// a monotonic reading, which setting the clock cannot move; the wall clock is
// asked too, because the monotonic one stands still while a machine is
// suspended. Whichever is later counts, so the deadline errs towards not sending.
func Past(deadline time.Time) bool {
	if deadline.IsZero() {
		return false
	}
	now := time.Now()
	return !now.Before(deadline) || !now.Round(0).Before(deadline.Round(0))
}

// Ends is the moment an exchange must be over: the deadline or the timeout,
// whichever comes first.
func Ends(began time.Time, timeout time.Duration, deadline time.Time) time.Time {
	if timeout <= 0 {
		if !deadline.IsZero() {
			return deadline
		}
		timeout = DefaultTimeout
	}
	end := began.Add(timeout)
	if !deadline.IsZero() && timeout != NoTimeout && deadline.Before(end) {
		return deadline
	}
	return end
}

var (
	// ErrPastDeadline refuses a byte after the sender's own deadline (I3).
	ErrPastDeadline = errors.New("the deadline had passed before the request was written")
	// errSealed refuses a byte after the answer "not sent" was given.
	errSealed = errors.New("the request was given up before it was written")
)

// sendDeadline stands between one write and every connection made for it. It counts
// whether a byte of the request has left, refuses bytes after the deadline, and
// once sealed refuses all: a transport's writer goroutine may wake after the
// call has returned, and what was reported as never sent must stay so.
type sendDeadline struct {
	deadline time.Time

	mu      sync.Mutex
	armed   bool // connections are set up; what is written from now on is the request
	sealed  bool
	writing int // writes that have begun and not come back
	sent    bool
}

// arm ends the set-up of the connection (proxy and TLS handshakes).
func (g *sendDeadline) arm() {
	g.mu.Lock()
	g.armed = true
	g.mu.Unlock()
}

// seal lets nothing more through and reports whether any byte may have left.
func (g *sendDeadline) seal() (sent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sealed = true
	return g.sent || g.writing > 0
}

func (g *sendDeadline) enter() (counted bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.sealed:
		return false, errSealed
	case !g.armed:
		return false, nil
	case Past(g.deadline):
		return false, ErrPastDeadline
	}
	g.writing++
	return true, nil
}

func (g *sendDeadline) leave(n int) {
	g.mu.Lock()
	g.writing--
	g.sent = g.sent || n > 0
	g.mu.Unlock()
}

// deadlineConn is a connection whose writes pass the send deadline. It hides ReadFrom of
// the connection beneath, which would write around it.
type deadlineConn struct {
	net.Conn
	sendDeadline *sendDeadline
}

func (c deadlineConn) Write(p []byte) (int, error) {
	counted, err := c.sendDeadline.enter()
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if counted {
		c.sendDeadline.leave(n)
	}
	return n, err
}
