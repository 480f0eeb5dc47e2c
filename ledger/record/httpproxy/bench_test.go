package httpproxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ledger/record/roundtrip"
)

// BenchmarkWrite is one write through the proxy and back, with a ledger in memory:
// beside "direct" and "relay", a reverse proxy that records nothing, it tells what
// recording costs apart from its commits.
func BenchmarkWrite(b *testing.B) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"ch_1","amount":4200,"currency":"usd"}`)
	}))
	defer up.Close()
	u := need.Get(url.Parse(up.URL))(b)
	recorder := record.New(ledgertest.NewMemory(time.Now, nil), nil, record.Options{})
	proxy := need.Get(New(Options{Transport: &roundtrip.Transport{Recorder: recorder}, Upstream: u}))(b)
	recorded := httptest.NewServer(proxy)
	defer recorded.Close()
	// As fresh a connection for each write as the record wants.
	fresh := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, Transport: &http.Transport{DisableKeepAlives: true}}
	relay := httptest.NewServer(fresh)
	defer relay.Close()
	for _, c := range []struct {
		name, url, method string
		key               bool
	}{{"direct", up.URL, "POST", false}, {"relay", relay.URL, "POST", false}, {"recorded", recorded.URL, "POST", true}, {"recorded without a key", recorded.URL, "POST", false}, {"passing", recorded.URL, "GET", false}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				var body io.Reader // a read has none
				if c.method != http.MethodGet {
					body = bytes.NewReader(fmt.Appendf(nil, `{"customer":"cus_9","amount":%d,"metadata":{"order":"%d-%d"}}`, i, b.N, time.Now().UnixNano()))
				}
				req := need.Get(http.NewRequest(c.method, c.url+"/v1/charges", body))(b)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Authorization", "Bearer abcdefghijklmnop")
				if c.key {
					req.Header.Set("Idempotency-Key", fmt.Sprintf("k-%d-%d", i, time.Now().UnixNano()))
				}
				resp := need.Get(http.DefaultClient.Do(req))(b)
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusCreated {
					b.Fatal(resp.Status)
				}
			}
		})
	}
}
