//go:build unix

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
)

// till is an API that takes orders under keys. It cuts the connection of the first
// one it makes, and may answer its repeat in several ways.
type till struct {
	*httptest.Server
	mu     sync.Mutex
	posts  int
	orders []map[string]any
	repeat string // replays, forgets, refuses, cuts, stalls
	stalls chan struct{}
}

func newTill(t *testing.T, repeat string) *till {
	s := &till{repeat: repeat, stalls: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if r.Method == "GET" {
			found := []map[string]any{}
			for _, o := range s.orders {
				if o["ref"] == r.URL.Query().Get("ref") {
					found = append(found, map[string]any{"id": o["id"], "ref": o["ref"]})
				}
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"orders": found})
			return
		}
		var sent map[string]any
		_ = json.NewDecoder(r.Body).Decode(&sent)
		s.posts++
		if s.posts == 1 || s.repeat == "forgets" {
			s.orders = append(s.orders, map[string]any{"id": fmt.Sprintf("ord_%d", len(s.orders)+1), "ref": sent["ref"], "key": r.Header.Get("Idempotency-Key"), "thanks": "see you soon"})
		}
		if s.repeat == "stalls" && s.posts == 2 {
			s.mu.Unlock()
			close(s.stalls)
			<-r.Context().Done()
			s.mu.Lock()
			return
		}
		switch o := s.orders[len(s.orders)-1]; {
		case s.posts == 1 || s.repeat == "cuts":
			panic(http.ErrAbortHandler)
		case s.repeat == "refuses":
			w.WriteHeader(401)
			_, _ = w.Write([]byte(`{"error":"the credential was revoked"}`))
		case o["key"] != r.Header.Get("Idempotency-Key") || o["ref"] != sent["ref"]:
			w.WriteHeader(422)
		default:
			w.WriteHeader(201)
			_ = json.NewEncoder(w).Encode(o)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// losesAnAnswer starts a proxy before the till, loses the first answer, and has a check
// find the order.
func (s *till) losesAnAnswer(t *testing.T, dir, key string) *httpProxy {
	t.Helper()
	need.OK(t, os.WriteFile(filepath.Join(dir, "policy.yaml"), fmt.Appendf(nil, `version: 1
downstreams:
  till: { base: %q, key: { header: Idempotency-Key, %s } }
kinds:
  order:
    downstream: till
    match: POST %s/orders
    input: ${input.body}
    token: { into: ref }
    deadline: 5s
    lands_within: 10s
    visible_within: 0s
    skew: 1s
    read:
      http: { get: /orders, query: { ref: "${token}" } }
      valid: status == 200
      list: body.orders
      mark: it.ref
      receipt: it.id
    send: { http: recorded, receipt: body.id }
`, s.URL, key, strings.TrimPrefix(s.URL, "http://")), 0o600))
	p := s.proxy(t, dir)
	if status, said, _ := p.order(); status != 502 && status != 504 {
		t.Fatalf("the first answer was not cut: %d %v\n%s", status, said, p.log())
	}
	if exit, out, stderr := inside(t, dir, "check", "--policy", filepath.Join(dir, "policy.yaml")); exit != 0 {
		t.Fatalf("exit %d\n%s%s", exit, out, stderr)
	}
	return p
}

func (s *till) proxy(t *testing.T, dir string) *httpProxy {
	t.Helper()
	return startHTTP(t, dir, s.URL, "--policy", "policy.yaml")
}

func (p *httpProxy) order() (int, map[string]any, http.Header) {
	p.t.Helper()
	return p.post("/orders", "INV-1042", `{"amount":42}`)
}

// posted counts the writes that came, and shows what the ledger has of them.
func (s *till) posted(t *testing.T, dir string) (posts int, shown string) {
	t.Helper()
	_, out, _ := inside(t, dir, "list", "--json")
	_, shown, _ = inside(t, dir, "show", "--json", operationOf(t, out))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.posts, shown
}

// Where the policy says that the other side replays its answers, a client that asks
// again for what a check has found gets the very answer, by one transmission more.
func TestI3_HTTPProxyFetchesALostAnswerOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		repeat, key string
		held        bool
		posts       int
		thanks      any // of the real answer alone
		conflict    string
	}{
		"replayed":               {repeat: "replays", key: "remembers: 24h, replays: true", posts: 2, thanks: "see you soon"},
		"the policy is silent":   {repeat: "replays", key: "remembers: 24h", posts: 1},
		"no longer remembered":   {repeat: "replays", key: "remembers: 16s, replays: true", posts: 1},
		"held":                   {repeat: "replays", key: "remembers: 24h, replays: true", held: true, posts: 1},
		"refused now":            {repeat: "refuses", key: "remembers: 24h, replays: true", posts: 2},
		"cut again":              {repeat: "cuts", key: "remembers: 24h, replays: true", posts: 2},
		"it made another effect": {repeat: "forgets", key: "remembers: 24h, replays: true", posts: 2, thanks: "see you soon", conflict: "duplicate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, s := t.TempDir(), newTill(t, tc.repeat)
			p := s.losesAnAnswer(t, dir, tc.key)
			if tc.held {
				if exit, out, stderr := inside(t, dir, "hold", "kind:order", "--reason", "an outage"); exit != 0 {
					t.Fatalf("exit %d\n%s%s", exit, out, stderr)
				}
			}
			for range 2 { // the second time nothing is fetched
				status, said, header := p.order()
				if status/100 != 2 || header.Get("Idempotency-Replayed") != "true" || said["id"] == nil || said["thanks"] != tc.thanks {
					t.Errorf("%d %v %v\n%s", status, said, header, p.log())
				}
			}
			posts, shown := s.posted(t, dir)
			fetched := strings.Count(shown, `"verb":"fetch"`)
			if posts != tc.posts || fetched != tc.posts-1 || !strings.Contains(shown, fmt.Sprintf(`"conflict":%q`, tc.conflict)) && tc.conflict != "" || !strings.Contains(shown, `"state":"committed"`) {
				t.Errorf("%d posts, %d fetches\n%s", posts, fetched, shown)
			}
			need.That(t, tc.conflict != "" || !strings.Contains(shown, `"conflict":"contradiction"`), "%v", shown)
		})
	}
}

// A recorder that is killed while a fetch is out leaves nothing in doubt: the write
// was found before. Its answer is not fetched again, by the next recorder neither, and
// callers get what the check found.
func TestI3_AFetchThatWasKilledIsNotRepeated(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), newTill(t, "stalls")
	p := s.losesAnAnswer(t, dir, "remembers: 24h, replays: true")
	answered := make(chan int, 1)
	go func() {
		status, _, _ := p.order()
		answered <- status
	}()
	<-s.stalls
	safe := func(p *httpProxy) {
		t.Helper()
		status, said, header := p.order()
		if status/100 != 2 || header.Get("Idempotency-Replayed") != "true" || said["id"] != "ord_1" || said["thanks"] != nil {
			t.Errorf("%d %v %v\n%s", status, said, header, p.log())
		}
		posts, shown := s.posted(t, dir)
		if posts != 2 || strings.Count(shown, `"verb":"fetch"`) != 1 || strings.Count(shown, `"verb":"begin"`) != 1 ||
			!strings.Contains(shown, `"state":"committed"`) || strings.Contains(shown, `"conflict":"`) {
			t.Errorf("%d posts\n%s", posts, shown)
		}
	}
	safe(p) // another caller, meanwhile
	_ = p.cmd.Process.Kill()
	<-p.done
	need.Equal(t, <-answered, 0, "a killed recorder answered")
	next := s.proxy(t, dir)
	safe(next)
	if exit, out, stderr := inside(t, dir, "check", "--policy", filepath.Join(dir, "policy.yaml")); exit != 0 {
		t.Fatalf("exit %d\n%s%s", exit, out, stderr)
	}
	safe(next)
}
