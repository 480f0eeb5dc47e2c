package connect

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// A read goes where it is redirected only on its own host and to those listed;
// nobody else sees its headers or its address.
func TestReadIsRedirectedToListedHostsOnly(t *testing.T) {
	var seen []string
	listener := func() *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = append(seen, r.Host+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Api-Key")+" "+r.Header.Get("Referer"))
			_, _ = io.WriteString(w, "found")
		}))
		t.Cleanup(s.Close)
		return s
	}
	listed, other := listener(), listener()
	var to string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }))
	defer s.Close()
	host := strings.TrimPrefix(listed.URL, "http://")
	for _, tc := range []struct {
		to     string
		status int
	}{
		{listed.URL + "/x", 200}, {other.URL + "/x", 302}, {"http://me:pass@" + host + "/x", 302}, {"ftp://" + host, 302},
		{strings.Replace(other.URL, "127.0.0.1", "localhost", 1), 302},
	} {
		seen, to = nil, tc.to
		h := &HTTP{}
		a := h.Read(t.Context(), HTTPRequest{Method: "GET", URL: s.URL + "/first?k=secret-1", Redirects: []string{host},
			Header: http.Header{"Authorization": {"Bearer secret-2"}, "X-Api-Key": {"secret-3"}}})
		h.Close()
		need.That(t, a.Status == tc.status && a.Err == nil, "%s: %d %v, want %d", tc.to, a.Status, a.Err, tc.status)
		if want := host + " Bearer secret-2 secret-3 "; tc.status == 200 && (len(seen) != 1 || seen[0] != want) || tc.status != 200 && len(seen) > 0 {
			t.Errorf("%s: seen %q", tc.to, seen)
		}
	}
}
