//go:build unix

package cli_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger/need"
)

const editedPolicy = `version: 1
downstreams: { desk: { base: %s, concurrency: 1 } }
kinds:
  post:
    downstream: desk
    token: { into: ref }
    lands_within: 0s
    visible_within: 0s
    read:
      http: { get: /posts }
      valid: status == 200
      list: body.posts
      mark: it.ref
      complete: "true"
`

// What is checked once, and takes long, follows the policy like an engine does: a check
// that was under way when it changed proves nothing, and the rest is judged by the new one.
func TestI6_E2E_APolicyEditedWhileEverythingIsCheckedOnce(t *testing.T) {
	s, said, edit := bareSite(t), make(chan bool), sync.Once{}
	var found string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		edit.Do(func() {
			s.writePolicy(strings.Replace(fmt.Sprintf(editedPolicy, "http://"+r.Host), "lands_within: 0s", "lands_within: 20h", 1))
			select {
			case <-said:
			case <-time.After(patience):
			}
		})
		fmt.Fprintf(w, `{"posts":[{"ref":%q}]}`, found)
	}))
	t.Cleanup(server.Close)
	s.writePolicy(fmt.Sprintf(editedPolicy, server.URL))
	known, attempt := s.begin("post", "known", `{"n":0}`, "--token-sent")
	s.must(0, "settle", attempt, "--outcome", "committed", "--token-sent")
	found = known.Token
	ops := []operation{s.doubtful("post", "k1", `{"n":1}`, "--token-sent"), s.doubtful("post", "k2", `{"n":2}`, "--token-sent")}
	cmd := s.command("check")
	cmd.Env, cmd.Dir = s.env, s.dir
	lines := bufio.NewScanner(need.Get(cmd.StderrPipe())(t))
	need.OK(t, cmd.Start())
	for once := true; lines.Scan(); {
		if once && strings.Contains(lines.Text(), "the policy has changed") {
			once = false
			close(said)
		}
	}
	_ = cmd.Wait()
	for _, op := range ops {
		s.wantState(op, "uncertain")
	}
}
