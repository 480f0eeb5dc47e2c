//go:build unix

package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/adrg/xdg"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/ledgertest/faults"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/policy"
	"indoubt/reconcile/drill"
	"indoubt/ui/cli"
)

// The end-to-end tests run the program against a downstream that cuts connections. The
// soak lane starts the shipped program for each command, stops it and kills it. The fast
// lane starts it only for commands that are nothing without a process of their own.

var program string

// The soak lane sets these.
var (
	shipped  bool                                                    // each command is a process of the shipped program
	atEnd    = func(m *testing.M) int { return m.Run() }             // runs the tests, and removes what they shared
	afar     = func(*site) {}                                        // gives a site a ledger on a server, where its test wants one
	ashore   = func(_ *site, args []string) []string { return args } // the command line, on its host
	server   func(testing.TB) string                                 // a server without a ledger
	everyRow func(*site) string                                      // all that a ledger on a server holds
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "curl" {
		os.Exit(curl(os.Args[1:]))
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		// A `run` inside a test starts this binary again, as its guard.
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	// All tests see the same time zone, whatever the machine's is.
	os.Setenv("TZ", "UTC")
	time.Local = time.UTC
	os.Exit(withProgram(func() int { return atEnd(m) }))
}

// withProgram runs the tests with the program in a directory that other users can
// read. `make test` has built it; without that it is built here in the same way.
func withProgram(tests func() int) int {
	dir, err := os.MkdirTemp("", "indoubt-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "indoubt")
	make := exec.Command("cp", os.Getenv("INDOUBT_TEST_PROGRAM"), program)
	if os.Getenv("INDOUBT_TEST_PROGRAM") == "" {
		make = exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "indoubt")
		make.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := make.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n%s", make.Args, err, out)
		return 1
	}
	os.Chmod(dir, 0o755)
	if err := alone(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return tests()
}

// alone takes away what the account of who runs the tests could change in them. Caches
// stay where they are.
func alone(dir string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = filepath.Join(dir, "cache")
	}
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "INDOUBT_") && !strings.HasPrefix(name, "INDOUBT_TEST") && name != "INDOUBT_FRESH" {
			os.Unsetenv(name)
		}
	}
	for _, name := range []string{"NO_COLOR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"} {
		os.Unsetenv(name)
	}
	home := filepath.Join(dir, "home")
	defer xdg.Reload()
	return errors.Join(os.Mkdir(home, 0o755), os.Setenv("XDG_CACHE_HOME", cache), os.Setenv("HOME", home), os.Setenv("USER", "tester"), os.Setenv("E2E_KEY", ownKey), os.Setenv("E2E_OTHER_KEY", "sk_another"))
}

// The downstream account that owns every effect of these tests.
const ownKey = "sk_e2e"

// kinds are the policy of these tests. The bounds are short, so that what is
// known after minutes in production is known at once here. Deadlines
// leave a busy machine the time to come to what they cut off.
const kinds = `
version: 1
defaults: { deadline: 20s, cost: { duplicate: high, miss: medium } }
downstreams:
  here:
    base: @BASE@
    headers: { Authorization: "Bearer ${env.E2E_KEY}" }
  stripe:
    base: @BASE@
    headers: { Authorization: "Bearer ${env.E2E_KEY}" }
    key: { header: Idempotency-Key, remembers: 24h }
kinds:
  post:
    downstream: here
    token: argument
    lands_within: 100ms
    visible_within: 0s
    retry: { max: 3 }
` + searchByToken + `    resend: here
  boundless:
    downstream: here
    token: argument
` + searchByToken + `    resend: here
  quick:
    downstream: here
    token: argument
    deadline: 8s
    lands_within: 100ms
    visible_within: 0s
` + searchByToken + `    resend: here
  charge:
    downstream: stripe
    token: { into: metadata.indoubt }
    deadline: 6s
    lands_within: 100ms
    visible_within: 0s
    retry: { max: 5 }
    read:
      http: { get: /v1/payment_intents, query: { customer: "${input.customer}", limit: 100, starting_after: "${cursor}" } }
      valid: status == 200 && body.object == "list"
      list: body.data
      mark: it.metadata.indoubt
      complete: "!body.has_more"
      next: body.data[size(body.data) - 1].id
      stable: true
      consistent: true
      same: it.amount == input.amount
      receipt: it.id
    resend: here
    answer:
      already: status == 409 && body.error.code == "already_there"
`

// searchByToken is a check that looks for a post by its token.
const searchByToken = `    read:
      http: { get: /posts/search, query: { query: "${token}" } }
      valid: status == 200
      list: body.posts
      mark: it.ref
      complete: "!body.has_more"
      receipt: it.id
`

// site is one ledger, one policy and one downstream.
type site struct {
	*testing.T
	dir, ledger, policy string
	down                *failing
	env                 []string
	ahead               time.Duration // what has passed for commands that run in this process
	shipped             bool          // each command is a process of the shipped program
	afar                bool          // the ledger is on a server, and each process on a host of its own; see ashore
	desk                []string      // the host at which a person works
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := bareSite(t)
	way := &faults.Way{}
	s.down = &failing{need.Get(drill.StartDownstream(drill.DownstreamOptions{Path: filepath.Join(s.dir, "downstream.db"), Way: way}))(t), way}
	way.Vanish = s.down.Stop
	t.Cleanup(func() { s.down.Close() })
	s.writePolicy(kinds)
	s.env = append(s.env, "E2E_KEY="+ownKey)
	s.giveKey()
	return s
}

// giveKey gives a ledger on a server its key of digests: it has none beside it.
func (s *site) giveKey() {
	s.Helper()
	if s.afar {
		s.env = append(s.env, digestkey.Variable+"="+filepath.Join(s.dir, "digest.key"))
		s.must(0, "init")
	}
}

// bareSite is a site without a policy and a downstream.
func bareSite(t *testing.T) *site {
	t.Helper()
	dir := place(t)
	s := &site{T: t, dir: dir, ledger: filepath.Join(dir, "ledger.db"), policy: filepath.Join(dir, "policy.yaml"), shipped: shipped}
	afar(s)
	s.env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir, "XDG_CONFIG_HOME="+dir,
		"INDOUBT_LEDGER="+s.ledger, "INDOUBT_POLICY="+s.policy, "INDOUBT_ACTOR=maya", "NO_PROXY=*")
	return s
}

func (s *site) writePolicy(text string) {
	s.Helper()
	if s.down != nil {
		text = strings.ReplaceAll(text, "@BASE@", s.down.URL())
	}
	need.OK(s, os.WriteFile(s.policy, []byte(text), 0o644))
}

// result is what a process said and how it ended.
type result struct {
	Exit     int
	Out, Err string
	Status   envelope // from --json
}

type envelope struct {
	OK     bool            `json:"ok"`
	Effect string          `json:"effect"`
	Data   json.RawMessage `json:"data"`
	Error  struct {
		Code, Message, Hint string
	} `json:"error"`
}

// operation is what the tests look at of an operation.
type operation struct {
	ID, Key, Token, State, Lane, Actor string
	Version                            int
	Receipt, Conflict                  *string
	ErrorClass                         *string `json:"error_class"`
	Effects                            int
	Result                             json.RawMessage
	Attempts                           []struct {
		ID                  string
		N                   int
		Outcome, Proof      *string
		Basis, Error        *string
		LateOutcome         *string `json:"late_outcome"`
		ErrorClass, Receipt *string
	}
	Reads []struct {
		Verdict, Reason string
	}
	Events []struct{ Verb, Reason string }
}

// start starts the program; finish waits for it.
func (s *site) start(args ...string) *process {
	s.Helper()
	return s.startAs(s.command(args...))
}

type process struct {
	*testing.T
	cmd      *exec.Cmd
	out, err bytes.Buffer
}

func (s *site) startAs(cmd *exec.Cmd) *process {
	s.Helper()
	p := &process{T: s.T, cmd: cmd}
	cmd.Env, cmd.Dir = s.env, s.dir
	cmd.Stdout, cmd.Stderr = &p.out, &p.err
	cmd.WaitDelay = time.Second
	need.OK(s, cmd.Start())
	s.Cleanup(func() { cmd.Process.Kill() })
	return p
}

func (p *process) finish() result {
	p.Helper()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		p.Fatalf("%v: %v", p.cmd.Args, err)
	}
	r := result{Exit: p.cmd.ProcessState.ExitCode(), Out: p.out.String(), Err: p.err.String()}
	said := strings.TrimSpace(r.Err) // of run, whose standard output is its command's
	for _, text := range []string{said[strings.LastIndexByte(said, '\n')+1:], r.Out} {
		if strings.HasPrefix(strings.TrimSpace(text), "{") {
			json.Unmarshal([]byte(text), &r.Status)
		}
	}
	return r
}

// command is the program; see on.
func (s *site) command(args ...string) *exec.Cmd {
	s.Helper()
	return s.on(append([]string{program}, args...)...)
}

// on is a command, on its host.
func (s *site) on(args ...string) *exec.Cmd {
	s.Helper()
	args = ashore(s, args)
	return exec.Command(args[0], args[1:]...)
}

// do runs one command line to its end: in this process, where that shows the same.
func (s *site) do(args ...string) result {
	s.Helper()
	if s.shipped && s.ahead == 0 || slices.ContainsFunc(args, func(a string) bool { return slices.Contains([]string{"run", "mcp", "http", "demo"}, a) }) {
		return s.start(args...).finish()
	}
	return s.later(s.ahead, args...)
}

// later runs one command line in this process, when some time has passed.
func (s *site) later(d time.Duration, args ...string) (r result) {
	s.Helper()
	var out, said bytes.Buffer
	r.Exit = cli.Inside(s.Context(), s.env, d, &out, &said, args...)
	r.Out, r.Err = out.String(), said.String()
	if bytes.HasPrefix(bytes.TrimSpace(out.Bytes()), []byte("{")) {
		json.Unmarshal(out.Bytes(), &r.Status)
	}
	return r
}

// must runs one command line that has to end with this exit code.
func (s *site) must(exit int, args ...string) result {
	s.Helper()
	r := s.do(args...)
	if r.Exit != exit {
		s.Fatalf("indoubt %s\nexit %d, want %d\n%s%s", strings.Join(args, " "), r.Exit, exit, r.Out, r.Err)
	}
	return r
}

// only is the one operation of the ledger.
func (s *site) only() operation {
	s.Helper()
	ops := s.list()
	need.Must(s, len(ops) == 1, "%d operations in the ledger, want 1", len(ops))
	return s.show(ops[0].ID)
}

func (s *site) list() []operation {
	s.Helper()
	var data struct{ Operations []operation }
	r := s.must(0, "list", "--json")
	if err := json.Unmarshal(r.Status.Data, &data); err != nil {
		s.Fatalf("list: %v\n%s", err, r.Out)
	}
	return data.Operations
}

func (s *site) show(id string) operation {
	s.Helper()
	var op operation
	r := s.must(0, "show", id, "--json")
	if err := json.Unmarshal(r.Status.Data, &op); err != nil {
		s.Fatalf("show %s: %v\n%s", id, err, r.Out)
	}
	return op
}

// begin records a request the way a pipeline does that sends by itself.
func (s *site) begin(kind, key, input string, more ...string) (op operation, handle string) {
	s.Helper()
	r := s.must(0, append([]string{"begin", "--json", "--kind", kind, "--key", key, "--input", input}, more...)...)
	var data struct {
		ID, Handle, Key, Token string
	}
	if err := json.Unmarshal(r.Status.Data, &data); err != nil {
		s.Fatalf("begin: %v\n%s", err, r.Out)
	}
	return s.show(data.ID), data.Handle
}

// handle is that of the first attempt of an operation that another recorder began.
func (s *site) handle(id string) string {
	s.Helper()
	store := need.Get(open.Open(s.Context(), s.ledger, open.Options{ReadOnly: true}))(s)
	defer store.Close()
	first := need.Get(store.History(s.Context(), ledger.HistoryQuery{Operation: id, Limit: 1}))(s)[0]
	return ledger.Handle{Operation: id, N: 1, Change: first.ID}.String()
}

// doubtful is an operation whose first attempt ended without an answer.
func (s *site) doubtful(kind, key, input string, more ...string) operation {
	s.Helper()
	if kind == "charge" && slices.Equal(more, []string{"--token-sent"}) {
		return s.overHTTP(kind, key, input, s.down.URL(), "/v1/payment_intents")
	}
	op, attempt := s.begin(kind, key, input, more...)
	s.do("settle", attempt, "--outcome", "uncertain", "--error", "no answer")
	return s.show(op.ID)
}

// overHTTP is the same of one that a recorder of HTTP has recorded, as it went to an address.
func (s *site) overHTTP(kind, key, input, origin, target string) operation {
	s.Helper()
	store := need.Get(open.Create(s.Context(), s.ledger, open.Options{KeyFile: s.variable(digestkey.Variable), Clock: func() time.Time { return time.Now().Add(s.ahead) }}))(s)
	defer store.Close()
	k := need.Get(policy.Parse(s.policy, need.Get(os.ReadFile(s.policy))(s)))(s).Kind(kind)
	pipeline, token := ledger.Actor{Name: "pipeline", Machine: true}, ledger.NewToken()
	request := &ledger.Request{Method: http.MethodPost, Origin: origin, Target: target, Header: map[string][]string{"Content-Type": {"application/json"}},
		Body: string(need.Get(k.Token.Insert([]byte(input), token))(s))}
	if s.down != nil {
		request.Callers = map[string]string{"Authorization": ledgertest.Caller(s, store, "Bearer "+ownKey)}
	}
	o := ledger.Operation{Kind: kind, Input: []byte(input)}
	begun, err := ledger.Begin(s.Context(), store, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: kind, Key: key, Token: token,
		Title: k.Title(o), Target: k.Target(o), Fingerprint: need.Get(ledger.Fingerprint(o.Input))(s), Input: o.Input, Request: request, Sender: "http",
		TokenSent: true, KeyWorks: k.KeyWorks(), Deadline: k.Deadline, Actor: pipeline})
	need.Must(s, err == nil && begun.Answer == ledger.AnswerBegun, "%s %v", begun.Answer, err)
	need.Get(ledger.Settle(s.Context(), store, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout,
		Error: "no answer", Status: -1, Actor: pipeline}))(s)
	return s.show(begun.Operation.ID)
}

// variable is one of the site's environment.
func (s *site) variable(name string) string {
	for _, e := range slices.Backward(s.env) {
		if value, is := strings.CutPrefix(e, name+"="); is {
			return value
		}
	}
	return ""
}

// seen is the id with the version it has now, as deciding commands want it.
func seen(op operation) string { return fmt.Sprintf("%s@%d", op.ID, op.Version) }

// curl is a command line that posts once, with the token where a search finds it. What it
// starts is this test, under that name.
func (s *site) curl(text string) []string {
	s.Helper()
	link := filepath.Join(s.dir, "bin", "curl")
	if _, err := os.Lstat(link); err != nil {
		need.OK(s, errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(need.Get(os.Executable())(s), link)))
	}
	return []string{"--expand", "E2E_KEY", "--", link, "--fail-with-body", "-sS", "--max-time", "10", "-H", "Authorization: Bearer ${E2E_KEY}",
		"-H", "Content-Type: application/json", "-d", `{"text":"` + text + `","ref":"{{token}}"}`, s.down.URL() + "/posts"}
}

// curl does what curl does with the arguments that site.curl makes.
func curl(args []string) (exit int) {
	req, err := http.NewRequest(http.MethodPost, args[len(args)-1], nil)
	if err != nil {
		return 3
	}
	for i, arg := range args {
		switch arg {
		case "-H":
			name, value, _ := strings.Cut(args[i+1], ": ")
			req.Header.Set(name, value)
		case "-d":
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader(args[i+1])), int64(len(args[i+1]))
		}
	}
	answer, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		fmt.Fprintln(os.Stderr, "curl:", err)
		return 56 // the connection was reset
	}
	defer answer.Body.Close()
	if _, err := io.Copy(os.Stdout, answer.Body); err != nil {
		return 18 // the body was cut
	}
	if answer.StatusCode >= 400 {
		return 22
	}
	return 0
}

func (s *site) run(kind, key string, command []string) result {
	s.Helper()
	return s.do(append([]string{"run", "--kind", kind, "--key", key, "--json"}, command...)...)
}

// effects is how many things really happened whose body holds the text.
func (s *site) effects(text string) int {
	s.Helper()
	all := s.down.Effects(text)
	return len(all)
}

func (s *site) wantEffects(text string, want int) {
	s.Helper()
	if n := s.effects(text); n != want {
		s.Errorf("%d effects holding %q at the downstream, want %d", n, text, want)
	}
}

func (s *site) wantState(op operation, state string) {
	s.Helper()
	need.That(s, op.State == state, "state %s, want %s; events %+v; reads %+v", op.State, state, op.Events, op.Reads)
}

// eventually waits until something holds.
func (s *site) eventually(what string, holds func() bool) {
	s.Helper()
	eventually(s.T, what, holds)
}

// patience ends a wait that would otherwise never end. How long the program may
// take is not its business: a busy machine takes long.
const patience = 3 * time.Minute

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		need.Must(t, !time.Now().After(end), "it never came: %s", what)
	}
}

// crowds are tests of some 200 processes at once, beside which none of this package runs.
var crowds = map[string]bool{}

// place is a directory for a test that waits for processes more than it works, and
// therefore runs beside the others.
func place(t *testing.T) string {
	t.Helper()
	if !crowds[t.Name()] {
		t.Parallel()
	}
	return t.TempDir()
}

// at is the environment of binary, for commands in this process: where the ledger is by
// default is asked of the process.
func at(dir string) []string {
	return append(binary(dir).Env, "INDOUBT_LEDGER="+filepath.Join(dir, "state", "indoubt", "ledger.db"))
}

// inside runs one command line in this process, as in one that starts in a directory.
func inside(t *testing.T, dir string, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	if shipped {
		return ends(t, binary(dir, args...))
	}
	var out, said bytes.Buffer
	exit = cli.Inside(t.Context(), at(dir), 0, &out, &said, args...)
	return exit, out.String(), said.String()
}

// openToAll lets other users into a test's directory.
func openToAll(dir string) {
	for ; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755)
	}
}

// freeAddress is one to listen on later.
func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", need.Get(pgtest.Port())(t))
}

func deref(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
