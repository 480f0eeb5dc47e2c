//go:build unix

package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"indoubt/ledger/need"
)

// guardedServer is an MCP server behind a URL that wants a login: it takes the tokens that
// its authorization server gave for its own address.
type guardedServer struct {
	*httptest.Server
	mu    sync.Mutex
	token string
	calls int
	lose  bool          // the answer to the next call
	free  chan struct{} // the answer to a call waits for it,
	held  chan struct{} // and this one is told
	asked url.Values
	seen  []string // credentials
}

func newGuardedServer(t *testing.T) *guardedServer {
	g := &guardedServer{token: "secret-token-1"}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *guardedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/meta":
		fmt.Fprintf(w, `{"resource":"%s/mcp","authorization_servers":["%[1]s/as"],"scopes_supported":["pay"]}`, g.URL)
	case "/.well-known/oauth-authorization-server/as":
		fmt.Fprintf(w, `{"issuer":"%s/as","authorization_endpoint":"%[1]s/as/authorize?tenant=1","token_endpoint":"%[1]s/as/token","authorization_response_iss_parameter_supported":true}`, g.URL)
	case "/as/token":
		_ = r.ParseForm()
		g.asked = r.PostForm
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer"}`, g.token)
	case "/mcp":
		g.mcp(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (g *guardedServer) mcp(w http.ResponseWriter, r *http.Request) {
	g.seen = append(g.seen, r.Header.Get("Authorization"))
	if r.Header.Get("Authorization") != "Bearer "+g.token {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", resource_metadata="`+g.URL+`/meta"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var req struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.NewDecoder(r.Body).Decode(&req)
	switch req.Method {
	case "initialize":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"g","version":"1"}}}`, req.ID)
	case "tools/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"pay","inputSchema":{"type":"object"}}]}}`, req.ID)
	case "tools/call":
		if g.calls++; g.lose {
			panic(http.ErrAbortHandler)
		}
		if g.free != nil {
			g.held <- struct{}{}
			<-g.free
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"paid"}]}}`, req.ID)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// listener is a client of indoubt mcp --listen.
type listener struct {
	*site
	at, session, token string
}

func (s *site) listener(args ...string) *listener {
	s.Helper()
	address := freeAddress(s.T)
	s.serve(s.T, "http://"+address+"/", append([]string{program, "mcp", "--listen", address}, args...)...)
	return &listener{site: s, at: "http://" + address}
}

// ask sends one message, and gives the answer's status, header and last message.
func (l *listener) ask(line string, more ...string) (status int, header http.Header, said string) {
	l.Helper()
	req := need.Get(http.NewRequestWithContext(l.Context(), http.MethodPost, l.at+"/mcp", strings.NewReader(line)))(l)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range map[string]string{"Mcp-Session-Id": l.session, "Authorization": l.token} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	for i := 0; i+1 < len(more); i += 2 {
		if req.Header.Set(more[i], more[i+1]); more[i] == "Host" {
			req.Host = more[i+1]
		}
	}
	reply := need.Get(http.DefaultClient.Do(req))(l)
	defer reply.Body.Close()
	body := need.Get(io.ReadAll(reply.Body))(l)
	if id := reply.Header.Get("Mcp-Session-Id"); id != "" {
		l.session = id
	}
	return reply.StatusCode, reply.Header, string(body)
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

func pay(id int, ref string) string {
	return fmt.Sprintf("{\"jsonrpc\":\"2.0\",\"id\":%d,\n \"method\":\"tools/call\",\"params\":{\"name\":\"pay\",\"arguments\":{\"ref\":%q}}}", id, ref)
}

// A client logs in through the listener as it would at the server: it finds the login,
// gets a token for the server's own address, and its token is sent and kept nowhere.
func TestE2E_TheLoginGoesThroughTheListener(t *testing.T) {
	s, g := newMCPSite(t, anyPolicy), newGuardedServer(t)
	l := s.listener("--server", "bank", "--url", g.URL+"/mcp")
	status, header, _ := l.ask(hello)
	about := l.at + "/.well-known/oauth-protected-resource/mcp"
	need.That(t, status == 401 && strings.Contains(header.Get("WWW-Authenticate"), `resource_metadata="`+about+`"`) && l.session == "", "%d %v", status, header)

	get := func(address string) map[string]any {
		var document map[string]any
		reply := need.Get(http.Get(address))(t)
		defer reply.Body.Close()
		need.OK(t, json.NewDecoder(reply.Body).Decode(&document), address)
		return document
	}
	resource := get(about)
	need.That(t, resource["resource"] == l.at+"/mcp" && fmt.Sprint(resource["authorization_servers"]) == "["+l.at+"]", "%v", resource)
	as := get(l.at + "/.well-known/oauth-authorization-server")
	need.That(t, as["issuer"] == l.at && as["authorization_response_iss_parameter_supported"] == nil, "%v", as)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	reply := need.Get(client.Get(fmt.Sprint(as["authorization_endpoint"]) + "?state=x&resource=" + url.QueryEscape(l.at+"/mcp")))(t)
	reply.Body.Close()
	need.Equal(t, reply.Header.Get("Location"), g.URL+"/as/authorize?resource="+url.QueryEscape(g.URL+"/mcp")+"&state=x&tenant=1")
	reply = need.Get(http.PostForm(fmt.Sprint(as["token_endpoint"]), url.Values{"code": {"c"}, "resource": {l.at + "/mcp"}}))(t)
	var given struct {
		Token string `json:"access_token"`
	}
	need.OK(t, json.NewDecoder(reply.Body).Decode(&given))
	reply.Body.Close()
	need.Equal(t, g.asked.Get("resource"), g.URL+"/mcp", "the token is for another address")

	l.token = "Bearer " + given.Token
	status, _, said := l.ask(hello)
	need.That(t, status == 200 && l.session != "" && strings.Contains(said, `"serverInfo"`), "%d %s", status, said)
	status, _, _ = l.ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	need.Equal(t, status, 202)
	_, _, said = l.ask(pay(1, "A"))
	need.Contains(t, said, "paid")
	need.Contains(t, strings.Join(s.rows("SELECT session || ' ' || kind || ' ' || state FROM operations")[0], ""), "c/1 ")

	// A token that has ended is asked for anew; the call that it refused did not happen.
	g.mu.Lock()
	g.token = "secret-token-2"
	g.mu.Unlock()
	status, header, _ = l.ask(pay(2, "B"))
	need.That(t, status == 401 && header.Get("WWW-Authenticate") != "", "%d", status)
	session := l.session
	l.token = ""
	status, _, _ = l.ask(pay(3, "B"))
	need.Equal(t, status, 401, "a session is used without its credential")
	l.token, l.session = "Bearer secret-token-2", session
	_, _, said = l.ask(pay(4, "B"))
	need.Contains(t, said, "paid")
	need.Equal(t, g.calls, 2)
	for _, file := range []string{s.ledger, s.ledger + "-wal"} {
		text, _ := os.ReadFile(file)
		need.That(t, !strings.Contains(string(text), "secret-token"), "%s has a token", file)
	}
}

// A lost answer is held over HTTP as over stdio, from whatever session, and no web page
// may call.
func TestE2E_TheListenerHoldsWhatIsInDoubt(t *testing.T) {
	s, g := newMCPSite(t, anyPolicy), newGuardedServer(t)
	l := s.listener("--server", "bank", "--url", g.URL+"/mcp")
	l.token, g.lose = "Bearer "+g.token, true
	l.ask(hello)
	_, _, said := l.ask(pay(1, "A"))
	need.Contains(t, said, `"outcome":"unknown"`)
	g.mu.Lock()
	g.lose = false
	g.mu.Unlock()
	l.session = ""
	l.ask(hello)
	_, _, said = l.ask(pay(1, "A"))
	need.Contains(t, said, `"outcome":"unknown"`)
	need.Equal(t, g.calls, 1)
	for _, c := range []struct {
		status int
		more   []string
		line   string
	}{
		{403, []string{"Origin", "https://evil.example"}, pay(2, "C")},
		{421, []string{"Host", "evil.example"}, pay(2, "C")},
		{404, []string{"Mcp-Session-Id", "other"}, pay(2, "C")},
		{400, nil, "{"},
		{200, []string{"Origin", l.at}, pay(2, "C")},
	} {
		status, _, said := l.ask(c.line, c.more...)
		need.Equal(t, status, c.status, c.more, said)
	}
	need.Equal(t, g.calls, 2)
}

// A client whose connection is cut under a call has lost the answer, and the ledger has
// not: who calls again gets it, and nothing is sent twice.
func TestI9_E2E_AClientOfTheListenerIsCut(t *testing.T) {
	s, g := newMCPSite(t, anyPolicy), newGuardedServer(t)
	l := s.listener("--server", "bank", "--url", g.URL+"/mcp")
	l.token, g.free = "Bearer "+g.token, make(chan struct{})
	g.held = make(chan struct{}, 9)
	l.ask(hello)
	ctx, cut := context.WithCancel(t.Context())
	req := need.Get(http.NewRequestWithContext(ctx, http.MethodPost, l.at+"/mcp", strings.NewReader(pay(1, "A"))))(t)
	req.Header.Set("Mcp-Session-Id", l.session)
	req.Header.Set("Authorization", l.token)
	ended := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(req)
		ended <- err
	}()
	<-g.held
	need.Equal(t, s.recorded()["mcp.bank.pay pending"], 1)
	cut()
	need.That(t, <-ended != nil, "an answer came")
	close(g.free)
	s.eventually("it is recorded", func() bool { return s.recorded()["mcp.bank.pay committed"] == 1 })
	_, _, said := l.ask(pay(2, "A"))
	need.Contains(t, said, "paid")
	need.Equal(t, g.calls, 1)
}
