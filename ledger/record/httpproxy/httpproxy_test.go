package httpproxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/record"
)

func TestRepeatGetsTheFirstAnswer(t *testing.T) {
	big := `{"items":"` + strings.Repeat("ä", 20000) + `"}`
	for name, tc := range map[string]struct {
		answer string
		state  ledger.State
	}{
		"JSON with a newline behind":  {whole("201 Created", "Content-Type: application/json\r\nLocation: /charges/1\r\nX-Trace: 7\r\n", "{\"id\": \"ch_1\",  \"n\": 9007199254740993}\n"), ledger.Committed},
		"JSON between white space":    {whole("200 OK", "Content-Type: application/json\r\n", " {\"a\":1}\r\n\r\n"), ledger.Committed},
		"JSON with a member twice":    {whole("200 OK", "Content-Type: application/json\r\n", `{"a":1,"a":2,"u":"\u00e4\/"}`), ledger.Committed},
		"a JSON string":               {whole("200 OK", "Content-Type: application/json\r\n", `"done"`), ledger.Committed},
		"null":                        {whole("200 OK", "Content-Type: application/json\r\n", `null`), ledger.Committed},
		"text":                        {whole("202 Accepted", "Content-Type: text/plain; charset=utf-8\r\n", "on its way <b>\n"), ledger.Uncertain},
		"text, committed":             {whole("200 OK", "Content-Type: text/plain; charset=utf-8\r\n", "done <b> \u2028\n"), ledger.Committed},
		"white space":                 {whole("200 OK", "", " \n"), ledger.Committed},
		"bytes":                       {whole("200 OK", "Content-Type: image/png\r\n", "\x89PNG\x00\xff"), ledger.Committed},
		"nothing":                     {"HTTP/1.1 204 No Content\r\nEtag: \"7\"\r\n\r\n", ledger.Committed},
		"no length":                   {"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end", ledger.Committed},
		"chunks":                      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n", ledger.Committed},
		"a long one":                  {whole("200 OK", "Content-Type: application/json\r\n", big), ledger.Committed},
		"a refusal":                   {whole("422 Unprocessable Entity", "Content-Type: application/problem+json\r\n", `{"title":"no such customer"}`), ledger.Failed},
		"a refusal without a body":    {whole("403 Forbidden", "", ""), ledger.Failed},
		"a refusal that wants a name": {whole("401 Unauthorized", "Www-Authenticate: Bearer\r\n", "who?"), ledger.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newUpstream(t, says(tc.answer)), setup{})
			first := w.post("k-1", `{"amount":4200}`)
			id := first.header.Get("Indoubt-Operation")
			rec := w.operation("")
			if rec.Operation.ID != id || rec.Operation.State != tc.state || rec.Operation.Key != "k-1" {
				t.Errorf("%+v", rec.Operation)
			}
			second := w.post("k-1", ` { "amount" : 4200 } `)
			if n := w.up.total(); n != 1 {
				t.Errorf("%d effects", n)
			}
			if tc.state == ledger.Uncertain {
				if p := second.problem(t); second.status != 409 || p.Code != "in_doubt" || p.Operation != id {
					t.Errorf("%+v", p)
				}
				return
			}
			if second.header.Get("Idempotency-Replayed") != "true" || second.header.Get("Indoubt-Operation") != id || first.header.Get("Idempotency-Replayed") != "" {
				t.Errorf("%v", second.header)
			}
			for _, name := range []string{"Content-Type", "Location", "Etag", "Www-Authenticate"} {
				if a, b := first.header.Get(name), second.header.Get(name); a != b {
					t.Errorf("%s: %q, then %q", name, a, b)
				}
			}
			if first.status != second.status || first.body != second.body {
				t.Errorf("%d %q, then %d %q; kept %s", first.status, first.body, second.status, second.body, rec.Attempts[0].Result)
			}
		})
	}
}

// broken are the ways a connection ends that leave doubt. None of them may lead
// to a second effect.
var broken = map[string]struct {
	plan    func(*upstream, net.Conn)
	class   ledger.ErrorClass
	effects int
	status  int // 0: the answer to the client breaks off as it did to us
}{
	"before the request is read": {func(_ *upstream, c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 1)) // or nothing of it may have left, and that is known
		resets(c)
	}, "", 0, 502},
	"in the middle of the request": {func(_ *upstream, c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 20))
		resets(c)
	}, "", 0, 502},
	"after it took effect": {func(u *upstream, c net.Conn) { u.take(c) }, ledger.ClassEOF, 1, 502},
	"reset after it took effect": {func(u *upstream, c net.Conn) {
		u.take(c)
		resets(c)
	}, ledger.ClassReset, 1, 502},
	"in the middle of the head":  {says("HTTP/1.1 200 OK\r\nContent-"), ledger.ClassEOF, 1, 502},
	"after the head":             {says("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n"), ledger.ClassEOF, 1, 502},
	"in the middle of the body":  {says("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"id\":"), ledger.ClassEOF, 1, 502},
	"in the middle of a refusal": {says("HTTP/1.1 422 No\r\nContent-Length: 20\r\n\r\n{\"id\":"), ledger.ClassEOF, 1, 502},
	"between two chunks":         {says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n"), ledger.ClassEOF, 1, 0},
	"in a long answer":           {says("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("x", 100000)), ledger.ClassEOF, 1, 0},
	"with a server error":        {says(whole("500 Oh", "", "no")), ledger.Class5xx, 1, 500},
	"with another protocol":      {says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "", 1, 502},
	"with nonsense":              {says("SSH-2.0-OpenSSH_9.6\r\n"), "", 1, 502},
	"with a redirect":            {says(whole("307 Temporary Redirect", "Location: /other\r\n", "")), "", 1, 307},
}

func TestI2_BrokenConnectionsLeaveDoubtAndNoSecondEffect(t *testing.T) {
	for name, tc := range broken {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, tc.plan)
			w := newWorld(t, up, setup{})
			body := `{"amount":4200,"pad":"` + strings.Repeat("x", 1<<20) + `"}` // more than a socket takes at once
			if tc.effects == 1 {
				body = `{"amount":4200}`
			}
			first := w.post("k-1", body)
			rec := w.operation("")
			o := rec.Operation
			if o.State != ledger.Uncertain || tc.class != "" && o.ErrorClass != tc.class || len(rec.Attempts) != 1 {
				t.Errorf("%s %q %q, %d attempts", o.State, o.ErrorClass, rec.Attempts[0].Error, len(rec.Attempts))
			}
			switch {
			case tc.status == 0:
				if first.status != 200 || first.err == nil {
					t.Errorf("the client was not told that it broke off: %+v", first)
				}
			case first.status != tc.status:
				t.Errorf("status %d: %s", first.status, first.body)
			case tc.status == 502:
				if p := first.problem(t); p.Code != "outcome_unknown" || p.Operation != o.ID || p.State != "uncertain" || p.Since == "" {
					t.Errorf("%+v", p)
				}
			}
			if first.header.Get("Indoubt-Operation") != o.ID {
				t.Errorf("%v", first.header)
			}
			up.does(created) // well again: now is when a second effect could happen
			for range 2 {
				again := w.post("k-1", body)
				if p := again.problem(t); again.status != 409 || p.Code != "in_doubt" || p.Operation != o.ID || p.Advice == "" || again.header.Get("Retry-After") == "" {
					t.Errorf("%d %+v", again.status, p)
				}
			}
			if n := up.total(); n != tc.effects {
				t.Errorf("%d effects, want %d", n, tc.effects)
			}
		})
	}
}

func TestNeverSentMayBeSentAgain(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	up.l.Close()
	a := w.post("k-1", `{}`)
	if p := a.problem(t); a.status != 502 || p.Code != "never_sent" || p.State != "failed" || !strings.Contains(p.Advice, "safe") {
		t.Errorf("%d %+v", a.status, p)
	}
	rec := w.operation("")
	if rec.Attempts[0].Proof != ledger.NeverSent {
		t.Errorf("%+v", rec.Attempts[0])
	}
	l, err := net.Listen("tcp", up.l.Addr().String())
	if err != nil {
		t.Skip("the port is taken:", err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			created(up, c)
			c.Close()
		}
	}()
	if a := w.post("k-1", `{}`); a.status != 201 || a.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("%+v", a)
	}
	if rec := w.operation(""); rec.Operation.State != ledger.Committed || len(rec.Attempts) != 2 {
		t.Errorf("%+v", rec.Operation)
	}
}

func TestClientThatDiesIsRecordedAndAnsweredLater(t *testing.T) {
	for name, answer := range map[string]string{
		"whole answer": whole("201 Created", "Content-Type: application/json\r\n", `{"id":"ch_1"}`),
		"long answer":  whole("201 Created", "Content-Type: text/plain\r\n", strings.Repeat("0123456789", 15000)),
	} {
		t.Run(name, func(t *testing.T) {
			applied, go1 := newLatch(t), newLatch(t)
			up := newUpstream(t, func(u *upstream, c net.Conn) {
				u.take(c)
				applied.open()
				<-go1.c
				_, _ = io.WriteString(c, answer)
			})
			w := newWorld(t, up, setup{})
			c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(c, "POST /charges HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nIdempotency-Key: k-1\r\nContent-Length: 2\r\n\r\n{}")
			<-applied.c
			resets(c)
			if a := w.post("k-1", `{}`); a.status != 409 || a.problem(t).Code != "in_progress" || a.problem(t).Until == "" || a.header.Get("Retry-After") == "" {
				t.Errorf("%+v", a)
			}
			go1.open()
			soon(t, "the outcome", func() bool { return w.operation("").Operation.State == ledger.Committed })
			a := w.post("k-1", `{}`)
			if len(answer) < 1000 {
				if a.status != 201 || a.body != `{"id":"ch_1"}` || a.header.Get("Idempotency-Replayed") != "true" {
					t.Errorf("%+v", a)
				}
			} else if a.status != 409 || a.problem(t).Code != "done" { // too long to be kept whole
				t.Errorf("%+v", a)
			}
			if up.total() != 1 {
				t.Errorf("%d effects", up.total())
			}
		})
	}
}

func TestManyClientsOnFewKeys(t *testing.T) {
	const clients, keys = 200, 50
	up := newUpstream(t, func(u *upstream, c net.Conn) {
		if _, body := u.take(c); body != "" {
			time.Sleep(5 * time.Millisecond)
			_, _ = io.WriteString(c, whole("201 Created", "Content-Type: application/json\r\n", `{"did":`+body+`}`))
		}
	})
	w := newWorld(t, up, setup{})
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			key := fmt.Sprintf("k-%d", i%keys)
			body := fmt.Sprintf(`{"n":%d}`, i%keys)
			for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				a, err := w.try(t.Context(), "POST", "/charges", key, body)
				if err != nil {
					t.Error(err)
					return
				}
				if a.status == 201 {
					if want := `{"did":` + body + `}`; a.body != want {
						t.Errorf("%s got %s", want, a.body)
					}
					return
				}
				if code := a.problem(t).Code; a.status != 409 || code != "in_progress" {
					t.Errorf("%d %s", a.status, code)
					return
				}
			}
			t.Errorf("%s was never answered", key)
		})
	}
	all.Wait()
	if n := up.total(); n != keys || len(up.effects) != keys {
		t.Errorf("%d effects of %d writes", n, keys)
	}
}

func TestWithoutAKey(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	for n := 1; n <= 5; n++ { // an answer that arrived is the end of the wish
		if a := w.post("", `{"amount":1}`); a.status != 201 || a.header.Get("Idempotency-Replayed") != "" || up.total() != n {
			t.Fatalf("%d: %+v, %d effects", n, a, up.total())
		}
	}
	applied, go1 := newLatch(t), newLatch(t)
	up.does(func(u *upstream, c net.Conn) {
		u.take(c)
		applied.open()
		<-go1.c
		_, _ = io.WriteString(c, whole("201 Created", "", "six"))
	})
	ctx, kill := context.WithCancel(t.Context())
	go func() {
		<-applied.c
		kill()
	}()
	if _, err := w.try(ctx, "POST", "/charges", "", `{"amount":1}`); err == nil {
		t.Fatal("the killed client was answered")
	}
	go1.open()
	soon(t, "the outcome", func() bool { return w.all()[0].State == ledger.Committed && w.all()[0].ID != "" && len(w.all()) == 6 })
	up.does(created)
	if a := w.post("", `{"amount":1}`); a.status != 201 || a.body != "six" || a.header.Get("Idempotency-Replayed") != "true" || up.total() != 6 {
		t.Errorf("the answer that did not arrive: %+v, %d effects", a, up.total())
	}
	if a := w.post("", `{"amount":1}`); a.header.Get("Idempotency-Replayed") != "" || up.total() != 7 {
		t.Errorf("the wish after it: %+v, %d effects", a, up.total())
	}
}

func TestStreamsAsItComesAndSettlesBeforeTheEnd(t *testing.T) {
	next := make(chan string)
	stream := func(u *upstream, c net.Conn) {
		u.take(c)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for s := range next {
			fmt.Fprintf(c, "%x\r\n%s\r\n", len(s), s)
			if s == "" {
				return
			}
		}
	}
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t, newUpstream(t, stream), setup{rule: record.KindRule{Deadline: 400 * time.Millisecond}})
			req, _ := http.NewRequest(method, w.url+"/events", strings.NewReader("{}"))
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			buf := make([]byte, 100)
			for i := range 12 { // longer than the deadline: what goes on coming keeps the attempt alive
				said := fmt.Sprintf("data: %d\n\n", i)
				next <- said
				if n, err := io.ReadAtLeast(resp.Body, buf, len(said)); string(buf[:n]) != said {
					t.Fatalf("%q %v", buf[:n], err)
				}
				time.Sleep(60 * time.Millisecond)
			}
			if method == "POST" && w.operation("").Operation.StateAt(time.Now()) != ledger.Pending {
				t.Errorf("%+v", w.operation("").Operation)
			}
			next <- ""
			if n, err := resp.Body.Read(buf); n != 0 || err != io.EOF {
				t.Errorf("%q %v", buf[:n], err)
			}
			if method == "GET" {
				if len(w.all()) != 0 {
					t.Errorf("a read was recorded: %+v", w.all())
				}
			} else if rec := w.operation(""); rec.Operation.State != ledger.Committed || !strings.Contains(string(rec.Attempts[0].Result), `data: 11`) {
				t.Errorf("%s %s", rec.Operation.State, rec.Attempts[0].Result) // at once: it was settled before the end was said
			}
		})
	}
}

func TestDeadlineEndsTheWait(t *testing.T) {
	stay := newLatch(t)
	for name, plan := range map[string]func(*upstream, net.Conn){
		"for the head": func(u *upstream, c net.Conn) { u.take(c); <-stay.c },
		"for the body": func(u *upstream, c net.Conn) {
			u.take(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
			<-stay.c
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newUpstream(t, plan), setup{rule: record.KindRule{Deadline: 150 * time.Millisecond}})
			a := w.post("k-1", "{}")
			if p := a.problem(t); a.status != 504 || p.Code != "outcome_unknown" {
				t.Errorf("%d %+v", a.status, p)
			}
			if o := w.operation("").Operation; o.State != ledger.Uncertain || o.ErrorClass != ledger.ClassTimeout && o.ErrorClass != ledger.ClassDeadline {
				t.Errorf("%s %q", o.State, o.ErrorClass)
			}
		})
	}
}

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
		"hello\r\n\r\n": "400",
	} {
		name := request[:min(len(request), 70)]
		c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.WriteString(c, request)
			if strings.Contains(request, "short") {
				_ = c.(*net.TCPConn).CloseWrite()
			}
		}()
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		line, err := bufio.NewReader(c).ReadString('\n')
		if fields := strings.Fields(line); len(fields) < 2 || fields[1] != want {
			t.Errorf("%q: %q %v, want %s", name, line, err, want)
		}
		c.Close()
	}
	if len(up.seen) != 0 {
		t.Errorf("%d requests reached the upstream", len(up.seen))
	}
	if all := w.all(); len(all) != 0 {
		t.Errorf("%d were recorded", len(all))
	}
}

func TestNoWriteSlipsPastTheRecord(t *testing.T) {
	up := newUpstream(t, created)
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
		w := newWorld(t, up, setup{})
		c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		before := len(up.seen)
		_, _ = io.WriteString(c, head+"Host: h\r\nConnection: close\r\n\r\n")
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer, _ := io.ReadAll(c)
		c.Close()
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 201")) || len(up.seen) != before+1 {
			t.Errorf("%q: %q, %d passed", head, answer[:min(len(answer), 80)], len(up.seen)-before)
		}
		if got := len(w.all()) == 1; got != write {
			t.Errorf("%q: recorded %v", head, got)
		}
		if up.seen[before].Header.Get("Upgrade") != "" {
			t.Errorf("%q: an upgrade was asked for", head)
		}
	}
}

// A length and chunks at once are what request smuggling is made of. What goes
// on is one request whose length we have counted ourselves.
func TestI1_SmuggledRequestIsNotPassedUnrecorded(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"1\r\nx\r\n0\r\n\r\nDELETE /b HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.ReadAll(c)
	if got := len(w.all()); got != len(up.seen) {
		t.Errorf("%d recorded, %d passed", got, len(up.seen))
	}
	for i, req := range up.seen {
		if len(req.TransferEncoding) > 0 || req.ContentLength != int64(len(up.bodies[i])) {
			t.Errorf("%+v", req)
		}
	}
}

func TestKeys(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	w.post("k-1", `{"n":1}`)
	if a := w.post(`"k-1"`, `{"n":1}`); a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("quoted it is another key: %+v", a)
	}
	if a := w.post(`"k-1"; v=2`, `{"n":1}`); a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("with a parameter it is another key: %+v", a)
	}
	for name, again := range map[string]told{
		"body":   w.post("k-1", `{"n":2}`),
		"path":   w.do("POST", "/refunds", "k-1", `{"n":1}`),
		"query":  w.do("POST", "/charges?x=1", "k-1", `{"n":1}`),
		"header": w.post("k-1", `{"n":1}`, "X-Http-Method-Override", "PUT"),
	} {
		if p := again.problem(t); again.status != 422 || p.Code != "key_reused" {
			t.Errorf("another %s: %d %+v", name, again.status, p)
		}
	}
	if a := w.do("PUT", "/charges", "k-1", `{"n":1}`); a.status != 201 { // another kind
		t.Errorf("%+v", a)
	}
	if up.total() != 2 {
		t.Errorf("%d effects", up.total())
	}
	w = newWorld(t, up, setup{option: func(o *Options) { o.RequireKey = true }})
	if a := w.post("", `{}`); a.status != 400 || a.problem(t).Code != "key_missing" {
		t.Errorf("%+v", a)
	}
	w = newWorld(t, up, setup{rule: record.KindRule{KeyStrategy: record.KeyContent}, option: func(o *Options) { o.RequireKey = true }})
	w.post("", `{}`)
	if a := w.post("", `{}`); a.header.Get("Idempotency-Replayed") != "true" || up.total() != 3 {
		t.Errorf("a key made of the content: %+v", a)
	}
}

func TestCallersAreKeptApart(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	for _, header := range [][]string{{}, {"Authorization", "Bearer alpha-secret"}, {"Authorization", "Bearer beta-secret"}, {"X-Api-Key", "gamma-secret"}, {"Cookie", "session=delta-secret"}} {
		if a := w.post("k-1", `{}`, header...); a.status != 201 || a.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%v got somebody else's answer: %+v", header, a)
		}
		if a := w.post("k-1", `{}`, header...); a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%v did not get the answer again: %+v", header, a)
		}
	}
	one := newWorld(t, up, setup{option: func(o *Options) { o.Scope = "everybody" }})
	one.post("k-1", `{}`, "Authorization", "Bearer old-token-1")
	if a := one.post("k-1", `{}`, "Authorization", "Bearer new-token-2"); a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%+v", a)
	}
}

func TestI11_SecretsAreNotStored(t *testing.T) {
	up := newUpstream(t, says(whole("200 OK", "Content-Type: application/json\r\nSet-Cookie: sid=answer-cookie-secret\r\n", `{"id":"1","access_token":"answer-token-secret"}`)))
	w := newWorld(t, up, setup{})
	send := func() told {
		return w.do("POST", "/charges?api_key=query-secret", "k-1", `{"password":"body-secret"}`, "Authorization", "Bearer header-secret", "Cookie", "sid=cookie-secret")
	}
	if a := send(); a.status != 200 || !strings.Contains(a.body, "answer-token-secret") {
		t.Errorf("%+v", a)
	}
	// What was taken out cannot be said again, so it is not.
	if a := send(); a.status != 409 || a.problem(t).Code != "done" || up.total() != 1 {
		t.Errorf("%+v", a)
	}
	req, body := up.last()
	if req.Header.Get("Authorization") != "Bearer header-secret" || !strings.Contains(body, "body-secret") || req.URL.RawQuery != "api_key=query-secret" {
		t.Errorf("the upstream did not get what was sent: %v %s", req.Header, body)
	}
	w.store.Close()
	for _, suffix := range []string{"", "-wal"} {
		file, err := os.ReadFile(w.path + suffix)
		if err != nil && suffix == "" {
			t.Fatal(err)
		}
		for _, secret := range []string{"query", "body", "header", "cookie", "answer-token", "answer-cookie"} {
			if bytes.Contains(file, []byte(secret+"-secret")) {
				t.Errorf("%s-secret is in the ledger%s", secret, suffix)
			}
		}
	}
	for _, r := range w.reports {
		if strings.Contains(fmt.Sprint(r), "secret") {
			t.Errorf("%+v", r)
		}
	}
}

func TestNothingToReplay(t *testing.T) {
	up := newUpstream(t, func(u *upstream, c net.Conn) { u.take(c) })
	w := newWorld(t, up, setup{})
	w.post("k-1", `{}`)
	o := w.operation("").Operation
	if _, err := ledger.Decide(t.Context(), w.store, ledger.Decision{ChangeID: ledger.NewID(), ID: o.ID, Verb: ledger.VerbConfirm, Version: o.Version,
		Actor: ledger.Actor{Name: "maya", Terminal: true}, Reason: "seen in the dashboard", Receipts: []string{"ch_7"}}); err != nil {
		t.Fatal(err)
	}
	a := w.post("k-1", `{}`)
	if p := a.problem(t); a.status != 409 || p.Code != "done" || p.Receipt != "ch_7" || p.State != "committed" {
		t.Errorf("%d %+v", a.status, p)
	}
}

func TestUnwritableLedgerSendsNothing(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	w.post("k-0", `{}`)
	os.Rename(w.path, w.path+".gone")
	for _, key := range []string{"k-1", "k-0"} {
		if a := w.post(key, `{}`); a.status != 503 || a.problem(t).Code != "not_recorded" || a.header.Get("Retry-After") == "" {
			t.Errorf("%+v", a)
		}
	}
	os.Rename(w.path+".gone", w.path)
	if a := w.post("k-1", `{}`); a.status != 201 {
		t.Errorf("%+v", a)
	}
	w.store.Close()
	if a := w.post("k-2", `{}`); a.status != 503 {
		t.Errorf("%+v", a)
	}
	if a := w.do("GET", "/", "", ""); a.status != 201 {
		t.Errorf("a read does not need the ledger: %+v", a)
	}
	if up.total() != 2 {
		t.Errorf("%d effects", up.total())
	}
}

func TestKeyAndTokenGoAlong(t *testing.T) {
	for name, tc := range map[string]struct {
		rule              record.KindRule
		contentType, body string
		want              string // TOKEN stands for it
	}{
		"JSON":                    {record.KindRule{TokenInto: "body.metadata.indoubt"}, "application/json", `{"b":9007199254740993,"metadata":{"order":"7"}}`, `{"b":9007199254740993,"metadata":{"indoubt":"TOKEN","order":"7"}}`},
		"JSON, no such object":    {record.KindRule{TokenInto: "metadata.indoubt"}, "application/vnd.api+json; charset=utf-8", `{"a":1}`, `{"a":1,"metadata":{"indoubt":"TOKEN"}}`},
		"JSON, a list":            {record.KindRule{TokenAppend: "body.items[0].notes"}, "application/json", `{"items":[{"notes":["x"]}]}`, `{"items":[{"notes":["x","TOKEN"]}]}`},
		"form":                    {record.KindRule{TokenInto: "body.metadata.indoubt"}, "application/x-www-form-urlencoded", `amount=4200&metadata[order]=a%20b`, `amount=4200&metadata[order]=a%20b&metadata%5Bindoubt%5D=TOKEN`},
		"form that has it":        {record.KindRule{TokenInto: "note"}, "application/x-www-form-urlencoded", `note=x&amount=1`, `amount=1&note=TOKEN`},
		"form, a list":            {record.KindRule{TokenAppend: "tags"}, "application/x-www-form-urlencoded", `tags[]=a`, `tags[]=a&tags%5B%5D=TOKEN`},
		"no place in a text":      {record.KindRule{TokenInto: "body.x"}, "text/plain", `hello`, `hello`},
		"no place in a list":      {record.KindRule{TokenInto: "body.x"}, "application/json", `[1]`, `[1]`},
		"no place in broken JSON": {record.KindRule{TokenInto: "body.x"}, "application/json", `{"a":`, `{"a":`},
		"nothing asked for":       {record.KindRule{}, "application/json", ` {"a": 1}`, ` {"a": 1}`},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, created)
			tc.rule.KeyHeader, tc.rule.Remembers = "X-Request-Id", time.Hour
			w := newWorld(t, up, setup{rule: tc.rule})
			w.post("", tc.body, "Content-Type", tc.contentType)
			rec := w.operation("")
			req, got := up.last()
			if want := strings.ReplaceAll(tc.want, "TOKEN", rec.Operation.Token); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if sent := strings.Contains(tc.want, "TOKEN"); rec.Attempts[0].TokenSent != sent || strings.Contains(string(rec.Operation.Input), rec.Operation.Token) {
				t.Errorf("sent %v, recorded %v, input %s", sent, rec.Attempts[0].TokenSent, rec.Operation.Input)
			}
			if req.Header.Get("X-Request-Id") != rec.Operation.Key || !rec.Attempts[0].KeyWorks {
				t.Errorf("%v %+v", req.Header, rec.Attempts[0])
			}
		})
	}
	w := newWorld(t, newUpstream(t, created), setup{rule: record.KindRule{Remembers: time.Hour}})
	w.post("k", `{}`)
	if w.operation("").Attempts[0].KeyWorks {
		t.Error("a key that is not sent cannot work")
	}
}

func TestInputOfARequest(t *testing.T) {
	up := newUpstream(t, created)
	for name, tc := range map[string]struct{ contentType, path, body, want string }{
		"JSON":      {"application/json", "/a%2Fb?x=1&y=2&y=3", ` {"n": 9007199254740993} `, `{"method":"POST","path":"/a%2Fb","query":{"x":"1","y":["2","3"]},"content_type":"application/json","body":{"n":9007199254740993}}`},
		"no JSON":   {"application/json", "/", `{"n":`, `{"method":"POST","path":"/","content_type":"application/json","body":"{\"n\":"}`},
		"form":      {"application/x-www-form-urlencoded; charset=utf-8", "/", `a=1&m[x]=2&m[y]=3&l[]=4&l[]=5`, `{"method":"POST","path":"/","content_type":"application/x-www-form-urlencoded; charset=utf-8","body":{"a":"1","m":{"x":"2","y":"3"},"l":["4","5"]}}`},
		"odd form":  {"application/x-www-form-urlencoded", "/", `a=1&a[b]=2`, `{"method":"POST","path":"/","content_type":"application/x-www-form-urlencoded","body":{"a":"1","a[b]":"2"}}`},
		"text":      {"text/plain", "/?%zz", `hello`, `{"method":"POST","path":"/","query":"%zz","content_type":"text/plain","body":"hello"}`},
		"bytes":     {"application/octet-stream", "/", "\xff\x00", `{"method":"POST","path":"/","content_type":"application/octet-stream","body":{"base64":"/wA="}}`},
		"nothing":   {"application/json", "/", "", `{"method":"POST","path":"/","content_type":"application/json"}`},
		"a file":    {"multipart/form-data; boundary=one", "/", "--one\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--one\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.bin\"\r\nContent-Type: text/plain\r\n\r\nhello\r\n--one--\r\n", `{"method":"POST","path":"/","content_type":"multipart/form-data","body":[{"name":"a","value":"1"},{"bytes":5,"content_type":"text/plain","filename":"x.bin","name":"f","sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}]}`},
		"very long": {"application/json", "/", `"` + strings.Repeat("a", 300<<10) + `"`, `{"method":"POST","path":"/","content_type":"application/json","body":{"bytes":307202,"sha256":"0d6ae1fa8b2f57f2f7ce2bd42de0a4d6b8ba3a4a6bd0b6a5c3b8f5d8b1a0f0c4"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, up, setup{})
			a := w.do("POST", tc.path, "k", tc.body, "Content-Type", tc.contentType)
			got := string(w.operation("").Operation.Input)
			if name == "very long" {
				got, tc.want = got[:strings.Index(got, "sha256")], tc.want[:strings.Index(tc.want, "sha256")]
			}
			same, err := ledger.Fingerprint([]byte(strings.TrimSuffix(tc.want, `"`)))
			theirs, err2 := ledger.Fingerprint([]byte(strings.TrimSuffix(got, `"`)))
			if a.status != 201 || got != tc.want && (err != nil || err2 != nil || same != theirs) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if name == "a file" { // the same upload again, as clients make it
				other := strings.ReplaceAll(tc.body, "--one", "--two")
				if a := w.do("POST", tc.path, "k", other, "Content-Type", "multipart/form-data; boundary=two"); a.header.Get("Idempotency-Replayed") != "true" {
					t.Errorf("%+v", a)
				}
			}
		})
	}
}

func TestHeadersAsAReverseProxy(t *testing.T) {
	up := newUpstream(t, says("HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nX-End: 2\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"))
	w := newWorld(t, up, setup{option: func(o *Options) { o.Upstream.Path = "/base"; o.Upstream.User = url.UserPassword("u", "p") }})
	for _, method := range []string{"GET", "POST"} {
		a := w.do(method, "/a%20b/?q=%41;x", "", "", "Connection", "X-Mine", "X-Mine", "1", "Proxy-Authorization", "Basic x", "X-Forwarded-For", "10.0.0.1",
			"X-Keep", "yes", "Indoubt-Source", "billing@42", "User-Agent", "shop/1", "Accept-Encoding", "gzip")
		req, _ := up.last()
		for name, want := range map[string]string{"X-Mine": "", "Proxy-Authorization": "", "X-Keep": "yes", "X-Forwarded-For": "10.0.0.1", "User-Agent": "shop/1", "Authorization": "Basic dTpw"} {
			if got := req.Header.Get(name); got != want {
				t.Errorf("%s: %s: %q, want %q", method, name, got, want)
			}
		}
		if req.Host != up.l.Addr().String() || req.RequestURI != "/base/a%20b/?q=%41;x" {
			t.Errorf("%s: %s %s", method, req.Host, req.RequestURI)
		}
		if method == "POST" && (req.Header.Get("Indoubt-Source") != "" || req.Header.Get("Accept-Encoding") != "identity") {
			t.Errorf("%v", req.Header)
		}
		if a.header.Get("X-Hop") != "" || a.header.Get("Keep-Alive") != "" || a.header.Get("X-End") != "2" || a.header.Get("Set-Cookie") != "a=b" {
			t.Errorf("%s: %v", method, a.header)
		}
	}
	if src := w.operation("").Operation.Source; src.Pipeline != "billing" || src.Run != "42" {
		t.Errorf("%+v", src)
	}
}

func TestPolicySaysWhatIsARead(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{rule: record.KindRule{Access: "read"}, kind: func(method, _, path string) (string, bool) { return "search", path == "/search" }})
	w.do("POST", "/search", "", `{}`)
	if len(w.all()) != 0 {
		t.Errorf("%+v", w.all())
	}
	w = newWorld(t, up, setup{rule: record.KindRule{Access: "write"}, kind: func(method, host, path string) (string, bool) {
		return "logout", path == "/logout" && method == "GET" && host == up.l.Addr().String()
	}})
	w.do("GET", "/logout", "", "")
	w.do("GET", "/", "", "")
	if all := w.all(); len(all) != 1 || all[0].Kind != "logout" {
		t.Errorf("%+v", all)
	}
}

// reader settles as a reconcile read would.
type reader func(ctx context.Context, id string) (ledger.Operation, error)

func (r reader) ReadNow(ctx context.Context, id string) (ledger.Operation, error) { return r(ctx, id) }

func TestDoubtIsLookedAtOnce(t *testing.T) {
	up := newUpstream(t, func(u *upstream, c net.Conn) { u.take(c) })
	reads := 0
	w := newWorld(t, up, setup{reader: reader(func(context.Context, string) (ledger.Operation, error) {
		reads++
		return ledger.Operation{}, fmt.Errorf("the other side does not answer")
	})})
	w.post("k-1", `{}`)
	if a := w.post("k-1", `{}`); a.status != 409 || a.problem(t).Code != "in_doubt" || reads != 1 {
		t.Errorf("%d reads, %+v", reads, a)
	}
}

func TestKnownFailuresAreTriedAgain(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{rule: record.KindRule{Retry: record.RetryRule{Max: 2, BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond}, KeyStrategy: record.KeyRandom,
		Judge: func(_ context.Context, _ ledger.Record, a ledger.Answer) (record.Ruling, error) {
			if a.Status == 503 {
				return record.Ruling{Decided: true, Outcome: ledger.OutcomeFailed, Proof: ledger.Refused}, nil
			}
			return record.Ruling{}, nil
		}}})
	up.does(func(u *upstream, c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			u.does(created)
			_, _ = io.WriteString(c, whole("503 Later", "", ""))
		}
	})
	if a := w.post("", `{}`); a.status != 201 {
		t.Errorf("%+v", a)
	}
	if rec := w.operation(""); len(rec.Attempts) != 2 || rec.Operation.State != ledger.Committed || up.total() != 1 {
		t.Errorf("%d attempts, %+v", len(rec.Attempts), rec.Operation)
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
	if a := w.post("k", `{}`); a.status != 502 || a.problem(t).Code != "never_sent" {
		t.Errorf("a certificate of nobody: %+v", a)
	}
	w = newWorld(t, up, setup{option: func(o *Options) { o.Upstream, o.TLS = u, s.Client().Transport.(*http.Transport).TLSClientConfig }})
	if a := w.post("k", `{}`); a.status != 201 || hits != 1 {
		t.Errorf("%+v", a)
	}
	if a := w.do("GET", "/", "", ""); a.status != 201 || hits != 2 {
		t.Errorf("%+v", a)
	}
}

func TestShutdown(t *testing.T) {
	for name, tc := range map[string]struct {
		grace  time.Duration
		answer bool
		want   ledger.State
		status int
	}{
		"what ends in time is answered": {20 * time.Second, true, ledger.Committed, 201},
		"what does not is in doubt":     {50 * time.Millisecond, false, ledger.Uncertain, 502},
	} {
		t.Run(name, func(t *testing.T) {
			applied, go1 := newLatch(t), newLatch(t)
			up := newUpstream(t, func(u *upstream, c net.Conn) {
				u.take(c)
				applied.open()
				<-go1.c
				_, _ = io.WriteString(c, whole("201 Created", "", "late"))
			})
			w := newWorld(t, up, setup{})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			w.url = "http://" + l.Addr().String()
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.proxy.Serve(ctx, l, tc.grace) }()
			answers := make(chan told, 1)
			go func() {
				a, err := w.try(context.Background(), "POST", "/charges", "k-1", `{}`)
				a.err = err
				answers <- a
			}()
			<-applied.c
			stop()
			soon(t, "no new connection", func() bool {
				c, err := net.Dial("tcp", l.Addr().String())
				if err == nil {
					c.Close()
				}
				return err != nil
			})
			if tc.answer {
				go1.open()
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if o := w.operation("").Operation; o.State != tc.want {
				t.Errorf("%s %q", o.State, o.ErrorClass)
			}
			if a := <-answers; a.status != tc.status {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	r := record.New(nil, nil, record.Options{})
	for _, s := range []string{"ftp://h/", "http:///x", "https://h/?q=1", "//h"} {
		u, _ := url.Parse(s)
		if _, err := New(Options{Recorder: r, Upstream: u}); err == nil {
			t.Errorf("%s", s)
		}
	}
	if _, err := New(Options{Recorder: r}); err == nil {
		t.Error("no upstream")
	}
}
