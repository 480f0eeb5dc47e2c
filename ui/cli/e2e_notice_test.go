//go:build soak

package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"indoubt/ledger/need"
)

// A notice whose engine is killed while the answer is awaited stands in the history, no other
// engine sends it again, and other notices go on.
func TestI10_E2E_KilledNotice(t *testing.T) {
	s := bareSite(t)
	var mu sync.Mutex
	heard := map[string]int{}
	held, release := make(chan struct{}, 9), make(chan struct{})
	told := func(event string) int { mu.Lock(); defer mu.Unlock(); return heard[event] }
	office := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var in struct{ Event string }
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &in); err != nil {
			t.Errorf("told %q: %v", body, err)
		}
		mu.Lock()
		heard[in.Event]++
		mu.Unlock()
		if in.Event == "opened" {
			held <- struct{}{}
			<-release
		}
	}))
	t.Cleanup(office.Close)
	t.Cleanup(func() { close(release) })
	s.writePolicy(fmt.Sprintf(`
version: 1
downstreams: { hooks: { base: %s } }
notify: { oncall: { on: [opened, twice], downstream: hooks, http: { post: /page } } }
kinds: { pay: {} }
`, office.URL))
	var last operation
	for n := range 5 {
		last = s.doubtful("pay", fmt.Sprint("k", n), fmt.Sprintf(`{"n":%d}`, n))
	}
	engine := s.start("engine")
	<-held
	need.OK(t, engine.cmd.Process.Signal(syscall.SIGKILL))
	engine.finish()
	need.Equal(t, strings.Count(s.must(0, "log").Out, "tell oncall"), 1, "events")
	for range 2 {
		other := s.start("engine")
		t.Cleanup(func() { other.cmd.Process.Kill(); other.finish() })
	}
	s.must(0, "confirm", seen(last), "--receipt", "a", "--receipt", "b", "--reason", "their page has two")
	s.eventually("another notice is told", func() bool { return told("twice") == 1 })
	need.That(t, told("opened") == 1, "told %v", heard)
	need.Equal(t, len(s.list()), 5, "operations")
}

// An engine that is ended while it waits for an answer says what it waits for.
func TestE2E_AnEndedEngineSaysThatItWaits(t *testing.T) {
	s := bareSite(t)
	held, release := make(chan struct{}), make(chan struct{})
	office := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		held <- struct{}{}
		<-release
	}))
	defer office.Close()
	s.writePolicy(fmt.Sprintf(`
version: 1
notify: { oncall: { on: [opened], http: { post: "%s/page" } } }
kinds: { pay: {} }
`, office.URL))
	for n := range 5 {
		s.doubtful("pay", fmt.Sprint("k", n), fmt.Sprintf(`{"n":%d}`, n))
	}
	cmd := s.command("engine")
	cmd.Env, cmd.Dir = s.env, s.dir
	said := need.Get(cmd.StderrPipe())(t)
	need.OK(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	<-held
	need.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	lines, waits := bufio.NewScanner(said), false
	for !waits && lines.Scan() {
		waits = strings.Contains(lines.Text(), "waiting for 1 answer; interrupt again")
	}
	close(release)
	need.Must(t, waits, "it waits in silence")
	need.OK(t, cmd.Wait())
}
