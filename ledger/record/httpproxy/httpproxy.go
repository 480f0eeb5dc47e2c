// Package httpproxy is a reverse proxy that records writes: any HTTP client that
// is pointed at it gets three outcomes and no double execution.
//
// Reads stream through untouched. A write is taken in whole, recorded, sent once
// and settled before the end of its answer reaches the client; all of that is
// roundtrip.Transport's. What lives here is the HTTP on the client's side: what is
// not passed at all, and the problem documents (RFC 9457) that say why there is
// no answer of the upstream's. It may import ledger and ledger/record only.
package httpproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"indoubt/ledger/record/roundtrip"
	"indoubt/ledger/wire/transmit"
)

// Options say what to stand in front of, and how.
type Options struct {
	*roundtrip.Transport          // how writes are recorded; reads and deliveries are the proxy's own affair
	Upstream             *url.URL // http or https; a path in it comes before every request's
	Hosts                []string // names by which this proxy may be asked, beside addresses, this machine's name and the upstream's
}

// Proxy is an http.Handler. Make it with New.
type Proxy struct {
	transport *roundtrip.Transport
	reverse   *httputil.ReverseProxy
	upstream  *url.URL
	reads     *http.Transport
	patience  time.Duration // with a client that sends a part of its request at a time
	hosts     []string      // names by which it may be asked
	room      chan struct{} // a place for each request that is under way
}

// New makes a proxy.
func New(o Options) (*Proxy, error) {
	if o.Transport == nil || o.Recorder == nil || o.Upstream == nil {
		return nil, errors.New("a proxy needs a recorder and an upstream")
	}
	if o.Upstream.Scheme != "http" && o.Upstream.Scheme != "https" || o.Upstream.Hostname() == "" {
		return nil, fmt.Errorf("the upstream %q is no http or https address", transmit.WithoutSecrets(o.Upstream))
	}
	if o.Upstream.RawQuery != "" || o.Upstream.Fragment != "" || o.Upstream.User != nil {
		return nil, errors.New("the upstream's address has a query, a fragment or a credential, which would be lost: clients send their own")
	}
	p := &Proxy{patience: bodyPatience, transport: o.Transport, reads: o.Sender.Reads(),
		hosts: append([]string{o.Upstream.Hostname()}, o.Hosts...), room: make(chan struct{}, mostRequests)}
	p.reads.DisableCompression = true // what passes is not changed
	p.transport.Reads = p.reads
	p.transport.Undelivered = func(req *http.Request, operationID string) {
		if d, ok := req.Context().Value(deliveryKey{}).(*delivery); ok {
			d.operationID = operationID
		}
	}
	upstream := *o.Upstream
	p.upstream = &upstream
	p.reverse = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { rewrite(r, &upstream) },
		Transport: p.transport,
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode < 200 {
				resp.Body.Close()
				return fmt.Errorf("the upstream ended with the status %d, which is no answer", resp.StatusCode)
			}
			comeBack(resp.Header, &upstream)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { problemOf(err).write(w) },
		ErrorLog:     log.New(io.Discard, "", 0), // what became of a request is reported; the rest names addresses
	}
	return p, nil
}

// rewrite points a request at the upstream and leaves the rest as it was.
func rewrite(r *httputil.ProxyRequest, upstream *url.URL) {
	r.SetURL(upstream)
	r.Out.URL.RawQuery = r.In.URL.RawQuery // also what no one can parse
	r.Out.Trailer = r.In.Trailer           // the same map: its values come after the body
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if said, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = said
		}
	}
	r.Out.Header.Del("Upgrade")
	r.Out.Header.Del("Connection")
	r.Out.Header.Del("Http2-Settings")
}

// mostRequests bounds what is under way at once, with what each of them holds.
const mostRequests = 2048

// bodyPatience is how long the next part of a request's body may take to come.
const bodyPatience = time.Minute

// patientBody gives up on a client that stops sending.
type patientBody struct {
	io.ReadCloser
	conn     *http.ResponseController
	patience time.Duration
}

func (b *patientBody) Read(p []byte) (int, error) {
	_ = b.conn.SetReadDeadline(time.Now().Add(b.patience))
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		_ = b.conn.SetReadDeadline(time.Time{}) // the answer may take longer
	}
	return n, err
}

// delivery watches an answer on its way to the client. The client must have been
// there before the last of it was written: once it has everything, it may go.
type delivery struct {
	http.ResponseWriter
	client      context.Context
	operationID string // whose answer must be noted as delivered; "" when none must
	there       bool
}

type deliveryKey struct{}

func (d *delivery) WriteHeader(status int) {
	d.there = d.client.Err() == nil
	d.ResponseWriter.WriteHeader(status)
}

func (d *delivery) Write(p []byte) (int, error) {
	d.there = d.client.Err() == nil
	n, err := d.ResponseWriter.Write(p)
	d.there = d.there && err == nil
	return n, err
}

// Unwrap lets an http.ResponseController flush.
func (d *delivery) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// ServeHTTP passes a request, or answers it from the ledger.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case p.room <- struct{}{}:
		defer func() { <-p.room }()
	default:
		problemOf(&roundtrip.NotTakenError{Problem: "busy", Why: "too many requests are under way"}).write(w)
		return
	}
	if refusal := p.notPassed(r); refusal != nil {
		w.Header().Set("Connection", "close") // what follows on it may be meant for another server
		refusal.write(w)
		return
	}
	d := &delivery{ResponseWriter: w, client: r.Context()}
	arrived := false
	defer func() { // also when the reverse proxy panics because the client is gone
		if d.operationID != "" {
			p.transport.Delivered(d.operationID, arrived)
		}
	}()
	in := r.WithContext(context.WithValue(r.Context(), deliveryKey{}, d)) // a copy: the server looks at its own
	if r.Body != nil && r.Body != http.NoBody {
		in.Body = &patientBody{r.Body, http.NewResponseController(w), p.patience}
	}
	p.reverse.ServeHTTP(d, in)
	if d.operationID != "" {
		arrived = d.there && http.NewResponseController(w).Flush() == nil
	}
}

// Serve answers on l until ctx ends. It then takes nothing new, lets what is in
// flight finish for grace, cuts the rest off and records what is known of it. It
// returns nil after that, and the error when l fails.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, grace time.Duration) error {
	server := &http.Server{
		Handler: p, ReadHeaderTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 256 << 10,
		ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		p.stop(server, grace)
		return err
	case <-ctx.Done():
	}
	p.stop(server, grace)
	return nil
}

// stop is the end of Serve. Writes that are cut off still get their answer.
func (p *Proxy) stop(server *http.Server, grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	answering, over := context.WithTimeout(context.Background(), grace+2*time.Second)
	defer over()
	idle := make(chan struct{})
	go func() {
		_ = server.Shutdown(answering)
		close(idle)
	}()
	_ = p.transport.Shutdown(ctx)
	select {
	case <-idle:
	case <-ctx.Done(): // reads that go on for ever
		timer := time.NewTimer(200 * time.Millisecond)
		select {
		case <-idle:
		case <-timer.C:
		}
		timer.Stop()
	}
	server.Close()
	<-idle
	p.reads.CloseIdleConnections()
}
