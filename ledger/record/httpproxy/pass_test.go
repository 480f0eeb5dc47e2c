package httpproxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ledger/record/roundtrip"
)

func TestWhatIsNotPassed(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	for request, want := range map[string]string{
		"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n":                                                     "405",
		"POST http://api.example.com/x HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 0\r\n\r\n":                                  "421",
		"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n":                                              "501",
		"POST /x HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: foo/2, websocket\r\nContent-Length: 0\r\n\r\n":                  "501",
		"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n":                                                                "501",
		"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd":                                             "400",
		"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n":                                                       "400",
		"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity, chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n":                     "501",
		"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nshort":                                                               "400",
		"POST /x HTTP/1.1\r\nHost: h\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 0\r\n\r\n":                          "400",
		"POST /x HTTP/1.1\r\nHost: h\r\nIdempotency-Key: \"a\r\nContent-Length: 0\r\n\r\n":                                              "400",
		"POST /x HTTP/1.1\r\nHost: h\r\nIdempotency-Key: " + strings.Repeat("k", 300) + "\r\nContent-Length: 0\r\n\r\n":                 "400",
		"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 10485761\r\n\r\n":                                                               "413",
		"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nA00001\r\n" + strings.Repeat("x", 10<<20+1) + "\r\n0\r\n\r\n": "413",
		"hello\r\n\r\n":                    "400",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": "505", // the preface of HTTP/2 without TLS
		"POST * HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n":                                                                                                   "400",
		"POST /x HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n":                                                                                       "421",
		"GET /x HTTP/1.1\r\nHost: evil.example:8080\r\n\r\n":                                                                                                        "421",
		"GET /x HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n":                                                                                                   "421",
		"GET /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc":                                                                                                "400",
		"HEAD /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n":                                                                      "400",
		"OPTIONS /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc":                                                                                            "400",
		"POST /x HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nConnection: Idempotency-Key\r\nContent-Length: 0\r\n\r\n":                                             "400",
		"POST /x HTTP/1.1\r\nHost: h\r\nAuthorization: a b\r\nConnection: close, authorization\r\nContent-Length: 0\r\n\r\n":                                        "400",
		"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: Idempotency-Key\r\n\r\n1\r\nx\r\n0\r\nIdempotency-Key: k\r\n\r\n":                    "400",
		"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-HTTP-Method-Override\r\n\r\n1\r\nx\r\n0\r\nX-HTTP-Method-Override: DELETE\r\n\r\n": "400",
		"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n1\r\nx\r\n0\r\nAuthorization: a b\r\n\r\n":                      "400",
		"POST /x HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 2002\r\n\r\n" + strings.Repeat("[", 1001) + strings.Repeat("]", 1001):     "400",
	} {
		name := request[:min(len(request), 70)]
		c := need.Get(net.Dial("tcp", strings.TrimPrefix(w.url, "http://")))(t)
		go func() {
			_, _ = io.WriteString(c, request)
			if strings.Contains(request, "short") {
				_ = c.(*net.TCPConn).CloseWrite()
			}
		}()
		_ = c.SetReadDeadline(time.Now().Add(patience))
		line, err := bufio.NewReader(c).ReadString('\n')
		if fields := strings.Fields(line); len(fields) < 2 || fields[1] != want {
			t.Errorf("%q: %q %v, want %s", name, line, err, want)
		}
		c.Close()
	}
	need.Equal(t, len(up.seen), 0, "requests reached the upstream")
	if all := w.all(); len(all) != 0 {
		t.Errorf("%d were recorded", len(all))
	}
}

func TestNoWriteSlipsPastTheRecord(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	for head, write := range map[string]bool{
		"GET / HTTP/1.1\r\n":     false,
		"HEAD / HTTP/1.1\r\n":    false,
		"OPTIONS / HTTP/1.1\r\n": false,
		"TRACE / HTTP/1.1\r\n":   false,
		"PUT / HTTP/1.1\r\n":     true,
		"DELETE / HTTP/1.1\r\n":  true,
		"get / HTTP/1.1\r\n":     true,
		"post / HTTP/1.1\r\n":    true,
		"MKCOL / HTTP/1.1\r\n":   true,
		"X-Y / HTTP/1.1\r\n":     true,
		"GET / HTTP/1.1\r\nX-HTTP-Method-Override: DELETE\r\n":                                                  true,
		"GET / HTTP/1.1\r\nx-http-method: patch\r\n":                                                            true,
		"GET / HTTP/1.1\r\nX-Method-Override: get\r\n":                                                          false,
		"GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n": false,
	} {
		recorded := len(w.all())
		c := need.Get(net.Dial("tcp", strings.TrimPrefix(w.url, "http://")))(t)
		before := len(up.seen)
		_, _ = io.WriteString(c, head+"Host: h\r\nConnection: close\r\n\r\n")
		_ = c.SetReadDeadline(time.Now().Add(patience))
		answer, _ := io.ReadAll(c)
		c.Close()
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 201")) || len(up.seen) != before+1 {
			t.Errorf("%q: %q, %d passed", head, answer[:min(len(answer), 80)], len(up.seen)-before)
		}
		need.Equal(t, len(w.all()) == recorded+1, write, head, "recorded")
		need.That(t, up.seen[before].Header.Get("Upgrade") == "", "%q: an upgrade was asked for", head)
	}
}

// What a policy calls a read is recorded all the same where an upstream may read
// another path in it, and what it calls a write is found however it is spelled.
func TestI1_NoSpellingOfAPathPassesTheRecord(t *testing.T) {
	up := newUpstream(t, says(whole("201 Created", "Connection: close\r\n", "")))
	policy := map[string]string{"search": "read", "fire": "write"}
	w := newWorld(t, up, setup{kind: func(method, _, path string) (string, bool) {
		switch {
		case method == "POST" && strings.HasPrefix(path, "/search/"):
			return "search", true
		case path == "/fire":
			return "fire", true
		}
		return "", false
	}})
	w.rules = func(kind string) record.KindRule { return record.KindRule{Access: policy[kind]} }
	for path, write := range map[string]bool{
		"POST /search/a":                  false,
		"POST /search/a/":                 false,
		"POST /search/a%20b":              false,
		"POST /search/a.b..c;v=1":         false,
		"POST /search/../charges":         true,
		"POST /search/%2e%2E/charges":     true,
		"POST /search/..%2fcharges":       true,
		"POST /search/..%5Ccharges":       true,
		"POST /search/..;x=1/charges":     true,
		"POST /search/.;/charges":         true,
		"POST /search/%252e%252e/charges": true,
		"POST /search//charges":           true,
		"POST /search/./a":                true,
		"POST /search/a%00":               true,
		"POST /search/a?_method=DELETE":   true,
		"POST /search/a?_method=get":      false,
		"POST /search/a?x=1&_method=put":  true,
		"GET /fire;x=1":                   true,
		"GET /x;a=b/..;/fire":             true,
		"GET /x\\..\\fire":                true,
		"GET /%66ire":                     true,
		"GET /%2566ire":                   true,
		"GET /x%2f..%2ffire":              true,
		"GET /x%255c..%255cfire":          true,
		"GET /fires;fire":                 false,
		"GET /fire":                       true,
		"GET //fire":                      true,
		"GET /x/../fire":                  true,
		"GET /./fire":                     true,
		"GET /fires":                      false,
	} {
		recorded := len(w.all())
		c := need.Get(net.Dial("tcp", strings.TrimPrefix(w.url, "http://")))(t)
		_, _ = io.WriteString(c, path+" HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_ = c.SetReadDeadline(time.Now().Add(patience))
		answer, _ := io.ReadAll(c)
		c.Close()
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 201")) {
			t.Errorf("%s: %q", path, answer[:min(len(answer), 80)])
		}
		need.Equal(t, len(w.all()) == recorded+1, write, path, "recorded")
		_, want, _ := strings.Cut(strings.ReplaceAll(path, "\\", "%5C"), " ")
		if req, _ := up.last(); req.RequestURI != want {
			t.Errorf("%s was passed as %s", path, req.RequestURI)
		}
	}
}

// A length and chunks at once are what request smuggling is made of. What goes
// on is one request whose length we have counted ourselves.
func TestI1_SmuggledRequestIsNotPassedUnrecorded(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	c := need.Get(net.Dial("tcp", strings.TrimPrefix(w.url, "http://")))(t)
	defer c.Close()
	_, _ = io.WriteString(c, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"1\r\nx\r\n0\r\n\r\nDELETE /b HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, _ = io.ReadAll(c)
	need.Equal(t, len(w.all()), len(up.seen))
	for i, req := range up.seen {
		need.That(t, len(req.TransferEncoding) == 0 && req.ContentLength == int64(len(up.bodies[i])), "%+v", req)
	}
}

func TestHeadersAsAReverseProxy(t *testing.T) {
	up := newUpstream(t, says("HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nX-End: 2\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"))
	w := newWorld(t, up, setup{option: func(o *Options) { o.Upstream.Path = "/base" }})
	for _, method := range []string{"GET", "POST"} {
		a := w.do(method, "/a%20b/?q=%41;x", "", "", "Connection", "X-Mine", "X-Mine", "1", "Proxy-Authorization", "Basic x", "X-Forwarded-For", "10.0.0.1",
			"X-Keep", "yes", "Indoubt-Source", "billing@42", "User-Agent", "shop/1", "Accept-Encoding", "gzip")
		req, _ := up.last()
		for name, want := range map[string]string{"X-Mine": "", "Proxy-Authorization": "", "X-Keep": "yes", "X-Forwarded-For": "10.0.0.1", "User-Agent": "shop/1"} {
			need.Equal(t, req.Header.Get(name), want, method, name)
		}
		need.That(t, req.Host == up.l.Addr().String() && req.RequestURI == "/base/a%20b/?q=%41;x", "%s: %s %s", method, req.Host, req.RequestURI)
		need.That(t, method != "POST" || req.Header.Get("Indoubt-Source") == "" && req.Header.Get("Accept-Encoding") == "identity", "%v", req.Header)
		need.That(t, a.header.Get("X-Hop") == "" && a.header.Get("Keep-Alive") == "" && a.header.Get("X-End") == "2" && a.header.Get("Set-Cookie") == "a=b", "%s: %v", method, a.header)
	}
	if src := w.operation("").Operation.Source; src.Pipeline != "billing" || src.Run != "42" {
		t.Errorf("%+v", src)
	}
}

// TestTrailersAreNotTaken: what follows the body of a write could say anew what stands before it.
func TestTrailersAreNotTaken(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	c := need.Get(net.Dial("tcp", strings.TrimPrefix(w.url, "http://")))(t)
	defer c.Close()
	_, _ = io.WriteString(c, "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\nX-Checksum: 77\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(patience))
	answer, _ := io.ReadAll(c)
	need.That(t, bytes.HasPrefix(answer, []byte("HTTP/1.1 400")) && bytes.Contains(answer, []byte("trailers")), "%.300q", answer)
}

// TestASlowBodyIsGivenUp: who sends a byte now and then does not hold memory for ever.
func TestASlowBodyIsGivenUp(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	w.proxy.patience = 25 * time.Millisecond
	c := need.Get(net.Dial("tcp", strings.TrimPrefix(w.url, "http://")))(t)
	defer c.Close()
	_, _ = io.WriteString(c, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc")
	_ = c.SetReadDeadline(time.Now().Add(patience))
	answer, err := io.ReadAll(c)
	need.That(t, err == nil && bytes.HasPrefix(answer, []byte("HTTP/1.1 408")), "%.100q %v", answer, err)
	if len(w.all()) != 0 {
		t.Errorf("recorded: %v", w.all())
	}
	// A body that came, and an answer that takes longer, are not cut off.
	hold := newLatch(t)
	up.does(func(u *upstream, c net.Conn) {
		u.take(c)
		<-hold.c
		_, _ = io.WriteString(c, whole("201 Created", "", "{}"))
	})
	time.AfterFunc(100*time.Millisecond, hold.open)
	if a := w.post("k", `{"n":1}`); a.status != 201 {
		t.Errorf("%+v", a)
	}
}

func TestOverTLS(t *testing.T) {
	hits := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hits++; w.WriteHeader(201) }))
	defer s.Close()
	u, _ := url.Parse(s.URL)
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{option: func(o *Options) { o.Upstream = u }})
	s.Config.ErrorLog = nil
	if a := w.post("k", `{}`); a.status != 503 || a.problem(t).Code != "never_sent" {
		t.Errorf("a certificate of nobody: %+v", a)
	}
	w = newWorld(t, up, setup{option: func(o *Options) { o.Upstream, o.Sender.TLS = u, s.Client().Transport.(*http.Transport).TLSClientConfig }})
	if a := w.post("k", `{}`); a.status != 201 || hits != 1 {
		t.Errorf("%+v", a)
	}
	if a := w.do("GET", "/", "", ""); a.status != 201 || hits != 2 {
		t.Errorf("%+v", a)
	}
}

func TestNewRefuses(t *testing.T) {
	r := record.New(nil, nil, record.Options{})
	for _, s := range []string{"ftp://h/", "http:///x", "https://h/?q=1", "//h"} {
		u, _ := url.Parse(s)
		if _, err := New(Options{Transport: &roundtrip.Transport{Recorder: r}, Upstream: u}); err == nil {
			t.Errorf("%s", s)
		}
	}
	if _, err := New(Options{Transport: &roundtrip.Transport{Recorder: r}}); err == nil {
		t.Error("no upstream")
	}
}

// TestI1_ReadOfAPolicyAsksForNoOtherMethod: a search that carries another method
// is what that method does.
func TestI1_ReadOfAPolicyAsksForNoOtherMethod(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{rule: record.KindRule{Access: "read"}, kind: func(_, _, path string) (string, bool) { return "search", path == "/search" }})
	for name, write := range map[string]bool{"X-HTTP-Method-Override": true, "X-HTTP-Method": true, "X-Method-Override": true, "X-Other": false} {
		recorded := len(w.all())
		w.do("POST", "/search", "", `{"n":"`+name+`"}`, name, "DELETE")
		need.Equal(t, len(w.all()) == recorded+1, write, name, "recorded")
	}
}

// TestI1_ReadWithABodyHasAConnectionOfItsOwn: an upstream that does not look at the
// body takes it for the next request, if one may follow.
func TestI1_ReadWithABodyHasAConnectionOfItsOwn(t *testing.T) {
	closes := make(chan bool, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { closes <- r.Close }))
	defer server.Close()
	up := newUpstream(t, created)
	upstream, _ := url.Parse(server.URL)
	w := newWorld(t, up, setup{rule: record.KindRule{Access: "read"}, kind: func(_, _, path string) (string, bool) { return "search", path == "/search" },
		option: func(o *Options) { o.Upstream = upstream }})
	for body, own := range map[string]bool{`{"q":1}`: true, "": false} {
		if w.do("POST", "/search", "", body); <-closes != own {
			t.Errorf("%q: its connection ends with it: %t", body, !own)
		}
	}
}

// TestOwnHost: what a browser can be made to take for this machine, and what not.
func TestOwnHost(t *testing.T) {
	name := need.Get(os.Hostname())(t)
	for host, own := range map[string]bool{
		"": true, "127.0.0.1": true, "127.0.0.1:8080": true, "[::1]:8080": true, "[::1]": true, "::1": true, "10.1.2.3:80": true, "[fe80::1%eth0]:80": true,
		"localhost": true, "LOCALHOST:1": true, "localhost.": true, "app.localhost:1": true, name: true, strings.ToUpper(name) + ":80": true, "proxy.team": true, "proxy.team.:1": true,
		"evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "127.0.0.1.nip.io:80": false, "xlocalhost": false, "proxy.team.evil": false,
		"0x7f000001": false, "2130706433": false,
	} {
		need.That(t, OwnHost(host, "proxy.team") == own, "%q: %t", host, !own)
	}
}

// TestOneRequestTooMany is answered at once, and its place is free again.
func TestOneRequestTooMany(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	for range cap(w.proxy.room) {
		w.proxy.room <- struct{}{}
	}
	if a := w.do("POST", "/a", "", `{}`); a.status != 503 || a.problem(t).Code != "busy" || len(w.all()) != 0 {
		t.Errorf("%d %s", a.status, a.body)
	}
	for range 4 { // a place is free a moment after its answer
		<-w.proxy.room
	}
	for range 4 {
		if a := w.do("POST", "/a", "", `{}`); a.status != 201 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}
