package httpproxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

func TestRepeatGetsTheFirstAnswer(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
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
		"no length":                   {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"id\":1}", ledger.Committed},
		"no length, and no form":      {"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end", ledger.Uncertain},
		"a success that says error":   {whole("200 OK", "Content-Type: application/json\r\n", `{"ok":false,"error":"channel_not_found"}`), ledger.Uncertain},
		"chunks":                      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n", ledger.Committed},
		"a long one":                  {whole("200 OK", "Content-Type: application/json\r\n", big), ledger.Committed},
		"JSON without an end":         {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"id\":1,", ledger.Uncertain},
		"chunks of JSON without one":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n4\r\n{\"a\"\r\n0\r\n\r\n", ledger.Uncertain},
		"gzip without an end":         {whole("200 OK", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", gzipped(`{"id":1}`)[:20]), ledger.Uncertain},
		"JSON without a beginning":    {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", ledger.Uncertain},
		"a refusal":                   {whole("422 Unprocessable Entity", "Content-Type: application/problem+json\r\n", `{"title":"no such customer"}`), ledger.Failed},
		"a refusal without a body":    {whole("403 Forbidden", "", ""), ledger.Failed},
		"a refusal that wants a name": {whole("401 Unauthorized", "Www-Authenticate: Bearer\r\n", "who?"), ledger.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			up.anew(says(tc.answer))
			key := `"` + name + `"`
			first := w.post(key, `{"amount":4200,"of":"`+name+`"}`)
			rec := w.about(first)
			id := rec.Operation.ID
			need.That(t, rec.Operation.State == tc.state && rec.Operation.Key == name, "%+v", rec.Operation)
			second := w.post(key, ` { "of":"`+name+`","amount" : 4200 } `)
			need.Equal(t, w.up.total(), 1, "effects")
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
	"with no status":             {says("HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\n{}"), "", 1, 502},
	"with another protocol":      {says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "", 1, 502},
	"with nonsense":              {says("SSH-2.0-OpenSSH_9.6\r\n"), "", 1, 502},
	"with a redirect":            {says(whole("307 Temporary Redirect", "Location: /other\r\n", "")), "", 1, 307},
}

func TestI2_BrokenConnectionsLeaveDoubtAndNoSecondEffect(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	for name, tc := range broken {
		t.Run(name, func(t *testing.T) {
			up.anew(tc.plan)
			key := `"` + name + `"`
			body := `{"for":"` + name + `","pad":"` + strings.Repeat("x", 1<<20) + `"}` // more than a socket takes at once
			if tc.effects == 1 {
				body = `{"for":"` + name + `"}`
			}
			first := w.post(key, body)
			rec := w.about(first)
			o := rec.Operation
			if o.State != ledger.Uncertain || tc.class != "" && o.ErrorClass != tc.class || len(rec.Attempts) != 1 {
				t.Errorf("%s %q %q, %d attempts", o.State, o.ErrorClass, rec.Attempts[0].Error, len(rec.Attempts))
			}
			switch {
			case tc.status == 0:
				need.That(t, first.status == 200 && first.err != nil, "the client was not told that it broke off: %+v", first)
			case first.status != tc.status:
				t.Errorf("status %d: %s", first.status, first.body)
			case tc.status == 502:
				if p := first.problem(t); p.Code != "outcome_unknown" || p.Operation != o.ID || strings.Count(p.Error.Message, o.ID) != 1 {
					t.Errorf("%+v", p)
				}
			}
			need.Equal(t, first.header.Get("Indoubt-Operation"), o.ID, first.header)
			up.does(created) // well again: now is when a second effect could happen
			for range 2 {
				again := w.post(key, body)
				if p := again.problem(t); again.status != 409 || p.Code != "in_doubt" || p.Operation != o.ID || p.Advice == "" {
					t.Errorf("%d %+v", again.status, p)
				}
			}
			need.Equal(t, up.total(), tc.effects)
		})
	}
}

func TestNeverSentMayBeSentAgain(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	up.l.Close()
	a := w.post("k-1", `{}`)
	if p := a.problem(t); a.status != 503 || p.Code != "never_sent" || !strings.Contains(p.Advice, "safe") {
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
			c := need.Get(net.Dial("tcp", strings.TrimPrefix(w.url, "http://")))(t)
			_, _ = io.WriteString(c, "POST /charges HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nIdempotency-Key: k-1\r\nContent-Length: 2\r\n\r\n{}")
			<-applied.c
			resets(c)
			if a := w.post("k-1", `{}`); a.status != 409 || a.problem(t).Code != "in_progress" || a.header.Get("Retry-After") == "" {
				t.Errorf("%+v", a)
			}
			// To send it again without the key until it is let through would be to do it twice.
			if a := w.post("", `{}`); a.status != 409 || a.problem(t).Code != "in_progress" || !strings.Contains(a.problem(t).Advice, "another key: k-1.") || a.header.Get("Retry-After") != "" {
				t.Errorf("without its key: %+v", a)
			}
			go1.open()
			soon(t, "the outcome", func() bool { return w.operation("").Operation.State == ledger.Committed })
			a := w.post("k-1", `{}`)
			if len(answer) < 1000 {
				need.That(t, a.status == 201 && a.body == `{"id":"ch_1"}` && a.header.Get("Idempotency-Replayed") == "true", "%+v", a)
			} else if a.status != 409 || a.problem(t).Code != "finished" { // too long to be kept whole
				t.Errorf("%+v", a)
			}
			need.Equal(t, up.total(), 1, "effects")
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
			for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
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
	for n := 1; n <= 5; n++ { // an answer that arrived is the end of the request
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
	w.hungUp()
	go1.open()
	soon(t, "the outcome", func() bool { return w.all()[0].State == ledger.Committed && w.all()[0].ID != "" && len(w.all()) == 6 })
	up.does(created)
	if a := w.post("", `{"amount":1}`); a.status != 201 || a.body != "six" || a.header.Get("Idempotency-Replayed") != "true" || up.total() != 6 {
		t.Errorf("the answer that did not arrive: %+v, %d effects", a, up.total())
	}
	if a := w.post("", `{"amount":1}`); a.header.Get("Idempotency-Replayed") != "" || up.total() != 7 {
		t.Errorf("the request after it: %+v, %d effects", a, up.total())
	}
}

// streamed is how long a stream pauses, and its deadline. In the soak lane it takes longer
// than its deadline: what goes on coming keeps the attempt alive.
var streamed = struct{ pause, deadline time.Duration }{0, time.Minute}

func TestStreamsAsItComesAndSettlesBeforeTheEnd(t *testing.T) {
	for method, body := range map[string]string{"GET": "", "POST": "{}"} {
		t.Run(method, func(t *testing.T) {
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
			w := newWorld(t, newUpstream(t, stream), setup{rule: record.KindRule{Deadline: streamed.deadline}})
			req, _ := http.NewRequest(method, w.url+"/events", strings.NewReader(body))
			resp := need.Get(client.Do(req))(t)
			defer resp.Body.Close()
			buf := make([]byte, 100)
			for i := range 12 {
				said := fmt.Sprintf("data: %d\n\n", i)
				next <- said
				if n, err := io.ReadAtLeast(resp.Body, buf, len(said)); string(buf[:n]) != said {
					t.Fatalf("%q %v", buf[:n], err)
				}
				if method == "POST" {
					time.Sleep(streamed.pause)
				}
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
			var w *world
			var a told
			// Where the machine is too slow to send it in time, a longer deadline is tried.
			for deadline := 150 * time.Millisecond; ; deadline *= 2 {
				w = newWorld(t, newUpstream(t, plan), setup{rule: record.KindRule{Deadline: deadline}})
				if a = w.post("k-1", "{}"); w.operation("").Operation.State != ledger.Failed || deadline > time.Minute {
					break
				}
			}
			if p := a.problem(t); a.status != 504 || p.Code != "outcome_unknown" {
				t.Errorf("%d %+v", a.status, p)
			}
			if o := w.operation("").Operation; o.State != ledger.Uncertain || o.ErrorClass != ledger.ClassTimeout && o.ErrorClass != ledger.ClassDeadline {
				t.Errorf("%s %q", o.State, o.ErrorClass)
			}
		})
	}
}

func TestUnwritableLedgerSendsNothing(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{file: true})
	w.post("k-0", `{}`)
	os.Rename(w.path, w.path+".gone")
	for _, key := range []string{"k-1", "k-0"} {
		if a := w.post(key, `{}`); a.status != 503 || a.problem(t).Code != "not_recorded" || a.header.Get("Retry-After") == "" || strings.Contains(a.body, w.path) {
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
	need.Equal(t, up.total(), 2, "effects")
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
			l := need.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
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

// TestARepeatThatWasNotSentIsNoProof: a allowed repeat that never left says nothing
// of the attempt that is in doubt, and the client is not told otherwise.
func TestI2_ARepeatThatWasNotSentIsNoProof(t *testing.T) {
	up := newUpstream(t, func(u *upstream, c net.Conn) { u.take(c) })
	w := newWorld(t, up, setup{})
	w.post("k-1", `{}`)
	o := w.operation("").Operation
	need.Get(ledger.Allow(t.Context(), w.store, ledger.AllowRequest{ChangeID: ledger.NewID(), AllowID: ledger.NewID(), OperationID: o.ID, Version: o.Version,
		Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Actor: ledger.Actor{Name: "maya", Terminal: true}, Reason: "try it", ExpiresAt: time.Now().Add(time.Hour)}))(t)
	up.l.Close()
	a := w.post("k-1", `{}`)
	if p := a.problem(t); a.status != 409 || p.Code != "in_doubt" || strings.Contains(a.body, "safe to send") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if rec := w.operation(""); len(rec.Attempts) != 2 || rec.Attempts[1].Proof != ledger.NeverSent || rec.Operation.State != ledger.Uncertain {
		t.Errorf("%+v", rec.Attempts)
	}
}
