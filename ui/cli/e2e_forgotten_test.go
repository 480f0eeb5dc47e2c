//go:build soak

package cli_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// payee is another side that counts what it did, by the key of each request, and lists it.
type payee struct {
	*httptest.Server
	mu      sync.Mutex
	effects []map[string]any
	cut     map[string]bool // keys whose answers are lost
	refuses map[string]bool
}

const payPolicy = `
version: 1
downstreams: { bank: { base: "@BASE@" } }
kinds:
  pay:
    downstream: bank
    match: POST @HOST@/pay
    input: ${input.body}
    token: { into: metadata.indoubt }
    deadline: 1s
    lands_within: 50ms
    visible_within: 0s
    read:
      http: { get: /paid }
      valid: status == 200
      list: body.data
      mark: it.metadata.indoubt
      complete: "true"
      consistent: true
      receipt: it.id
      reply: it
`

func newPayee(t *testing.T) *payee {
	p := &payee{cut: map[string]bool{}, refuses: map[string]bool{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			_ = json.NewEncoder(w).Encode(map[string]any{"data": append([]map[string]any{}, p.effects...)})
			return
		}
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		key := r.Header.Get("Idempotency-Key")
		if p.refuses[key] {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
			return
		}
		body["id"], body["key"] = fmt.Sprint("p", len(p.effects)), key
		p.effects = append(p.effects, body)
		if p.cut[key] {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(p.Close)
	return p
}

// times is how often the other side did what a key asks for.
func (p *payee) times(key string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.effects {
		if e["key"] == key {
			n++
		}
	}
	return n
}

func (p *payee) set(of map[string]bool, key string, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of[key] = is
}

// forgetting is a ledger that is put back as it was a while ago, with a proxy in front of the other side.
type forgetting struct {
	*page
	as    func() string // what its commands begin with
	payee *payee
}

// proxy starts one.
func (f forgetting) proxy() (url string, kill func()) {
	f.Helper()
	cmd := exec.Command("sh", "-ec", f.as()+"exec indoubt http --listen 127.0.0.1:0 --upstream "+f.payee.URL)
	cmd.Dir, cmd.Env = f.dir, f.env()
	out := need.Get(cmd.StderrPipe())(f)
	need.OK(f, cmd.Start())
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	url, _, ok := strings.Cut(strings.TrimPrefix(first, "listening on "), ",")
	need.Must(f, ok, "%q %v", first, err)
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait()
		close(over)
	}()
	kill = func() {
		_ = cmd.Process.Kill()
		<-over
	}
	f.Cleanup(kill)
	return url, kill
}

// pay asks once, and gives the status; 0 where no answer came.
func (f forgetting) pay(url, key string) (int, string) {
	f.Helper()
	q := need.Get(http.NewRequest(http.MethodPost, url+"/pay", strings.NewReader(fmt.Sprintf(`{"amount":7,"order":%q}`, key))))(f)
	q.Header.Set("Idempotency-Key", key)
	q.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// paid asks until it is done, as a client does, and gives how often it asked.
func (f forgetting) paid(url, key string) (asked int) {
	f.Helper()
	var status int
	var body string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		asked++
		if status, body = f.pay(url, key); status == http.StatusCreated || status == http.StatusOK {
			return asked
		}
	}
	var problem struct{ Operation string }
	_ = json.Unmarshal([]byte(body), &problem)
	_, shown := f.run(f.as()+"indoubt show "+problem.Operation, "sh")
	f.Fatalf("%s: %d %s\n%s", key, status, body, shown)
	return asked
}

// remembers has keys that were paid, refused and in doubt before what is lost.
func (f forgetting) remembers(url string) {
	f.Helper()
	f.payee.set(f.payee.refuses, "refused", true)
	for key, want := range map[string]int{"paid-1": 201, "paid-2": 201, "refused": 429} {
		status, body := f.pay(url, key)
		need.Must(f, status == want, "%s: %d %s", key, status, body)
	}
	f.payee.set(f.payee.refuses, "refused", false)
}

// loses has keys that are paid, or not, in what will be lost.
func (f forgetting) loses(url string) {
	f.Helper()
	f.payee.set(f.payee.refuses, "lost-refused", true)
	f.payee.set(f.payee.cut, "lost-in-doubt", true)
	for key, want := range map[string]int{"lost-1": 201, "lost-2": 201, "lost-3": 201, "refused": 201, "lost-refused": 429, "lost-in-doubt": 502} {
		status, body := f.pay(url, key)
		need.Must(f, status == want, "%s: %d %s", key, status, body)
	}
	f.payee.set(f.payee.refuses, "lost-refused", false)
	f.payee.set(f.payee.cut, "lost-in-doubt", false)
}

// goesOn: whoever asks again, each key has one effect. A key that is new waits until what was lost can land no more, and
// then for no more than its own check.
func (f forgetting) goesOn(url string) {
	f.Helper()
	keys := []string{"paid-1", "paid-2", "refused", "lost-1", "lost-2", "lost-3", "lost-refused", "lost-in-doubt", "new-1", "new-2"}
	for _, key := range keys {
		asked := f.paid(url, key)
		need.That(f, f.payee.times(key) == 1, "%s has %d effects", key, f.payee.times(key))
		need.That(f, key != "new-2" || asked == 1, "%s was asked for %d times", key, asked)
	}
}

// I13: a ledger is put back, adopted and released, and nobody has imported what it lost: no key that a check can look
// for has two effects, whether the proxies of before live on or not.
func whatIsForgottenHasOneEffect(t *testing.T) {
	for way, put := range map[string]func(*restoring) func(){"snapshot": ofASnapshot, "dump": ofADump, "failover": ofAStandby} {
		for _, lives := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, the proxy lives on: %t", way, lives), func(t *testing.T) { forgottenByAServer(t, way, put, lives) })
		}
	}
	t.Run("a file is copied back while a console sleeps", func(t *testing.T) { forgottenByAFile(t, copiedBack, true) })
	t.Run("a file is rolled back under a console", func(t *testing.T) { forgottenByAFile(t, rolledBack, false) })
}

func newForgetting(t *testing.T, p *page, as func() string) forgetting {
	f := forgetting{page: p, payee: newPayee(t)}
	f.as = func() string { return as() + "export INDOUBT_POLICY=" + f.dir + "/policy.yaml\n" }
	text := strings.NewReplacer("@BASE@", f.payee.URL, "@HOST@", strings.TrimPrefix(f.payee.URL, "http://")).Replace(payPolicy)
	need.OK(t, os.WriteFile(filepath.Join(f.dir, "policy.yaml"), []byte(text), 0o600))
	return f
}

func forgottenByAServer(t *testing.T, way string, put func(*restoring) func(), lives bool) {
	r := newRestoring(t)
	f := newForgetting(t, r.page, func() string { return r.as })
	r.says(0, "made", f.as()+"indoubt init")
	url, kill := f.proxy()
	f.remembers(url)
	disaster := put(r)
	kill()
	url, kill = f.proxy() // where else the ledger may be is known by now
	f.loses(url)
	if !lives {
		kill()
	}
	disaster()
	r.block(way)
	if !lives {
		url, _ = f.proxy()
	}
	if way != "snapshot" {
		status, body := f.pay(url, "lost-1")
		need.That(t, status == http.StatusServiceUnavailable, "before anyone has looked: %d %s", status, body)
	}
	r.says(0, "", f.as()+"indoubt adopt --yes")
	r.says(0, "looked for first: pay", f.as()+"indoubt release --all --reason 'they say nothing is missing'")
	f.goesOn(url)
}

// copiedBack puts another file in the ledger's place.
func copiedBack(t *testing.T, copied, ledger string) {
	need.OK(t, errors.Join(os.Remove(ledger), os.Rename(copied, ledger)))
}

// rolledBack is the same file as it was.
func rolledBack(t *testing.T, copied, ledger string) {
	need.OK(t, os.WriteFile(ledger, need.Get(os.ReadFile(copied))(t), 0o600))
}

func forgottenByAFile(t *testing.T, back func(t *testing.T, copied, ledger string), sleeps bool) {
	p := newPage(t)
	ledger := filepath.Join(p.dir, "ledger.db")
	f := newForgetting(t, p, func() string { return "export INDOUBT_LEDGER=" + ledger + "\n" })
	says := func(what, script string) {
		t.Helper()
		exit, out := f.run(f.as()+script, "sh", "-e")
		need.Must(t, exit == 0 && strings.Contains(out, what), "exit %d of %s\n%s", exit, script, out)
	}
	says("made", "indoubt init")
	url, kill := f.proxy()
	f.remembers(url)
	cmd := exec.Command("sh", "-ec", f.as()+"exec indoubt") // a console of before
	cmd.Dir, cmd.Env = f.dir, f.env()
	console := handAt(t, 120, 24, cmd)
	console.sees("4 Settled 3")
	if sleeps { // and wakes up when all is over
		need.OK(t, cmd.Process.Signal(syscall.SIGSTOP))
	}
	says("", "indoubt backup copy.db")
	f.loses(url)
	kill()
	back(t, filepath.Join(p.dir, "copy.db"), ledger)
	_ = errors.Join(os.Remove(ledger+"-wal"), os.Remove(ledger+"-shm"))
	says("is in force as number 2", "indoubt adopt --yes --policy policy.yaml") // the console had put one in force
	url, _ = f.proxy()
	status, body := f.pay(url, "lost-1")
	need.That(t, status == http.StatusServiceUnavailable, "before anyone has looked: %d %s", status, body)
	says("looked for first: pay", "indoubt release --all --reason 'they say nothing is missing'")
	need.OK(t, cmd.Process.Signal(syscall.SIGCONT))
	f.goesOn(url)
	if sleeps {
		console.sees("looked for first")
	} else { // what it has open is not the ledger any more
		console.sees("STALE")
	}
}
