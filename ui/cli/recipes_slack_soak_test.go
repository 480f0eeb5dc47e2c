//go:build soak

package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"indoubt/ledger/need"
	"indoubt/policy/recipes"
)

// slackFake is as much of Slack as posts messages and lists them.
type slackFake struct {
	*httptest.Server
	mu       sync.Mutex
	next     string // what becomes of the next message: "", after, before, or the error that it is refused with; ratelimited is a 429
	came     int
	messages []map[string]any // newest first
}

func newSlackFake(t *testing.T) *slackFake {
	s := &slackFake{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *slackFake) will(next string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = next
}

// counts are the messages that came, and those that are in the channel.
func (s *slackFake) counts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.came, " came, ", len(s.messages), " there")
}

func (s *slackFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := map[string]any{"ok": false, "error": "invalid_auth"}
	if r.Header.Get("Authorization") == "Bearer xoxb-1" {
		switch r.URL.Path {
		case "/api/chat.postMessage":
			answer = s.post(r)
		case "/api/conversations.history":
			answer = map[string]any{"ok": true, "messages": append([]map[string]any{}, s.messages...), "response_metadata": map[string]any{"next_cursor": ""}}
		}
	}
	if answer == nil {
		panic(http.ErrAbortHandler) // the connection is cut
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if answer["error"] == "ratelimited" {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// post takes a message as Slack's client sends it: a form, with the metadata as JSON text,
// which is dropped where it has no event_type.
func (s *slackFake) post(r *http.Request) map[string]any {
	next := s.next
	s.next = ""
	s.came++
	switch next {
	case "before":
		return nil
	case "", "after":
	default:
		return map[string]any{"ok": false, "error": next}
	}
	message := map[string]any{"type": "message", "ts": fmt.Sprintf("1700000000.%06d", s.came), "text": r.FormValue("text")}
	var metadata map[string]any
	if json.Unmarshal([]byte(r.FormValue("metadata")), &metadata) == nil && metadata["event_type"] != nil {
		message["metadata"] = metadata
	}
	s.messages = append([]map[string]any{message}, s.messages...)
	if next == "after" {
		return nil
	}
	return map[string]any{"ok": true, "channel": r.FormValue("channel"), "ts": message["ts"], "message": message}
}

// The recipe behind the proxy, with Slack's own client for Node, which retries by itself:
// what landed is found while it does; what did not land holds it until a person sends it.
func TestI2_E2E_SlacksOwnClient(t *testing.T) {
	box := npm(t)
	s, slack := bareSite(t), newSlackFake(t)
	token := filepath.Join(s.dir, "token")
	need.OK(t, os.WriteFile(token, []byte("xoxb-1"), 0o600))
	recipe, _ := recipes.Get("slack")
	s.writePolicy(strings.NewReplacer("https://slack.com", slack.URL, "POST slack.com", "POST 127.0.0.1",
		`"Bearer ${env.SLACK_TOKEN}"`, `'Bearer ${file("`+token+`")}'`, "rate: 45/m", "rate: 1000/s").Replace(string(recipe.Text)))
	proxy := startHTTP(t, s.dir, slack.URL, "--ledger", s.ledger, "--policy", s.policy)
	post := func(text string) string {
		t.Helper()
		return s.module(box, "slack.mjs", map[string]string{"url": proxy.url + "/api/", "token": "xoxb-1", "text": text})[0]
	}
	about := func(text, state string, attempts int) operation {
		t.Helper()
		op := s.show(operationOf(t, s.must(0, "list", "--json", text).Out))
		need.That(t, op.State == state && len(op.Attempts) == attempts, "%s: %s after %d attempts", text, op.State, len(op.Attempts))
		return op
	}
	heard := func(text string, n int) string {
		return fmt.Sprintf(`{"ok":true,"channel":"C1","ts":"1700000000.%06d","text":%q}`, n, text)
	}

	need.Equal(t, post("fine"), heard("fine", 1))
	slack.will("after")
	need.Equal(t, post("lost"), heard("lost", 2), "what a retry of the client's gets")
	need.Equal(t, post("lost"), heard("lost", 2), "what the same again gets")
	need.Equal(t, slack.counts(), "2 came, 2 there")
	about("lost", "committed", 1)

	slack.will("before")
	if said := post("gone"); !strings.Contains(said, `"status":409`) || !strings.Contains(said, `"code":"in_doubt"`) {
		t.Errorf("after its retries the client hears %s", said)
	}
	need.Equal(t, slack.counts(), "3 came, 2 there")
	gone := about("gone", "uncertain", 1)
	retry := s.command("retry", seen(gone), "--reason", "it is not in the channel", "--yes")
	retry.Env, retry.Dir = s.env, s.dir
	person := onScreen(t, retry, 100)
	s.eventually("a person is asked", func() bool { return person.shown(`Type "low" to send it without proof`) })
	need.Get(person.tty.Write([]byte("low\n")))(t)
	s.eventually("it is sent", func() bool { return person.shown("sent, it landed") })
	need.Equal(t, post("gone"), heard("gone", 4), "what the client gets then")
	need.Equal(t, slack.counts(), "4 came, 3 there")
	about("gone", "committed", 2)

	slack.will("ratelimited")
	need.Equal(t, post("busy"), heard("busy", 6), "the client waits and sends it again")
	about("busy", "committed", 2)

	slack.will("not_in_channel")
	need.Equal(t, post("refused"), `{"code":"slack_webapi_platform_error","error":"not_in_channel"}`)
	about("refused", "failed", 1)
	slack.will("internal_error")
	need.Equal(t, post("half"), `{"code":"slack_webapi_platform_error","error":"internal_error"}`)
	about("half", "uncertain", 1)
	need.Equal(t, slack.counts(), "8 came, 4 there")
}
