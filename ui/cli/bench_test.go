package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/policy"
	"indoubt/ui/cli/base"
)

// bench is a ledger on disk, a policy and a clock, and the command line run
// on them inside the test.
type bench struct {
	*testing.T
	dir, ledger, policy string
	mu                  sync.Mutex // of now
	now                 time.Time
	env                 map[string]string
	terminal            bool   // a person sits there
	typed               string // what they type
	store               ledger.Store
	loaded              *policy.Policy // compiled once
	loadedFrom          string
	sentTo              string       // where recorded requests went; "": none is recorded
	target              string       // of what is begun; "": what its kind names
	sees                bool         // a check sees what comes into doubt at once, and finds nothing
	burst               ledger.Burst // what is an outage
}

const benchPolicy = `version: 1
currency: USD
downstreams:
  stripe:
    base: http://127.0.0.1:9
    headers: { Authorization: "Bearer ${env.STRIPE_KEY}" }
    key: { header: Idempotency-Key, remembers: 24h }
kinds:
  stripe.charge:
    downstream: stripe
    title: charge ${input.customer} ${input.amount / 100} ${input.currency}
    target: invoice ${input.invoice}
    cost: { duplicate: input.amount / 100 * 2, miss: input.amount / 100 }
    token: { into: metadata.indoubt }
    lands_within: 2m
    visible_within: 0s
    read:
      http: { get: /v1/payment_intents, query: { "created[gte]": "${op.started}", limit: 100 } }
      valid: status == 200 && body.object == "list"
      list: body.data
      mark: it.metadata.indoubt
      final: "true"
      complete: "!body.has_more"
      same: it.amount == input.amount
      receipt: it.id
    retry: { max: 3 }
    link: https://dashboard.stripe.com/payments/${receipt}
  legacy.charge:
    title: charge ${input.customer} ${input.amount / 100}
    cost: { duplicate: input.amount / 100 * 2, miss: input.amount / 100 }
`

// patience ends a wait that would otherwise never end. How long the program may
// take is not its business: a busy machine takes long.
const patience = 3 * time.Minute

// A check that lacks its secret promises nothing.
func init() {
	for name, value := range map[string]string{"STRIPE_KEY": "sk_test", "GITHUB_TOKEN": "ghp_1234567890", "SENDGRID_KEY": "SG.1234567890",
		"SLACK_TOKEN": "xoxb-1234567890", "X_TOKEN": "x-1234567890", "X_USER_ID": "17"} {
		os.Setenv(name, value)
	}
}

// newBench is of a test that runs beside others.
func newBench(t *testing.T) *bench {
	t.Helper()
	if _, again := beside.LoadOrStore(t, true); !again && !strings.Contains(t.Name(), "/") {
		t.Parallel()
	}
	return newBenchAlone(t)
}

var beside sync.Map // the tests that run beside others

// newBenchAlone is of a test that changes its process or variables, or whose run ends what it finds
// started by this process.
func newBenchAlone(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{T: t, dir: dir, ledger: filepath.Join(dir, "ledger.db"), policy: filepath.Join(dir, "policy.yaml"),
		now: time.Date(2026, 7, 14, 3, 6, 0, 0, time.UTC), env: map[string]string{"STRIPE_KEY": "sk_test"}}
	need.OK(t, os.WriteFile(b.policy, []byte(benchPolicy), 0o600))
	return b
}

func (b *bench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// later moves the clock on while a server may still look at it.
func (b *bench) later(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// open gives the ledger, made at the first call.
func (b *bench) open() ledger.Store {
	b.Helper()
	if b.store == nil {
		s := need.Get(open.Create(context.Background(), b.ledger, open.Options{Clock: b.clock, Steady: hostclock.With(b.clock)}))(b)
		b.store = s
		b.Cleanup(func() { s.Close() })
	}
	return b.store
}

var pipeline = ledger.Actor{Name: "billing", OSUser: "billing", Host: "batch-2", Machine: true}

// id is the id of the n-th operation; a UUIDv7 of the bench's day.
func id(n int) string { return fmt.Sprintf("019808a1-00%02x-7000-8000-0000000000%02x", n, n) }

// begin records the n-th operation, with an attempt in flight.
func (b *bench) begin(n int, kind string, input string) (handle string) {
	b.Helper()
	attempt := strings.Replace(id(n), "-00", "-aa", 1)
	fingerprint := need.Get(ledger.Fingerprint(json.RawMessage(input)))(b)
	k := b.kind(kind)
	req := ledger.BeginRequest{
		ChangeID: ledger.NewID(), OperationID: id(n), AttemptID: attempt, Kind: kind, Key: "k-" + id(n)[34:], Token: "indoubt-7E3A" + strings.ToUpper(id(n)[34:]),
		Fingerprint: fingerprint, Input: json.RawMessage(input), Source: ledger.Source{Pipeline: "billing", Run: "7", Host: "batch-2", PID: 411},
		Sender: "pipeline", TokenSent: true, KeyWorks: k.Remembers > 0, Deadline: 30 * time.Second, TTL: 7 * 24 * time.Hour, Host: "batch-2", PID: 411, Actor: pipeline,
	}
	if b.sentTo != "" {
		body := need.Get(k.Token.Insert([]byte(input), req.Token))(b)
		req.Request = &ledger.Request{Method: http.MethodPost, Origin: b.sentTo, Target: "/charges", Header: map[string][]string{"Content-Type": {"application/json"}}, Body: string(body)}
	}
	o := ledger.Operation{Kind: kind, Input: req.Input}
	req.Title, req.Target = k.Title(o), cmp.Or(b.target, k.Target(o))
	res, err := ledger.Begin(context.Background(), b.open(), req)
	need.Must(b, err == nil && res.Answer == ledger.AnswerBegun, "begin: %v %v", res, err)
	b.price(n)
	return res.Handle().String()
}

func (b *bench) kind(name string) *policy.Kind {
	b.Helper()
	text, err := os.ReadFile(b.policy)
	need.OK(b, err)
	if b.loaded == nil || b.loadedFrom != string(text) {
		if b.loaded, err = policy.Parse(b.policy, text); err != nil {
			b.Fatal(err)
		}
		b.loadedFrom = string(text)
	}
	return b.loaded.Kind(name)
}

func (b *bench) price(n int) {
	b.Helper()
	rec := b.rec(n)
	need.OK(b, b.open().Price(context.Background(), []ledger.Pricing{b.kind(rec.Operation.Kind).Price(rec)}))
}

func (b *bench) rec(n int) ledger.Record {
	b.Helper()
	rec := need.Get(b.open().Read(context.Background(), ledger.Locator{ID: id(n)}))(b)
	return rec
}

// at is the n-th operation as a deciding command names it.
func (b *bench) at(n int) string { return fmt.Sprintf("%s@%d", id(n), b.rec(n).Operation.Version) }

func (b *bench) settle(n int, req ledger.SettleRequest) {
	b.Helper()
	req.ChangeID, req.Actor = ledger.NewID(), pipeline
	if req.AttemptID == "" {
		req.AttemptID = strings.Replace(id(n), "-00", "-aa", 1)
	}
	need.Get(ledger.Settle(context.Background(), b.open(), req))(b)
	b.price(n)
	b.fold(n)
}

// fold looks for the outage of the n-th operation, as who leads does.
func (b *bench) fold(n int) {
	b.Helper()
	need.OK(b, b.open().Fold(context.Background(), []string{id(n)}, []string{id(n)}, false, func(string) ledger.Burst { return b.burst }))
}

// doubt records the n-th operation as in doubt after a timeout.
func (b *bench) doubt(n int, kind, input string) {
	b.Helper()
	b.begin(n, kind, input)
	b.now = b.now.Add(30 * time.Second)
	b.settle(n, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Error: "no answer after 30s", Status: -1})
	if look := (ledger.Read{ID: ledger.NewID(), OperationID: id(n), BeganAt: b.now, EndedAt: b.now, Verdict: ledger.CannotTell}); b.sees {
		need.Get(ledger.Observe(context.Background(), b.open(), ledger.Observation{ChangeID: ledger.NewID(), Read: look, Actor: pipeline}))(b)
	}
}

const charge = `{"customer":"cus_9","amount":42000,"currency":"usd","invoice":"INV-1042"}`

// run runs one command line on the bench.
func (b *bench) run(args ...string) (exit int, stdout, stderr string) {
	b.Helper()
	return b.runUntil(context.Background(), args...)
}

// runUntil is run as it ends when it is interrupted.
func (b *bench) runUntil(ctx context.Context, args ...string) (exit int, stdout, stderr string) {
	b.Helper()
	var out, errOut bytes.Buffer
	a := base.NewApp(strings.NewReader(b.typed), &out, &errOut)
	a.Clock, a.Steady = b.clock, hostclock.With(b.clock)
	a.Terminal = func() bool { return b.terminal }
	a.Env = func(name string) string {
		if v, ok := b.env[name]; ok {
			return v
		}
		switch name {
		case "INDOUBT_LEDGER":
			return b.ledger
		case "INDOUBT_POLICY":
			return b.policy
		case "INDOUBT_ACTOR":
			return "maya"
		}
		return ""
	}
	exit = run(ctx, a, args)
	return exit, out.String(), errOut.String()
}

// want runs a command line, checks its exit code, and gives all it printed.
func (b *bench) want(exit int, args ...string) string {
	b.Helper()
	got, stdout, stderr := b.run(args...)
	if got != exit {
		b.Fatalf("indoubt %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, exit, stdout, stderr)
	}
	return stdout + stderr
}

// answer is what --json prints.
type answer struct {
	OK     bool            `json:"ok"`
	Effect string          `json:"effect"`
	Data   json.RawMessage `json:"data"`
	Error  *base.ErrorJSON `json:"error"`
}

func (b *bench) json(exit int, args ...string) answer {
	b.Helper()
	got, stdout, stderr := b.run(append(args, "--json")...)
	if got != exit {
		b.Fatalf("indoubt %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, exit, stdout, stderr)
	}
	if strings.Count(strings.TrimSpace(stdout), "\n") > 0 {
		b.Fatalf("indoubt %s --json printed more than one line:\n%s", strings.Join(args, " "), stdout)
	}
	var a answer
	if err := json.Unmarshal([]byte(stdout), &a); err != nil {
		b.Fatalf("indoubt %s --json: %v\n%s", strings.Join(args, " "), err, stdout)
	}
	if a.OK != (exit == 0) || a.OK == (a.Error != nil) {
		b.Fatalf("indoubt %s: ok %v, error %v, exit %d", strings.Join(args, " "), a.OK, a.Error, exit)
	}
	return a
}

// operations are data.operations.
func (a answer) operations(t testing.TB) []resultRead {
	t.Helper()
	var data struct{ Operations []resultRead }
	if err := json.Unmarshal(a.Data, &data); err != nil {
		t.Fatalf("%v in %s", err, a.Data)
	}
	return data.Operations
}

type resultRead struct {
	ID      string          `json:"id"`
	State   string          `json:"state"`
	Version int64           `json:"version"`
	OK      bool            `json:"ok"`
	Effect  string          `json:"effect"`
	Error   *base.ErrorJSON `json:"error"`
	Receipt *string         `json:"receipt"`
}

// lastEvent is the number of the newest event: unchanged means nothing written.
func (b *bench) lastEvent() int64 {
	b.Helper()
	info := need.Get(b.open().Info(context.Background()))(b)
	return info.LastSeq
}

// golden compares text with testdata/name; UPDATE_GOLDEN=1 writes it.
func golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		need.OK(t, os.MkdirAll("testdata", 0o755))
		need.OK(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	need.Must(t, !errors.Is(err, fs.ErrNotExist), "%s is missing; run with UPDATE_GOLDEN=1\n%s", path, got)
	need.OK(t, err)
	need.That(t, bytes.Equal(got, want), "%s differs:\n--- got\n%s\n--- want\n%s", path, got, want)
}

func indented(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	need.OK(t, json.Indent(&b, data, "", "  "))
	b.WriteByte('\n')
	return b.Bytes()
}
