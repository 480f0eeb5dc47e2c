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
)

const order = `{"order":7,"n":1}`

// paying is a command whose answer is lost, and how often it was sent.
func paying(s *site) (pay func(more ...string) result, sent func() int) {
	pay = func(more ...string) result {
		return s.do(append(append([]string{"run", "--kind", "pay", "--input", order}, more...), "--", "sh", "-c", "echo sent >> sent; exit 28")...)
	}
	return pay, func() int {
		said, _ := os.ReadFile(filepath.Join(s.dir, "sent"))
		return strings.Count(string(said), "sent")
	}
}

// losing is a server that does what it is asked and loses its answer, and how often it was
// asked.
func losing(t *testing.T) (url string, sent func() int) {
	var n atomic.Int32
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n.Add(1)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(up.Close)
	return up.URL, func() int { return int(n.Load()) }
}

// I4: a request that is in doubt is not sent again because its policy makes keys in another
// way since, or because it brings one.
func TestI4_E2E_AChangedKeyMeetsTheDoubt(t *testing.T) {
	s := bareSite(t)
	policy := func(pay string) { s.writePolicy("version: 1\nkinds: { pay: " + pay + " }\n") }
	policy("{}")
	pay, sent := paying(s)
	if r := pay(); r.Exit != 106 || sent() != 1 {
		t.Fatalf("exit %d, sent %d times\n%s", r.Exit, sent(), r.Err)
	}
	o := s.only()
	policy("{ key: { from: [order] } }")
	for name, more := range map[string][]string{"made otherwise": nil, "and waited for": {"--wait", "--reconcile"}} {
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
	up, sent := losing(t)
	before := startHTTP(t, s.dir, up, "--ledger", s.ledger)
	if status, said, _ := before.post("/orders", "", order); status != 502 || sent() != 1 {
		t.Fatalf("status %d %v, sent %d times", status, said, sent())
	}
	s.writePolicy("version: 1\nkinds: { order: { match: [POST /orders], key: { from: [body.order] } } }\n")
	after := startHTTP(t, s.dir, up, "--ledger", s.ledger, "--policy", s.policy)
	for name, ask := range map[string]func() (int, map[string]any, http.Header){
		"given":                      func() (int, map[string]any, http.Header) { return before.post("/orders", "INV-7", order) },
		"of a kind, made of a field": func() (int, map[string]any, http.Header) { return after.post("/orders", "", order) },
		"of a kind, given":           func() (int, map[string]any, http.Header) { return after.post("/orders", "INV-8", order) },
	} {
		if status, said, _ := ask(); status != 409 || said["code"] != "in_doubt" || sent() != 1 {
			t.Errorf("%s: status %d %v, sent %d times", name, status, said, sent())
		}
	}
	if status, _, _ := after.post("/orders", "", `{"order":8,"n":1}`); status != 502 || sent() != 2 {
		t.Errorf("another order: status %d, sent %d times", status, sent())
	}
}

// For a command the key that is given is a part of the request: of the same words every
// night, each with its own, one in doubt holds no other.
func TestE2E_TheSameWordsUnderAnotherKey(t *testing.T) {
	s := bareSite(t)
	s.writePolicy("version: 1\nkinds: { pay: {} }\n")
	pay, sent := paying(s)
	for n, key := range []string{"evt_1", "evt_2"} {
		if r := pay("--key", key); r.Exit != 106 || sent() != n+1 {
			t.Fatalf("%s: exit %d, sent %d times\n%s", key, r.Exit, sent(), r.Err)
		}
		if r := pay("--key", key, "--wait", "--reconcile"); r.Exit != 106 || sent() != n+1 {
			t.Errorf("%s again: exit %d, sent %d times\n%s", key, r.Exit, sent(), r.Err)
		}
	}
}

func TestI4_E2E_ARequestWithoutItsKeyMeetsTheDoubtOfAProxy(t *testing.T) {
	s := bareSite(t)
	up, sent := losing(t)
	s.writePolicy("version: 1\nkinds: { order: { match: [POST /orders] } }\n")
	proxy := startHTTP(t, s.dir, up, "--ledger", s.ledger, "--policy", s.policy)
	if status, said, _ := proxy.post("/orders", "INV-7", order); status != 502 || sent() != 1 {
		t.Fatalf("status %d %v, sent %d times", status, said, sent())
	}
	o := s.only()
	if status, said, _ := proxy.post("/orders", "", order); status != 409 || said["code"] != "in_doubt" || said["operation"] != o.ID || !strings.Contains(fmt.Sprint(said["advice"]), "INV-7. Do not send it again") || sent() != 1 {
		t.Errorf("without: status %d %v, sent %d times", status, said, sent())
	}
	if status, said, _ := proxy.post("/orders", "INV-8", order); status != 409 || said["operation"] != o.ID || sent() != 1 {
		t.Errorf("another that was given: status %d %v, sent %d times", status, said, sent())
	}
}
