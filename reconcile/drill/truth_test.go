package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/ledgertest/faults"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/policy"
	"indoubt/policy/transport"
	"indoubt/reconcile"
	"indoubt/reconcile/connect"
)

// The policy's promises about the downstream, which it keeps.
const (
	truthLands   = 20 * time.Second
	truthVisible = 10 * time.Second
	truthForgets = 5 * time.Minute
	truthSet     = 10 * time.Minute // how far the wall clock of our host is off at most
)

const truthRead = `
    downstream: bank
    token: { into: metadata.indoubt }
    lands_within: 20s
    visible_within: 10s
    read:
      http: { get: /v1/payouts, query: { destination: "${input.destination}", limit: 20, starting_after: "${cursor}" } }
      valid: status == 200 && body.object == "list"
      list: body.data
      mark: it.metadata.indoubt
      complete: "!body.has_more"
      next: body.data[size(body.data) - 1].id
      stable: true
      same: it.amount == input.amount && it.status == "pending"
      receipt: it.id
`

const truthConsistent = "      consistent: true\n"

var truthPolicy = `
version: 1
defaults: { deadline: 5s }
downstreams:
  bank: { base: "@BASE@", headers: { Authorization: "Bearer ${env.TRUTH_KEY}" } }
kinds:
  sure:` + truthRead + truthConsistent + `
  plain:` + truthRead + `
  unseen:` + truthRead + truthConsistent + `
  unbounded:` + strings.Replace(truthRead, "    lands_within: 20s\n", "", 1) + `
  forgets:` + truthRead + truthConsistent + `
    visible_for: 5m
  again:` + truthRead + truthConsistent + `
    resend: here
    retry: { max: 3, backoff: 1ms..1ms }
  lags:` + strings.Replace(truthRead, "visible_within: 10s", "visible_within: 1s", 1) + `
  open:` + truthRead + `
  shifts:` + strings.NewReplacer("      stable: true\n", "", "limit: 20", "limit: 3").Replace(truthRead) + `
  cut:` + strings.NewReplacer("into: metadata.indoubt", "append: memo", "it.metadata.indoubt", "it.memo").Replace(truthRead) + truthConsistent + `
  customer:` + truthRead + truthConsistent + `
  stranger:` + truthRead + truthConsistent

// truthKinds are what is wished for. What a view of most of them lacks, the policy does not say.
//
//	sure, again  the policy's promises are kept
//	plain        the same, but the policy does not promise that a read shows every write
//	unseen       each asks for a list of its own, so that no check of one finds another
//	unbounded    no time is promised
//	forgets      effects are not shown for ever, and the policy says how long
//	lags         a replica shows effects up to a minute late, and the policy says a second
//	open         what is paid out is shown no longer
//	shifts       pages shift while they are read
//	cut          the end of a long text is cut off, and the token with it
//	customer     the credential does not see every customer
//	stranger     some are sent with a credential of another account
var truthKinds = []string{"sure", "sure", "plain", "unseen", "unbounded", "forgets", "again", "again", "lags", "open", "shifts", "cut", "customer", "stranger"}

// truth is one seeded run: many operations with what really happened to each.
type truth struct {
	testing.TB
	ctx    context.Context
	random *rand.Rand
	clock  atomic.Int64 // Unix nanoseconds, for everybody
	set    atomic.Int64 // how far the wall clock of our host is off
	down   *failing
	store  ledger.Store
	policy *policy.Policy
	sender connect.HTTP
	wishes []*truthWish
	place  ledger.Cursor // in the history, as far as it was compared with the truth
}

type truthWish struct {
	id, kind, token, destination string
	amount                       int
	fault                        faults.Fault
	twice, other                 bool // two effects, or one of another amount, from one send
	memo, as                     string
}

func (u *truth) now() time.Time       { return time.Unix(0, u.clock.Load()) }
func (u *truth) wall() time.Time      { return u.now().Add(time.Duration(u.set.Load())) }
func (u *truth) pass(d time.Duration) { u.clock.Add(int64(d)) }
func (u *truth) must(err error, do string) {
	u.Helper()
	need.OK(u, err, do)
}

// upTo is a time of at most so much.
func (u *truth) upTo(d time.Duration) time.Duration { return time.Duration(u.random.Int64N(int64(d))) }

func newTruth(t testing.TB, seed uint64) *truth {
	u := &truth{TB: t, ctx: context.Background(), random: rand.New(rand.NewPCG(seed, 7))}
	u.clock.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	dir := t.TempDir()
	var err error
	u.down, err = startFailing(DownstreamOptions{Path: filepath.Join(dir, "books.db"), Seed: seed, Clock: u.now})
	u.must(err, "start the downstream")
	u.policy, err = policy.Parse("policy.yaml", []byte(strings.ReplaceAll(truthPolicy, "@BASE@", u.down.URL())))
	u.must(err, "read the policy")
	// Most runs keep their ledger in memory, by the same rules: a file costs time.
	u.store = ledgertest.NewMemory(u.wall, hostclock.With(u.now))
	if seed%5 == 0 {
		u.store, err = open.Create(u.ctx, filepath.Join(dir, "ledger.db"), open.Options{Clock: u.wall, Steady: hostclock.With(u.now)})
		u.must(err, "create the ledger")
	}
	t.Cleanup(func() { u.sender.Close(); u.store.Close(); u.down.Close() })
	// What the downstream forgets, it always forgets.
	u.always()
	for _, kind := range truthKinds {
		if kind != "unseen" {
			u.send(&truthWish{kind: kind, amount: 1})
		}
	}
	u.pass(truthVisible + time.Second)
	return u
}

func (u *truth) always() {
	u.down.Meet(
		faults.Trouble{Fault: faults.Forget, Path: "/v1/payouts", Match: "destination=acct_forgets", For: truthForgets},
		faults.Trouble{Fault: faults.Lag, Path: "/v1/payouts", Match: "destination=acct_lags", For: time.Minute},
		faults.Trouble{Fault: faults.Forget, Path: "/v1/payouts", Match: "destination=acct_open", For: 45 * time.Second},
		faults.Trouble{Fault: faults.Foreign, Path: "/v1/payouts", Match: "destination=acct_customer_hidden"})
}

// wish makes up an operation and what will become of it.
func (u *truth) wish() {
	kind := truthKinds[u.random.IntN(len(truthKinds))]
	w := &truthWish{kind: kind, amount: 100 + u.random.IntN(900)}
	ways := []faults.Fault{"", faults.CommitAndCut, faults.CommitAndClose, faults.CommitAndHalf, faults.CommitAndGateway, faults.CommitAndError, faults.CutBefore, faults.CloseBefore, faults.CommitLaterAndCut, faults.Refuse, faults.CommitTwiceAndCut}
	w.fault = ways[u.random.IntN(len(ways))]
	if w.kind == "unseen" && w.fault == "" {
		w.fault = faults.CommitAndCut // else its check would be known to find something
	}
	w.twice = w.fault == faults.CommitTwiceAndCut
	w.other = !w.twice && w.fault.Commits() && u.random.IntN(8) == 0
	u.send(w)
}

// send records the operation, sends it as a pipeline does, and says what came
// back; now and then the pipeline dies on the way.
func (u *truth) send(w *truthWish) {
	n := len(u.wishes)
	w.token, w.destination, w.as = ledger.NewToken(), "acct_"+w.kind, "sk_truth"
	odd := w.amount > 1 && u.random.IntN(2) == 0
	switch {
	case w.kind == "unseen":
		w.destination += fmt.Sprint("_", n)
	case w.kind == "customer" && odd:
		w.destination += "_hidden"
	case w.kind == "stranger" && odd:
		w.as = "sk_other"
	case w.kind == "cut":
		w.memo = map[bool]string{true: strings.Repeat("long ", 12), false: "short "}[odd]
	}
	body := func(amount int, token string) []byte {
		f := fields{"amount": amount, "destination": w.destination, "metadata": fields{"indoubt": token}}
		if w.memo != "" {
			f["memo"] = w.memo + token
		}
		return encode(f)
	}
	shown := func(body []byte) []byte { return body }
	if w.kind == "cut" { // of what is sent, the other side keeps so much
		shown = func(body []byte) []byte {
			f := fields{}
			u.must(json.Unmarshal(body, &f), "read the body")
			memo := f["memo"].(string)
			f["memo"] = memo[:min(len(memo), 60)]
			return encode(f)
		}
	}
	// Another caller's, the same but for the token, around ours: some pages of them.
	others := u.random.IntN(5)
	for range others {
		u.post(shown(body(w.amount, ledger.NewToken())), w.as)
	}
	machine := ledger.Actor{Name: "billing", Machine: true}
	begun, err := ledger.Begin(u.ctx, u.store, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(),
		Kind: w.kind, Key: fmt.Sprint("k", n), Token: w.token, Fingerprint: fmt.Sprint("f", n), Input: body(w.amount, w.token), Sender: "pipeline",
		Request: &ledger.Request{Method: http.MethodPost, Origin: u.down.URL(), Target: "/v1/payouts", Header: map[string][]string{"Content-Type": {"application/json"}},
			Body: string(body(w.amount, w.token)), Withheld: []string{"Authorization"}, Callers: map[string]string{"Authorization": ledgertest.Caller(u, u.store, "Bearer "+w.as)}},
		TokenSent: true, Deadline: 5 * time.Second, Actor: machine, Source: ledger.Source{Pipeline: "billing"}})
	u.must(err, "begin")
	w.id = begun.Operation.ID
	u.wishes = append(u.wishes, w)
	if w.fault != "" {
		statuses := []int{400, 422, 409, 429, 500, 503}
		u.down.Meet(faults.Trouble{Fault: w.fault, Match: w.token, Times: 1, For: time.Second + u.upTo(truthLands-time.Second), Status: statuses[u.random.IntN(len(statuses))]})
	}
	if w.kind == "again" && w.amount > 1 { // what a person sends again meets trouble too
		u.down.Meet(faults.Trouble{Fault: []faults.Fault{faults.CommitAndCut, faults.CutBefore, faults.CommitLaterAndCut, faults.CommitAndGateway}[u.random.IntN(4)], Match: w.token, Times: 1, For: u.upTo(truthLands)})
	}
	sent := w.amount
	if w.other {
		sent++
	}
	answer := u.post(shown(body(sent, w.token)), w.as)
	for range u.random.IntN(3) {
		u.post(shown(body(w.amount, ledger.NewToken())), w.as)
	}
	u.pass(u.upTo(2 * time.Second))
	if w.amount > 1 && u.random.IntN(6) == 0 {
		return // it died before it could say; after its deadline it is in doubt
	}
	rec, err := u.store.Read(u.ctx, ledger.Locator{ID: w.id})
	u.must(err, "read")
	settle := outcome.JudgeAttempt(u.ctx, record.KindRule{}.Judge, rec, begun.Attempt.ID, answer)
	settle.ChangeID, settle.AttemptID, settle.Actor = ledger.NewID(), begun.Attempt.ID, machine
	_, err = ledger.Settle(u.ctx, u.store, settle)
	u.must(err, "settle")
}

func (u *truth) post(body []byte, as string) ledger.Answer {
	return u.sender.Send(u.ctx, transport.HTTPRequest{Method: http.MethodPost, URL: u.down.URL() + "/v1/payouts", Body: body,
		Header: http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + as}}, Limits: transport.Limits{Timeout: 10 * time.Second}})
}

// badList is what ails the downstream's lists during one look.
func (u *truth) badList() {
	share := []float64{0, 0.3, 0.7}[u.random.IntN(3)]
	troubles := []faults.Trouble{
		{},
		{Fault: faults.Lag, For: u.upTo(truthVisible)},
		{Fault: faults.Rename, FromName: "metadata", To: "meta"},
		{Fault: faults.Rename, FromName: "amount", To: "amount_cents"},
		{Fault: faults.Rename, FromName: "id", To: "payout"},
		{Fault: faults.Truncate, Limit: 2},
		{Fault: faults.Stale, Rate: share},
		{Fault: faults.Foreign},
		{Fault: faults.BreakList, Status: 500, Rate: share},
		{Fault: faults.BreakList, Status: 429, Rate: share},
		{Fault: faults.BreakList, Status: 401},
		{Fault: faults.BreakList, Status: 302, Rate: share},
		{Fault: faults.BreakList, Status: 200, Answer: "<html><body>Sign in</body></html>"},
		{Fault: faults.BreakList, Status: 200, Answer: `{"object":"list","data":[{"id":"po_`},
		{Fault: faults.BreakList, Status: 200, Answer: `{"object":"list","data":[],"has_more":false}`},
		{Fault: faults.CutList, Rate: share},
	}
	t := troubles[u.random.IntN(len(troubles))]
	if t.Fault != "" {
		t.Path = "/v1/payouts"
		u.down.First(t)
	}
}

// setClock sets the wall clock of our host, now and then.
func (u *truth) setClock() {
	if u.random.IntN(3) == 0 {
		u.set.Store(int64(u.upTo(2*truthSet) - truthSet))
	}
}

// goodList ends what ails the lists, and only that.
func (u *truth) goodList() {
	u.down.ShowLists()
	u.always()
}

// look lets an engine read and settle what is due, which sends no write (I5), and a person
// send again what is proven not to have landed. A new one every time: it has no memory of
// troubles that were long ago by the clock.
func (u *truth) look() {
	u.Helper()
	e := reconcile.New(reconcile.Options{Store: u.store, Policy: func() *policy.Policy { return u.policy }, Clock: u.wall, Steady: hostclock.With(u.now),
		Actor: someone})
	defer e.Close()
	before := u.written()
	_, err := e.Once(u.ctx, nil)
	u.must(err, "reconcile")
	if n := u.written() - before; n != 0 {
		u.Fatalf("the engine sent %d writes", n)
	}
	for _, w := range u.wishes {
		if w.kind != "again" {
			continue
		}
		if p, err := e.Plan(u.ctx, w.id); err == nil && p.Refused == nil && p.Basis == ledger.BasisProof && p.Record.Operation.Doubted && p.Attempt <= 4 {
			_, _ = e.Retry(u.ctx, reconcile.RetryRequest{ID: w.id, Version: p.Record.Operation.Version, Basis: p.Basis, Showing: p.Showing, Actor: someone})
		}
	}
}

// written is how many writes have arrived.
func (u *truth) written() (n int) {
	for _, r := range u.down.Requests() {
		if r.Method != http.MethodGet {
			n++
		}
	}
	return n
}

// made is what really happened to a wish, or will have.
func (u *truth) made(w *truthWish) (ids []string) {
	u.Helper()
	for _, e := range u.down.Effects(w.token) {
		ids = append(ids, e.ID)
	}
	return ids
}

// neverWrong compares what is settled with what really happened.
func (u *truth) neverWrong() {
	u.Helper()
	events, place, err := u.store.Follow(u.ctx, u.place, 100_000)
	u.must(err, "read the history")
	u.place = place
	moved := map[string]bool{}
	for _, e := range events {
		moved[e.OperationID] = true
	}
	for _, w := range u.wishes {
		if !moved[w.id] {
			continue
		}
		rec, err := u.store.Read(u.ctx, ledger.Locator{ID: w.id})
		u.must(err, "read")
		o, made := rec.Operation, u.made(w)
		wrong := ""
		switch {
		case o.State == ledger.Committed && len(made) == 0:
			wrong = "it did not happen"
		case o.State == ledger.Committed && w.other && !o.ByAnswer:
			wrong = "something else happened"
		case o.State == ledger.Failed && len(made) > 0:
			wrong = fmt.Sprintf("it happened %d times", len(made))
		case o.Conflict == ledger.ConflictTwice && len(made) < 2:
			wrong = fmt.Sprintf("it happened %d times", len(made))
		case o.Conflict == ledger.ConflictDifferent && !w.other:
			wrong = "nothing else happened"
		case o.Conflict == ledger.ConflictDisputed:
			wrong = "nothing disagrees"
		case len(made) > 1 && !w.twice:
			wrong = "it was sent again although it had landed"
		}
		for _, r := range o.Receipts {
			if !slices.Contains(made, r) {
				wrong = "receipt " + r + " is not of it"
			}
		}
		if wrong != "" {
			u.Fatalf("%s (%s) is %s %s: %s\nread: %s", w.kind, w.fault, o.State, o.Conflict, wrong, reasons(rec))
		}
	}
}

func reasons(rec ledger.Record) string {
	var out []string
	for _, r := range rec.Reads {
		out = append(out, fmt.Sprintf("%s %s: %s", r.BeganAt.Format("15:04:05"), r.Verdict, r.Reason))
	}
	for _, a := range rec.Attempts {
		out = append(out, fmt.Sprintf("attempt %d %s %s–%s", a.N, a.Final(), a.StartedAt.Format("15:04:05"), a.EndedAt.Format("15:04:05")))
	}
	return strings.Join(out, "\n      ")
}

// allSettled says, from what really happened alone, how each must stand after
// the downstream was well for long enough.
func (u *truth) allSettled(tally func(kind string, rec ledger.Record)) (settled int) {
	u.Helper()
	partly := map[string]bool{"plain": true, "forgets": true, "lags": true, "open": true, "shifts": true, "cut": true, "customer": true, "stranger": true}
	for _, w := range u.wishes {
		rec, err := u.store.Read(u.ctx, ledger.Locator{ID: w.id})
		u.must(err, "read")
		o, made := rec.Operation, u.made(w)
		if len(made) == 0 && o.Doubted {
			tally(w.kind, rec)
		}
		if partly[w.kind] && o.State == ledger.Uncertain {
			continue // it may never be seen
		}
		if partly[w.kind] && w.twice && o.Conflict == ledger.NoConflict {
			continue // and so may its second effect
		}
		state, conflict := ledger.Committed, ledger.NoConflict
		switch {
		case w.other && !o.ByAnswer:
			state, conflict = ledger.Uncertain, ledger.ConflictDifferent
		case len(made) > 1:
			conflict = ledger.ConflictTwice
		case len(made) == 0 && (w.kind == "unbounded" || w.kind == "unseen") && o.Doubted:
			state = ledger.Uncertain // nothing proves absence here
		case len(made) == 0:
			state = ledger.Failed
		}
		if o.State != state || o.Conflict != conflict || conflict == ledger.ConflictTwice && len(o.Receipts) != len(made) {
			u.Fatalf("%s (%s), which happened %d times, is %s %q with receipts %v; it can be known to be %s %q\nread: %s",
				w.kind, w.fault, len(made), o.State, o.Conflict, o.Receipts, state, conflict, reasons(rec))
		}
		if w.kind == "again" && o.Doubted && state == ledger.Failed && o.AttemptCount < 4 {
			u.Fatalf("again (%s) did not land and was not sent again\nread: %s", w.fault, reasons(rec))
		}
		settled++
	}
	return settled
}

// worlds is how many seeds are tried, and wideWorlds how many of each connector, of which
// some need a program that is built first. The soak lane tries many more.
var (
	worlds     uint64 = 3
	wideWorlds        = map[string]int{"http": 6, "sql": 3}
)

// TestI6_NothingIsSettledAgainstTheTruth lets a downstream fail its callers in
// every way it knows, while an engine reads and settles at odd times:
// nothing is ever settled that is not so, nothing is sent twice, and when the
// downstream is well again, all that can be known is.
func TestI6_NothingIsSettledAgainstTheTruth(t *testing.T) {
	t.Setenv("TRUTH_KEY", "sk_truth")
	const each = 30
	var wishes, settled atomic.Int64
	var (
		mu    sync.Mutex
		share = map[string][3]int{} // of each kind, what did not happen: all, not seen, not there
	)
	tally := func(kind string, rec ledger.Record) {
		mu.Lock()
		defer mu.Unlock()
		n := share[kind]
		n[0]++
		if slices.ContainsFunc(rec.Reads, func(r ledger.Read) bool { return r.Verdict == ledger.NotThere }) {
			n[2]++
		} else if slices.ContainsFunc(rec.Reads, func(r ledger.Read) bool { return r.Verdict == ledger.NotSeen }) {
			n[1]++
		}
		share[kind] = n
	}
	var all sync.WaitGroup
	few := make(chan struct{}, 8) // they mostly wait
	for seed := range worlds {
		all.Add(1)
		few <- struct{}{}
		go func() {
			defer func() { <-few; all.Done() }()
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				u := newTruth(t, seed)
				for len(u.wishes) < each {
					for range 1 + u.random.IntN(each/4) {
						u.wish()
						u.pass(u.upTo(time.Second))
					}
					u.badList()
					u.setClock()
					u.look()
					u.neverWrong()
					u.goodList()
					u.pass(u.upTo(40 * time.Second))
				}
				for range 4 {
					u.badList()
					u.look()
					u.neverWrong()
					u.goodList()
					u.pass(u.upTo(30 * time.Second))
				}
				u.set.Store(0)
				u.pass(2 * truthSet) // until the wall clock agrees that time has passed
				for range 9 {        // three more sends by a person, with a proof between each two
					u.pass(truthLands + truthVisible + 6*time.Second)
					u.look()
					u.neverWrong()
				}
				u.pass(2 * time.Hour)
				u.look()
				u.neverWrong()
				wishes.Add(int64(len(u.wishes)))
				settled.Add(int64(u.allSettled(tally)))
			})
		}()
	}
	all.Wait()
	t.Logf("%d operations, %d settled as can be known", wishes.Load(), settled.Load())
	for _, kind := range slices.Sorted(maps.Keys(share)) {
		n := share[kind]
		t.Logf("%-10s %4d did not happen: %3d%% not there, %3d%% not seen", kind, n[0], 100*n[2]/n[0], 100*n[1]/n[0])
	}
}
