package listen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger/need"
	"indoubt/ledger/wire/mcpwire"
)

const soon = 3 * time.Minute

// stand is a listener before a server that does what a tool's name says.
type stand struct {
	testing.TB
	*Listener
	at    string
	stop  context.CancelFunc
	ended chan error
	free  chan struct{} // the tool "wait" answers when this is closed

	mu    sync.Mutex
	wrote []error // what came of each answer
	seen  []string
}

func newStand(t testing.TB, o Options) *stand {
	s := &stand{TB: t, ended: make(chan error, 1), free: make(chan struct{})}
	o.Run = s.run
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.Listener = stop, New(ctx, o)
	at := need.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.at = "http://" + at.Addr().String() + s.Path()
	go func() { s.ended <- s.Serve(ctx, at) }()
	t.Cleanup(stop)
	return s
}

// run is a session: its server, and a proxy that only passes on.
func (s *stand) run(ctx context.Context, in io.Reader, out io.Writer, way Way) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for r := bufio.NewReader(in); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, more := <-lines:
			if !more {
				return nil
			}
			f := mcpwire.Parse([]byte(strings.TrimSpace(line)))
			for _, e := range requests(f) {
				calls.Add(1)
				go func() {
					defer calls.Done()
					s.serve(out, way, e)
				}()
			}
		}
	}
}

func (s *stand) serve(out io.Writer, way Way, f mcpwire.Frame) {
	s.mu.Lock()
	s.seen = append(s.seen, f.Method+" "+way.Header(f).Get("Authorization"))
	s.mu.Unlock()
	switch f.Method {
	case "wait":
		<-s.free
	case "log":
		_, _ = out.Write([]byte("started\n"))
		_, _ = out.Write([]byte(`{"jsonrpc":"2.0","me` + "\n"))
	case "wrapped":
		_, _ = fmt.Fprint(out, "{\"jsonrpc\":\"2.0\",\r\"method\":\"notifications/wrapped\"}\r\n")
	case "tell":
		_, _ = out.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}` + "\n"))
	case "progress":
		_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s}}`+"\n", mcpwire.Members(f.Params["_meta"])["progressToken"])
	case "refused":
		way.Refused(f.ID, 401, []string{"Bearer"})
	}
	_, err := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"did":%q}}`+"\n", f.ID, f.Method)
	s.mu.Lock()
	s.wrote = append(s.wrote, err)
	s.mu.Unlock()
}

func (s *stand) do(ctx context.Context, method, session, body string, header ...string) (int, string, http.Header) {
	s.Helper()
	req := need.Get(http.NewRequestWithContext(ctx, method, s.at, strings.NewReader(body)))(s)
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set(sessionHeader, session)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	need.That(s, err == nil || ctx.Err() != nil, "%v", err)
	return reply.StatusCode, string(text), reply.Header
}

func (s *stand) begin(header ...string) string {
	s.Helper()
	status, said, h := s.do(s.Context(), "POST", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`, header...)
	need.That(s, status == 200 && h.Get(sessionHeader) != "", "%d %s", status, said)
	return h.Get(sessionHeader)
}

func (s *stand) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Listener.mu.Lock()
	defer s.Listener.mu.Unlock()
	return len(s.sessions)
}

func (s *stand) eventually(what string, holds func() bool) {
	s.Helper()
	for limit := time.Now().Add(soon); !holds(); time.Sleep(5 * time.Millisecond) {
		need.Must(s, !time.Now().After(limit), "in vain: %s", what)
	}
}

// What cannot be served is answered at once, and the server hears nothing of it.
func TestI11_WhatIsNotServed(t *testing.T) {
	s := newStand(t, Options{Hosts: []string{"mcp.example"}})
	session := s.begin()
	port := s.at[strings.LastIndex(s.at, ":")+1 : strings.LastIndex(s.at, "/")]
	for _, c := range []struct {
		method, body string
		status       int
		said         string
		header       []string
	}{
		{"POST", ``, 400, "not a JSON-RPC message", nil},
		{"POST", `{`, 400, "not a JSON-RPC message", nil},
		{"POST", `{}`, 400, "not a JSON-RPC message", nil},
		{"POST", `[]`, 400, "not a JSON-RPC message", nil},
		{"POST", "{\"id\":1,\"method\":\"\xff\"}", 400, "not UTF-8", nil},
		{"POST", `{"id":null,"method":"ping"}`, 400, "needs a number or a text as its id", nil},
		{"POST", `{"id":{},"method":"ping"}`, 400, "needs a number or a text as its id", nil},
		{"POST", `{"method":"tools/call","params":{"name":"x"}}`, 400, "needs a number or a text as its id", nil},
		{"POST", `{"id":1,"method":"tools/call","Params":{},"params":{"name":"x"}}`, 400, "differs from another one only in case", nil},
		{"POST", `[{"id":1,"method":"tools/call","params":{"name":"x"}}]`, 400, "a batch with a tools/call", nil},
		{"POST", `[{"id":1,"method":"a"},{"id":1,"method":"b"}]`, 400, "still outstanding", nil},
		{"PUT", ``, 405, "GET, POST and DELETE", nil},
		{"POST", `{"id":1,"method":"a"}`, 403, "other origins", []string{"Origin", "http://evil.example"}},
		{"POST", `{"id":1,"method":"a"}`, 403, "other origins", []string{"Origin", "null"}},
		{"POST", `{"id":1,"method":"a"}`, 403, "other origins", []string{"Origin", "http://127.0.0.1:1"}},
		{"POST", `{"id":1,"method":"a"}`, 421, "does not go by that name", []string{"Host", "rebound.example:" + port}},
		{"POST", `{"id":1,"method":"a"}`, 200, `"did":"a"`, []string{"Host", "mcp.example:" + port, "Origin", "http://mcp.example:" + port}},
		{"GET", ``, 406, "event stream", []string{"Accept", "application/json"}},
		{"POST", strings.Repeat(" ", mcpwire.MaxLine), 413, "nothing was recorded or sent: an MCP message of more than 64 MiB", nil},
	} {
		status, said, _ := s.do(t.Context(), c.method, session, c.body, c.header...)
		need.That(t, status == c.status && strings.Contains(said, c.said), "%s %.80q %q: %d %s", c.method, c.body, c.header, status, said)
	}
	for method, want := range map[string]int{"GET": 404, "DELETE": 404, "POST": 404} {
		status, _, _ := s.do(t.Context(), method, "unknown", `{"id":1,"method":"a"}`)
		need.Equal(t, status, want)
	}
	status, said, _ := s.do(t.Context(), "POST", "", `{"id":1,"method":"a"}`)
	need.That(t, status == 400 && strings.Contains(said, "begin with initialize"), "%d %s", status, said)
	// A page of no origin that names no host: the name of neither is the other's.
	conn := need.Get(net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(s.at, "http://"), s.Path())))(t)
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.0\r\nOrigin: null\r\nContent-Length: 2\r\n\r\n{}", s.Path())
	need.Contains(t, need.Get(bufio.NewReader(conn).ReadString('\n'))(t), "403")
	need.Equal(t, strings.Join(s.seen, ","), "initialize ,a ")
}

// The credential of each request goes on with it; a session that began with one is closed
// to a request without.
func TestACredentialGoesWithItsRequest(t *testing.T) {
	s := newStand(t, Options{})
	session := s.begin("Authorization", "Bearer 1")
	_, said, _ := s.do(t.Context(), "POST", session, `{"id":1,"method":"a"}`, "Authorization", "Bearer 2")
	need.Contains(t, said, `"did":"a"`)
	for _, method := range []string{"POST", "GET", "DELETE"} {
		status, _, h := s.do(t.Context(), method, session, `{"id":1,"method":"b"}`)
		need.That(t, status == 401 && h.Get("WWW-Authenticate") == "Bearer", "%s: %d", method, status)
	}
	status, _, h := s.do(t.Context(), "POST", session, `{"id":2,"method":"refused"}`, "Authorization", "Bearer 3")
	need.That(t, status == 401 && h.Get("WWW-Authenticate") == "Bearer", "%d %v", status, h)
	need.Equal(t, strings.Join(s.seen, ","), "initialize Bearer 1,a Bearer 2,refused Bearer 3")
}

// What belongs to a request comes on its stream, the rest on the session's, or waits for it.
func TestWhereMessagesGo(t *testing.T) {
	s := newStand(t, Options{})
	session := s.begin()
	_, said, h := s.do(t.Context(), "POST", session, `{"id":1,"method":"progress","params":{"_meta":{"progressToken":"p"}}}`)
	need.That(t, h.Get("Content-Type") == "text/event-stream" && strings.Count(said, "data: ") == 2, "%s", said)
	_, said, h = s.do(t.Context(), "POST", session, `{"id":1,"method":"log"}`)
	need.That(t, h.Get("Content-Type") == "application/json" && !strings.Contains(said, "started"), "what is no message is passed on: %s", said)
	_, said, _ = s.do(t.Context(), "POST", session, `{"id":1,"method":"wrapped"}`)
	need.Contains(t, said, `data: {"jsonrpc":"2.0", "method":"notifications/wrapped"}`+"\n\n")
	stream := func() (*bufio.Reader, func()) {
		ctx, stop := context.WithCancel(t.Context())
		req := need.Get(http.NewRequestWithContext(ctx, "GET", s.at, nil))(t)
		req.Header.Set(sessionHeader, session)
		req.Header.Set("Accept", "text/event-stream")
		reply := need.Get(http.DefaultClient.Do(req))(t)
		return bufio.NewReader(reply.Body), func() { stop(); reply.Body.Close() }
	}
	events, leave := stream()
	_, said, h = s.do(t.Context(), "POST", session, `{"id":2,"method":"tell"}`)
	need.That(t, h.Get("Content-Type") == "application/json" && !strings.Contains(said, "notifications"), "%s", said)
	need.Get(events.ReadString('\n'))(t)
	need.Contains(t, need.Get(events.ReadString('\n'))(t), "notifications/message")
	leave()
	s.eventually("the stream is known to be gone", func() bool {
		s.Listener.mu.Lock()
		defer s.Listener.mu.Unlock()
		_, idle := s.sessions[session].silent()
		return idle
	})
	held := need.Get(s.sessions[session].Write([]byte(`{"jsonrpc":"2.0","method":"notifications/held"}` + "\n")))(t)
	need.That(t, held > 0, "it is not held")
	events, leave = stream()
	defer leave()
	need.Get(events.ReadString('\n'))(t)
	need.Contains(t, need.Get(events.ReadString('\n'))(t), "notifications/held")
}

// An answer whose client has gone is told as undelivered, so that it is given again.
func TestI9_AConnectionCutUnderACall(t *testing.T) {
	s := newStand(t, Options{})
	session := s.begin()
	ctx, cut := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cut)
	status, _, _ := s.do(ctx, "POST", session, `{"id":1,"method":"wait"}`)
	need.Equal(t, status, 0)
	s.eventually("the listener knows", func() bool {
		s.Listener.mu.Lock()
		defer s.Listener.mu.Unlock()
		_, idle := s.sessions[session].silent()
		return idle
	})
	close(s.free)
	s.eventually("the answer is written", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.wrote) == 2 })
	need.That(t, errors.Is(s.wrote[1], errGone), "an answer that went nowhere counts as delivered: %v", s.wrote)
	_, said, _ := s.do(t.Context(), "POST", session, `{"id":1,"method":"a"}`)
	need.Contains(t, said, `"did":"a"`)
}

// A session whose client never heard of it ends, and one that was left makes room.
func TestSessionsThatAreLeftMakeRoom(t *testing.T) {
	s := newStand(t, Options{})
	ctx, cut := context.WithCancel(t.Context())
	cut()
	s.do(ctx, "POST", "", `{"jsonrpc":"2.0","id":0,"method":"initialize"}`)
	first := s.begin()
	second := s.begin()
	var at sync.WaitGroup
	at.Add(1)
	go func() {
		defer at.Done()
		s.do(t.Context(), "POST", second, `{"id":1,"method":"wait"}`)
	}()
	s.eventually("it waits", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return slices.Contains(s.seen, "wait ") })
	var last string
	for range mostSessions {
		last = s.begin()
	}
	s.eventually("room is made", func() bool { return s.open() <= mostSessions })
	for session, want := range map[string]int{first: 404, second: 200, last: 200} {
		status, said, _ := s.do(t.Context(), "POST", session, `{"id":2,"method":"a"}`)
		need.That(t, status == want, "%d %s", status, said)
	}
	_, _, _ = s.do(t.Context(), "DELETE", second, "")
	status, _, _ := s.do(t.Context(), "POST", second, `{"id":2,"method":"a"}`)
	need.Equal(t, status, 404, "a session that was ended is served, or waits for what is under way in it")
	close(s.free)
	at.Wait()
}

// At the end of the listener what is under way is answered, and nothing begins.
func TestI10_TheListenerEndsUnderLoad(t *testing.T) {
	s := newStand(t, Options{})
	var all sync.WaitGroup
	answered := make(chan string, 100)
	for range 20 {
		session := s.begin()
		all.Add(1)
		go func() {
			defer all.Done()
			_, said, h := s.do(context.Background(), "POST", session, `{"id":1,"method":"wait"}`)
			need.Equal(t, h.Get("Content-Length"), strconv.Itoa(len(said)), "an answer that is whole before its connection ends")
			answered <- said
		}()
	}
	s.eventually("all wait", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.seen) == 40 })
	s.stop()
	time.AfterFunc(100*time.Millisecond, func() { close(s.free) })
	select {
	case err := <-s.ended:
		need.OK(t, err)
	case <-time.After(soon):
		t.Fatal("it does not end")
	}
	all.Wait()
	close(answered)
	for said := range answered {
		need.Contains(t, said, `"did":"wait"`)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("POST", s.Path(), strings.NewReader(`{"id":0,"method":"initialize"}`)))
	need.That(t, w.Code == http.StatusServiceUnavailable || w.Code == http.StatusMisdirectedRequest, "%d", w.Code)
}

// What is said to the login of a server goes to no other address.
func TestI11_ATokenRequestIsNotSentOn(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	var own *httptest.Server
	own = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
			return
		}
		fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":"%s/token"}`, own.URL, own.URL)
	}))
	defer own.Close()
	u := need.Get(url.Parse(own.URL + "/mcp"))(t)
	w := httptest.NewRecorder()
	req := httptest.NewRequest("POST", tokenPath, strings.NewReader("code=secret"))
	req.Host = "127.0.0.1"
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	New(t.Context(), Options{URL: u}).ServeHTTP(w, req)
	need.That(t, elsewhere == 0 && w.Code == http.StatusTemporaryRedirect, "%d, sent on %d times", w.Code, elsewhere)
}
