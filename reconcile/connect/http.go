package connect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/wire/transmit"
	"indoubt/policy/transport"
)

// HTTP makes requests to one downstream. Its zero value is ready; reads share a pool of
// connections, so one value per downstream keeps them apart. It is safe for
// use by many goroutines.
type HTTP struct {
	// Dial makes connections; nil dials TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	once   sync.Once
	client *http.Client
}

// Read makes a read: over the pool, asking every cache on the way to pass it
// through. Redirects are followed on the same host; another one comes back as the answer it is.
func (h *HTTP) Read(ctx context.Context, q transport.HTTPRequest) ledger.Answer {
	h.once.Do(h.open)
	a := ledger.Answer{Via: "http", BeganAt: time.Now()}
	ctx, cancel := context.WithDeadline(ctx, transmit.Ends(a.BeganAt, q.Timeout, q.Deadline))
	defer cancel()
	req, err := newRequest(ctx, q)
	if err != nil {
		return transmit.Failed(a, err)
	}
	req.Header.Set("Cache-Control", "no-cache")
	req.Header.Set("Pragma", "no-cache")
	resp, err := h.client.Do(req)
	a.Sent = err == nil // of a read that failed it does not matter
	if err != nil {
		return transmit.Failed(a, err)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols { // no request asks for it, and its body has no end
		resp.Body.Close()
		a.Status, a.Header = resp.StatusCode, resp.Header
		return transmit.Failed(a, errors.New("the server switched protocols"))
	}
	return take(a, resp, q.Max)
}

// Send transmits a write once, over a connection of its own. A redirect comes
// back as the answer it is. Sent reports whether a byte of it left.
func (h *HTTP) Send(ctx context.Context, q transport.HTTPRequest) ledger.Answer {
	req, err := newRequest(ctx, q)
	if err != nil {
		return transmit.Failed(ledger.Answer{Via: "http", BeganAt: time.Now()}, err)
	}
	sender := transmit.Sender{Dial: h.Dial}
	return sender.Send(req, transmit.Limits{Deadline: q.Deadline, Timeout: q.Timeout, MaxBody: q.Max})
}

// Close drops idle connections.
func (h *HTTP) Close() {
	h.once.Do(h.open)
	h.client.CloseIdleConnections()
}

func (h *HTTP) open() {
	sender := transmit.Sender{Dial: h.Dial}
	h.client = &http.Client{Transport: sender.Reads(), CheckRedirect: redirect}
}

// redirect keeps a read on the host it was meant for, with the method it had.
func redirect(next *http.Request, via []*http.Request) error {
	first, to := via[0], next.URL
	if len(via) > 5 || next.Method != first.Method || to.User != nil || to.Scheme != first.URL.Scheme || to.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// newRequest builds the request both ways of asking share.
func newRequest(ctx context.Context, q transport.HTTPRequest) (*http.Request, error) {
	var body io.Reader
	if len(q.Body) > 0 {
		body = bytes.NewReader(q.Body)
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, q.URL, body)
	if err != nil {
		return nil, err
	}
	for name, values := range q.Header {
		for _, v := range values {
			req.Header.Add(name, v)
		}
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "indoubt")
	}
	return req, nil
}

// take reads the answer to its bound and no further. The bound is on what it
// decodes to: a small answer may be packed so as to fill the memory.
func take(a ledger.Answer, resp *http.Response, bound int64) ledger.Answer {
	defer resp.Body.Close()
	bound = cmp.Or(bound, transmit.DefaultMaxBody)
	a.Status, a.Header = resp.StatusCode, resp.Header
	body, err := io.ReadAll(&io.LimitedReader{R: resp.Body, N: bound + 1})
	if int64(len(body)) > bound {
		body, a.Truncated = body[:bound], true
	}
	a.Body = body
	if err != nil {
		a.Truncated = true
		return transmit.Failed(a, err)
	}
	a.EndedAt = time.Now()
	return a
}
