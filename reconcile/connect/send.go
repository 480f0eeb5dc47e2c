package connect

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"

	"indoubt/ledger"
)

// Send transmits a write once. The connection is fresh, so the transport has
// no ground to replay the request by itself; a redirect comes back as the
// answer it is; Sent is what the gate saw pass, on whichever connection.
func (h *HTTP) Send(ctx context.Context, q HTTPRequest) ledger.Answer {
	a := ledger.Answer{Via: "http", BeganAt: time.Now()}
	ctx, cancel := context.WithDeadline(ctx, ends(a.BeganAt, q.Timeout, q.Deadline))
	defer cancel()
	g := &gate{deadline: q.Deadline}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { g.arm() },
	})
	req, err := newRequest(ctx, q)
	if err != nil {
		return failed(a, err)
	}
	req.GetBody = nil
	if past(q.Deadline) {
		return failed(a, errFenced)
	}
	t := h.transport()
	t.DisableKeepAlives = true
	t.DisableCompression = true
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true) // one request on one connection; HTTP/2 may put a stream on another by itself
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return gatedConn{conn, g}, nil
	}
	defer t.CloseIdleConnections()
	resp, err := t.RoundTrip(req)
	if err != nil {
		a.Sent = g.seal()
		return failed(a, err)
	}
	a = take(a, resp, q.MaxBody)
	g.seal()
	a.Sent = true // somebody answered it
	return a
}
