package connect

import (
	"bytes"
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
	"sync/atomic"
	"time"

	"indoubt/ledger"
)

// HTTP asks one downstream. Its zero value is ready; reads share a pool of
// connections, so one value per downstream keeps them apart. It is safe for
// use by many goroutines.
type HTTP struct {
	// TLS is used for https; nil takes the system's roots.
	TLS *tls.Config
	// Dial makes connections; nil dials TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	once   sync.Once
	client *http.Client
}

// HTTPRequest is one exchange. Timeout bounds the whole of it, Deadline is the
// moment after which no byte of a write may leave; a zero Timeout is
// DefaultTimeout, a zero Deadline none.
type HTTPRequest struct {
	Method, URL string
	Header      http.Header
	Body        []byte
	Timeout     time.Duration
	Deadline    time.Time
	MaxBody     int64 // bytes kept of the answer; DefaultMaxBody when 0
}

const idlePerHost = 64

// Read makes a read: over the pool, asking every cache on the way to pass it
// through. Redirects are followed on the same host only; another one comes back
// as the answer it is.
func (h *HTTP) Read(ctx context.Context, q HTTPRequest) ledger.Answer {
	h.once.Do(h.open)
	a := ledger.Answer{Via: "http", BeganAt: time.Now()}
	ctx, cancel := context.WithDeadline(ctx, ends(a.BeganAt, q.Timeout, q.Deadline))
	defer cancel()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := newRequest(ctx, q)
	if err != nil {
		return failed(a, err)
	}
	req.Header.Set("Cache-Control", "no-cache")
	req.Header.Set("Pragma", "no-cache")
	resp, err := h.client.Do(req)
	a.Sent = sent.Load()
	if err != nil {
		return failed(a, err)
	}
	return take(a, resp, q.MaxBody)
}

// Close drops idle connections.
func (h *HTTP) Close() {
	h.once.Do(h.open)
	h.client.CloseIdleConnections()
}

func (h *HTTP) open() {
	t := h.transport()
	t.ForceAttemptHTTP2 = true
	t.MaxIdleConns = 4 * idlePerHost
	t.MaxIdleConnsPerHost = idlePerHost
	t.IdleConnTimeout = 30 * time.Second
	h.client = &http.Client{Transport: t, CheckRedirect: sameHost}
}

func (h *HTTP) transport() *http.Transport {
	dial := h.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}).DialContext
	}
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		TLSHandshakeTimeout:    connectTimeout,
		MaxResponseHeaderBytes: 256 << 10,
	}
	if h.TLS != nil {
		t.TLSClientConfig = h.TLS.Clone()
	}
	return t
}

// sameHost keeps a read on the host it was meant for, on a connection no less
// protected, with the method it had.
func sameHost(next *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 5 || next.URL.Host != first.URL.Host || next.URL.Scheme != first.URL.Scheme || next.Method != first.Method {
		return http.ErrUseLastResponse
	}
	return nil
}

// newRequest builds the request both ways of asking share.
func newRequest(ctx context.Context, q HTTPRequest) (*http.Request, error) {
	var body io.Reader
	if len(q.Body) > 0 {
		body = bytes.NewReader(q.Body)
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, q.URL, body)
	if err != nil {
		return nil, err
	}
	if (req.URL.Scheme != "http" && req.URL.Scheme != "https") || req.URL.Host == "" {
		return nil, fmt.Errorf("%q is not an http or https address with a host", withoutSecrets(req.URL))
	}
	for name, values := range q.Header {
		for _, v := range values {
			req.Header.Add(name, v)
		}
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "indoubt")
	}
	if u := req.URL.User; u != nil && req.Header.Get("Authorization") == "" {
		password, _ := u.Password()
		req.SetBasicAuth(u.Username(), password)
	}
	return req, nil
}

// take reads the answer to its bound and no further.
func take(a ledger.Answer, resp *http.Response, bound int64) ledger.Answer {
	defer resp.Body.Close()
	if bound <= 0 {
		bound = DefaultMaxBody
	}
	a.Status, a.Header = resp.StatusCode, resp.Header
	body, err := io.ReadAll(io.LimitReader(resp.Body, bound+1))
	if int64(len(body)) > bound {
		body, a.Truncated = body[:bound], true
	}
	a.Body = body
	if err != nil {
		a.Truncated = true
		return failed(a, err)
	}
	a.EndedAt = time.Now()
	return a
}

// failed closes an answer that did not come whole. An address in the error
// loses its query and its password, which may be secrets.
func failed(a ledger.Answer, err error) ledger.Answer {
	var in *url.Error
	if errors.As(err, &in) {
		if u, bad := url.Parse(in.URL); bad == nil {
			err = fmt.Errorf("%s %s: %w", in.Op, withoutSecrets(u), in.Err)
		} else {
			err = fmt.Errorf("%s: %w", in.Op, in.Err)
		}
	}
	a.Err, a.Class, a.EndedAt = err, class(err), time.Now()
	return a
}

func withoutSecrets(u *url.URL) string {
	shown := *u
	shown.User, shown.RawQuery, shown.Fragment = nil, "", ""
	return shown.String()
}
