package httpproxy

import (
	"net/http"
	"net/url"
	"strings"
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
	if !strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), strings.TrimSuffix(upstream.Hostname(), ".")) {
		return false
	}
	if u.Port() == "" && upstream.Port() == "" {
		return true
	}
	return portOf(u, upstream) == portOf(upstream, upstream) || u.Scheme != upstream.Scheme && defaultPort(u) && defaultPort(upstream)
}

func portOf(u, upstream *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https", u.Scheme == "" && upstream.Scheme == "https":
		return "443"
	}
	return "80"
}

func defaultPort(u *url.URL) bool {
	return u.Port() == "" || u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443"
}
