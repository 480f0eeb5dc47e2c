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
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
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

// notPassed are requests that could carry a write past the record, that a web page
// makes a browser send, or that were not meant for a reverse proxy.
func (p *Proxy) notPassed(r *http.Request) *problem {
	switch {
	case r.ProtoMajor != 1: // the preface of a client that takes us for an HTTP/2 server
		return newProblem("not_passed", http.StatusHTTPVersionNotSupported, "HTTP/2 without TLS is not served", "Use HTTP/1.1.")
	case r.URL.Path == "*":
		return newProblem("not_passed", http.StatusBadRequest, "A write needs a path", "")
	case r.Method == http.MethodConnect:
		return newProblem("not_passed", http.StatusMethodNotAllowed, "CONNECT is not passed", "This proxy stands in front of one upstream and opens no tunnels.")
	case r.URL.Host != "" && r.URL.Scheme != "":
		return newProblem("not_passed", http.StatusMisdirectedRequest, "This is no forward proxy",
			"The request names a host of its own. Use this proxy's address as the base address of the upstream, not as an HTTP proxy.")
	case !OwnHost(r.Host, p.hosts...):
		return newProblem("not_passed", http.StatusMisdirectedRequest, "This proxy does not go by that name",
			"A web page can make its own name stand for this machine. Allow a name with --allow-host.")
	}
	for _, name := range listed(r.Header, "Upgrade") {
		if name, _, _ = strings.Cut(name, "/"); !slices.ContainsFunc([]string{"h2c", "HTTP", "TLS"}, func(s string) bool { return strings.EqualFold(s, name) }) {
			return newProblem("not_passed", http.StatusNotImplemented, "Upgrades are not passed",
				"What goes over an upgraded connection (a WebSocket) cannot be recorded. Connect to the upstream directly for it.")
		}
	}
	for _, name := range listed(r.Header, "Connection") {
		onward := &httputil.ProxyRequest{In: r, Out: r.Clone(r.Context())}
		rewrite(onward, p.upstream)
		if name = http.CanonicalHeaderKey(name); len(r.Header[name]) > 0 && p.transport.Counts(onward.Out, name) {
			return newProblem("not_passed", http.StatusBadRequest, "Connection names the header "+name,
				"What is named there would be dropped on the way, as if the request had come without it.")
		}
	}
	return nil
}

func listed(h http.Header, name string) (words []string) {
	for _, v := range h.Values(name) {
		for _, word := range strings.Split(v, ",") {
			if word = strings.TrimSpace(word); word != "" {
				words = append(words, word)
			}
		}
	}
	return words
}

// OwnHost reports whether a Host header names this machine: by an address, as
// localhost, by the machine's name, or by one of names. A web page can make a name
// of its own stand for this machine's address (DNS rebinding), and then counts as
// a page of this machine; it cannot do so with an address.
func OwnHost(host string, names ...string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if own, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(own, ".")
		names = append(names[:len(names):len(names)], own, short)
	}
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(strings.TrimSuffix(name, "."), host) })
}

// located are the headers of an answer that name an address to which the client may write
// next.
var located = []string{"Location", "Content-Location"}

// comeBack makes addresses of the upstream in an answer relative to this proxy, so that a
// client that follows one comes back through the record. The scheme does not count: a
// redirect from http to https would lead around it as well. What is elsewhere at the
// upstream's host (outside of the path that it is reached under, on another port) stays as
// it is.
func comeBack(h http.Header, upstream *url.URL) {
	for _, name := range located {
		for i, value := range h[name] {
			u, err := url.Parse(strings.TrimSpace(value))
			if err != nil || u.Opaque != "" || u.Host != "" && !sameServer(u, upstream) || u.Host == "" && !strings.HasPrefix(u.Path, "/") {
				continue
			}
			path, ok := strings.CutPrefix(u.EscapedPath(), strings.TrimSuffix(upstream.EscapedPath(), "/"))
			if !ok || path != "" && path[0] != '/' {
				continue
			}
			back := url.URL{RawQuery: u.RawQuery, ForceQuery: u.ForceQuery, Fragment: u.Fragment, RawFragment: u.RawFragment}
			for strings.HasPrefix(path, "//") { // which would begin with a host
				path = path[1:]
			}
			path = cmp.Or(path, "/")
			h[name][i] = path + back.String()
		}
	}
}

// sameServer reports whether an address leads to the server that the upstream is, by
// whatever scheme.
func sameServer(u, upstream *url.URL) bool {
	to := *u
	to.Scheme = cmp.Or(u.Scheme, upstream.Scheme)
	bare := u.Port() == "" && upstream.Port() == ""
	return bare && strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), strings.TrimSuffix(upstream.Hostname(), ".")) ||
		transmit.Spelled(&to).Host == transmit.Spelled(upstream).Host
}
