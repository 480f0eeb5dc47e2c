package httpproxy

import (
	"bytes"
	"compress/gzip"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// What is kept of a write is what the upstream got: its token in place, its
// headers but for those that may be secrets.
func TestAWriteIsKeptAsItWasSent(t *testing.T) {
	up := newUpstream(t, func(u *upstream, c net.Conn) { u.take(c) })
	w := newWorld(t, up, setup{rule: record.KindRule{Input: "body", TokenInto: "metadata.ref", KeyFrom: []string{"order"}}})
	for i, c := range []struct{ method, path, contentType, body, key string }{
		{"POST", "/pay%2Fnow?b=%7e&a", "application/json; charset=utf-8", " {\"order\": 1.0,\r\n \"note\":\"<é>\"}\n", "k-json"},
		{"PATCH", "//pay/./x", "application/x-www-form-urlencoded", `order=2&metadata[x]=a%20b&&flag`, "k-form"},
		{"PUT", "/", "application/octet-stream", "\xff\x00binary", "k-bytes"},
		{"POST", "/curl", "application/x-www-form-urlencoded", `{"order":"a=b&c"}`, ""},
		{"DELETE", "/gone", "", "", "k-none"},
	} {
		w.do(c.method, c.path, c.key, c.body, "Content-Type", c.contentType, "Stripe-Version", "2026-01-01", "Authorization", "Bearer abcdefghijkl", "X-Mine", "v", "User-Agent", "sdk/1", "Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
		req, body := up.last()
		var rec ledger.Record
		for _, row := range w.all() {
			if r := w.operation(row.ID); r.Operation.Request != nil && r.Operation.Request.Target == req.RequestURI {
				rec = r
			}
		}
		kept := rec.Operation.Request
		if kept == nil {
			t.Fatalf("%d: %s is not kept", i, req.RequestURI)
		}
		if kept.Method != req.Method || kept.Origin != "http://"+up.l.Addr().String() || !bytes.Equal(kept.Bytes(), []byte(body)) || kept.Lost != "" {
			t.Errorf("%d: kept %+v of %s %q", i, kept, req.RequestURI, body)
		}
		want := http.Header{"Content-Type": {c.contentType}, "Stripe-Version": {"2026-01-01"}}
		if c.contentType == "" {
			want["Content-Type"] = []string{""}
		}
		if c.key != "" {
			want["Idempotency-Key"] = []string{c.key}
		}
		if !reflect.DeepEqual(http.Header(kept.Header), want) || !reflect.DeepEqual(kept.Withheld, []string{"Authorization", "X-Mine"}) {
			t.Errorf("%d: kept %v without %v", i, kept.Header, kept.Withheld)
		}
		if carried := strings.Contains(body, rec.Operation.Token); carried != rec.Attempts[0].TokenSent || carried != (i == 0 || i == 1 || i == 3) {
			t.Errorf("%d: the token of %q", i, body)
		}
	}
}

// A request that holds a secret, or cannot be looked into, is not kept: only
// that it was, and why.
func TestWhatOfAWriteIsNotKept(t *testing.T) {
	up := newUpstream(t, func(u *upstream, c net.Conn) { u.take(c) })
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(`{"order":1}`))
	z.Close()
	for name, c := range map[string]struct {
		path, contentType, body string
		header                  []string
		want                    string // "" where it is kept
	}{
		"a secret":          {"/a", "application/json", `{"password":"hunter2hunter2"}`, nil, "secret"},
		"policy's":          {"/a", "application/json", `{"card":{"number":4242}}`, nil, "secret"},
		"in the address":    {"/a?api_key=abcdefgh", "application/json", `{}`, nil, "secret"},
		"in a file":         {"/a", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"env\"\r\n\r\nAWS_SECRET_ACCESS_KEY=abcdefghijklmnop\r\n--b--\r\n", nil, "secret"},
		"in a text":         {"/a", "text/csv", "id,auth\n1,Bearer abcdefghijklmnop\n", nil, "secret"},
		"in gzip":           {"/a", "application/json", packed.String(), []string{"Content-Encoding", "gzip"}, ""},
		"in another coding": {"/a", "application/json", "packed", []string{"Content-Encoding", "br"}, "coding"},
		"too long":          {"/a", "text/plain", strings.Repeat("x", 256<<10+1), nil, "longer than 256 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, up, setup{rule: record.KindRule{Input: "body", Redact: []string{"card.number"}}})
			w.do("POST", c.path, "k", c.body, append([]string{"Content-Type", c.contentType}, c.header...)...)
			kept := w.operation("").Operation.Request
			switch {
			case kept == nil:
				t.Fatal("nothing is kept")
			case c.want == "":
				need.That(t, kept.Lost == "" && string(kept.Bytes()) == c.body, "%+v", kept)
			case !strings.Contains(kept.Lost, c.want) || !strings.Contains(kept.Lost, "not kept") || len(kept.Bytes()) > 0 || kept.Target != "" || kept.Header != nil:
				t.Errorf("%+v", kept)
			}
		})
	}
}

// A kind's paths begin at what it sees of a request.
func TestAKindsPathsBeginAtItsInput(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{rule: record.KindRule{Input: "body", KeyFrom: []string{"order.id"}, TokenInto: "ref", Redact: []string{"card", "body.pan"}}})
	one := w.about(w.post("", `{"order":{"id":7},"card":"4242","pan":"4343"}`))
	if again := w.post("", `{"order":{"id":7},"card":"4242","pan":"4343"}`); again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%+v", again)
	}
	if in := string(one.Operation.Input); strings.Contains(in, "4242") || strings.Contains(in, "4343") || !one.Operation.Redacted || !one.Attempts[0].TokenSent {
		t.Errorf("%s, token sent %v", in, one.Attempts[0].TokenSent)
	}
	if p := w.post("", `{"order":{}}`).problem(t); p.Code != "key_missing" || !strings.Contains(p.Detail, "order.id") {
		t.Errorf("%+v", p)
	}
}

// A client that keeps to the downstream's own header has a key: were another one put in
// its place, the same request again would be a new one to the downstream.
func TestI4_TheDownstreamsOwnHeaderIsTheKey(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{rule: record.KindRule{KeyHeader: "PayPal-Request-Id", Remembers: time.Hour}})
	first := w.post("", `{}`, "PayPal-Request-Id", "p-1")
	again := w.post("", `{}`, "PayPal-Request-Id", "p-1")
	req, _ := up.last()
	need.That(t, first.status == 201 && again.header.Get("Idempotency-Replayed") == "true" && again.body == first.body && up.total() == 1, "%+v, %+v, sent %d", first, again, up.total())
	need.That(t, req.Header.Get("PayPal-Request-Id") == "p-1" && w.about(first).Operation.Key == "p-1", "%v", req.Header)
	if p := w.post("", `{"another":1}`, "PayPal-Request-Id", "p-1").problem(t); p.Code != "key_reused" {
		t.Errorf("%+v", p)
	}
	if p := w.post("", `{}`, "PayPal-Request-Id", "p 2").problem(t); p.Code != "key_malformed" || !strings.Contains(p.Detail, "PayPal-Request-Id") {
		t.Errorf("%+v", p)
	}
	w.post("k-1", `{}`, "PayPal-Request-Id", "p-3")
	if req, _ := up.last(); req.Header.Get("PayPal-Request-Id") != "k-1" {
		t.Errorf("%v", req.Header)
	}
	w.rule.KeyHeader = "X-Request-Id"
	if o := w.about(w.post("", `{"another":1}`, "X-Request-Id", "of this try")).Operation; !strings.HasPrefix(o.Key, "input-") {
		t.Errorf("what may be new at every try is the key: %s", o.Key)
	}
}
