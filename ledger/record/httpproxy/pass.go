package httpproxy

import (
	"cmp"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"indoubt/ledger/wire/transmit"
)

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
