//go:build soak

package cli_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest/faults"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

// outageKinds have no key that is remembered: a second send is a second effect. A wire
// is sent by its pipeline alone.
const outageKinds = `
version: 1
defaults: { deadline: 2s, cost: { duplicate: high, miss: medium } }
downstreams:
  plain: { base: @BASE@, outage: { errors: 3, within: 20s, gap: 6s }, headers: { Authorization: "Bearer ${env.E2E_KEY}" } }
kinds:
  wire:` + byToken + `
  payout:` + byToken + `
    resend: here
`

const byToken = `
    downstream: plain
    token: { into: metadata.indoubt }
    lands_within: 2s
    visible_within: 0s
    cost: { duplicate: input.amount / 50, miss: input.amount / 100 }
    retry: { max: 5 }
    read:
      http: { get: /v1/payouts, query: { destination: "${input.destination}", limit: 100, starting_after: "${cursor}" } }
      valid: status == 200 && body.object == "list"
      list: body.data
      mark: it.metadata.indoubt
      complete: "!body.has_more"
      next: body.data[size(body.data) - 1].id
      stable: true
      receipt: it.id`

// outage is a downstream in trouble, with everyone who works on it.
type outage struct {
	*site
	store ledger.Store
	over  context.Context
	all   sync.WaitGroup

	mu       sync.Mutex
	acts     map[string]int // by verb
	refusals map[string]int // by code
	samples  map[string]string
}

// named are all who may have moved something, as refusals name them.
var named = regexp.MustCompile(`\b(vera|sam|nightly|sql|checks|clock)\b`)

// byOther are the refusals because of what somebody else did.
var byOther = map[string]bool{"moved": true, "in_progress": true, "hold": true, "over": true}

// act runs a command as an operator, and looks at how it was refused.
func (o *outage) act(who string, args ...string) result {
	r := o.do(append(args, "--as", who, "--json")...)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acts[args[0]]++
	if code := r.Status.Error.Code; code != "" {
		o.refusals[args[0]+" "+code]++
		o.samples[args[0]+" "+code] = r.Status.Error.Message
		need.That(o, !byOther[code] || named.MatchString(r.Status.Error.Message),
			"%v is refused and does not name who: %s", args, r.Status.Error.Message)
	} else if r.Exit != 0 && !r.Status.OK && len(r.Status.Data) == 0 {
		o.Errorf("%v: exit %d: %s%s", args, r.Exit, r.Out, r.Err)
	}
	return r
}

// operator does what comes to mind, by what was on the screen some acts ago.
func (o *outage) operator(who string, luck *rand.Rand) {
	var seen [][]string
	for n := 0; o.over.Err() == nil; n++ {
		if n%3 == 0 || len(seen) == 0 { // what it sees grows old
			seen = o.rows(`SELECT id || '@' || version, coalesce((SELECT id FROM outage ORDER BY last_at DESC LIMIT 1), ''), id FROM op ORDER BY seq DESC LIMIT 60`)
		}
		if len(seen) == 0 {
			continue
		}
		row := seen[luck.IntN(len(seen))]
		reason := []string{"--reason", who + " thinks so", "--yes"}
		one := func(verb string, more ...string) {
			o.act(who, append(append([]string{verb, row[0]}, more...), reason...)...)
		}
		switch luck.IntN(16) {
		case 0:
			one("confirm", "--receipt", "po_"+strconv.Itoa(n))
		case 1:
			one("deny")
		case 2, 3:
			one("retry")
		case 4:
			one("abandon")
		case 5:
			one("park", "--until", "5s")
		case 6, 7:
			one("undo")
		case 8:
			one("note")
		case 9:
			one("ack", "--truth", []string{"not_landed", "both_wanted"}[luck.IntN(2)])
		case 10, 11:
			o.bulk(who, seen, luck)
		case 12, 13:
			o.runs(who, luck)
		case 14:
			o.act(who, "check", row[2])
		default:
			o.onOutage(who, row, luck)
		}
	}
}

// bulk decides about several rows at once.
func (o *outage) bulk(who string, seen [][]string, luck *rand.Rand) {
	verb := []string{"retry", "retry", "park", "abandon"}[luck.IntN(4)]
	args := []string{verb, "--reason", "outage over", "--yes"}
	if verb == "park" {
		args = append(args, "--until", "5s")
	}
	for _, i := range luck.Perm(len(seen))[:min(6, len(seen))] {
		args = append(args, seen[i][0])
	}
	o.act(who, args...)
}

// runs goes on with a run or ends it, whoever began it.
func (o *outage) runs(who string, luck *rand.Rand) {
	open := o.rows(`SELECT id FROM ev e WHERE about = 'run:' || id AND NOT EXISTS (SELECT 1 FROM ev f WHERE f.about = e.about AND f.verb = 'run_over')`)
	if len(open) == 0 {
		return
	}
	verb := []string{"resume", "resume", "resume", "stop"}[luck.IntN(4)]
	o.act(who, "runs", verb, open[luck.IntN(len(open))][0])
}

func (o *outage) onOutage(who string, row []string, luck *rand.Rand) {
	if row[1] == "" {
		return
	}
	if luck.IntN(6) == 0 {
		o.act(who, "hold", "payout", "--reason", who+" looks", "--yes")
		o.act(who, "release", "payout", "--reason", "looked", "--yes")
		return
	}
	o.act(who, "outage", "take", row[1], "--until", "2s", "--yes")
}

// pipeline writes, and comes for what it was allowed. Some of its answers are late.
func (o *outage) pipeline(luck *rand.Rand) {
	for n := 0; o.over.Err() == nil; n++ {
		kind := []string{"wire", "payout"}[luck.IntN(2)]
		o.write(kind, fmt.Sprintf("%s-%d", kind, n), fmt.Sprintf(`{"currency":"usd","destination":"d%d","amount":%d,"note":"n%d"}`, n%40, 100*(1+luck.IntN(90)), n), luck)
		for _, row := range o.rows(`SELECT o.kind, o.name, ` + inputSQL + ` FROM op o WHERE o.allow_until <> 0 AND o.kind = 'wire' LIMIT 2`) {
			if luck.IntN(2) == 0 {
				o.write(row[0], row[1], row[2], luck)
			}
		}
		time.Sleep(time.Duration(100+luck.IntN(300)) * time.Millisecond)
		if luck.IntN(40) == 0 { // a lull ends an outage
			time.Sleep(8 * time.Second)
		}
	}
}

var pipelineActor = ledger.Actor{Name: "nightly", Machine: true}

// write is one write of a pipeline, whose answer is recorded at once, late or never.
func (o *outage) write(kind, key, input string, luck *rand.Rand) {
	ctx := context.Background()
	begun, err := ledger.Begin(ctx, o.store, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: kind, Key: key,
		Token: ledger.NewToken(), Fingerprint: key, Input: []byte(input), TokenSent: true, Deadline: 2 * time.Second, Actor: pipelineActor, Sender: "pipeline", Source: ledger.Source{Pipeline: "nightly"}})
	if err != nil || begun.Answer != ledger.AnswerBegun {
		return
	}
	settle := o.post(input, begun.Operation.Token)
	settle.ChangeID, settle.AttemptID, settle.Actor = ledger.NewID(), begun.Attempt.ID, pipelineActor
	if late := luck.IntN(8); late == 0 { // it dies
		return
	} else if late < 3 {
		time.Sleep(time.Duration(luck.IntN(3000)) * time.Millisecond)
	}
	if _, err := ledger.Settle(ctx, o.store, settle); err != nil && !named.MatchString(err.Error()) {
		o.Errorf("a late answer is refused: %v", err)
	}
}

// post sends once and says what is known of it.
func (o *outage) post(input, token string) ledger.SettleRequest {
	unclear := ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassReset, Error: "no answer", Status: -1}
	req, err := http.NewRequest(http.MethodPost, o.down.URL()+"/v1/payouts", strings.NewReader(strings.TrimSuffix(input, "}")+`,"metadata":{"indoubt":"`+token+`"}}`))
	if err != nil {
		o.Error(err)
		return unclear
	}
	req.Header.Set("Authorization", "Bearer "+ownKey)
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return unclear
	}
	defer resp.Body.Close()
	var answer struct{ ID string }
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	switch {
	case err == nil && resp.StatusCode == 402:
		return ledger.SettleRequest{Outcome: ledger.OutcomeFailed, Proof: ledger.Refused, Status: 402, Error: "declined"}
	case err != nil || resp.StatusCode >= 300 || json.Unmarshal(text.Bytes(), &answer) != nil:
		return unclear
	}
	return ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Receipt: answer.ID, Status: resp.StatusCode}
}

// plainSQL writes in two statements, as the README has it.
func (o *outage) plainSQL(luck *rand.Rand) {
	db, err := sql.Open("sqlite", "file:"+o.ledger+"?_pragma=busy_timeout(60000)")
	if err != nil {
		o.Error(err)
		return
	}
	defer db.Close()
	for n := 0; o.over.Err() == nil; n++ {
		id, token := ledger.NewID(), ledger.NewToken()
		input := fmt.Sprintf(`{"currency":"usd","destination":"s%d","amount":700,"note":%q}`, n%20, id)
		if _, err := db.Exec(`INSERT INTO intent (id, kind, key, token, input, deadline_at, source, actor) VALUES (?, 'payout', ?, ?, ?, ?, 'sql', 'sql')`,
			id, id, token, input, time.Now().Add(20*time.Second).UnixMilli()); err != nil {
			o.Errorf("plain SQL: %v", err)
			return
		}
		answer := o.post(input, token)
		if answer.Outcome == ledger.OutcomeFailed { // two statements cannot prove it
			answer.Outcome, answer.ErrorClass = ledger.OutcomeUncertain, ledger.Class5xx
		}
		if _, err := db.Exec(`INSERT INTO settle (attempt, outcome, receipt, class, reason, actor) VALUES (? || '.1', ?, ?, ?, 'answered', 'sql')`,
			id, string(answer.Outcome), answer.Receipt, string(answer.ErrorClass)); err != nil {
			o.Errorf("plain SQL: %v", err)
		}
		time.Sleep(time.Duration(300+luck.IntN(600)) * time.Millisecond)
	}
}

// auditor looks at every outage after every event: its account adds up, in its fates, its
// groups and its minutes.
func (o *outage) auditor() (looks, events int) {
	for {
		ended := o.over.Err() != nil
		seq, _ := strconv.Atoi(o.rows(`SELECT coalesce(max(seq), 0) FROM ev`)[0][0])
		if seq != events {
			o.recount()
			looks, events = looks+1, seq
		}
		if ended || o.Failed() {
			return looks, events
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// recount adds up each outage.
func (o *outage) recount() {
	ctx, now := context.Background(), time.Now()
	all, err := o.store.Outages(ctx, now, 1000)
	if err != nil {
		o.Error(err)
	}
	for _, in := range all {
		a, err := o.store.Outage(ctx, in.ID, now)
		if err != nil {
			o.Error(err)
			continue
		}
		groups, minutes := 0, 0
		for _, g := range a.Groups {
			groups += g.Sum.N
		}
		for _, m := range a.Minutes {
			minutes += m.N
		}
		need.That(o, groups == a.Errors() && minutes == a.Errors(), "outage %s has %d errors, %d in its groups, %d in its minutes: %v", a.ID, a.Errors(), groups, minutes, a.Fates)
	}
}

// Two operators, an engine, a pipeline and a writer of plain SQL on the same outage, each
// as a process or a store of its own, with random acts: the sums of its outages add up
// after every event, nothing is sent twice or unrecorded, and every refusal because of
// what another did names who. INDOUBT_TEST_OPERATORS says how long, such as 10m;
// INDOUBT_TEST_OPERATORS_SEED which acts.
func TestE2E_TwoOperatorsAndAnEngineOnOneOutage(t *testing.T) {
	long, seed := 8*time.Second, uint64(time.Now().UnixNano())
	var err error
	if text := os.Getenv("INDOUBT_TEST_OPERATORS"); text != "" {
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("INDOUBT_TEST_OPERATORS_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t)
	s.writePolicy(outageKinds)
	s.down.Meet( // a write meets the first whose rate is above its own number
		faults.Trouble{Fault: faults.CommitAndCut, Rate: 0.2},
		faults.Trouble{Fault: faults.CutBefore, Rate: 0.55},
		faults.Trouble{Fault: faults.CommitLaterAndCut, For: 250 * time.Millisecond, Rate: 0.65},
		faults.Trouble{Fault: faults.Refuse, Status: 402, Rate: 0.75},
		faults.Trouble{Fault: faults.BreakList, Status: 500, Rate: 0.02},
	)
	store := need.Get(open.Create(t.Context(), s.ledger, open.Options{}))(t)
	defer store.Close()
	over, end := context.WithCancel(t.Context())
	defer end()
	o := &outage{site: s, store: store, over: over, acts: map[string]int{}, refusals: map[string]int{}, samples: map[string]string{}}
	luck := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	engine := s.start("engine")
	for i, who := range []string{"vera", "sam"} {
		o.all.Go(func() { o.operator(who, luck(uint64(i))) })
	}
	o.all.Go(func() { o.pipeline(luck(2)) })
	o.all.Go(func() { o.plainSQL(luck(3)) })
	o.all.Go(func() { // not before there was an outage, which is slow to come where the machine or the luck is
		defer end()
		time.Sleep(long)
		for limit := time.Now().Add(patience); len(o.rows(`SELECT 1 FROM outage`)) == 0 && time.Now().Before(limit); {
			time.Sleep(100 * time.Millisecond)
		}
	})
	looks, events := o.auditor()
	o.all.Wait()
	s.endEngine(engine)
	o.inTheEnd()
	t.Logf("seed %d, %s: %d events, recounted %d times; %d operations in %d outages, %d effects\nacts %v\nrefusals %v", seed, long, events, looks,
		len(s.rows(`SELECT 1 FROM op`)), len(s.rows(`SELECT 1 FROM outage`)), len(s.truth()), o.acts, o.refusals)
	for _, code := range slices.Sorted(func(yield func(string) bool) {
		for code := range o.samples {
			if !yield(code) {
				return
			}
		}
	}) {
		t.Logf("%s: %s", code, o.samples[code])
	}
}

// inTheEnd compares what was sent with what is recorded, and the ledger with itself.
func (o *outage) inTheEnd() {
	o.Helper()
	sent := map[string]int{}
	for _, q := range o.down.Requests() {
		if q.Method == http.MethodPost {
			sent[tokens.FindString(q.Body)]++
		}
	}
	for token, came := range o.truth() {
		need.That(o, len(came) <= 1, "%s happened at %s", token, came)
	}
	for _, row := range o.rows(`SELECT token, attempt, id FROM op`) {
		if attempts, _ := strconv.Atoi(row[1]); sent[row[0]] > attempts {
			o.Errorf("I3: %s was sent %d times in %d attempts", row[2], sent[row[0]], attempts)
		}
		delete(sent, row[0])
	}
	for token := range sent {
		o.Errorf("I1: %s was sent without a record", token)
	}
	need.That(o, len(o.rows(`SELECT 1 FROM outage`)) != 0, "there was no outage")
	o.sound()
	if r := o.do("doctor"); r.Exit != 0 {
		o.Errorf("doctor: exit %d\n%s%s", r.Exit, r.Out, r.Err)
	}
}
