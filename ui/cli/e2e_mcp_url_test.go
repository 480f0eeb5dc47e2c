//go:build soak

package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"indoubt/ledger/need"
)

// said sorts what client.mjs printed: the results in their order, and without
// order and repetition what the server asked for and told of.
func said(lines []string) (results, other []string) {
	for _, line := range lines {
		line = sessionID.ReplaceAllString(line, "…")
		switch {
		case strings.HasPrefix(line, `{"asked":`), strings.HasPrefix(line, `{"told":"notifications/message"`):
			other = append(other, anyLevel.ReplaceAllString(line, "…"))
		case strings.HasPrefix(line, `{"told":`), strings.HasPrefix(line, `{"progress":`):
			// The client drops progress that comes together with the result, and lists
			// change as often as the server likes.
		default:
			results = append(results, line)
		}
	}
	slices.Sort(other)
	return results, slices.Compact(other)
}

var (
	sessionID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	anyLevel  = regexp.MustCompile(`"level":"[a-z]+","data":"[^"]*SessionId`)
)

func freePort(t *testing.T) string {
	t.Helper()
	return strings.TrimPrefix(freeAddress(t), "127.0.0.1:")
}

// What a server behind a URL asks of its client, tells it on the way and tells it
// out of turn goes through, and the session ends with the client.
func TestAServerBehindAURLIsTheSameBehindTheProxy(t *testing.T) {
	box := npm(t)
	s := newMCPSite(t, anyPolicy)
	port := freePort(t)
	s.env = append(s.env, "PORT="+port)
	url := "http://127.0.0.1:" + port + "/mcp"
	noise := s.serve(t, url, box.everything("streamableHttp")...)
	// The server logs at a random level, and drops what it says before the client listens.
	steps := append(slices.Clone(everythingSteps), step{Method: "logging/setLevel", Params: object{"level": "debug"}}, call("toggle-simulated-logging", object{}))
	const logged = "notifications/message"
	direct := s.drive(box, script{URL: url, Steps: steps, Until: logged, Wait: 500})
	behind := s.drive(box, script{Command: []string{program, "mcp", "--server", "everything", "--url", url}, Steps: steps, Until: logged, Wait: 500})
	need.Contains(t, strings.Join(behind, "\n"), `{"progress":{"progress":2,"total":4}}`)
	results, other := said(direct)
	got, gotOther := said(cleaned(t, behind))
	sameLines(t, results, got)
	sameLines(t, other, gotOther)
	for _, want := range []string{`{"asked":"sampling/createMessage"`, `{"asked":"elicitation/create"`, `{"asked":"roots/list"`, `Roots updated: 1 root(s)`, `"told":"notifications/message","params":{… …"}`} {
		need.That(t, strings.Contains(strings.Join(gotOther, "\n"), want),
			"%s did not come through: %s", want, gotOther)
	}
	wantRecorded(t, s.recorded(), map[string]int{
		"mcp.everything.trigger-sampling-request committed": 1, "mcp.everything.trigger-elicitation-request committed": 1,
		"mcp.everything.no-such-tool failed": 1, "mcp.everything.toggle-simulated-logging committed": 1,
	})
	need.Contains(t, noise(), "Received session termination request")
}

// The Go SDK's conformance server speaks revision 2026-07-28 over HTTP: no
// session, and headers that must fit the message. Calls with and without a header
// of their own, and a question that the client answers, go through.
func TestAStatelessServerBehindAURL(t *testing.T) {
	s := newMCPSite(t, anyPolicy)
	port := freePort(t)
	s.serve(t, "http://127.0.0.1:"+port+"/", s.conformanceServer(), "-http", "127.0.0.1:"+port)
	p := s.agent("--server", "everything", "--url", "http://127.0.0.1:"+port+"/")
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	for i, step := range []struct{ method, params, want string }{
		{"server/discover", ``, `"supportedVersions":`},
		{"tools/list", ``, `"name":"indoubt_status_`},
		{"tools/call", `"name":"test_simple_text","arguments":{},`, `"type":"text"`},
		{"tools/call", `"name":"test_x_mcp_header","arguments":{"region":"Zürich \n"},`, `"type":"text"`},
		{"tools/call", `"name":"test_input_required_result_elicitation","arguments":{},`, `"resultType":"input_required"`},
		{"tools/call", `"name":"test_input_required_result_elicitation","arguments":{},"inputResponses":{"user_name":{"action":"accept","content":{"name":"Ada"}}},`, `Hello, Ada`},
		{"no/such/method", ``, `"code":-32601`},
	} {
		line := p.ask(i, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s%s}}`, i, step.method, step.params, meta))
		need.That(t, strings.Contains(line, step.want),
			"%s %s was answered with %.500s", step.method, step.params, line)
	}
	p.leave()
	for kind, n := range s.recorded() {
		need.That(t, strings.HasSuffix(kind, " committed") && n == 1, "%s: %d", kind, n)
	}
}

// A server that dies while it answers over HTTP leaves the call in doubt, and the
// proxy lives on.
func TestI2_AnAnswerCutOverHTTPLeavesTheCallInDoubt(t *testing.T) {
	s := newMCPSite(t, anyPolicy)
	var mu sync.Mutex
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&req)
		switch req.Method {
		case "tools/list":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"pay","inputSchema":{"type":"object"}}]}}`, req.ID)
		case "tools/call":
			mu.Lock()
			calls++
			mu.Unlock()
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	p := s.agent("--server", "bank", "--url", server.URL)
	for i := range 2 {
		line := p.ask(i, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"pay","arguments":{"amount":1}}}`, i))
		need.That(t, strings.Contains(line, `"outcome":"unknown"`) && strings.Contains(line, `"isError":true`),
			"call %d was answered with %s", i, line)
		need.That(t, i > 0 || strings.Contains(line, "the connection ended before an answer came"), "it says %s", line)
	}
	p.leave()
	mu.Lock()
	defer mu.Unlock()
	need.That(t, calls == 1, "it was sent %d times", calls)
	wantRecorded(t, s.recorded(), map[string]int{"mcp.bank.pay uncertain": 1})
}
