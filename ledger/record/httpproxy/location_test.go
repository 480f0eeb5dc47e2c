package httpproxy

import (
	"net/http"
	"net/url"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A client that follows an address of the upstream comes back through the proxy.
func TestAddressesOfTheUpstreamComeBack(t *testing.T) {
	for _, c := range []struct{ upstream, said, told string }{
		{"http://api.example", "http://api.example/c2?a=%2F#part", "/c2?a=%2F#part"},
		{"http://api.example", "https://api.example/c2", "/c2"},
		{"http://api.example:80", "https://API.example.:443/c2", "/c2"},
		{"http://api.example", "//api.example/a%2Fb", "/a%2Fb"},
		{"http://api.example", "http://api.example", "/"},
		{"http://api.example", "http://api.example//evil.example/x", "/evil.example/x"},
		{"http://api.example", "http://user:pw@api.example/c2", "/c2"},
		{"http://[::1]:8080", "http://[::1]:8080/c2", "/c2"},
		{"https://api.example/v1", "https://api.example/v1/c2", "/c2"},
		{"https://api.example/v1/", "/v1/c2", "/c2"},
		{"https://api.example/v1", "https://api.example/v1", "/"},
		// These stay.
		{"http://api.example", "/c2", "/c2"},
		{"http://api.example", "c2", "c2"},
		{"http://api.example", "", ""},
		{"http://api.example", "https://login.example/c2", "https://login.example/c2"},
		{"http://api.example", "http://api.example:8443/c2", "http://api.example:8443/c2"},
		{"http://127.0.0.1:1", "http://127.0.0.1:2/c2", "http://127.0.0.1:2/c2"},
		{"https://api.example/v1", "https://api.example/v10/c2", "https://api.example/v10/c2"},
		{"http://api.example", "mailto:a@api.example", "mailto:a@api.example"},
		{"http://api.example", "http://%zz/", "http://%zz/"},
	} {
		for _, name := range []string{"Location", "Content-Location"} {
			h := http.Header{name: {c.said}}
			comeBack(h, need.Get(url.Parse(c.upstream))(t))
			need.Equal(t, h.Get(name), c.told, c.upstream+" says "+c.said)
		}
	}
}

// TestI6_ARedirectLeadsBackThroughTheProxy, and what was redirected is in doubt for good,
// as far as checks go.
func TestI6_ARedirectLeadsBackThroughTheProxy(t *testing.T) {
	u := newUpstream(t, nil)
	u.does(says(whole("308 Permanent Redirect", "Location: http://"+u.l.Addr().String()+"/c2\r\n", "")))
	w := newWorld(t, u, setup{})
	resp := w.do("POST", "/c", "", `{"inv":1}`)
	need.That(t, resp.status == 308 && resp.header.Get("Location") == "/c2", "%d %s", resp.status, resp.header.Get("Location"))
	page := need.Get(w.store.Page(t.Context(), ledger.Query{Limit: 2}))(t)
	need.Must(t, len(page.Rows) == 1, "%d operations", len(page.Rows))
	rec := need.Get(w.store.Read(t.Context(), ledger.Locator{ID: page.Rows[0].ID}))(t)
	need.Equal(t, rec.Operation.State, ledger.Uncertain, "state")
	need.That(t, rec.Attempts[0].Redirected(), "it was not redirected: %+v", rec.Attempts[0])
}
