package reconcile

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// What must have passed has passed by both clocks.

func TestI6_AStepOfTheClockIsNoWaiting(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(w *world)
	}{
		{"set forward", func(w *world) { w.later(time.Hour) }},
		{"set forward after half the time", func(w *world) { w.pass(15 * time.Second); w.later(time.Hour) }},
		{"set forward by a little", func(w *world) { w.pass(pastProof - 3*time.Second); w.later(3 * time.Second) }},
		{"set forward and back", func(w *world) { w.later(time.Hour); w.later(-time.Hour) }},
		{"set back when it was time", func(w *world) { w.pass(pastProof); w.later(-time.Hour) }},
		{"set forward while it is asked", func(w *world) {
			w.side.onList = func(*side, http.ResponseWriter, *http.Request) bool { w.later(time.Hour); return false }
		}},
		{"booted", func(w *world) { w.boots.Add(1); w.later(time.Hour) }},
		{"booted after the time", func(w *world) { w.pass(pastProof); w.boots.Add(1) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorldInFile(t, payPolicy)
			w.known("pay")
			w.pass(time.Hour)
			o := w.doubt("pay", 420)
			tc.do(w)
			r := w.read(o.ID)
			need.Must(t, r.Read.Verdict == ledger.CannotTell && strings.Contains(r.Read.Reason, "too early"), "%s: %s", r.Read.Verdict, r.Read.Reason)
			w.side.onList = nil
			if proof, _ := w.inForce().Kind("pay").ProofAt(w.get(o.ID)); !proof.After(w.now()) {
				t.Errorf("a person is told of a proof at %s, and it is %s", proof, w.now())
			}
			w.pass(pastProof)
			if strings.Contains(tc.name, "set back") {
				w.later(time.Hour)
			}
			r = w.read(o.ID)
			need.That(t, r.Read.Verdict == ledger.NotThere, "when both clocks say that it is time: %s: %s", r.Read.Verdict, r.Read.Reason)
		})
	}
}

// What a writer in plain SQL has ended counts from when a check saw that it was over.
func TestI6_WhatPlainSQLEndedWaitsFromWhenItWasSeen(t *testing.T) {
	w := newWorldInFile(t, payPolicy)
	w.unkept = true
	w.known("pay")
	w.pass(time.Hour)
	db := need.Get(sql.Open("sqlite", w.path))(t)
	defer db.Close()
	exec := func(query string, args ...any) {
		t.Helper()
		need.Get(db.Exec(query, args...))(t)
	}
	exec(`INSERT INTO op (id, kind, name, token, token_sent, payload, source, created_at, started_at, begun_at, changed_at, deadline_at, actor)
		VALUES ('sql', 'pay', 'k', 'tok', 1, '{"op":{"input":{"amount":420}}}', 'billing', ?1, ?1, ?1, ?1, ?2, 'billing')`,
		w.now().UnixMilli(), w.now().Add(time.Minute).UnixMilli())
	exec(`UPDATE op SET state = 'uncertain', version = 2, class = 'timeout', unproven = 1, doubted = 1, doubted_at = ?1, deadline_at = 0, ended_at = ?1,
		change_id = 'c', verb = 'settle', reason = 'no answer', changed_at = ?1, payload = NULL, facts = '{"outcome":"uncertain","error_class":"timeout"}' WHERE id = 'sql'`, w.now().UnixMilli())
	w.later(time.Hour)
	early := func(when string) {
		t.Helper()
		r := w.read("sql")
		need.Must(t, r.Read.Verdict == ledger.CannotTell && strings.Contains(r.Read.Reason, "too early"), "%s: %s: %s", when, r.Read.Verdict, r.Read.Reason)
	}
	early("at first sight")
	w.pass(15 * time.Second)
	early("after half the time")
	w.pass(17 * time.Second)
	r := w.read("sql")
	need.That(t, r.Read.Verdict == ledger.NotThere, "%s: %s", r.Read.Verdict, r.Read.Reason)
}

// What plain SQL wrote down is priced and checked like anything else: no program was there to put a
// doubt on the list.
func TestWhatPlainSQLWroteIsChecked(t *testing.T) {
	w := newWorldInFile(t, payPolicy)
	db := need.Get(sql.Open("sqlite", w.path))(t)
	defer db.Close()
	for _, statement := range []string{
		`INSERT INTO intent (id, kind, key, token, input, actor) VALUES ('sql', 'pay', 'k', 'tok', '{"amount":420}', 'billing')`,
		`INSERT INTO settle (attempt, outcome, class, actor) VALUES ('sql.1', 'uncertain', 'timeout', 'billing')`,
		`INSERT INTO intent (id, kind, key, token, input, actor) VALUES ('done', 'pay', 'l', 'tik', '{"amount":420}', 'billing')`,
		`INSERT INTO settle (attempt, outcome, receipt, actor) VALUES ('done.1', 'committed', 'ch_1', 'billing')`,
		`INSERT INTO op (id, kind, name, token, token_sent, started_at, begun_at, deadline_at, actor) VALUES ('long', 'pay', 'm', 'tak', 1, 1, 1, unixepoch() * 1000 + 60000, 'billing')`,
		`INSERT INTO settle (attempt, outcome, class, actor) VALUES ('long.1', 'uncertain', 'timeout', 'billing')`,
	} {
		need.Get(db.Exec(statement))(t)
	}
	need.Get(w.leading().priceBatch(w.ctx))(t)
	p := w.get("sql").Pricing
	due := need.Get(w.store.Due(w.ctx, p.Downstream, w.now().Add(time.Hour), 10))(t)
	need.That(t, p.Digest == w.inForce().Digest() && len(due) == 2 && due[0].ID == "sql", "its price is %+v, and %+v are due", p, due)
	for _, id := range []string{"sql", "done", "long"} {
		w.read(id)
		need.Get(ledger.Decide(w.ctx, w.store, ledger.Decision{ChangeID: ledger.NewID(), ID: id, Verb: ledger.VerbNote, Reason: "seen",
			Actor: ledger.Actor{Name: "maya", Terminal: true}}))(t)
	}
}

// Engines on several hosts wait at the same time, each by its own steady clock: none puts
// off what another has waited for.
func TestI6_EnginesOfSeveralHostsWaitAtOnce(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	w.pass(time.Hour)
	o := w.doubt("pay", 420)
	early := func(host int32) {
		t.Helper()
		w.boots.Store(host)
		r := w.read(o.ID)
		need.Must(t, r.Read.Verdict == ledger.CannotTell && strings.Contains(r.Read.Reason, "too early"), "host %d: %s: %s", host, r.Read.Verdict, r.Read.Reason)
	}
	for range 3 {
		early(1)
		w.pass(pastProof / 8)
		early(2)
		w.pass(pastProof / 8)
	}
	w.pass(pastProof / 4)
	early(3) // it has not waited, nor does the wall alone tell
	w.boots.Store(1)
	r := w.read(o.ID)
	need.That(t, r.Read.Verdict == ledger.NotThere, "%s: %s", r.Read.Verdict, r.Read.Reason)
}

// A deadline that passed because the clock was set forward ends no sender: it goes by a clock of
// its own, and may still send. It has its time from when its attempt was seen to be over.
func TestI6_ADeadlineThatPassedEarlyIsNoEnd(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	w.pass(time.Hour)
	b := w.begin("pay", 420) // for a minute
	w.later(5 * time.Minute)
	n, err := w.store.Expire(w.ctx, 10)
	need.Must(t, n == 1 && err == nil, "%d ended: %v", n, err)
	for _, passed := range []time.Duration{0, pastProof, 59 * time.Second} {
		w.pass(passed)
		r := w.read(b.Operation.ID)
		need.That(t, r.Read.Verdict == ledger.CannotTell && strings.Contains(r.Read.Reason, "too early"), "after %s more: %s: %s", passed, r.Read.Verdict, r.Read.Reason)
	}
	w.pass(2 * time.Second)
	r := w.read(b.Operation.ID)
	need.That(t, r.Read.Verdict == ledger.NotThere, "%s: %s", r.Read.Verdict, r.Read.Reason)
}

// What must not have passed has passed by neither clock.

func TestI5_ABackwardStepRemembersNoKey(t *testing.T) {
	text := strings.Replace(payPolicy, "    headers:", "    key: { header: Idempotency-Key, remembers: 1h }\n    headers:", 1)
	for _, tc := range []struct {
		name string
		do   func(w *world)
		want ledger.Basis
	}{
		{"nothing happened", func(*world) {}, ledger.BasisKeySafe},
		{"time passed", func(w *world) { w.pass(time.Hour) }, ledger.BasisRiskAccepted},
		{"time passed and the clock was set back", func(w *world) { w.pass(time.Hour); w.later(-time.Hour) }, ledger.BasisRiskAccepted},
		{"the clock was set forward", func(w *world) { w.later(time.Hour) }, ledger.BasisRiskAccepted},
		{"seen to be over under another boot, and set back", func(w *world) {
			w.boots.Add(1)
			w.read(w.last)
			w.pass(time.Hour)
			w.later(-time.Hour)
		}, ledger.BasisRiskAccepted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, text)
			w.keyWorks = true
			o := w.doubt("pay", 420)
			w.last = o.ID
			tc.do(w)
			plan, err := w.engine.Plan(w.ctx, o.ID)
			need.That(t, err == nil && plan.Basis == tc.want, "%s: %s, %v", plan.Basis, plan.Why, err)
		})
	}
}

func TestI6_ABackwardStepShowsNothingLonger(t *testing.T) {
	text := strings.Replace(payPolicy, "    visible_within: 10s", "    visible_within: 10s\n    visible_for: 1h", 1)
	for _, tc := range []struct {
		name string
		do   func(w *world)
		want ledger.Verdict
	}{
		{"in time", func(w *world) { w.pass(30 * time.Minute) }, ledger.NotThere},
		{"too late by the wall", func(w *world) { w.pass(30 * time.Minute); w.later(time.Hour) }, ledger.CannotTell},
		{"too late by the steady clock", func(w *world) { w.pass(time.Hour); w.later(-20 * time.Minute) }, ledger.CannotTell},
		{"too late while it was asked", func(w *world) {
			w.pass(30 * time.Minute)
			w.side.onList = func(*side, http.ResponseWriter, *http.Request) bool {
				w.pass(40 * time.Minute)
				w.later(-40 * time.Minute)
				return false
			}
		}, ledger.CannotTell},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, text)
			w.known("pay")
			o := w.doubt("pay", 420)
			tc.do(w)
			r := w.read(o.ID)
			need.That(t, r.Read.Verdict == tc.want, "%s: %s", r.Read.Verdict, r.Read.Reason)
		})
	}
}

// However many engines notice it, a step is written down once.
func TestI8_AStepOfTheClockIsAnEvent(t *testing.T) {
	inABubble(t, payPolicy, func(t *testing.T, w *world) {
		o := w.doubt("pay", 420)
		for range 3 {
			defer w.run(w.newEngine(Options{}))()
		}
		eventually(t, "the first look", func() bool { return len(w.get(o.ID).Reads) > 1 })
		steps := func() (out []string) {
			events := need.Get(w.store.History(w.ctx, ledger.HistoryQuery{Limit: 1000}))(t)
			for _, e := range events {
				if e.Verb == "clock" {
					out = append(out, fmt.Sprint(e.Actor.Name, ": ", e.Reason))
				}
			}
			return out
		}
		w.pass(time.Hour) // is none
		w.later(5 * time.Minute)
		eventually(t, "a step forward", func() bool { return len(steps()) > 0 })
		time.Sleep(1500 * time.Millisecond) // a pass of each: two steps in one are told of as they come
		w.later(-time.Hour)
		eventually(t, "a step back", func() bool { return len(steps()) > 1 })
		time.Sleep(1500 * time.Millisecond) // a pass of each
		want := []string{"clock: the clock of this host was set forward by 5m", "clock: the clock of this host was set back by 1h"}
		got := steps()
		need.That(t, len(got) == 2 && strings.HasPrefix(got[0], want[0]) && strings.HasPrefix(got[1], want[1]), "%q", got)
		info, err := w.store.Info(w.ctx)
		need.That(t, err == nil && info.Step.Round(time.Minute) == -time.Hour && !info.SteppedAt.IsZero(), "%s at %s: %v", info.Step, info.SteppedAt, err)
	})
}
