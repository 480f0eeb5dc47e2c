package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	"indoubt/reconcile"
)

// wide is one seeded run over forms of policy, connectors, operations on one target, repeated
// attempts, people and manners of the other side.
type wide struct {
	testing.TB
	ctx    context.Context
	random *rand.Rand
	clock  atomic.Int64
	set    atomic.Int64 // how far the wall clock of our host is off
	down   *market
	store  ledger.Store
	forms  []form
	policy atomic.Pointer[policy.Policy]
	others atomic.Pointer[policy.Policy] // of the other's host, which gets it later
	texts  [3]*policy.Policy             // two mean the same; the third looks for the token where it is not
	number int64                         // of the policy in force
	engine *reconcile.Engine
	other  *reconcile.Engine // on another host
	wishes []*wideWish
	story  []string // what happened, for a failure

	mu      sync.Mutex
	deleted bool // something was, by another caller
	stepped bool // our wall clock was set, so that what others date may look older
	loose   bool // another caller's things may look like ours
}

type wideWish struct {
	form
	op, key, token string
	to             string
	amount         int
	fingerprint    string
	ttl            time.Duration
	sent           bool        // the token is known to have been sent
	attempts       []wideTry   // of the pipeline
	word           ledger.Verb // a person's latest
	words, risks   int
	leftover       bool // a process of an attempt may still write, and does so late
	touched        bool // what it made was deleted or edited
	rivalled       bool // a caller that is in no ledger made something of its name
	twice          bool // by the market itself
	seq            int64
}

// wideTry is a transmission of a pipeline: what it made, and whether it was told.
type wideTry struct {
	id   string
	made []string
	told bool
	soon time.Time // it makes it then
}

func (u *wide) now() time.Time       { return time.Unix(0, u.clock.Load()) }
func (u *wide) wall() time.Time      { return u.now().Add(time.Duration(u.set.Load())) }
func (u *wide) pass(d time.Duration) { u.clock.Add(int64(d)) }
func (u *wide) upTo(d time.Duration) time.Duration {
	return time.Duration(u.random.Int64N(int64(d)))
}

func (u *wide) tell(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.story = append(u.story, u.now().UTC().Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

func (u *wide) must(err error, do string) {
	u.Helper()
	if err != nil {
		u.fail("%s: %v", do, err)
	}
}

func (u *wide) fail(format string, args ...any) {
	u.Helper()
	u.Logf("market %+v", u.down.manners)
	for _, s := range u.forms {
		u.Logf("%+v", s)
	}
	for _, line := range u.story {
		u.Log(line)
	}
	u.Fatalf(format, args...)
}

func newWide(t testing.TB, seed uint64, via, program string) *wide {
	u := &wide{TB: t, ctx: context.Background(), random: rand.New(rand.NewPCG(seed, 11))}
	u.clock.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	r := u.random
	m := manners{match: one(r, "exact", "exact", "folded", "prefix", "part", "word"), silent: odds(r, 5), keys: odds(r, 3), reuses: odds(r, 4)}
	m.deaf, m.echoes = odds(r, 6), odds(r, 6)
	if odds(r, 3) {
		m.off = one(r, -3*time.Minute, 3*time.Minute)
	}
	u.down = newMarket(u.now, m)
	u.loose = true
	for i := range 2 + r.IntN(2) {
		s := anyForm(r, fmt.Sprint("kind", i), via, m)
		u.forms = append(u.forms, s)
		// Who wants the same, and is in no ledger, is not to be told from ours by a name.
		u.loose = u.loose && s.by() != "name" && s.by() != "state"
	}
	dir := t.TempDir()
	table := filepath.Join(dir, "market.db")
	if via == "sql" {
		u.down.keepTable(t, table)
	}
	var err error
	for i := range u.texts {
		text := policyOf(program, u.down.URL, table, u.forms, 5+i)
		if i == 2 {
			text = strings.ReplaceAll(text, "mark: it.ref", "mark: it.key")
		}
		u.texts[i], err = policy.Parse("policy.yaml", []byte(text))
		u.must(err, "read the policy")
	}
	u.store = ledgertest.NewMemory(u.wall, hostclock.With(u.now))
	if seed%4 == 0 {
		u.store, err = open.Create(u.ctx, filepath.Join(dir, "ledger.db"), open.Options{Clock: u.wall, Steady: hostclock.With(u.now)})
		u.must(err, "create the ledger")
	}
	t.Cleanup(func() { u.fresh(); u.engine.Close(); u.other.Close(); u.store.Close(); u.down.Close() })
	u.policy.Store(u.texts[0])
	u.others.Store(u.texts[0])
	if odds(r, 2) {
		u.apply(u.texts[0])
	}
	u.fresh()
	for _, s := range u.forms {
		if !odds(r, 6) { // else its check was never seen to find anything
			u.send(u.made(s), "answered")
		}
	}
	u.pass(wideVisible + time.Second)
	return u
}

// fresh makes new engines: they have no memory of troubles that were long ago by
// the clock.
func (u *wide) fresh() {
	for _, e := range []struct {
		engine **reconcile.Engine
		policy *atomic.Pointer[policy.Policy]
	}{{&u.engine, &u.policy}, {&u.other, &u.others}} {
		if *e.engine != nil {
			(*e.engine).Close()
		}
		*e.engine = reconcile.New(reconcile.Options{Store: u.store, Policy: e.policy.Load, Clock: u.wall, Steady: hostclock.With(u.now),
			Actor: someone})
	}
}

// apply puts a policy in force. The host of the other engine still has the one before.
func (u *wide) apply(p *policy.Policy) {
	u.others.Store(u.policy.Load())
	u.policy.Store(p)
	u.number++
	u.must(u.store.ApplyPolicy(u.ctx, ledger.PolicyText{Number: u.number, Digest: p.Digest(), Text: p.Text(), Actor: someone,
		Reason: "to try it", ChangeID: ledger.NewID()}), "put a policy in force")
	u.tell("policy %d is in force", u.number)
}

// made makes up a wish.
func (u *wide) made(s form) *wideWish {
	n := len(u.wishes)
	w := &wideWish{form: s, key: fmt.Sprint("order-", n), to: fmt.Sprint("acct ", n), amount: 100 + u.random.IntN(900), token: ledger.NewToken(), sent: true}
	w.fingerprint = fmt.Sprint(w.to, w.amount)
	return w
}

// wish makes up an operation, new or beside one that is there, and sends it.
func (u *wide) wish() {
	r := u.random
	w := u.made(u.forms[r.IntN(len(u.forms))])
	w.key = fmt.Sprint("order-", len(u.wishes), r.IntN(100))
	switch before := u.any(); {
	case before == nil:
	default:
		switch r.IntN(12) {
		case 0, 1, 2: // the same input, of the same kind or another
			w.to, w.amount, w.fingerprint = before.to, before.amount, before.fingerprint
			if odds(r, 2) {
				w.form = before.form
			}
		case 3: // to the same place, but of another amount
			w.to = before.to
			w.fingerprint = fmt.Sprint(w.to, w.amount)
		case 4: // its key begins like another
			w.key = before.key + strconv.Itoa(r.IntN(10))
		case 5: // the key of another kind
			if before.name != w.name {
				w.key = before.key
			}
		case 6: // a key that was given up
			if before.ttl > 0 {
				w.form, w.key = before.form, before.key
				if odds(r, 2) {
					w.to, w.amount, w.fingerprint = before.to, before.amount, before.fingerprint
				}
			}
		case 7: // by plain SQL
			if odds(r, 2) {
				w.token = ""
			}
			w.sent, w.fingerprint = false, ""
		case 8:
			w.sent = false
		}
	}
	if odds(r, 3) {
		w.ttl = time.Duration(1+r.IntN(60)) * time.Second
	}
	u.send(w, u.fate())
}

func (u *wide) any() *wideWish {
	if len(u.wishes) == 0 {
		return nil
	}
	return u.wishes[u.random.IntN(len(u.wishes))]
}

// fate is what becomes of a transmission.
func (u *wide) fate() string {
	return one(u.random, "answered", "answered", "cut", "cut", "made", "made", "made", "late", "refused", "twice", "another", "dies", "made and dies", "leftover")
}

// send lets a pipeline begin the operation and transmit it if it may.
func (u *wide) send(w *wideWish, fate string) {
	token := w.token
	if token != "" {
		token = ledger.NewToken() // which counts where the operation is new
	}
	input := json.RawMessage(fmt.Sprintf(`{"to":%q,"amount":%d}`, w.to, w.amount))
	var marks ledger.Marks // a writer who does not know the policy makes none
	if odds(u.random, 2) {
		marks = u.policy.Load().Kind(w.name).Marks(ledger.Operation{Kind: w.name, Key: w.key, Input: input})
	}
	var tree ledger.Tree
	if fate == "leftover" {
		tree = ledger.TreeOpen
	}
	number := u.number
	if number > 1 && odds(u.random, 4) {
		number-- // it has not heard of the new one yet
	}
	begun, err := u.begin(ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(),
		Policy: number, Kind: w.name, Key: w.key, Token: token, Marks: marks, Tree: tree, Place: ledger.Place{BootID: "another host's", PIDNamespace: "another"}, Fingerprint: w.fingerprint, Sender: "pipeline", TokenSent: w.sent && token != "", KeyWorks: w.keys,
		Input: input, Target: map[bool]string{true: w.to}[w.target],
		Deadline: 5 * time.Second, TTL: w.ttl, Actor: ledger.Actor{Name: "billing", Machine: true}, Source: ledger.Source{Pipeline: "billing"}})
	u.must(err, "begin")
	u.tell("%s %s %q: %s %s", w.name, begun.Operation.ID, w.key, begun.Answer, fate)
	if begun.Answer != ledger.AnswerBegun {
		return
	}
	u.mu.Lock()
	if i := slices.IndexFunc(u.wishes, func(w *wideWish) bool { return w.op == begun.Operation.ID }); i >= 0 {
		w = u.wishes[i]
	} else { // also where the key was given up meanwhile
		w = &wideWish{form: w.form, op: begun.Operation.ID, key: w.key, token: token, to: w.to, amount: w.amount, fingerprint: w.fingerprint, ttl: w.ttl, sent: w.sent}
		u.wishes = append(u.wishes, w)
	}
	u.mu.Unlock()
	if begun.Attempt.Basis == ledger.BasisRiskAccepted {
		w.risks++
	}
	t := wideTry{id: begun.Attempt.ID}
	book := func(amount int, at time.Time) {
		if made := u.down.of(w.op); w.keys && len(made) > 0 { // it remembers the key
			t.made = append(t.made, made[0].ID)
			return
		}
		t.soon = at
		lag := time.Duration(u.random.Int64N(int64(wideVisible)))
		t.made = append(t.made, u.down.book(thing{Op: w.op, Ref: w.token, Key: w.key, To: w.to, Amount: amount, At: at, Other: amount != w.amount}, lag))
	}
	settle := ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: one(u.random, ledger.ClassReset, ledger.ClassTimeout), Status: -1}
	at := u.now()
	u.pass(u.upTo(2 * time.Second))
	switch fate {
	case "answered", "made", "made and dies":
		book(w.amount, at)
	case "twice":
		book(w.amount, at)
		if !w.keys {
			book(w.amount, at)
			w.twice = true
		}
	case "another":
		book(w.amount+10_000, at) // which no operation wants
	case "late":
		book(w.amount, u.now().Add(u.upTo(wideLands-time.Second)))
	case "leftover": // what the command has started goes on, whatever the policy promises
		w.leftover = true
		if odds(u.random, 2) {
			book(w.amount, u.now().Add(u.upTo(5*time.Minute)))
		}
	}
	switch fate {
	case "answered":
		settle = ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 201}
		if !odds(u.random, 4) {
			settle.Receipt = t.made[0]
		}
		t.told = true
	case "refused":
		settle = ledger.SettleRequest{Outcome: ledger.OutcomeFailed, Proof: ledger.Refused, Status: 422}
		t.told = true
	case "dies", "made and dies":
		t.told = true
		w.attempts = append(w.attempts, t)
		u.pass(6 * time.Second)
		return
	}
	w.attempts = append(w.attempts, t)
	u.settle(t.id, settle)
}

// begin is what a recorder does that may not have heard of the policy in force.
func (u *wide) begin(req ledger.BeginRequest) (ledger.BeginResult, error) {
	begun, err := ledger.Begin(u.ctx, u.store, req)
	if ledger.ByOlder(err) {
		req.Policy = u.number
		return ledger.Begin(u.ctx, u.store, req)
	}
	return begun, err
}

func (u *wide) settle(attempt string, s ledger.SettleRequest) {
	s.ChangeID, s.AttemptID, s.Actor = ledger.NewID(), attempt, ledger.Actor{Name: "billing", Machine: true}
	_, err := ledger.Settle(u.ctx, u.store, s)
	u.must(err, "settle")
}

// late brings the true answer of an attempt that was in doubt.
func (u *wide) late(w *wideWish) {
	for i := range w.attempts {
		t := &w.attempts[i]
		if t.told || t.soon.After(u.now()) {
			continue
		}
		t.told = true
		s := ledger.SettleRequest{Outcome: ledger.OutcomeFailed, Proof: ledger.Refused, Status: 422}
		if len(t.made) > 0 {
			s = ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Receipt: t.made[0], Status: 201}
		}
		u.tell("late answer of %s: %s %s", w.op, s.Outcome, s.Receipt)
		u.settle(t.id, s)
		return
	}
}

func (u *wide) read(w *wideWish) ledger.Record {
	rec, err := u.store.Read(u.ctx, ledger.Locator{ID: w.op})
	u.must(err, "read")
	return rec
}

// look lets engines read and settle, while something ails the market and others
// go on.
func (u *wide) look() {
	r := u.random
	d := u.down
	ails, ignores, lag := one(r, "", "", "", "", "500", "401", "429", "302", "html", "truncated", "twice", "cached", "empty", "cut"), d.deaf, time.Duration(0)
	if odds(r, 3) {
		lag = u.upTo(wideVisible)
	}
	d.mu.Lock()
	d.ails, d.ignores, d.lag = ails, ignores, lag
	if odds(r, 5) {
		d.onList = u.meanwhile()
	}
	d.mu.Unlock()
	d.fillTable(u)
	u.tell("look: ails %q, ignores %v, lag %s", ails, ignores, lag)
	before := d.written()
	switch r.IntN(4) {
	case 0:
		u.once(u.engine)
	case 1:
		var both sync.WaitGroup
		both.Add(1)
		go func() { defer both.Done(); u.once(u.other) }()
		u.once(u.engine)
		both.Wait()
	default:
		for range 4 {
			if w := u.any(); w != nil {
				u.readNow(one(r, u.engine, u.other), w)
			}
		}
	}
	d.mu.Lock()
	d.ails, d.ignores, d.lag, d.onList = "", d.deaf, 0, nil
	d.mu.Unlock()
	d.takeTable(u)
	if n := d.written() - before; n != 0 { // I5
		u.fail("engines sent %d writes", n)
	}
	if ails != "" || odds(r, 2) {
		u.fresh()
	}
	if odds(r, 6) {
		u.apply(one(r, u.texts[:]...))
	}
}

func (u *wide) once(e *reconcile.Engine) {
	_, err := e.Once(u.ctx, nil)
	need.That(u, err == nil || errors.Is(err, ledger.ErrRefused), "reconcile: %v", err) // not its policy
}

func (u *wide) readNow(e *reconcile.Engine, w *wideWish) {
	res, err := e.ReadNow(u.ctx, w.op)
	u.tell("read %s: %s %s %v", w.op, res.Read.Verdict, res.Read.Reason, err)
	need.That(u, err == nil || errors.Is(err, ledger.ErrRefused), "read: %v", err)
}

// TestI6_NothingIsSettledAgainstTheTruthWhateverThePolicy goes on where the
// narrower test ends: any form of policy, over any connector, with operations on one target,
// repeated attempts and people about. INDOUBT_TRUTH is how many worlds of each
// connector to make, INDOUBT_TRUTH_SEED the first.
func TestI6_NothingIsSettledAgainstTheTruthWhateverThePolicy(t *testing.T) {
	many := wideWorlds
	from := uint64(0)
	if n, err := strconv.Atoi(os.Getenv("INDOUBT_TRUTH")); err == nil {
		many = map[string]int{"http": n, "sql": n / 5, "mcp": n / 20, "command": n / 20}
	}
	if n, err := strconv.ParseUint(os.Getenv("INDOUBT_TRUTH_SEED"), 10, 64); err == nil {
		from = n
	}
	var wishes, settled, open atomic.Int64
	var absent shares
	for _, via := range []string{"http", "sql", "mcp", "command"} {
		if many[via] == 0 {
			continue
		}
		t.Run(via, func(t *testing.T) {
			program := "market"
			if via == "mcp" || via == "command" {
				program = builtMarket(t)
			}
			var all sync.WaitGroup
			few := make(chan struct{}, 16) // they mostly wait
			for seed := from; seed < from+uint64(many[via]); seed++ {
				all.Add(1)
				few <- struct{}{}
				go func() {
					defer func() { <-few; all.Done() }()
					t.Run(fmt.Sprint(seed), func(t *testing.T) {
						u := newWide(t, seed, via, program)
						u.live()
						s, o := u.allKnown()
						wishes.Add(int64(len(u.wishes)))
						settled.Add(int64(s))
						open.Add(int64(o))
						absent.count(u)
					})
				}()
			}
			all.Wait()
		})
	}
	t.Logf("%d operations, %d settled as can be known, %d of which nothing has to be known%s", wishes.Load(), settled.Load(), open.Load(), &absent)
}

// live is the run of a world.
func (u *wide) live() {
	for len(u.wishes) < 12 {
		for range 1 + u.random.IntN(3) {
			u.wish()
			u.pass(u.upTo(time.Second))
		}
		u.happen()
	}
	for range 6 {
		u.happen()
	}
	u.fresh()
	u.set.Store(0)
	u.apply(u.texts[0])
	for _, s := range u.forms { // what was lost stands between two that are known
		u.send(u.made(s), "answered")
	}
	for range 3 {
		u.pass(wideLands + wideVisible + time.Minute)
		u.settleDown()
	}
}

func (u *wide) happen() {
	// A window that counts from our clock promises that it is right.
	counted := slices.ContainsFunc(u.forms, func(s form) bool { return s.window == "attempt" })
	if !counted && odds(u.random, 6) {
		u.set.Store(int64(u.upTo(wideMargin/2) - wideMargin/4))
		u.stepped = true
		u.tell("our wall clock is off by %s", time.Duration(u.set.Load()))
	}
	for range 1 + u.random.IntN(2) {
		w := u.any()
		switch u.random.IntN(8) {
		case 0:
			u.decide(w)
		case 1:
			u.again(w)
		case 2:
			u.late(w)
		case 3, 4:
			u.meddle()
		}
		u.neverWrong("after")
		u.pass(time.Millisecond)
	}
	for _, w := range u.wishes {
		u.plan(w)
	}
	u.look()
	u.neverWrong("look")
	u.pass(u.upTo(40 * time.Second))
}

// settleDown reads all once more while the market is well.
func (u *wide) settleDown() {
	u.down.fillTable(u)
	for _, w := range slices.Clone(u.wishes) {
		u.readNow(u.engine, w)
	}
	u.down.takeTable(u)
	u.neverWrong("at the end")
}
