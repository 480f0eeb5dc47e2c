package reconcile

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy"
)

// Policies of one other side: it says nothing of when a write shows; and it is asked for the
// token, so that no answer shows another operation.
var (
	lagPolicy = strings.Replace(payPolicy, "      consistent: true\n", "", 1)
	askPolicy = strings.Replace(payPolicy, `query: { after: "${cursor}" }`, `query: { ref: "${token}", after: "${cursor}" }`, 1)
)

// with is a policy with something else in it.
func with(text string, replaced ...string) string {
	for i := 0; i < len(replaced); i += 2 {
		if !strings.Contains(text, replaced[i]) {
			panic(replaced[i])
		}
		text = strings.Replace(text, replaced[i], replaced[i+1], 1)
	}
	return text
}

// only is a view of the other side: what it shows, as a list.
func only(shows func(c charge, now time.Time) bool) func(*side, http.ResponseWriter, *http.Request) bool {
	return func(s *side, w http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		var refs []string
		for _, c := range s.charges {
			if ref := r.URL.Query().Get("ref"); shows(c, s.now()) && (ref == "" || ref == c.Ref) {
				refs = append(refs, fmt.Sprintf(`{"id":%q,"ref":%q,"amount":%d}`, c.ID, c.Ref, c.Amount))
			}
		}
		fmt.Fprintf(w, `{"object":"list","data":[%s],"more":false,"next":0}`, strings.Join(refs, ","))
		return true
	}
}

// What a check that finds nothing earns, by what it finds of others: nothing, one before,
// one on each side.
func TestI6_NotThereIsEarnedBySiblingsOnEachSide(t *testing.T) {
	for _, by := range []struct{ name, text string }{{"in one answer", lagPolicy}, {"asked for", with(lagPolicy, `query: { after`, `query: { ref: "${token}", after`)}} {
		for _, c := range []struct {
			name  string
			world func(w *world) ledger.Operation
			want  ledger.Verdict
			says  string
		}{
			{"nothing else", func(w *world) ledger.Operation { return w.doubt("pay", 1) }, ledger.CannotTell, "finds no other operation"},
			{"one before", func(w *world) ledger.Operation { w.known("pay"); return w.doubt("pay", 1) }, ledger.NotSeen, "finds ch_1, sent before; it was not seen to find what was sent after"},
			{"one after", func(w *world) ledger.Operation { o := w.doubt("pay", 1); w.known("pay"); return o }, ledger.NotSeen, "finds ch_1, sent after; it was not seen to find what was sent before"},
			{"one on each side", func(w *world) ledger.Operation { w.known("pay"); o := w.doubt("pay", 1); w.known("pay"); return o }, ledger.NotThere, "finds ch_1, sent before, and ch_2, sent after"},
			{"one that began while it was in flight", func(w *world) ledger.Operation {
				w.known("pay")
				b := w.begin("pay", 1)
				w.known("pay")
				o := w.settle(b, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, Status: -1})
				w.seen(o.ID)
				return o
			}, ledger.NotSeen, "sent before"},
			{"another one in doubt, which landed", func(w *world) ledger.Operation {
				w.known("pay")
				o := w.doubt("pay", 1)
				w.doubt("pay", 2, 2)
				return o
			}, map[string]ledger.Verdict{"in one answer": ledger.NotThere, "asked for": ledger.NotSeen}[by.name], "sent before"},
			{"one that is said not to have landed", func(w *world) ledger.Operation {
				w.known("pay")
				o := w.doubt("pay", 1)
				other := w.doubt("pay", 2, 2)
				need.Get(ledger.Decide(w.ctx, w.store, ledger.Decision{ChangeID: ledger.NewID(), ID: other.ID, Version: other.Version, Verb: ledger.VerbDeny, Reason: "so they say", Actor: maya}))(w)
				return o
			}, ledger.NotSeen, "sent before"},
			{"of another caller", func(w *world) ledger.Operation {
				w.known("pay")
				o := w.doubt("pay", 1)
				w.callers = map[string]string{"Authorization": "Bearer another"}
				w.known("pay")
				return o
			}, ledger.NotSeen, "sent before"},
		} {
			t.Run(by.name+"/"+c.name, func(t *testing.T) {
				w := newWorld(t, by.text)
				o := c.world(w)
				w.pass(pastProof)
				r := w.read(o.ID)
				need.That(t, r.Read.Verdict == c.want && strings.Contains(r.Read.Reason, c.says), "%s: %s", r.Read.Verdict, r.Read.Reason)
				settled := map[bool]ledger.State{true: ledger.Failed, false: ledger.Uncertain}[c.want == ledger.NotThere]
				need.That(t, r.Operation.State == settled && (r.Operation.Version == o.Version) == (settled == ledger.Uncertain), "%+v", r.Operation)
			})
		}
	}
}

// A younger operation that comes later, and is seen, earns what was not seen before.
func TestI6_WhatIsNotSeenIsLookedForAgain(t *testing.T) {
	w := newWorld(t, lagPolicy)
	w.known("pay")
	o := w.doubt("pay", 420)
	w.pass(pastProof)
	need.Equal(t, w.read(o.ID).Read.Verdict, ledger.NotSeen, "before")
	rec := w.get(o.ID)
	need.That(t, rec.Pricing.ReadAt.Before(w.now().Add(time.Hour)), "the next check is at %s", rec.Pricing.ReadAt)
	w.known("pay")
	need.Equal(t, w.read(o.ID).Read.Verdict, ledger.NotThere, "after")
}

// Views of the other side that lack what landed. Nothing is settled by them.
func TestI6_AViewThatLacksItSettlesNothing(t *testing.T) {
	memo := func(text string) string {
		return with(text, "token: { into: ref }", "token: { append: memo }")
	}
	for _, c := range []struct {
		name, policy string
		side         func(w *world, o ledger.Operation)
		want         ledger.Verdict
	}{
		{"a replica that lags (c06)", with(lagPolicy, "visible_within: 10s", "visible_within: 1s"), func(w *world, o ledger.Operation) {
			w.known("pay")
			w.side.onList = only(func(c charge, now time.Time) bool { return c.ID == "ch_1" })
		}, ledger.NotSeen},
		{"one that shows what is open", lagPolicy, func(w *world, o ledger.Operation) {
			w.side.onList = only(func(c charge, now time.Time) bool { return c.Ref != o.Token }) // it is closed
		}, ledger.NotSeen},
		{"another account's list (c01)", lagPolicy, func(w *world, o ledger.Operation) {
			w.known("pay")
			for range 3 {
				w.side.apply(charge{Ref: ledger.NewToken()})
			}
			w.side.onList = only(func(c charge, now time.Time) bool { return c.Key == "" })
		}, ledger.CannotTell},
		{"another customer's list (c08)", with(lagPolicy, `query: { after`, `query: { n: "${input.n}", after`), func(w *world, o ledger.Operation) {
			w.known("pay")
			shown := only(func(c charge, now time.Time) bool { return c.Ref != o.Token })
			w.side.onList = func(s *side, rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("n") == "2" { // it may not see these
					_, _ = io.WriteString(rw, emptyList)
					return true
				}
				return shown(s, rw, r)
			}
		}, ledger.CannotTell},
		{"another customer's search (c08)", with(askPolicy, `query: { ref`, `query: { n: "${input.n}", ref`), func(w *world, o ledger.Operation) {
			w.known("pay")
			w.side.onList = func(s *side, rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("n") != "2" {
					return false
				}
				_, _ = io.WriteString(rw, emptyList)
				return true
			}
		}, ledger.CannotTell},
		{"pages that shift", with(lagPolicy, "      stable: true\n", ""), func(w *world, o ledger.Operation) {
			w.known("pay")
			w.side.page = 1
			w.side.mu.Lock()
			w.side.charges = append(w.side.charges[:1:1], w.side.charges[2:]...) // it is on no page
			w.side.mu.Unlock()
		}, ledger.CannotTell},
		{"an echo", with(askPolicy, "mark: it.ref", "mark: asked"), func(w *world, o ledger.Operation) {
			w.known("pay")
			w.side.onList = func(_ *side, rw http.ResponseWriter, r *http.Request) bool {
				if ref := r.URL.Query().Get("ref"); ref != o.Token {
					fmt.Fprintf(rw, `{"object":"list","data":[{"id":"x","ref":%q,"amount":1}],"more":false,"next":0}`, ref)
				} else {
					_, _ = io.WriteString(rw, emptyList)
				}
				return true
			}
		}, ledger.CannotTell},
		{"a token that is cut off (c03)", memo(lagPolicy), func(w *world, o ledger.Operation) {
			w.known("pay")
			w.side.onList = only(func(c charge, now time.Time) bool { return c.Ref != o.Token })
		}, ledger.CannotTell},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.policy)
			w.known("pay")
			w.memo = map[bool]string{true: strings.Repeat("long ", 20)}[strings.HasSuffix(c.name, "(c03)")]
			o := w.doubt("pay", 420, 420)
			w.memo = ""
			c.side(w, o)
			w.pass(pastProof)
			r := w.read(o.ID)
			need.That(t, r.Read.Verdict == c.want && r.Operation.State == ledger.Uncertain, "%s: %s", r.Read.Verdict, r.Read.Reason)
		})
	}
}

// What was not sent by this caller, and is later by ten minutes, shows how late a view is.
func TestI6_AStrangersLaterEffectShowsThatAViewIsLate(t *testing.T) {
	for name, c := range map[string]struct {
		later time.Duration
		want  ledger.Verdict
	}{"later": {11 * time.Minute, ledger.NotThere}, "not so much later": {9 * time.Minute, ledger.NotSeen}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, with(lagPolicy, "mark: it.ref\n", "mark: it.ref\n      created: it.at\n"))
			w.known("pay")
			o := w.doubt("pay", 420)
			at := w.now().Add(c.later).Unix()
			w.pass(pastProof)
			w.side.onList = func(s *side, rw http.ResponseWriter, _ *http.Request) bool {
				fmt.Fprintf(rw, `{"object":"list","data":[{"id":"ch_1","ref":%q,"at":1},{"id":"x","ref":"theirs","at":%d}],"more":false,"next":0}`, s.charges[0].Ref, at)
				return true
			}
			r := w.read(o.ID).Read
			need.That(t, r.Verdict == c.want, "%s: %s", r.Verdict, r.Reason)
		})
	}
}

// Another operation that is asked for was asked for after the check began, freshly, and with
// the same credential.
func TestI6_ASiblingIsAskedForAsTheCheckWas(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "key")
	write := func(text string) { need.OK(t, os.WriteFile(secret, []byte(text), 0o600)) }
	write("other-account")
	for name, c := range map[string]struct {
		policy string
		list   func(own bool, rw http.ResponseWriter, r *http.Request) bool
		says   string
	}{
		"out of a cache": {askPolicy, func(own bool, rw http.ResponseWriter, _ *http.Request) bool {
			if !own {
				rw.Header().Set("Age", "600")
			}
			return false
		}, "cache"},
		"with another secret": {with(askPolicy, `"Bearer ${env.PAY_KEY}"`, `"Bearer ${env.PAY_KEY}", X-Account: "${file(\"`+secret+`\")}"`), func(own bool, _ http.ResponseWriter, _ *http.Request) bool {
			if own {
				write("this-account")
			}
			return false
		}, "changed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldAlone(t, c.policy)
			w.known("pay")
			o := w.doubt("pay", 420, 420) // it landed
			w.pass(pastProof)
			w.side.onList = func(_ *side, rw http.ResponseWriter, r *http.Request) bool {
				own := r.URL.Query().Get("ref") == o.Token
				if c.list(own, rw, r) || !own {
					return false
				}
				_, _ = io.WriteString(rw, emptyList) // another account's list, and fresh
				return true
			}
			r := w.read(o.ID)
			need.That(t, r.Read.Verdict == ledger.CannotTell && r.Operation.State == ledger.Uncertain && strings.Contains(r.Read.Reason, c.says), "%s: %s", r.Read.Verdict, r.Read.Reason)
		})
	}
}

// Checks that are made at once share what they ask for of another operation; one that begins
// later asks again, for the other side may have gone blind since.
func TestI6_ChecksMadeAtOnceShareASibling(t *testing.T) {
	w := newWorld(t, askPolicy)
	known := w.known("pay")
	w.pass(pastProof)
	k, o := w.engine.policy().Kind("pay"), w.doubt("pay", 420)
	search := siblingSearch{reader: &w.engine.reader, Sighted: policy.Sighted{Kind: k, Record: w.get(o.ID)}, digest: "d"}
	began := w.engine.moment()
	finds := func() {
		t.Helper()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				s := search
				s.found.request = need.Get(k.Read.Request(s.Record, nil))(t)
				s.found.from = began
				cause, why := s.finds(w.ctx, known)
				need.That(t, cause == "", "%s: %s", cause, why)
			})
		}
		both.Wait()
	}
	before := w.side.asked()
	finds()
	need.Equal(t, w.side.asked()-before, 2, "questions, for another operation and for what was never sent")
	began.Steady.At += time.Second
	w.pass(2 * time.Second)
	finds()
	need.Equal(t, w.side.asked()-before, 3, "questions, of which the last is for another operation")
}

// What is not seen settles nothing, and no machine acts on it. A person sends it once more with
// one y, and after that only at own risk: the check that did not see it was before that send.
func TestI6_NotSeenIsEnoughForOneSendOfAPerson(t *testing.T) {
	w := newWorld(t, lagPolicy)
	w.known("pay")
	o := w.doubt("pay", 420)
	w.pass(pastProof)
	need.Equal(t, w.read(o.ID).Read.Verdict, ledger.NotSeen, "verdict")
	k, rec := w.inForce().Kind("pay"), w.get(o.ID)
	late := rec.Now.Add(k.EscalateAfter + time.Minute)
	advice := k.Advise(rec, late)
	need.That(t, advice.Verb == "retry" && advice.Basis == ledger.BasisNotSeen, "%+v", advice)
	need.Contains(t, advice.Reason, "not seen: looked at ")
	plan := need.Get(w.engine.Plan(w.ctx, o.ID))(t)
	need.Must(t, plan.Basis == ledger.BasisNotSeen && plan.Refused == nil, "%s: %v", plan.Basis, plan.Refused)
	ask := RetryRequest{ID: o.ID, Version: o.Version, Basis: plan.Basis, Showing: plan.Showing, Actor: maya}
	ask.Actor.Machine = true
	_, err := w.engine.Retry(w.ctx, ask)
	need.That(t, err != nil && w.side.posted() == 0, "a machine sent it: %v", err)
	w.side.onPost = cutFirst
	ask.Actor, ask.ChangeID = maya, "by a person"
	res, err := w.engine.Retry(w.ctx, ask)
	need.Must(t, err == nil && w.side.posted() == 1 && res.Operation.State == ledger.Uncertain, "%+v, %v", res.Operation, err)
	need.Equal(t, w.get(o.ID).Attempts[1].Basis, ledger.BasisNotSeen, "why it was sent")
	basis, why, _ := k.AllowedBasis(w.get(o.ID), w.now())
	need.That(t, basis == ledger.BasisRiskAccepted, "%s: %s", basis, why)
}

// A later check that finds it, or anything like it, takes that back; one that gets no answer does not.
func TestI6_WhatIsFoundLaterIsNotUnseen(t *testing.T) {
	w := newWorld(t, lagPolicy)
	w.known("pay")
	o := w.doubt("pay", 420)
	w.pass(pastProof)
	w.read(o.ID)
	basis := func() ledger.Basis {
		plan := need.Get(w.engine.Plan(w.ctx, o.ID))(t)
		return plan.Basis
	}
	w.side.onList = answer(503, nil, "")
	need.Equal(t, w.read(o.ID).Read.Verdict, ledger.CannotTell, "without an answer")
	need.Equal(t, basis(), ledger.BasisNotSeen, "after it")
	w.side.onList = nil
	w.side.apply(charge{Ref: o.Token, Amount: 99})
	need.Equal(t, w.read(o.ID).Read.Verdict, ledger.Different, "what is there")
	need.That(t, basis() != ledger.BasisNotSeen, "it was seen")
}
