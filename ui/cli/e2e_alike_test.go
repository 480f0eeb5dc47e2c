//go:build unix

package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"indoubt/ledger/need"
)

// I4: a request that is in doubt is not sent again because its policy makes keys in another
// way since, or because it brings one.
func TestI4_E2E_AChangedKeyMeetsTheDoubt(t *testing.T) {
	s := bareSite(t)
	policy := func(pay string) {
		need.OK(t, os.WriteFile(s.policy, []byte("version: 1\nkinds: { pay: "+pay+" }\n"), 0o600))
	}
	policy("{}")
	sent := func() int {
		said, _ := os.ReadFile(filepath.Join(s.dir, "sent"))
		return strings.Count(string(said), "sent")
	}
	pay := func(more ...string) result {
		return s.do(append(append([]string{"run", "--kind", "pay", "--input", `{"order":7,"n":1}`}, more...), "--", "sh", "-c", "echo sent >> sent; exit 28")...)
	}
	if r := pay(); r.Exit != 106 || sent() != 1 {
		t.Fatalf("exit %d, sent %d times\n%s", r.Exit, sent(), r.Err)
	}
	o := s.only()
	policy("{ key: { from: [order] } }")
	for name, more := range map[string][]string{"made otherwise": nil, "given": {"--key", "INV-7"}, "and waited for": {"--wait", "--reconcile"}} {
		if r := pay(more...); r.Exit != 106 || sent() != 1 || !strings.Contains(r.Err, o.ID) {
			t.Errorf("%s: exit %d, sent %d times\n%s", name, r.Exit, sent(), r.Err)
		}
	}
	s.must(0, "confirm", seen(o), "--reason", "their page shows it")
	if r := pay(); r.Exit != 106 || sent() != 2 {
		t.Errorf("settled, another one: exit %d, sent %d times\n%s", r.Exit, sent(), r.Err)
	}
}

func TestI4_E2E_AChangedKeyMeetsTheDoubtOfAProxy(t *testing.T) {
	s := bareSite(t)
	var sent atomic.Int32
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		panic(http.ErrAbortHandler) // it is done, and the answer is lost
	}))
	defer up.Close()
	const order = `{"order":7,"n":1}`
	before := startHTTP(t, s.dir, up.URL, "--ledger", s.ledger)
	if status, said, _ := before.post("/orders", "", order); status != 502 || sent.Load() != 1 {
		t.Fatalf("status %d %v, sent %d times", status, said, sent.Load())
	}
	need.OK(t, os.WriteFile(s.policy, []byte("version: 1\nkinds: { order: { match: [POST /orders], key: { from: [body.order] } } }\n"), 0o600))
	after := startHTTP(t, s.dir, up.URL, "--ledger", s.ledger, "--policy", s.policy)
	for name, ask := range map[string]func() (int, map[string]any, http.Header){
		"given":                      func() (int, map[string]any, http.Header) { return before.post("/orders", "INV-7", order) },
		"of a kind, made of a field": func() (int, map[string]any, http.Header) { return after.post("/orders", "", order) },
		"of a kind, given":           func() (int, map[string]any, http.Header) { return after.post("/orders", "INV-8", order) },
	} {
		if status, said, _ := ask(); status != 409 || said["code"] != "in_doubt" || sent.Load() != 1 {
			t.Errorf("%s: status %d %v, sent %d times", name, status, said, sent.Load())
		}
	}
	if status, _, _ := after.post("/orders", "", `{"order":8,"n":1}`); status != 502 || sent.Load() != 2 {
		t.Errorf("another order: status %d, sent %d times", status, sent.Load())
	}
}

// I4: a request that is in doubt under a key that its caller gave is not sent again because it
// comes without one. Two keys that callers gave are two requests.
func TestI4_E2E_ARequestWithoutItsKeyMeetsTheDoubt(t *testing.T) {
	s := bareSite(t)
	need.OK(t, os.WriteFile(s.policy, []byte("version: 1\nkinds: { pay: {} }\n"), 0o600))
	sent := func() int {
		said, _ := os.ReadFile(filepath.Join(s.dir, "sent"))
		return strings.Count(string(said), "sent")
	}
	pay := func(more ...string) result {
		return s.do(append(append([]string{"run", "--kind", "pay", "--input", `{"order":7,"n":1}`}, more...), "--", "sh", "-c", "echo sent >> sent; exit 28")...)
	}
	if r := pay("--key", "INV-7"); r.Exit != 106 || sent() != 1 {
		t.Fatalf("exit %d, sent %d times\n%s", r.Exit, sent(), r.Err)
	}
	o := s.only()
	for name, more := range map[string][]string{"without": nil, "and waited for": {"--wait", "--reconcile"}} {
		if r := pay(more...); r.Exit != 106 || sent() != 1 || !strings.Contains(r.Err, "under the key INV-7") || !strings.Contains(r.Err, o.ID) {
			t.Errorf("%s: exit %d, sent %d times\n%s", name, r.Exit, sent(), r.Err)
		}
	}
	if r := pay("--key", "INV-8"); r.Exit != 106 || sent() != 2 || strings.Contains(r.Err, o.ID) {
		t.Errorf("another that was given: exit %d, sent %d times\n%s", r.Exit, sent(), r.Err)
	}
	for _, o := range s.list() {
		s.must(0, "confirm", seen(o), "--reason", "their page shows it")
	}
	if r := pay(); r.Exit != 106 || sent() != 3 {
		t.Errorf("settled, one without: exit %d, sent %d times\n%s", r.Exit, sent(), r.Err)
	}
}

func TestI4_E2E_ARequestWithoutItsKeyMeetsTheDoubtOfAProxy(t *testing.T) {
	s := bareSite(t)
	var sent atomic.Int32
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		panic(http.ErrAbortHandler) // it is done, and the answer is lost
	}))
	defer up.Close()
	const order = `{"order":7,"n":1}`
	need.OK(t, os.WriteFile(s.policy, []byte("version: 1\nkinds: { order: { match: [POST /orders] } }\n"), 0o600))
	proxy := startHTTP(t, s.dir, up.URL, "--ledger", s.ledger, "--policy", s.policy)
	if status, said, _ := proxy.post("/orders", "INV-7", order); status != 502 || sent.Load() != 1 {
		t.Fatalf("status %d %v, sent %d times", status, said, sent.Load())
	}
	o := s.only()
	if status, said, _ := proxy.post("/orders", "", order); status != 409 || said["code"] != "in_doubt" || said["operation"] != o.ID || !strings.Contains(fmt.Sprint(said["advice"]), "INV-7. Do not send it again") || sent.Load() != 1 {
		t.Errorf("without: status %d %v, sent %d times", status, said, sent.Load())
	}
	if status, said, _ := proxy.post("/orders", "INV-8", order); status != 502 || sent.Load() != 2 {
		t.Errorf("another that was given: status %d %v, sent %d times", status, said, sent.Load())
	}
}
