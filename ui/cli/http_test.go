//go:build unix

package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"indoubt/ledger/need"
)

// httpProxy is the built program as a proxy, and what it says.
type httpProxy struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	out  io.Closer     // the log's reader
	done chan struct{} // closed when it has ended

	mu   sync.Mutex
	said []string
}

func startHTTP(t *testing.T, dir, upstream string, args ...string) *httpProxy {
	t.Helper()
	p := &httpProxy{t: t, done: make(chan struct{}), cmd: binary(dir, append([]string{"http", "--listen", "127.0.0.1:0", "--upstream", upstream}, args...)...)}
	out := need.Get(p.cmd.StderrPipe())(t)
	need.OK(t, p.cmd.Start())
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	address, rest, ok := strings.Cut(strings.TrimPrefix(first, "listening on "), ", upstream "+upstream+", ledger ")
	need.Must(t, ok && strings.HasPrefix(address, "http://127.0.0.1:") && strings.HasSuffix(rest, "ledger.db\n"),
		"%q %v", first, err)
	p.url, p.out = address, out
	go func() {
		defer close(p.done)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			p.mu.Lock()
			p.said = append(p.said, line)
			p.mu.Unlock()
		}
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

func (p *httpProxy) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.said, "")
}

// post writes once and gives the status and the body; 0 when no answer came.
func (p *httpProxy) post(path, key, body string) (int, map[string]any, http.Header) {
	p.t.Helper()
	req := need.Get(http.NewRequest("POST", p.url+path, strings.NewReader(body)))(p.t)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer tok-4815162342")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}).Do(req)
	if err != nil {
		return 0, nil, nil
	}
	defer resp.Body.Close()
	said := map[string]any{}
	text, _ := io.ReadAll(resp.Body)
	_ = json.Unmarshal(text, &said)
	return resp.StatusCode, said, resp.Header
}

// shop applies orders; with a hold it keeps its answers back.
type shop struct {
	*httptest.Server
	orders atomic.Int64
	hold   chan struct{}
}

func newShop(t *testing.T, hold bool) *shop {
	s := &shop{hold: make(chan struct{})}
	if !hold {
		close(s.hold)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			_, _ = io.WriteString(w, "[]")
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		n := s.orders.Add(1)
		select {
		case <-s.hold:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(201)
		fmt.Fprintf(w, `{"order":%d}`, n)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func TestHTTPProxyRecordsAndReplays(t *testing.T) {
	dir, s := place(t), newShop(t, false)
	p := startHTTP(t, dir, s.URL, "--source", "billing@7", "--metrics", ":0")
	for try := range 2 {
		status, said, header := p.post("/orders", "INV-1042", `{"password":"hunter2hunter2"}`)
		if status != 201 || said["order"] != 1.0 || (header.Get("Idempotency-Replayed") == "true") != (try == 1) {
			t.Errorf("%d: %d %v %v", try, status, said, header)
		}
	}
	var at string
	eventually(t, "metrics", func() bool {
		_, at, _ = strings.Cut(p.log(), "metrics at ")
		return strings.Contains(at, "\n")
	})
	resp := need.Get(http.Get(at[:strings.IndexByte(at, '\n')]))(t)
	page := string(need.Get(io.ReadAll(resp.Body))(t))
	resp.Body.Close()
	need.Contains(t, page, "\nindoubt_writes_total{outcome=\"committed\"} 1\n", "\nindoubt_writes_total{outcome=\"replayed\"} 1\n",
		"\nindoubt_ledger_up 1\n", "\nindoubt_policy_not_taken 0\n")
	if resp, err := http.Get(p.url + "/orders"); err != nil || resp.StatusCode != 200 {
		t.Error(err)
	}
	exit, out, _ := inside(t, dir, "list", "--json", "source:billing")
	if exit != 0 || strings.Count(out, `"state":"committed"`) != 1 || !strings.Contains(out, `"kind":"http.127.0.0.1.post"`) || strings.Contains(out, "hunter2hunter2") {
		t.Errorf("exit %d\n%s", exit, out)
	}
	if exit, out, _ := inside(t, dir, "show", "--json", operationOf(t, out)); exit != 0 || strings.Contains(out, "tok-4815162342") || !strings.Contains(out, `"path":"/orders"`) {
		t.Errorf("exit %d\n%s", exit, out)
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.done
	need.Equal(t, p.cmd.ProcessState.ExitCode(), 0, "exit")
	if log := p.log(); strings.Count(log, "POST /orders committed 201 ") != 1 || strings.Count(log, "POST /orders replayed 201 ") != 1 || strings.Contains(log, "GET") {
		t.Error(log)
	}
}

func operationOf(t *testing.T, list string) string {
	t.Helper()
	var out struct {
		Data struct {
			Operations []struct {
				ID    string `json:"id"`
				State string `json:"state"`
			} `json:"operations"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(list), &out); err != nil || len(out.Data.Operations) != 1 {
		t.Fatalf("%v\n%s", err, list)
	}
	return out.Data.Operations[0].ID
}

// A proxy that is killed in the middle leaves the write in doubt: the next one on its host sees
// that it is gone, tells so and sends nothing.
func TestI10_HTTPProxyKilledInTheMiddle(t *testing.T) {
	dir, s := place(t), newShop(t, true)
	policy := filepath.Join(dir, "policy.yaml")
	need.OK(t, os.WriteFile(policy, []byte("version: 1\ndefaults: { deadline: 1m }\n"), 0o600))
	p := startHTTP(t, dir, s.URL, "--policy", policy)
	answered := make(chan int, 1)
	go func() {
		status, _, _ := p.post("/orders", "INV-1042", `{}`)
		answered <- status
	}()
	eventually(t, "the order", func() bool { return s.orders.Load() == 1 })
	p.cmd.Process.Kill()
	need.Equal(t, <-answered, 0, "a dead proxy answered")
	<-p.done
	again := startHTTP(t, dir, s.URL, "--policy", policy)
	status, said, _ := again.post("/orders", "INV-1042", `{}`)
	need.That(t, status == 409 && said["code"] == "in_doubt" && s.orders.Load() == 1, "%d %v, %d orders", status, said, s.orders.Load())
}

func TestHTTPProxyToldToEndInTheMiddle(t *testing.T) {
	for name, tc := range map[string]struct {
		grace, state string
		status       int
	}{
		"in time":  {"15s", "committed", 201},
		"too late": {"50ms", "uncertain", 502},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := place(t), newShop(t, true)
			p := startHTTP(t, dir, s.URL, "--grace", tc.grace)
			answered := make(chan int, 1)
			go func() {
				status, _, _ := p.post("/orders", "INV-1042", `{}`)
				answered <- status
			}()
			eventually(t, "the order", func() bool { return s.orders.Load() == 1 })
			p.cmd.Process.Signal(syscall.SIGTERM)
			if tc.status == 201 {
				eventually(t, "no more connections", func() bool {
					resp, err := http.Get(p.url + "/orders")
					if err == nil {
						resp.Body.Close()
					}
					return err != nil
				})
				close(s.hold)
			}
			need.Equal(t, <-answered, tc.status, "status")
			<-p.done
			if code := p.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit %d\n%s", code, p.log())
			}
			if exit, out, _ := inside(t, dir, "list", "--json", "state:"+tc.state); exit != 0 || operationOf(t, out) == "" {
				t.Errorf("exit %d\n%s", exit, out)
			}
		})
	}
}

func TestHTTPProxyFollowsThePolicy(t *testing.T) {
	dir, s := place(t), newShop(t, false)
	policy := filepath.Join(dir, "policy.yaml")
	write := func(text string) {
		t.Helper()
		need.OK(t, os.WriteFile(policy+".new", []byte(text), 0o600))
		need.OK(t, os.Rename(policy+".new", policy))
	}
	write("version: 1\n")
	p := startHTTP(t, dir, s.URL, "--policy", policy)
	p.post("/orders", "k-1", `{}`)
	write("version: 1\nkinds:\n  shop.order: { match: [POST /orders] }\n")
	tries := 0
	eventually(t, "the kind of the policy", func() bool {
		tries++
		key := fmt.Sprintf("k-2-%d", tries) // what was recorded under the built-in name keeps it
		p.post("/orders", key, `{}`)
		exit, out, _ := inside(t, dir, "list", "--json", "kind:shop.order")
		return exit == 0 && strings.Contains(out, `"key":"`+key+`"`)
	})
	write("version: 1\nkinds: [broken\n")
	eventually(t, "the warning", func() bool {
		p.post("/orders", "k-3", `{}`)
		return strings.Contains(p.log(), "warning: the last good policy stays: ")
	})
	if exit, out, _ := inside(t, dir, "list", "--json", "key:k-3"); exit != 0 || !strings.Contains(out, `"kind":"shop.order"`) {
		t.Errorf("exit %d\n%s", exit, out)
	}
}

func TestHTTPProxyRefusesToStart(t *testing.T) {
	dir := place(t)
	need.OK(t, os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte("kinds: 7\n"), 0o600))
	at := need.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	free := at.Addr().String()
	need.OK(t, at.Close())
	for line, want := range map[string]struct {
		exit int
		said string
	}{
		"http":                                                 {2, "--upstream is needed"},
		"http --upstream ftp://h":                              {2, "no http or https address"},
		"http --upstream https://h/?q=1":                       {2, "query"},
		"http --upstream https://h --listen :8080":             {5, "--allow-remote"},
		"http --upstream https://h --listen 0.0.0.0:0":         {5, "reached from other machines"},
		"http --upstream https://h --listen nowhere":           {2, "no address with a port"},
		"http --upstream https://h --max-body 0":               {2, "MiB"},
		"http --upstream https://h --grace soon":               {2, "--grace"},
		"http --upstream https://h --read-only":                {5, "--read-only"},
		"http --upstream http://" + free + " --listen " + free: {2, "this proxy itself"},
		"http --upstream https://h --policy " + filepath.Join(dir, "bad.yaml") + " --listen 127.0.0.1:0": {1, "version"},
		"http extra": {2, "more arguments than it takes"},
	} {
		exit, stdout, stderr := inside(t, dir, strings.Fields(line)...)
		need.That(t, exit == want.exit && stdout == "" && strings.Contains(stderr, want.said),
			"%s: exit %d\n%s%s", line, exit, stdout, stderr)
	}
	if exit, stdout, _ := inside(t, dir, "http", "--help"); exit != 0 || !strings.Contains(stdout, "Idempotency-Replayed") {
		t.Errorf("exit %d\n%s", exit, stdout)
	}
}

// TestI10_AClosedLogLosesNothing: whoever reads the log may go.
func TestI10_AClosedLogLosesNothing(t *testing.T) {
	dir, s := place(t), newShop(t, false)
	p := startHTTP(t, dir, s.URL)
	p.out.Close()
	for _, key := range []string{"k1", "k2", "k3"} {
		if status, said, _ := p.post("/orders", key, `{"n":1}`); status != 201 {
			t.Errorf("%s: %d %v", key, status, said)
		}
	}
}
