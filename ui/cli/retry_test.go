package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// shop is a downstream that remembers what it was asked to do.
type shop struct {
	*httptest.Server
	mu      sync.Mutex
	charges []map[string]any
	sends   int
	fail    int // answer the next writes with this status, after applying them
	refuse  int // answer the next writes with this status, without applying them
}

func newShop(t *testing.T) *shop {
	s := &shop{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		json.NewEncoder(w).Encode(map[string]any{"charges": s.charges})
		return
	}
	s.sends++
	var charge map[string]any
	if err := json.NewDecoder(r.Body).Decode(&charge); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.refuse != 0 {
		http.Error(w, `{"error":"card declined"}`, s.refuse)
		return
	}
	charge["id"] = fmt.Sprintf("ch_%d", len(s.charges)+1)
	s.charges = append(s.charges, charge)
	if s.fail != 0 {
		http.Error(w, `{}`, s.fail)
		return
	}
	json.NewEncoder(w).Encode(charge)
}

func (s *shop) effects() (effects, sends int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.charges), s.sends
}

const shopPolicy = `version: 1
downstreams:
  shop:
    base: BASE
    key: { header: Idempotency-Key, remembers: 24h }
  blind: { base: BASE }
kinds:
  keyed:
    downstream: shop
    title: charge ${input.customer}
    cost: { duplicate: 24000, miss: 12000 }
    token: { into: token }
    lands_within: 0s
    visible_within: 0s
    read:
      http: { get: /charges }
      valid: status == 200
      list: body.charges
      mark: it.token
      complete: "true"
      receipt: it.id
    resend: here
    retry: { max: 2 }
  invoiced:
    downstream: shop
    title: charge ${input.invoice}
    key: { from: [invoice] }
    cost: { duplicate: 24000, miss: 12000 }
    lands_within: 0s
    resend: here
    retry: { max: 2 }
  blind:
    downstream: blind
    title: charge ${input.customer}
    cost: { duplicate: 24000, miss: 12000 }
    resend: here
  worded:
    downstream: blind
    cost: { duplicate: severe, miss: low }
    resend: here
  handed:
    downstream: shop
    cost: { duplicate: 10, miss: 10 }
    lands_within: 0s
    retry: { max: 1 }
`

func newShopBench(t *testing.T) (*bench, *shop) {
	s := newShop(t)
	b := newBench(t)
	b.now, b.sentTo = time.Now().UTC().Truncate(time.Millisecond).Add(-time.Minute), s.URL
	need.OK(t, os.WriteFile(b.policy, []byte(strings.ReplaceAll(shopPolicy, "BASE", s.URL)), 0o600))
	return b, s
}

const plain = `{"customer":"cus_9","amount":12000}`

func TestRetrySendsOnceAndShowsWhatFirst(t *testing.T) {
	b, s := newShopBench(t)
	b.doubt(1, "keyed", plain)
	out := b.want(0, "retry", b.at(1), "--dry-run")
	need.Contains(t, out, "charge cus_9", "ALLOWED BECAUSE", "POST "+s.URL+"/charges", `"amount":12000`, "same key k-01", "one more check", "UNDO")
	if effects, sends := s.effects(); effects+sends != 0 {
		t.Fatal("a rehearsal has sent")
	}
	before := b.at(1)
	args := []string{"retry", before, "--reason", "outage over", "--idempotency-key", "R1"}
	a := b.json(0, args...)
	if ops := a.operations(t); a.Effect != "updated" || ops[0].State != "committed" || ops[0].Receipt == nil || *ops[0].Receipt != "ch_1" {
		t.Errorf("%s %s", a.Effect, a.Data)
	}
	need.That(t, strings.Contains(string(a.Data), `"did":"sent"`) && strings.Contains(string(a.Data), `"basis":"key_safe"`), "%s", a.Data)
	if a := b.json(0, args...); a.Effect != "noop" {
		t.Errorf("the repeat: %s %s", a.Effect, a.Data)
	}
	if a := b.json(4, "retry", before, "--reason", "again"); a.Error.Code != "moved" {
		t.Errorf("%+v", a.Error)
	}
	if effects, sends := s.effects(); effects != 1 || sends != 1 {
		t.Errorf("%d effects of %d sends", effects, sends)
	}
}

// A command that was killed when it had sent, and before it wrote that down, tells what
// came of its send when it is repeated, and not that someone else moved the row.
func TestI10_ARepeatTellsOfWhatTheKilledCommandHadSent(t *testing.T) {
	b, s := newShopBench(t)
	b.doubt(1, "keyed", plain)
	seen, o, ctx := b.at(1), b.rec(1).Operation, context.Background()
	flags := &decideFlags{reason: "outage over", idempotencyKey: "R1"}
	run := ledger.DecisionRun{IdempotencyKey: "R1", Digest: flags.digest("retry", []string{seen}), Verb: "retry", Actor: ledger.Actor{Name: "maya"}, CreatedAt: b.now}
	item := ledger.RunItem{OperationID: o.ID, Version: o.Version}
	run, _, err := b.open().Run(ctx, run, []ledger.RunItem{item})
	need.OK(t, err)
	change := run.ChangeID(item)
	attempt := ledger.DeriveID(change, "attempt")
	need.Get(ledger.Allow(ctx, b.open(), ledger.AllowRequest{ChangeID: change, AllowID: ledger.DeriveID(change, "allow"), OperationID: o.ID, Version: o.Version, Basis: ledger.BasisKeySafe,
		Sender: "http", KeyWorks: true, Actor: run.Actor, Reason: "outage over", ExpiresAt: b.now.Add(time.Hour), AttemptID: attempt, TokenSent: true, Deadline: time.Minute}))(t)
	need.Get(ledger.Settle(ctx, b.open(), ledger.SettleRequest{ChangeID: "s", AttemptID: attempt, Outcome: ledger.OutcomeUncertain, Error: "lost", Status: -1, Actor: run.Actor}))(t)
	b.json(6, "retry", seen, "--reason", "outage over", "--idempotency-key", "R1")
	need.Contains(t, b.want(0, "runs", run.ID), "1 = 1 unclear")
	b.want(0, "confirm", b.at(1), "--reason", "found there")
	need.Equal(t, b.json(0, "retry", seen, "--reason", "outage over", "--idempotency-key", "R1").Effect, "noop", "once it is settled")
	_, sends := s.effects()
	need.Equal(t, sends, 0)
}

func TestRetryAsksAPersonFirst(t *testing.T) {
	b, s := newShopBench(t)
	b.doubt(1, "keyed", plain)
	b.terminal, b.typed = true, "n\n"
	out := b.want(5, "retry", id(1))
	need.Contains(t, out, "Send once? [y/N]", "WILL SEND", "nothing was sent")
	b.typed = "" // the end of input is no yes
	b.want(5, "retry", id(1))
	if _, sends := s.effects(); sends != 0 {
		t.Fatal("it was sent without a yes")
	}
	b.typed = "y\n"
	b.want(0, "retry", id(1))
	if _, sends := s.effects(); sends != 1 {
		t.Error("it was not sent")
	}
}

func TestRetryFindsThatItLanded(t *testing.T) {
	b, s := newShopBench(t)
	b.doubt(1, "keyed", plain)
	s.charges = append(s.charges, map[string]any{"id": "ch_0", "token": b.rec(1).Operation.Token})
	a := b.json(0, "retry", b.at(1))
	if ops := a.operations(t); ops[0].State != "committed" || !strings.Contains(string(a.Data), `"did":"landed_already"`) {
		t.Errorf("%s", a.Data)
	}
	if _, sends := s.effects(); sends != 0 {
		t.Error("it was sent")
	}
}

func TestI5_RiskNeedsAPersonAReasonAndTheLossTyped(t *testing.T) {
	b, s := newShopBench(t)
	b.doubt(1, "blind", plain)
	for _, args := range [][]string{{"retry", b.at(1), "--reason", "r"}, {"retry", b.at(1), "--reason", "r", "--yes"}, {"retry", b.at(1)}, {"retry", b.at(1), "--dry-run"}} {
		if a := b.json(5, args...); a.Error.Code != "no_person" {
			t.Errorf("%v: %+v", args, a.Error)
		}
	}
	b.terminal = true
	for _, typed := range []string{"why\ny\n", "why\n2400\n", "why\n\n", "\n24000\n", "why\n"} {
		b.typed = typed
		b.want(5, "retry", id(1), "--yes")
	}
	if _, sends := s.effects(); sends != 0 {
		t.Fatal("it was sent")
	}
	b.typed = "customer waits\n24,000\n"
	out := b.want(0, "retry", id(1))
	for _, want := range []string{"RETRY WITHOUT PROOF", "NOBODY KNOWS", "it happens twice: 24,000", "Type 24000"} {
		need.That(t, strings.Contains(out, want), "%q is missing:\n%s", want, out)
	}
	if o := b.rec(1).Operation; o.State != ledger.Committed {
		t.Errorf("%+v", o)
	}
	b.doubt(2, "worded", plain)
	b.typed = "why\nsevere\n"
	b.want(0, "retry", id(2))
	if _, sends := s.effects(); sends != 2 {
		t.Errorf("%d sends", sends)
	}
}

// Overtaken by another that landed, also what is safe to repeat is a risk: only for a
// person at a terminal, and raised once it is sent.
func TestI5_ARetryOfWhatWasOvertakenIsARisk(t *testing.T) {
	b, s := newShopBench(t)
	b.target = "cus_9"
	b.doubt(1, "keyed", plain)
	b.doubt(2, "keyed", plain)
	b.want(0, "confirm", b.at(2), "--receipt", "ch_7", "--reason", "seen")
	for _, args := range [][]string{{"retry", b.at(1)}, {"retry", b.at(1), "--reason", "r", "--yes"}} {
		if a := b.json(5, args...); a.Error.Code != "no_person" {
			t.Errorf("%v: %+v", args, a.Error)
		}
	}
	b.terminal, b.typed = true, "both are wanted\ny\n"
	b.want(5, "retry", id(1))
	if _, sends := s.effects(); sends != 0 {
		t.Fatal("it was sent")
	}
	b.typed = "both are wanted\n24000\n"
	out := b.want(0, "retry", id(1))
	for _, want := range []string{"RETRY WITHOUT PROOF", "NOT ALONE", "a later operation on the same target landed", "OVERTAKEN BY", "Type 24000"} {
		need.That(t, strings.Contains(out, want), "%q is missing:\n%s", want, out)
	}
	if o := b.rec(1).Operation; o.State != ledger.Committed || o.Conflict != ledger.ConflictMaybeTwice {
		t.Errorf("%s, conflict %q", o.State, o.Conflict)
	}
}

// Two charges of one invoice are one operation by the fields that the kind makes its key of,
// under whatever keys they came and whatever else they say.
func TestI5_AnotherNoteMakesNoOtherInvoice(t *testing.T) {
	b, _ := newShopBench(t)
	begin := func(key, input string) (id, attempt string) {
		var begun struct{ ID, Handle string }
		if err := json.Unmarshal(b.json(0, "begin", "--kind", "invoiced", "--key", key, "--input", input).Data, &begun); err != nil || begun.Handle == "" {
			t.Fatal(err, begun)
		}
		return begun.ID, begun.Handle
	}
	first, attempt := begin("A", `{"invoice":"INV-1","note":"first"}`)
	b.want(0, "settle", attempt, "--outcome", "committed", "--receipt", "ch_0")
	again := b.json(9, "begin", "--kind", "invoiced", "--key", "B", "--input", `{"invoice":"INV-1","note":"second"}`)
	need.Equal(t, again.begun(t).ID, first, "its invoice names it")
	other, attempt := begin("C", `{"invoice":"INV-2","note":"second"}`)
	b.want(0, "settle", attempt, "--outcome", "uncertain", "--error", "timeout")
	b.json(0, "retry", other+"@2", "--reason", "r")
	need.Contains(t, b.want(0, "show", other), "send allowed")
}

// What was sent under a key, lost by the ledger, and sent again under it is one row for each:
// the lost one is listed as what may have happened twice, with both receipts, until a
// person has dealt with it.
func TestI9_WhatWasLostAndSentAgainIsListed(t *testing.T) {
	lost, b := newBench(t), newBench(t)
	req := ledger.BeginRequest{ChangeID: "lost-c", OperationID: "lost", AttemptID: "lost.1", Kind: "post", Key: "K", Token: "t", Fingerprint: "f", Title: "post the report",
		Source: ledger.Source{Pipeline: "nightly"}, Sender: "pipeline", Deadline: time.Minute, Actor: ledger.Actor{Name: "nightly", Machine: true}}
	res := need.Get(ledger.Begin(t.Context(), lost.open(), req))(t)
	b.now = b.now.Add(time.Second)
	again := req
	again.ChangeID, again.OperationID, again.AttemptID, again.Token = ledger.NewID(), "again", "again.1", "u"
	_ = need.Get(ledger.Begin(t.Context(), b.open(), again))(t)
	b.want(0, "settle", "again.1."+again.ChangeID, "--outcome", "committed", "--receipt", "r-again")
	settle := ledger.SettleRequest{ChangeID: "lost-s", AttemptID: "lost.1", Outcome: ledger.OutcomeCommitted, Receipt: "r-lost", Status: -1, Actor: req.Actor}
	need.Equal(t, need.Get(ledger.SettleSent(t.Context(), b.open(), ledger.SentOf(req, res), settle))(t).After.KeyLive, false, "holds the key")
	out := b.want(0, "list", "lane:conflict")
	need.That(t, strings.Contains(out, "lost@2") && !strings.Contains(out, "again@"), "%s", out)
	out = b.want(0, "show", "lost")
	for _, want := range []string{"r-lost", "overtaken by: post the report", "receipt r-again", "was sent beside again (r-again)"} {
		need.Contains(t, out, want)
	}
	b.want(0, "ack", "lost@2", "--truth", "both_wanted", "--reason", "both went out")
	need.That(t, !strings.Contains(b.want(0, "list", "lane:conflict"), "lost@"), "it is listed still")
}

// What a rehearsal showed can be named, and then nothing else is sent.
func TestI7_ARetryIsBoundToADigest(t *testing.T) {
	b, s := newShopBench(t)
	b.doubt(1, "keyed", plain)
	var plan struct {
		Operations []struct {
			Plan struct {
				Digest string `json:"request_digest"`
			} `json:"plan"`
		} `json:"operations"`
	}
	if err := json.Unmarshal(b.json(0, "retry", b.at(1), "--dry-run").Data, &plan); err != nil || len(plan.Operations) != 1 {
		t.Fatal(err)
	}
	digest := plan.Operations[0].Plan.Digest
	policy := need.Get(os.ReadFile(b.policy))(t)
	other := strings.ReplaceAll(string(policy), "header: Idempotency-Key", "header: X-Once")
	need.OK(t, os.WriteFile(b.policy, []byte(other), 0o600))
	if a := b.json(4, "retry", b.at(1), "--request-digest", digest); a.Error.Code != "moved" || !strings.Contains(a.Error.Message, "+ X-Once: k-") {
		t.Errorf("%+v", a.Error)
	}
	b.failing(2, "usage", "retry", b.at(1), id(2), "--request-digest", digest)
	if _, sends := s.effects(); sends != 0 {
		t.Fatal("it was sent")
	}
	need.OK(t, os.WriteFile(b.policy, policy, 0o600))
	b.json(0, "retry", b.at(1), "--request-digest", digest)
	if _, sends := s.effects(); sends != 1 {
		t.Error("it was not sent")
	}
}

func TestWhatBecameOfARetryIsItsExitCode(t *testing.T) {
	b, s := newShopBench(t)
	for n := 1; n <= 4; n++ {
		b.doubt(n, "keyed", strings.Replace(plain, "cus_9", "cus_"+id(n)[34:], 1))
	}
	s.fail = 500
	if a := b.json(6, "retry", b.at(1)); a.Error.Code != "in_doubt" || a.operations(t)[0].State != "uncertain" {
		t.Errorf("%+v %s", a.Error, a.Data)
	}
	s.fail, s.refuse = 0, 403
	exit, stdout, _ := b.run("retry", b.at(2), "--json")
	need.That(t, (exit == 1 || exit == 6) && !strings.Contains(stdout, `"state":"committed"`), "refused: exit %d %s", exit, stdout)
	s.refuse = 0
	// What is said against a hold lifts it.
	for _, scope := range []string{"keyed", "--all"} {
		b.want(0, "hold", scope, "--reason", "outage")
		a := b.json(5, "retry", b.at(3))
		lift, found := strings.CutSuffix(a.Error.Hint, " --reason …")
		if a.Error.Code != "hold" || !strings.Contains(a.Error.Message, "maya") || !found {
			t.Errorf("%+v", a.Error)
		}
		need.Contains(t, b.want(0, append(strings.Fields(lift)[1:], "--reason", "over")...), "released")
	}
	b.want(0, "retry", b.at(3), b.at(4))
}

// An outage that is not over stops a run of several: the rest is left as it was.
func TestARunOfRetriesStopsAtUnclearAnswers(t *testing.T) {
	b, s := newShopBench(t)
	args := []string{"retry", "--reason", "outage over"}
	for n := 1; n <= 6; n++ {
		b.doubt(n, "keyed", strings.Replace(plain, "cus_9", fmt.Sprint("cus_", n), 1))
		args = append(args, b.at(n))
	}
	s.fail = 500
	a := b.json(6, args...)
	if _, sends := s.effects(); sends != 1 { // one of the first three is enough
		t.Errorf("%d sends", sends)
	}
	for n, op := range a.operations(t) {
		need.That(t, n < 1 || op.Error != nil && op.Error.Code == "over" && len(b.rec(n+1).Attempts) == 1, "%d: %+v", n+1, op.Error)
	}
}

// A run that takes long says how far it is.
func TestALongRunTellsHowFarItIs(t *testing.T) {
	beside.Store(t, true) // it changes progressEvery for all
	defer func(every time.Duration) { progressEvery = every }(progressEvery)
	progressEvery = 0
	b, _ := newShopBench(t)
	args := []string{"retry", "--reason", "outage over"}
	for n := 1; n <= 2; n++ {
		b.doubt(n, "keyed", strings.Replace(plain, "cus_9", fmt.Sprint("cus_", n), 1))
		args = append(args, b.at(n))
	}
	exit, _, stderr := b.run(args...)
	need.Equal(t, exit, 0)
	need.Contains(t, stderr, "2 = 1 landed + 1 to go")
}

func TestARetryForAPipelineIsAllowedAndWaits(t *testing.T) {
	b, s := newShopBench(t)
	b.doubt(1, "handed", plain)
	a := b.json(0, "retry", b.at(1))
	need.That(t, strings.Contains(string(a.Data), `"did":"allowed"`) && strings.Contains(string(a.Data), `"lane":"unfetched"`), "%s", a.Data)
	if _, sends := s.effects(); sends != 0 {
		t.Error("it was sent from here")
	}
	need.Contains(t, string(b.json(0, "show", id(1)).Data), `"verb":"allow"`)
}

func TestCheckNowAndOnce(t *testing.T) {
	b, s := newShopBench(t)
	b.doubt(1, "keyed", plain)
	b.doubt(2, "keyed", strings.Replace(plain, "cus_9", "cus_8", 1))
	b.doubt(3, "blind", plain)
	s.charges = append(s.charges, map[string]any{"id": "ch_0", "token": b.rec(1).Operation.Token})
	a := b.json(0, "check", id(1))
	need.That(t, a.Effect == "updated" && a.operations(t)[0].State == "committed" && strings.Contains(string(a.Data), `"verdict":"landed"`), "%s %s", a.Effect, a.Data)
	if r := b.rec(1).Reads; len(r) != 1 || r[0].Actor != "checks, check of maya" {
		t.Errorf("the check is not signed by the check, with who asked: %+v", r)
	}
	if a := b.json(6, "check", id(1), id(2)); a.Error.Code != "in_doubt" {
		t.Errorf("%+v", a.Error)
	}
	if a := b.json(5, "check", id(3)); a.Error.Code != "no_check" {
		t.Errorf("%+v", a.Error)
	}
	exit, stdout, stderr := b.run("check")
	need.That(t, exit == 6 && strings.Contains(stderr, "2 in doubt") && strings.Contains(stderr, "indoubt list state:uncertain"), "exit %d\n%s%s", exit, stdout, stderr)
	if a := b.json(6, "check"); a.Error.Code != "in_doubt" || !strings.Contains(string(a.Data), `"in_doubt":2`) {
		t.Errorf("%+v %s", a.Error, a.Data)
	}
	b.want(0, "abandon", b.at(2), "--reason", "nobody can tell")
	b.want(0, "abandon", b.at(3), "--reason", "nobody can tell")
	need.Contains(t, b.want(0, "check"), "nothing is due")
	if _, sends := s.effects(); sends != 0 {
		t.Error("a check has sent")
	}
	b.failing(2, "usage", "engine", id(1))
}

func TestPolicyTryShowsWhatTheCheckMakesOfTheAnswer(t *testing.T) {
	b, s := newShopBench(t)
	b.doubt(1, "keyed", plain)
	s.charges = append(s.charges, map[string]any{"id": "ch_0", "token": b.rec(1).Operation.Token})
	before := b.lastEvent()
	out := b.want(0, "policy", "try", "keyed", "--op", "0198")
	for _, want := range []string{"GET " + s.URL + "/charges", "status 200", "LIST", "OWN", "ch_0", "VERDICT   landed"} {
		need.That(t, strings.Contains(out, want), "%q is missing:\n%s", want, out)
	}
	a := b.json(0, "policy", "try", "keyed", "--op", id(1))
	need.That(t, strings.Contains(string(a.Data), `"verdict":"landed"`), "%s", a.Data)
	need.That(t, b.lastEvent() == before && len(b.rec(1).Reads) == 0, "trying has recorded something")
	b.failing(5, "no_check", "policy", "try", "blind", "--op", id(1))
	b.failing(2, "usage", "policy", "try", "keyed")
	b.failing(3, "not_found", "policy", "try", "keyed", "--op", "ffff")
}

func TestPolicyCommands(t *testing.T) {
	b := newBench(t)
	b.open()
	need.Contains(t, b.want(0, "policy", "check"), "is good: 2 kinds, 1 downstream")
	need.Contains(t, b.want(0, "policy", "show"), "stripe.charge", "checked")
	need.Contains(t, b.want(0, "policy", "show", "stripe.charge"), "2m")
	b.json(0, "policy", "show", "stripe.charge")
	b.json(0, "policy", "show")
	path := filepath.Join(b.dir, "sub", "new.yaml")
	need.Equal(t, b.json(0, "policy", "init", path).Effect, "created")
	need.Equal(t, b.json(0, "policy", "init", path).Effect, "noop")
	b.want(0, "policy", "check", path)
	b.want(0, "--policy", path, "policy", "test")
	b.failing(4, "exists", "policy", "init", b.policy)
	b.want(2, "policy")
}
