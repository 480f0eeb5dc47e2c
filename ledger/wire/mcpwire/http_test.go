package mcpwire

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger/need"
)

const (
	callLine   = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}` + "\n"
	answerLine = `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`
)

func dial(t *testing.T, url string) Conn {
	t.Helper()
	c := need.Get(Dial(context.Background(), url, nil))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func send(t *testing.T, c Conn, line string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	sent, err := c.Send(ctx, []byte(line))
	need.Must(t, sent && err == nil, "send %s: sent %v, %v", line, sent, err)
}

// recv returns what comes next, or fails after a time.
func recv(t *testing.T, c Conn) (string, error) {
	t.Helper()
	type got struct {
		line []byte
		err  error
	}
	out := make(chan got, 1)
	go func() {
		line, err := c.Recv()
		out <- got{line, err}
	}()
	select {
	case g := <-out:
		return string(g.line), g.err
	case <-time.After(3 * time.Minute):
		t.Fatal("nothing came")
		return "", nil
	}
}

func recvLine(t *testing.T, c Conn, want string) {
	t.Helper()
	line, err := recv(t, c)
	need.Must(t, err == nil && line == want+"\n", "got %q, %v; want %q", line, err, want)
}

func recvLost(t *testing.T, c Conn) *Lost {
	t.Helper()
	line, err := recv(t, c)
	var lost *Lost
	need.Must(t, errors.As(err, &lost), "got %q, %v; want the answer lost", line, err)
	return lost
}

// raw serves connections by hand: it reads one request and then does as told.
func raw(t *testing.T, do func(net.Conn)) (url string, posts *atomic.Int32) {
	t.Helper()
	l := need.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	posts = new(atomic.Int32)
	var busy sync.WaitGroup
	t.Cleanup(func() { l.Close(); busy.Wait() })
	busy.Add(1)
	go func() {
		defer busy.Done()
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			busy.Add(1)
			go func() {
				defer busy.Done()
				defer conn.Close()
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				if req.Method == http.MethodPost {
					posts.Add(1)
				}
				do(conn)
			}()
		}
	}()
	return "http://" + l.Addr().String(), posts
}

// TestRefusedBeforeItWasTakenUp: what the protocol says of a request that was not
// processed is told in words that help, and without what must not be shown.
func TestRefusedBeforeItWasTakenUp(t *testing.T) {
	for _, tt := range []struct {
		answer  string
		refused bool
		says    string
	}{
		{"HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer realm=\"x\", error=\"invalid_token\", resource_metadata=\"https://h/x\"\r\nContent-Length: 0\r\n\r\n", true, "it wants a credential (Bearer, invalid_token)"},
		{"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", true, "it wants a credential"},
		{"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", false, "403"},
		{"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", false, "404"},
		{"HTTP/1.1 307 No\r\nLocation: /mcp/?token=secret\r\nContent-Length: 0\r\n\r\n", false, "/mcp/, and a write is not sent"},
		{"HTTP/1.1 308 No\r\nLocation: https://u:secret@h.example/mcp\r\nContent-Length: 0\r\n\r\n", false, "to https://h.example/mcp, and"},
		{"HTTP/1.1 302 No\r\nContent-Length: 0\r\n\r\n", false, "302"},
	} {
		url, _ := raw(t, func(c net.Conn) { fmt.Fprint(c, tt.answer) })
		c := dial(t, url)
		need.Get(c.Send(context.Background(), []byte(callLine)))(t)
		if lost := recvLost(t, c); lost.Refused != tt.refused || !strings.Contains(lost.Err.Error(), tt.says) || strings.Contains(lost.Err.Error(), "secret") {
			t.Errorf("%q: refused %v: %v", tt.answer, lost.Refused, lost.Err)
		}
	}
}

// TestTheCredentialInAURLIsUsed as every HTTP client does.
func TestTheCredentialInAURLIsUsed(t *testing.T) {
	said := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			said <- r.Header.Get("Authorization")
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer s.Close()
	for url, want := range map[string]string{strings.Replace(s.URL, "http://", "http://me:pass%20word@", 1): "Basic bWU6cGFzcyB3b3Jk", s.URL: ""} {
		c := dial(t, url)
		need.Get(c.Send(context.Background(), []byte(`{"jsonrpc":"2.0","method":"x"}`)))(t)
		need.Equal(t, <-said, want, url, "Authorization")
	}
}

// A lost answer is told as lost, with what the server is known to have said; it
// is never made up, and the call is never transmitted again.
func TestI2_ALostAnswerIsToldAsLost(t *testing.T) {
	head := func(status, kind string) string {
		return "HTTP/1.1 " + status + "\r\nContent-Type: " + kind + "\r\n"
	}
	reset := func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }
	for _, tt := range []struct {
		name   string
		do     func(net.Conn)
		status int
		line   string
		err    error
	}{
		{"closed before the head", func(net.Conn) {}, 0, "", io.EOF},
		{"reset before the head", reset, 0, "", nil},
		{"closed within the head", func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 O") }, 0, "", io.ErrUnexpectedEOF},
		{"closed after the head", func(c net.Conn) { fmt.Fprint(c, head("200 OK", "application/json"), "Content-Length: 50\r\n\r\n") }, 0, "", io.ErrUnexpectedEOF},
		{"closed within the answer", func(c net.Conn) {
			fmt.Fprint(c, head("200 OK", "application/json"), "Content-Length: 500\r\n\r\n", answerLine)
		}, 0, "", io.ErrUnexpectedEOF},
		{"no answer in the body", func(c net.Conn) { fmt.Fprint(c, head("200 OK", "application/json"), "Content-Length: 0\r\n\r\n") }, 0, "", errUnanswered},
		{"a page", func(c net.Conn) { fmt.Fprint(c, head("200 OK", "text/html"), "\r\n<p>hello") }, 0, "", nil},
		{"accepted", func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n") }, 0, "", nil},
		{"stream closed before the answer", func(c net.Conn) { fmt.Fprint(c, head("200 OK", "text/event-stream"), "\r\n: hello\n\n") }, 0, "", io.ErrUnexpectedEOF},
		{"stream cut within the answer", func(c net.Conn) {
			fmt.Fprint(c, head("200 OK", "text/event-stream"), "\r\nid: 1\ndata: "+answerLine+"\n")
		}, 0, "", io.ErrUnexpectedEOF},
		{"stream reset", func(c net.Conn) {
			fmt.Fprint(c, head("200 OK", "text/event-stream"), "\r\n: hello\n\n")
			reset(c)
		}, 0, "", nil},
		{"500", func(c net.Conn) { fmt.Fprint(c, head("500 Oh", "text/plain"), "\r\nbroken") }, 500, "", nil},
		{"503", func(c net.Conn) { fmt.Fprint(c, head("503 Oh", "text/plain"), "\r\nbroken") }, 503, "", nil},
		{"429", func(c net.Conn) { fmt.Fprint(c, head("429 Oh", "text/plain"), "Retry-After: 1\r\n\r\nslow down") }, 429, "", nil},
		{"redirect", func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 307 Elsewhere\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n")
		}, 307, "", errRedirect},
		{"an error of its own, of the server's fault", func(c net.Conn) {
			fmt.Fprint(c, head("500 No", "application/json"), "\r\n", `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no"}}`)
		}, 500, "", nil},
		{"an error of its own, cut", func(c net.Conn) {
			fmt.Fprint(c, head("400 No", "application/json"), "Content-Length: 900\r\n\r\n", `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}`)
		}, 400, "", nil},
		{"an error of its own", func(c net.Conn) {
			fmt.Fprint(c, head("400 No", "application/json"), "\r\n", `{"jsonrpc":"2.0","id":7.0,`+"\n"+`"error":{"code":-32020,"message":"no"}}`)
		}, 400, `{"jsonrpc":"2.0","id":7.0, "error":{"code":-32020,"message":"no"}}`, nil},
		{"in a coding that was not asked for", func(c net.Conn) {
			var coded bytes.Buffer
			z := gzip.NewWriter(&coded)
			fmt.Fprint(z, answerLine)
			z.Close()
			fmt.Fprint(c, head("200 OK", "application/json"), "Content-Encoding: gzip\r\n\r\n", coded.String())
		}, 0, answerLine, nil},
		{"a stream in a coding", func(c net.Conn) {
			fmt.Fprint(c, head("200 OK", "text/event-stream"), "Content-Encoding: br\r\n\r\ndata: "+answerLine+"\n\n")
		}, 0, "", nil},
		{"somebody else's error", func(c net.Conn) {
			fmt.Fprint(c, head("400 No", "application/json"), "\r\n", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}`)
		}, 400, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url, posts := raw(t, tt.do)
			c := dial(t, url)
			if sent, err := c.Send(context.Background(), []byte(callLine)); !sent {
				t.Fatal("a request that reached the server is said not to have:", err)
			} else if err != nil { // a server may go before all is written
				return
			}
			if tt.line != "" {
				recvLine(t, c, tt.line)
				return
			}
			lost := recvLost(t, c)
			need.That(t, string(lost.ID) == "7" && lost.Sent && lost.Status == tt.status && lost.Err != nil,
				"lost: id %s sent %v status %d: %v", lost.ID, lost.Sent, lost.Status, lost.Err)
			need.That(t, tt.err == nil || errors.Is(lost.Err, tt.err), "%v is not %v", lost.Err, tt.err)
			c.Close()
			need.Equal(t, posts.Load(), 1, "transmitted")
		})
	}
}

func TestWhatWasNotSentIsSaidNotToBe(t *testing.T) {
	c := dial(t, "http://127.0.0.1:1") // a port that no other test is given
	sent, err := c.Send(context.Background(), []byte(callLine))
	need.Must(t, !sent && err != nil, "nobody listens: sent %v, %v", sent, err)

	url, posts := raw(t, func(net.Conn) {})
	c = dial(t, url)
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	sent, err = c.Send(ctx, []byte(callLine))
	need.Must(t, !sent && err != nil, "after the deadline: sent %v, %v", sent, err)
	c.Close()
	sent, err = c.Send(context.Background(), []byte(callLine))
	need.Must(t, !sent && errors.Is(err, ErrClosed), "after the end: sent %v, %v", sent, err)
	_, err = c.Recv()
	need.Must(t, errors.Is(err, ErrClosed), "%v", err)
	need.Must(t, posts.Load() == 0, "something was sent")
}

// The sender's context bounds the sending, not the answer.
func TestAnAnswerMayTakeLongerThanTheSending(t *testing.T) {
	release := make(chan struct{})
	url, _ := raw(t, func(c net.Conn) {
		<-release
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", answerLine)
	})
	c := dial(t, url)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	if sent, err := c.Send(ctx, []byte(callLine)); !sent || err != nil {
		t.Fatal(sent, err)
	}
	cancel()
	close(release)
	recvLine(t, c, answerLine)
}

func TestASlowDripArrivesWhole(t *testing.T) {
	body := "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\ndata:  \"method\":\"notifications/progress\"}\r\n\r\nevent: other\ndata: x\n\nid: 4\nretry: 10\n\nid: 5\ndata: \n\ndata:\ndata\n\ndata: " + answerLine + "\r\r"
	url, _ := raw(t, func(c net.Conn) {
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n")
		for i := range body {
			fmt.Fprint(c, body[i:i+1])
			time.Sleep(50 * time.Microsecond)
		}
	})
	c := dial(t, url)
	send(t, c, callLine)
	recvLine(t, c, `{"jsonrpc":"2.0",  "method":"notifications/progress"}`)
	recvLine(t, c, answerLine)
}

// served is a server of the revisions with sessions.
type served struct {
	t  *testing.T
	mu sync.Mutex
	// heard are the requests: the method, the message's method, and the headers.
	heard []*http.Request
	gone  bool
	pings chan string
}

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f := Parse(body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.heard = append(s.heard, r)
	gone := s.gone
	s.mu.Unlock()
	switch {
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		select {
		case ping := <-s.pings:
			fmt.Fprintf(w, "id: p1\nretry: 1\ndata: %s\n\n", ping)
		case <-r.Context().Done():
		}
	case r.Method == http.MethodDelete:
		w.WriteHeader(204)
	case gone:
		http.Error(w, "session not found", 404)
	case f.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "s-1")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, "{\n  \"jsonrpc\": \"2.0\",\r\n  \"id\": %s, \"result\": {\"protocolVersion\": \"2025-11-25\"}\n}\n", f.ID)
	case f.Kind == Request:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", f.ID)
	default:
		w.WriteHeader(202)
	}
}

func (s *served) requests(method string) []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*http.Request
	for _, r := range s.heard {
		if r.Method == method {
			found = append(found, r)
		}
	}
	return found
}

func TestASession(t *testing.T) {
	s := &served{t: t, pings: make(chan string)}
	server := httptest.NewServer(s)
	defer server.Close()
	c := need.Get(Dial(context.Background(), server.URL, http.Header{"Authorization": {"Bearer x"}}))(t)
	defer c.Close()
	send(t, c, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2026-01-01"}}`)
	recvLine(t, c, `{   "jsonrpc": "2.0",    "id": 0, "result": {"protocolVersion": "2025-11-25"} }`)
	send(t, c, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for n := range 2 { // the stream of its own, and again after it ended
		ping := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, n)
		select {
		case s.pings <- ping:
		case <-time.After(3 * time.Minute):
			t.Fatal("nobody listens to the server's own stream")
		}
		recvLine(t, c, ping)
		send(t, c, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, n))
	}
	send(t, c, callLine)
	recvLine(t, c, `{"jsonrpc":"2.0","id":7,"result":{}}`)
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	send(t, c, callLine)
	if lost := recvLost(t, c); lost.Status != 404 || !lost.Refused || !errors.Is(lost, errSession) || !strings.Contains(string(lost.Body), "not found") {
		t.Errorf("%d %q %v", lost.Status, lost.Body, lost)
	}
	c.Close()

	posts := s.requests(http.MethodPost)
	posts = posts[:len(posts)-1] // the last one asks for another session, in vain
	if h := posts[0].Header; h.Get("Mcp-Session-Id") != "" || h.Get("Mcp-Protocol-Version") != "" || h.Get("Accept") != "application/json, text/event-stream" {
		t.Error("initialize:", h)
	}
	for _, r := range append(append(posts[1:], s.requests(http.MethodGet)...), s.requests(http.MethodDelete)...) {
		if h := r.Header; h.Get("Mcp-Session-Id") != "s-1" || h.Get("Mcp-Protocol-Version") != "2025-11-25" || h.Get("Authorization") != "Bearer x" || h.Get("Mcp-Method") != "" {
			t.Error(r.Method, h)
		}
	}
	gets := s.requests(http.MethodGet)
	need.That(t, len(gets) >= 2 && gets[1].Header.Get("Last-Event-Id") == "p1", "the second time it did not say where it was")
	need.Equal(t, len(s.requests(http.MethodDelete)), 1, "the session was not ended")
	body, _ := io.ReadAll(posts[len(posts)-1].Body)
	need.Equal(t, string(body), callLine, body, "posted")
}

// A session that the server has ended is begun anew, once; what was sent in it is lost.
func TestAnEndedSessionIsBegunAnew(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	begun, gone := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f, session := Parse(body), r.Header.Get("Mcp-Session-Id")
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPost {
			heard = append(heard, f.Method+" "+session)
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case session != "" && session == gone, r.Method != http.MethodPost:
			http.Error(w, "no", 404)
		case f.Method == "initialize":
			begun++
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s-", begun))
			fmt.Fprintf(w, `{"id":%s,"result":{"protocolVersion":"2025-11-25"}}`, f.ID)
		case f.Kind == Request:
			fmt.Fprintf(w, `{"id":%s,"result":{}}`, f.ID)
		default:
			w.WriteHeader(202)
		}
	}))
	defer server.Close()
	c := dial(t, server.URL)
	send(t, c, `{"id":0,"method":"initialize"}`)
	recvLine(t, c, `{"id":0,"result":{"protocolVersion":"2025-11-25"}}`)
	send(t, c, `{"method":"notifications/initialized"}`)
	mu.Lock()
	gone, heard = "s-1", nil
	mu.Unlock()
	send(t, c, callLine)
	recvLine(t, c, strings.TrimSpace(toolsChanged))
	need.That(t, recvLost(t, c).Refused, "it is not refused")
	send(t, c, callLine)
	recvLine(t, c, `{"id":7,"result":{}}`)
	mu.Lock()
	defer mu.Unlock()
	need.Equal(t, strings.Join(heard, ", "), "tools/call s-1, initialize , notifications/initialized s-2, tools/call s-2")
}

// A stream that ends before its answer is gone on with after its last whole event, and
// the message is not sent again; where the server does not take that up, the answer is lost.
func TestAStreamIsGoneOnWith(t *testing.T) {
	var posts atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f := Parse(body)
		w.Header().Set("Content-Type", "text/event-stream")
		switch after := r.Header.Get("Last-Event-Id"); {
		case f.Method == "initialize":
			fmt.Fprintf(w, "data: {\"id\":%s,\"result\":{\"protocolVersion\":\"2025-11-25\"}}\n\n", f.ID)
		case r.Method == http.MethodPost:
			posts.Add(1)
			fmt.Fprintf(w, "id: %s-0\nretry: 1\ndata: \n\n", f.ID)
		case after == "7-0":
			fmt.Fprint(w, "id: 7-1\ndata: {\"method\":\"m\"}\n\nid: 7-2\ndata: {\"id\":7")
		case after == "7-1":
			fmt.Fprintf(w, "id: 7-2\ndata: %s\n\n", answerLine)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	c := dial(t, server.URL)
	send(t, c, `{"jsonrpc":"2.0","id":0,"method":"initialize"}`)
	recvLine(t, c, `{"id":0,"result":{"protocolVersion":"2025-11-25"}}`)
	send(t, c, callLine)
	recvLine(t, c, `{"method":"m"}`)
	recvLine(t, c, answerLine)
	send(t, c, strings.Replace(callLine, "7", "8", 1))
	lost := recvLost(t, c)
	need.That(t, lost.Sent && !lost.Refused && lost.Status == 0 && errors.Is(lost.Err, io.ErrUnexpectedEOF), "%+v", lost)
	need.Equal(t, posts.Load(), 2, "transmitted")
}

func TestStatelessRequests(t *testing.T) {
	var mu sync.Mutex
	var heard []http.Header
	closed := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f := Parse(body)
		mu.Lock()
		heard = append(heard, r.Header)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "no")
		switch f.Method {
		case "tools/list":
			fmt.Fprintf(w, `{"id":%s,"result":{"tools":[{"name":"ö","inputSchema":{"properties":{"where":{"properties":{"region":{"x-mcp-header":"Region"}}},"n":{"x-mcp-header":"N"},"no":{"x-mcp-header":"No"}}}}]}}`, f.ID)
		case "subscriptions/listen":
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(closed)
		default:
			fmt.Fprintf(w, `{"id":%s,"result":{}}`, f.ID)
		}
	}))
	defer server.Close()
	c := dial(t, server.URL)
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	for _, line := range []string{
		`{"id":"a","method":"tools/list","params":{` + meta + `}}`,
		`{"id":"b","method":"tools/call","params":{"name":"ö","arguments":{"where":{"region":" x "},"n":3.0,"no":null},` + meta + `}}`,
		`{"id":"c","method":"resources/read","params":{"uri":"file:///a","name":"no",` + meta + `}}`,
	} {
		send(t, c, line)
		need.Get(recv(t, c))(t)
	}
	send(t, c, `{"id":"d","method":"subscriptions/listen","params":{`+meta+`}}`)
	send(t, c, `{"method":"notifications/cancelled","params":{"requestId":"d"}}`)
	select {
	case <-closed:
	case <-time.After(3 * time.Minute):
		t.Fatal("a cancelled request's stream is still open")
	}
	lost := recvLost(t, c)
	need.That(t, errors.Is(lost, errCancelled), "%v", lost)
	for n, want := range []map[string]string{
		{headerMethod: "tools/list", headerName: ""},
		{headerMethod: "tools/call", headerName: "=?base64?w7Y=?=", "Mcp-Param-Region": "=?base64?IHgg?=", "Mcp-Param-N": "3", "Mcp-Param-No": ""},
		{headerMethod: "resources/read", headerName: "file:///a"},
		{headerMethod: "subscriptions/listen"},
	} {
		want[headerVersion], want[headerSession] = "2026-07-28", ""
		for name, value := range want {
			need.Equal(t, heard[n].Get(name), value, n, name)
		}
	}
	need.Equal(t, len(heard), 4, "requests: a cancellation was posted")
}

// TestInitializeCarriesTheVersionItDeclares: a server may refuse a message whose
// _meta names a revision that no header names.
func TestInitializeCarriesTheVersionItDeclares(t *testing.T) {
	s := &served{t: t}
	server := httptest.NewServer(s)
	defer server.Close()
	for _, c := range []struct{ params, want string }{
		{`{"protocolVersion":"2026-07-28","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`, "2026-07-28"},
		{`{"protocolVersion":"2025-11-25"}`, ""},
	} {
		conn := dial(t, server.URL)
		send(t, conn, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":`+c.params+`}`)
		need.Get(recv(t, conn))(t)
		posts := s.requests(http.MethodPost)
		h := posts[len(posts)-1].Header
		need.That(t, h.Get("Mcp-Protocol-Version") == c.want && h.Get("Mcp-Session-Id") == "", "initialize with %s: %v", c.params, h)
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"id\":%s,\"result\":{}}\n\n", Parse(body).ID)
	}))
	defer server.Close()
	c := dial(t, server.URL)
	const n = 100
	var senders sync.WaitGroup
	for i := range n {
		senders.Add(1)
		go func() {
			defer senders.Done()
			if sent, err := c.Send(context.Background(), []byte(fmt.Sprintf(`{"id":%d,"method":"x"}`, i))); !sent || err != nil {
				t.Error(sent, err)
			}
		}()
	}
	seen := map[string]bool{}
	for range n {
		line := need.Get(recv(t, c))(t)
		seen[IDKey(Parse([]byte(line)).ID)] = true
	}
	senders.Wait()
	need.Equal(t, len(seen), n, "different answers")
}
