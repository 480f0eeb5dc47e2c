package httpproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
	"indoubt/ledger/record/roundtrip"
)

// upstream is a server that applies writes and then does what its plan says. It
// reads requests off the connection by itself, so that it can break one anywhere.
type upstream struct {
	t       *testing.T
	l       net.Listener
	mu      sync.Mutex
	plan    func(u *upstream, c net.Conn)
	seen    []*http.Request
	bodies  []string
	effects map[string]int // by body
	open    sync.WaitGroup
}

func newUpstream(t *testing.T, plan func(*upstream, net.Conn)) *upstream {
	t.Helper()
	l := need.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	u := &upstream{t: t, l: l, plan: plan, effects: map[string]int{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			u.open.Go(func() {
				defer c.Close()
				u.mu.Lock()
				plan := u.plan
				u.mu.Unlock()
				plan(u, c)
			})
		}
	}()
	t.Cleanup(func() { l.Close() })
	return u
}

func (u *upstream) does(plan func(*upstream, net.Conn)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.plan = plan
}

// anew forgets what it was asked to do, and has another plan.
func (u *upstream) anew(plan func(*upstream, net.Conn)) {
	u.does(plan)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen, u.bodies, u.effects = nil, nil, map[string]int{}
}

// take reads one request and, if it is a write, applies it.
func (u *upstream) take(c net.Conn) (*http.Request, string) {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return nil, ""
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, ""
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen, u.bodies = append(u.seen, req), append(u.bodies, string(body))
	if req.Method != "GET" {
		u.effects[string(body)]++
	}
	return req, string(body)
}

// total counts effects.
func (u *upstream) total() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, times := range u.effects {
		n += times
	}
	return n
}

func (u *upstream) last() (*http.Request, string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	need.Must(u.t, len(u.seen) != 0, "nothing reached the upstream")
	return u.seen[len(u.seen)-1], u.bodies[len(u.bodies)-1]
}

// says applies a write and answers with what is given, as it is on the wire.
func says(answer string) func(*upstream, net.Conn) {
	return func(u *upstream, c net.Conn) {
		if req, _ := u.take(c); req != nil {
			_, _ = io.WriteString(c, answer)
		}
	}
}

func whole(status, header, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", status, header, len(body), body)
}

var created = says(whole("201 Created", "Content-Type: application/json\r\nLocation: /charges/ch_1\r\nX-Trace: 7\r\n", `{"id": "ch_1",  "n": 9007199254740993}`+"\n"))

// resets closes so that the other side sees a reset.
func resets(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// world is a proxy in front of an upstream, over a ledger.
type world struct {
	t     *testing.T
	up    *upstream
	path  string
	store ledger.Store
	rec   *record.Recorder
	proxy *Proxy
	url   string

	mu      sync.Mutex
	rule    record.KindRule
	rules   func(kind string) record.KindRule // instead of rule
	reports []roundtrip.Report
	asked   context.Context // of the newest request, as the proxy sees it
}

// hungUp waits until the proxy knows that the client of the newest request has gone. What it
// writes before counts as delivered.
func (w *world) hungUp() {
	w.mu.Lock()
	asked := w.asked
	w.mu.Unlock()
	<-asked.Done()
}

type setup struct {
	rule   record.KindRule
	kind   func(method, host, path string) (string, bool)
	reader record.Reader
	option func(*Options)
	file   bool // the ledger is a file, in the fast lane too
}

// newStore is where a proxy records. In the soak lane it is a file.
var newStore = func(testing.TB, string) ledger.Store { return ledgertest.NewMemory(time.Now, nil) }

func inFile(t testing.TB, path string) ledger.Store {
	store := need.Get(open.Create(t.Context(), path, open.Options{}))(t)
	t.Cleanup(func() { store.Close() })
	return store
}

// besides are the tests that run beside others. They wait for the disk and for
// deadlines; some make two worlds.
var besides sync.Map

func runBeside(t *testing.T) {
	if _, already := besides.LoadOrStore(t, true); !already {
		t.Parallel()
	}
}

func newWorld(t *testing.T, up *upstream, s setup) *world {
	t.Helper()
	runBeside(t)
	w := &world{t: t, up: up, path: filepath.Join(t.TempDir(), "ledger.db"), rule: s.rule}
	w.store = newStore(t, w.path)
	if s.file {
		w.store = inFile(t, w.path)
	}
	w.rec = record.New(w.store, record.Rules(func(kind string) record.KindRule {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.rules != nil {
			return w.rules(kind)
		}
		return w.rule
	}),
		record.Options{Reader: s.reader})
	o := Options{Upstream: &url.URL{Scheme: "http", Host: up.l.Addr().String()}, Hosts: []string{"h"}, Transport: &roundtrip.Transport{
		Recorder: w.rec,
		Kind: func(r *http.Request) string {
			if s.kind != nil {
				if kind, ok := s.kind(r.Method, r.URL.Host, roundtrip.CleanPath(r.URL)); ok {
					return kind
				}
			}
			return ""
		},
		Report: func(r roundtrip.Report) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reports = append(w.reports, r)
		}}}
	if s.option != nil {
		s.option(&o)
	}
	w.proxy = need.Get(New(o))(t)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.asked = r.Context()
		w.mu.Unlock()
		w.proxy.ServeHTTP(rw, r)
	}))
	w.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		_ = w.proxy.transport.Shutdown(ctx)
	})
	return w
}

// told is an answer as a client sees it.
type told struct {
	status int
	header http.Header
	body   string
	err    error // reading the body
}

func (a told) problem(t *testing.T) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("no problem document: %d %v %q", a.status, a.header, a.body)
	}
	need.That(t, p.Status == a.status && p.Type == problemType+p.Code && p.Title != "", "%d %+v", a.status, p)
	// What client libraries look for, and that they do not wait for what no repeat changes.
	if e := p.Error; e.Type == "" || e.Code != p.Code || !strings.Contains(e.Message, p.Title) || !strings.Contains(e.Message, p.Operation) {
		t.Errorf("%d %+v", a.status, p)
	}
	facts := record.FactsOf(p.Code, p.Operation, "indoubt check "+p.Operation)
	need.That(t, p.Facts == facts && strings.Contains(a.body, `"safe_new_key":`+strconv.FormatBool(facts.SafeNewKey)), "%s", a.body)
	may := map[string]bool{"in_progress": !strings.Contains(p.Advice, "or another key: "), "not_recorded": true, "never_sent": true, "busy": true, "unreachable": true, "held": true}[p.Code]
	if again := a.header.Get("X-Should-Retry") != "false"; again != may || again != (a.header.Get("Stripe-Should-Retry") != "false") || again != (a.header.Get("Retry-After") != "") {
		t.Errorf("%s: %v", p.Code, a.header)
	}
	return p
}

// client keeps no connection, so that none is ever sent again by itself.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (w *world) do(method, path, key, body string, header ...string) told {
	w.t.Helper()
	a := need.Get(w.try(w.t.Context(), method, path, key, body, header...))(w.t)
	return a
}

func (w *world) try(ctx context.Context, method, path, key, body string, header ...string) (told, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
	if err != nil {
		return told{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return told{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return told{resp.StatusCode, resp.Header, string(b), err}, nil
}

func (w *world) post(key, body string, header ...string) told {
	w.t.Helper()
	return w.do("POST", "/charges", key, body, header...)
}

// about is the operation an answer is about.
func (w *world) about(a told) ledger.Record {
	w.t.Helper()
	return w.operation(a.header.Get("Indoubt-Operation"))
}

// operation is the one with that id, or the only one.
func (w *world) operation(id string) ledger.Record {
	w.t.Helper()
	if id == "" {
		all := w.all()
		need.Must(w.t, len(all) == 1, "%d operations", len(all))
		id = all[0].ID
	}
	rec := need.Get(w.store.Read(context.Background(), ledger.Locator{ID: id}))(w.t)
	return rec
}

func (w *world) all() []ledger.Row {
	w.t.Helper()
	page := need.Get(w.store.Page(context.Background(), ledger.Query{Limit: 1000}))(w.t)
	return page.Rows
}

// patience ends a wait that would otherwise never end: a busy machine takes its time.
const patience = 3 * time.Minute

// soon waits until something holds.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		need.Must(t, !time.Now().After(end), "it never came: %s", what)
	}
}

// latch opens once.
type latch struct {
	once atomic.Bool
	c    chan struct{}
}

func newLatch(t *testing.T) *latch {
	l := &latch{c: make(chan struct{})}
	t.Cleanup(l.open)
	return l
}

func (l *latch) open() {
	if l.once.CompareAndSwap(false, true) {
		close(l.c)
	}
}
