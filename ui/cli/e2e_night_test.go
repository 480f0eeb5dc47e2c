//go:build soak

package cli_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest/faults"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

// nightKinds can be proven: one whose key is remembered, and one where a second send would
// be a second effect.
const nightKinds = `
version: 1
defaults: { deadline: 2s, cost: { duplicate: high, miss: medium } }
downstreams:
  keyed: { base: @BASE@, headers: { Authorization: "Bearer ${env.E2E_KEY}" }, key: { header: Idempotency-Key, remembers: 24h } }
  plain: { base: @BASE@, headers: { Authorization: "Bearer ${env.E2E_KEY}" } }
kinds:
  charge:
    downstream: keyed` + nightly + `
      http: { get: /v1/payment_intents, query: { customer: "${input.customer}", limit: 100, starting_after: "${cursor}" } }
    resend: here
  payout:
    downstream: plain` + nightly + `
      http: { get: /v1/payouts, query: { destination: "${input.destination}", limit: 100, starting_after: "${cursor}" } }
    resend: here
`

const nightly = `
    token: { into: metadata.indoubt }
    lands_within: 2s
    visible_within: 0s
    retry: { max: 3, backoff: 100ms..300ms }
    read:
      valid: status == 200 && body.object == "list"
      list: body.data
      mark: it.metadata.indoubt
      complete: "!body.has_more"
      next: body.data[size(body.data) - 1].id
      stable: true
      consistent: true
      receipt: it.id`

// A night: pipelines write while the downstream commits and cuts, engines
// are killed, stopped and ended, and somebody locks the
// ledger. In the morning nothing is settled against what really happened,
// nothing happened twice or without a record, and all that can be settled is.
func TestE2E_ANightOfTrouble(t *testing.T) {
	s := newSite(t)
	s.writePolicy(nightKinds)
	store := need.Get(open.Create(t.Context(), s.ledger, open.Options{}))(t)
	defer store.Close()
	for _, kind := range []string{"charge", "payout"} { // a check that finds it sees
		s.request(store, kind, kind+" in the evening", 5)
	}
	s.down.Meet( // a write meets the first whose rate is above its own number
		faults.Trouble{Fault: faults.BreakList, Status: 500, Skip: 10, Times: 10},
		faults.Trouble{Fault: faults.CutList, Skip: 20, Times: 5},
		faults.Trouble{Fault: faults.Stale, Skip: 30, Times: 5},
		faults.Trouble{Fault: faults.CommitAndCut, Rate: 0.2},
		faults.Trouble{Fault: faults.CutBefore, Rate: 0.35},
		faults.Trouble{Fault: faults.CommitLaterAndCut, For: 250 * time.Millisecond, Rate: 0.45},
		faults.Trouble{Fault: faults.CommitAndGateway, Rate: 0.5},
		faults.Trouble{Fault: faults.CommitAndError, Rate: 0.55},
		faults.Trouble{Fault: faults.CommitAndHang, For: 4 * time.Second, Rate: 0.6},
	)
	luck := rand.New(rand.NewPCG(4, 2))
	over, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i, kind := range []string{"charge", "payout", "charge", "payout"} {
		mine := rand.New(rand.NewPCG(4, uint64(i)))
		all.Go(func() {
			for n := 0; over.Err() == nil; n++ {
				s.request(store, kind, fmt.Sprintf("%s-%d-%d", kind, i, n), mine.IntN(6))
				time.Sleep(time.Duration(40+mine.IntN(80)) * time.Millisecond)
			}
		})
	}
	var engines [2]*process
	for i := range engines {
		engines[i] = s.start("engine")
	}
	for range 12 {
		time.Sleep(time.Duration(100+luck.IntN(300)) * time.Millisecond)
		i := luck.IntN(len(engines))
		p := engines[i].cmd.Process
		switch luck.IntN(4) {
		case 0:
			p.Kill()
			engines[i].cmd.Wait()
			engines[i] = s.start("engine")
		case 1:
			p.Signal(syscall.SIGSTOP)
			time.AfterFunc(2500*time.Millisecond, func() { p.Signal(syscall.SIGCONT) })
		case 2:
			s.endEngine(engines[i])
			engines[i] = s.start("engine")
		case 3:
			s.lock(time.Duration(luck.IntN(400)) * time.Millisecond)
		}
	}
	end()
	all.Wait()
	s.down.Recover()
	for _, e := range engines {
		e.cmd.Process.Signal(syscall.SIGCONT)
	}
	s.eventually("all that can be settled is", func() bool {
		open := s.rows(`SELECT id FROM op WHERE state IN ('pending', 'uncertain')`)
		for _, row := range open {
			s.do("check", row[0]) // not waiting for the pauses between checks, which grow
		}
		return len(open) == 0
	})
	for _, e := range engines {
		s.endEngine(e)
	}
	s.judge()
	s.sound()
}

// endEngine tells an engine to end, once one leads. Another one may not have begun its work.
func (s *site) endEngine(p *process) {
	s.Helper()
	p.cmd.Process.Signal(syscall.SIGCONT)
	leads := func(who string) bool {
		return len(s.rows(fmt.Sprintf(`SELECT holder FROM lead WHERE name = 'ledger' AND until > unixepoch() * 1000 AND holder LIKE '%%/%s/%%'`, who))) == 1
	}
	s.eventually("an engine leads", func() bool { return leads("%") })
	began := leads(fmt.Sprint(p.cmd.Process.Pid))
	p.cmd.Process.Signal(syscall.SIGTERM)
	if r := p.finish(); r.Exit != 0 && began {
		s.Errorf("an engine that was ended: exit %d: %s", r.Exit, r.Err)
	}
}

// request is one write of a pipeline that sends by itself, and may die before or
// after it has sent.
func (s *site) request(store ledger.Store, kind, key string, fate int) {
	token := ledger.NewToken()
	actor := ledger.Actor{Name: "nightly", Machine: true}
	input := fmt.Sprintf(`"customer":"c","currency":"usd","destination":"d","amount":700,"note":%q`, key)
	begun, err := ledger.Begin(context.Background(), store, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(),
		Kind: kind, Key: key, Token: token, Fingerprint: key, Input: []byte("{" + input + "}"), TokenSent: true, Deadline: 2 * time.Second, Actor: actor, Sender: "pipeline"})
	if err != nil || fate == 0 {
		need.That(s, err == nil || errors.Is(err, ledger.ErrBusy), "begin: %v", err)
		return
	}
	path := map[string]string{"charge": "/v1/payment_intents", "payout": "/v1/payouts"}[kind]
	req, err := http.NewRequest(http.MethodPost, s.down.URL()+path, bytes.NewBufferString(fmt.Sprintf(`{%s,"metadata":{"indoubt":%q}}`, input, token)))
	if err != nil {
		s.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+ownKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	client := http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	settle := ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassReset, Status: -1, Actor: actor}
	resp, err := client.Do(req)
	if err == nil {
		var answer struct{ ID string }
		err = json.NewDecoder(resp.Body).Decode(&answer)
		resp.Body.Close()
		if err == nil && resp.StatusCode < 300 {
			settle.Outcome, settle.ErrorClass, settle.Receipt, settle.Status = ledger.OutcomeCommitted, "", answer.ID, resp.StatusCode
		}
	}
	if fate != 1 {
		_, _ = ledger.Settle(context.Background(), store, settle) // what cannot be said is in doubt
	}
}

// lock is a foreign writer that holds the ledger for a while.
func (s *site) lock(long time.Duration) {
	db := need.Get(sql.Open("sqlite", s.ledger))(s)
	defer db.Close()
	db.SetMaxOpenConns(1)
	need.Get(db.Exec("PRAGMA busy_timeout = 60000"))(s)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		s.Logf("the ledger was not locked: %v", err)
		return
	}
	time.Sleep(long)
	if _, err := db.Exec("ROLLBACK"); err != nil {
		s.Error(err)
	}
}

var tokens = regexp.MustCompile(`indoubt-[0-9A-Z]+`)

// truth is when each token really had an effect.
func (s *site) truth() map[string][]time.Time {
	s.Helper()
	came := map[string][]time.Time{}
	for _, e := range s.down.Effects("") {
		token := tokens.FindString(string(e.Body))
		came[token] = append(came[token], e.At.UTC())
	}
	return came
}

// judge compares the ledger with what really happened.
func (s *site) judge() (wrong, double int) {
	s.Helper()
	states := map[string]int{}
	sent := map[string]int{}
	for _, q := range s.down.Requests() {
		if q.Method == http.MethodPost {
			sent[tokens.FindString(q.Body)]++ // by its pipeline: no engine sends (I5)
		}
	}
	came := s.truth()
	for _, row := range s.rows(`SELECT id, name, token, state, attempt FROM op`) {
		id, key, token, state := row[0], row[1], row[2], row[3]
		attempts, _ := strconv.Atoi(row[4])
		states[state]++
		switch n := len(came[token]); {
		case n > 1:
			double++
			s.Errorf("%s %s happened %d times", key, id, n)
		case state == "committed" && n == 0, state == "failed" && n > 0:
			if wrong++; wrong <= 5 {
				s.Logf("%s\nthe effects came %s", s.do("show", id).Out, came[token])
			}
			s.Errorf("%s %s is %s, and happened %d times", key, id, state, n)
		case sent[token] > attempts:
			wrong++
			s.Errorf("I3: %s %s was sent %d times in %d attempts", key, id, sent[token], attempts)
		}
		delete(sent, token)
	}
	for token := range sent {
		wrong++
		s.Errorf("I1: %s was sent without a record", token)
	}
	need.That(s, states["committed"] >= 10, "nothing was shown: %v", states)
	return wrong, double
}

// sound compares what the ledger keeps beside its operations with what it was
// made from. Each query gives what is wrong.
func (s *site) sound() {
	s.Helper()
	for what, query := range map[string]string{
		"the file": `SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'`,
		"where it stands": `SELECT o.id FROM op o LEFT JOIN ev e ON e.op = o.seq AND e.id = o.change_id
			WHERE e.seq IS NULL OR (e.version, e.state) <> (o.version, CASE o.abandoned WHEN 1 THEN 'abandoned' ELSE o.state END)`,
		"an event of nothing": `SELECT e.id FROM ev e WHERE e.op <> 0 AND NOT EXISTS (SELECT 1 FROM op o WHERE o.seq = e.op)`,
		"attempts": `SELECT o.id FROM op o WHERE o.attempt <> (SELECT count(*) FROM ev e WHERE e.op = o.seq AND e.verb IN ('begin', 'retry'))
			OR o.attempt - (o.state = 'pending') <> (SELECT count(*) FROM ev e WHERE e.op = o.seq AND e.outcome <> '')`,
		"permissions": `SELECT o.id FROM op o JOIN ev r ON r.op = o.seq AND r.verb = 'retry' AND r.facts ->> 'basis' = ''
			WHERE NOT EXISTS (SELECT 1 FROM ev g WHERE g.op = o.seq AND g.verb = 'allow' AND g.machine = 0 AND g.seq < r.seq)
			AND EXISTS (SELECT 1 FROM ev e WHERE e.op = o.seq AND e.seq < r.seq AND e.outcome <> '' AND coalesce(e.facts ->> 'proof', '') = '')`,
		"the history": `SELECT op FROM (SELECT op, before, state, version, lag(state, 1, '') OVER w AS was, lag(version, 1, 0) OVER w AS had
			FROM ev WHERE op <> 0 WINDOW w AS (PARTITION BY op ORDER BY seq)) WHERE before <> was OR version < had`,
		"settled twice": `SELECT op FROM ev WHERE before <> state AND state = 'committed'
			AND op NOT IN (SELECT op FROM ev WHERE verb = 'undo') GROUP BY 1 HAVING count(*) > 1`,
	} {
		for _, wrong := range s.rows(query) {
			s.Errorf("%s: %s", what, wrong)
		}
	}
}
