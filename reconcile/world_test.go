package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/policy"
)

var (
	maya     = ledger.Actor{Name: "maya", Host: "desk", Terminal: true}
	pipeline = ledger.Actor{Name: "billing", Machine: true}
)

// charge is one effect at the other side.
type charge struct {
	ID      string `json:"id"`
	Ref     string `json:"ref"`
	Amount  int    `json:"amount"`
	Key     string `json:"key"`
	shownAt time.Time
}

// side is the other side: a real server with books, and ways of failing.
type side struct {
	*httptest.Server
	now func() time.Time

	mu      sync.Mutex
	charges []charge
	posts   int
	lists   int
	onPost  func(s *side, w http.ResponseWriter, r *http.Request, c charge)
	onList  func(s *side, w http.ResponseWriter, r *http.Request) bool // true: answered
	late    time.Duration                                              // before a charge is shown
	page    int
	keys    bool // remembers keys
}

func newSide(t testing.TB, now func() time.Time) *side {
	return newSideAt(t, now, func(*httptest.Server) {})
}

func newSideAt(t testing.TB, now func() time.Time, at func(*httptest.Server)) *side {
	s := &side{now: now, page: 100}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", s.post)
	mux.HandleFunc("GET /charges", s.list)
	s.Server = httptest.NewUnstartedServer(mux)
	at(s.Server)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *side) post(w http.ResponseWriter, r *http.Request) {
	var c charge
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &c)
	c.Key = r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	s.posts++
	on := s.onPost
	s.mu.Unlock()
	if on != nil {
		on(s, w, r, c)
		return
	}
	c = s.apply(c)
	w.WriteHeader(201)
	_ = json.NewEncoder(w).Encode(c)
}

// apply books a charge, once per key where keys are remembered.
func (s *side) apply(c charge) charge {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys {
		for _, had := range s.charges {
			if had.Key == c.Key && c.Key != "" {
				return had
			}
		}
	}
	c.ID = fmt.Sprintf("ch_%d", len(s.charges)+1)
	c.shownAt = s.now().Add(s.late)
	s.charges = append(s.charges, c)
	return c
}

func (s *side) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.lists++
	on := s.onList
	s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer sesame-key" {
		w.WriteHeader(401)
		return
	}
	if on != nil && on(s, w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	var data = []charge{}
	more := false
	for i, c := range s.charges {
		if ref := r.URL.Query().Get("ref"); i < after || c.shownAt.After(s.now()) || ref != "" && ref != c.Ref {
			continue
		}
		if len(data) == s.page {
			more = true
			break
		}
		data = append(data, c)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "more": more, "next": after + len(data)})
}

func (s *side) count() (effects, posts, lists int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.charges), s.posts, s.lists
}

// posted and asked are how often a write and a question came.
func (s *side) posted() int { _, posts, _ := s.count(); return posts }
func (s *side) asked() int  { _, _, lists := s.count(); return lists }

func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Close()
	}
}

// applyAndCut books the charge and hangs up: the classic.
func applyAndCut(s *side, w http.ResponseWriter, _ *http.Request, c charge) { s.apply(c); hangUp(w) }

// cutFirst hangs up before anything is booked.
func cutFirst(_ *side, w http.ResponseWriter, _ *http.Request, _ charge) { hangUp(w) }

func TestMain(m *testing.M) {
	os.Setenv("PAY_KEY", "sesame-key")
	if path := os.Getenv("RECONCILE_TEST_NOTES"); path != "" {
		noteServer(path)
		return
	}
	if path := os.Getenv("RECONCILE_TEST_SHOP"); path != "" {
		shopServer(path)
		return
	}
	if path := os.Getenv("RECONCILE_TEST_SHOP_ASKED"); path != "" {
		text, err := askShop(path, os.Args[1], os.Args[2], os.Args[3], os.Args[4])
		if err != nil {
			panic(err)
		}
		fmt.Println(text)
		return
	}
	if os.Getenv("RECONCILE_TEST_LISTER") != "" {
		lister()
		return
	}
	if as := os.Getenv("RECONCILE_TEST_SENDER"); as != "" {
		sender(as)
		return
	}
	os.Exit(m.Run())
}

const payPolicy = `
version: 1
defaults:
  deadline: 20s
  escalate_after: 15m
downstreams:
  pay:
    base: %s
    headers: { Authorization: "Bearer ${env.PAY_KEY}" }
kinds:
  pay:
    downstream: pay
    title: pay ${input.amount}
    cost: { duplicate: input.amount, miss: input.amount }
    token: { into: ref }
    lands_within: 20s
    visible_within: 10s
    read:
      http: { get: /charges, query: { after: "${cursor}" } }
      valid: status == 200 && body.object == "list"
      list: body.data
      mark: it.ref
      complete: "!body.more"
      next: body.next
      stable: true
      consistent: true
      same: it.amount == input.amount
      receipt: it.id
    resend: here
    retry: { max: 3, backoff: 1ms..5ms }
`

// world is one ledger, one other side and one engine.
type world struct {
	testing.TB
	ctx    context.Context
	path   string
	store  ledger.Store
	offset atomic.Int64 // of the wall clock
	passed atomic.Int64 // of the steady one
	boots  atomic.Int32 // how often the host was booted since
	side   *side
	pol    atomic.Pointer[policy.Policy]
	engine *Engine
	n      int

	engines []*Engine
	dial    func(ctx context.Context, network, address string) (net.Conn, error) // nil: over TCP

	callers  map[string]string // who pipelines say they are by, where it is not the policy's credential
	keyWorks bool              // pipelines send their key along
	sender   string            // who transmits; "pipeline" when empty
	memo     string            // what pipelines say before the token
	unkept   bool              // no request of theirs is kept
	last     string            // an operation
}

// newStore is where a world records. In the soak lane it is a file.
var newStore = inMemory

func inMemory(w *world) ledger.Store {
	store := ledgertest.NewMemory(w.now, w.steady)
	w.Cleanup(func() { store.Close() })
	return store
}

// within is the store that a test's own store stands before, with its key.
type within struct{ ledger.Store }

func (i within) DigestKey(ctx context.Context) ([]byte, error) {
	return i.Store.(interface {
		DigestKey(context.Context) ([]byte, error)
	}).DigestKey(ctx)
}

// reopened is the ledger of a world as another process has it open.
var reopened = func(w *world) ledger.Store { return w.store }

// newWorldInFile is a world whose ledger is a file, also in the fast lane.
func newWorldInFile(t testing.TB, text string) *world {
	t.Helper()
	w := newWorld(t, text)
	w.store = inFile(w)
	w.engine = w.newEngine(Options{})
	return w
}

// sender is another process that sends, which the soak lane has.
var sender func(text string)

// inFile has a world record in a file, which other stores may open.
func inFile(w *world) ledger.Store {
	store := need.Get(open.Create(w.ctx, w.path, open.Options{Clock: w.now, Steady: w.steady}))(w)
	w.Cleanup(func() { store.Close() })
	return store
}

// newWorld is a world of a test that runs beside the others: they wait for the disk
// and for clocks.
func newWorld(t testing.TB, text string) *world {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		t.Parallel()
	}
	return newWorldAlone(t, text)
}

// newWorldAlone is a world of a test that changes the environment, or that makes several.
func newWorldAlone(t testing.TB, text string) *world {
	t.Helper()
	w := &world{TB: t, ctx: context.Background(), path: filepath.Join(t.TempDir(), "ledger.db")}
	w.make(text, func(*httptest.Server) {})
	return w
}

// make makes what is in a world; at says where its other side listens.
func (w *world) make(text string, at func(*httptest.Server)) {
	w.Helper()
	w.side = newSideAt(w, w.now, at)
	w.policy(fmt.Sprintf(text, w.side.URL))
	if w.store = inMemory(w); w.dial == nil {
		w.store = newStore(w)
	}
	w.engine = w.newEngine(Options{})
}

// ends closes the engines.
func (w *world) ends() {
	for _, e := range w.engines {
		e.Close()
	}
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }
func (w *world) steady() ledger.Steady {
	now := hostclock.With(func() time.Time { return time.Now().Add(time.Duration(w.passed.Load())) })()
	if n := w.boots.Load(); n > 0 {
		now.Boot = fmt.Sprint("boot-", n)
	}
	return now
}

// pass lets time pass; later only sets the wall clock.
func (w *world) pass(d time.Duration)    { w.passed.Add(int64(d)); w.later(d) }
func (w *world) later(d time.Duration)   { w.offset.Add(int64(d)) }
func (w *world) inForce() *policy.Policy { return w.pol.Load() }
func (w *world) newEngine(o Options) *Engine {
	o.Store, o.Policy, o.Clock, o.Steady = w.store, w.inForce, w.now, w.steady
	if o.Actor.Name == "" {
		o.Actor = maya
	}
	if o.Log == nil {
		o.Log = func(s string) { w.Logf("engine: %s", s) }
	}
	return w.made(New(o))
}

// leading is the engine once it leads, without its loop.
func (w *world) leading() *Engine {
	w.Helper()
	w.engine.Claim()
	need.That(w, !w.engine.onlyReads(w.ctx) && w.engine.leads(ledger.LeadLedger), "it does not lead")
	return w.engine
}

// made is an engine of this world.
func (w *world) made(e *Engine) *Engine {
	w.engines = append(w.engines, e)
	if w.dial != nil {
		e.downs.of(w.inForce().Kind("pay")).http.Dial = w.dial
	}
	return e
}

func (w *world) policy(text string) {
	w.Helper()
	p := need.Get(policy.Parse("policy.yaml", []byte(text)))(w)
	w.pol.Store(p)
	if w.store == nil {
		return
	}
	if last := need.Get(w.store.Policy(w.ctx, ledger.PolicyText{}))(w); last.Number > 0 { // and rolled out
		need.OK(w, w.store.ApplyPolicy(w.ctx, ledger.PolicyText{Number: last.Number + 1, Digest: p.Digest(), Text: p.Text(), Actor: maya, Reason: "edited", ChangeID: ledger.NewID()}))
	}
}

// begin records an attempt as a pipeline does.
func (w *world) begin(kind string, amount int) ledger.BeginResult {
	w.Helper()
	w.pass(time.Millisecond) // a ledger keeps no less: what was sent before must have been
	w.n++
	token := ledger.NewToken()
	req := ledger.BeginRequest{
		ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: kind, Key: fmt.Sprintf("k-%d", w.n),
		Token: token, Fingerprint: fmt.Sprintf("f-%d", w.n), Input: json.RawMessage(fmt.Sprintf(`{"amount":%d,"n":%d,"memo":%q}`, amount, w.n, w.memo)),
		Request: w.recorded(kind, fmt.Sprintf(`{"amount":%d,"n":%d,"ref":%q}`, amount, w.n, token)),
		Sender:  cmp.Or(w.sender, "pipeline"), TokenSent: true, KeyWorks: w.keyWorks, Deadline: time.Minute, Actor: pipeline, Source: ledger.Source{Pipeline: "billing"},
	}
	res, err := ledger.Begin(w.ctx, w.store, req)
	need.Must(w, err == nil && res.Answer == ledger.AnswerBegun, "begin: %v %v", res.Answer, err)
	return res
}

// recorded is what a recorder of HTTP keeps of a charge; nil for other kinds.
func (w *world) recorded(kind, body string) *ledger.Request {
	w.Helper()
	if kind != "pay" || w.unkept {
		return nil
	}
	r := &ledger.Request{Method: "POST", Origin: w.side.URL, Target: "/charges", Header: map[string][]string{"Content-Type": {"application/json"}, "X-Key": {"1"}}, Body: body,
		Withheld: []string{"Authorization"}, Callers: map[string]string{}}
	said := w.callers
	if said == nil {
		said = map[string]string{"Authorization": "Bearer sesame-key"}
	}
	for name, value := range said {
		r.Callers[name] = ledgertest.Caller(w, w.store, value)
	}
	return r
}

// settle ends an attempt.
func (w *world) settle(b ledger.BeginResult, s ledger.SettleRequest) ledger.Operation {
	w.Helper()
	w.pass(time.Millisecond)
	s.ChangeID, s.AttemptID, s.Actor = ledger.NewID(), b.Attempt.ID, pipeline
	applied := need.Get(ledger.Settle(w.ctx, w.store, s))(w)
	return applied.After
}

// unseen is an operation whose answer never came. landed says what really
// happened.
func (w *world) unseen(kind string, amount int, landed ...int) ledger.Operation {
	w.Helper()
	b := w.begin(kind, amount)
	for _, really := range landed {
		w.side.apply(charge{Ref: b.Operation.Token, Amount: really, Key: b.Operation.Key})
	}
	return w.settle(b, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
}

// doubt is the same, seen.
func (w *world) doubt(kind string, amount int, landed ...int) ledger.Operation {
	w.Helper()
	o := w.unseen(kind, amount, landed...)
	w.seen(o.ID)
	return o
}

// seen has a check of this boot see an operation, from which its waiting times count. It asks
// the other side nothing.
func (w *world) seen(id string) {
	w.Helper()
	look := ledger.Read{ID: ledger.NewID(), OperationID: id, BeganAt: w.now(), EndedAt: w.now(), Verdict: ledger.CannotTell, Cause: ledger.CauseNotAsked}
	need.Get(ledger.Observe(w.ctx, w.store, ledger.Observation{ChangeID: ledger.NewID(), Read: look, Actor: maya}))(w)
}

// known is an operation that landed and was answered: a sibling of others.
func (w *world) known(kind string) ledger.Operation {
	w.Helper()
	b := w.begin(kind, 7)
	c := w.side.apply(charge{Ref: b.Operation.Token, Amount: 7, Key: b.Operation.Key})
	return w.settle(b, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 201, Receipt: c.ID})
}

func (w *world) get(id string) ledger.Record {
	w.Helper()
	rec := need.Get(w.store.Read(w.ctx, ledger.Locator{ID: id}))(w)
	return rec
}

func (w *world) read(id string) ReadResult {
	w.Helper()
	res, err := w.engine.ReadNow(w.ctx, id)
	need.OK(w, err, "read")
	return res
}

// testPatience ends a wait that would otherwise never end. How long the engine may take
// is not its business: a busy machine takes long.
const testPatience = 3 * time.Minute

// eventually waits for what the engine does by itself.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(testPatience); !ok(); time.Sleep(20 * time.Millisecond) {
		need.Must(t, !time.Now().After(end), "never: %s", what)
	}
}

// run starts an engine and stops it with the test.
func (w *world) run(e *Engine) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			err := <-done
			need.That(w, err == nil, "run: %v", err)
		})
	}
	w.Cleanup(stop)
	return stop
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	b := need.Get(os.ReadFile(path))(t)
	return string(b)
}

// unset takes a variable away for the rest of the test.
func unset(t testing.TB, name string) {
	t.Helper()
	t.Setenv(name, "")
	os.Unsetenv(name)
}
