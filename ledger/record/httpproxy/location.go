package httpproxy

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"indoubt/ledger/wire/transmit"
)

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
			if path == "" {
				path = "/"
			}
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
