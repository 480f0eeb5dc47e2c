package reconcile

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

const pastProof = 31*time.Second + 100*time.Millisecond // lands_within + visible_within, and a little

func answer(status int, header map[string]string, body string) func(*side, http.ResponseWriter, *http.Request) bool {
	return func(_ *side, w http.ResponseWriter, _ *http.Request) bool {
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

func TestVerdicts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		landed []int // amounts really charged for an operation of 420
		side   func(s *side)
		want   ledger.Verdict
		state  ledger.State
		says   string
	}{
		{name: "commits and cuts", landed: []int{420}, want: ledger.Landed, state: ledger.Committed, says: "found ch_2"},
		{name: "cuts before", want: ledger.NotThere, state: ledger.Failed, says: "none found, and it would have shown by"},
		{name: "two effects", landed: []int{420, 420}, want: ledger.Twice, state: ledger.Committed, says: "2 matched; expected 1: ch_2, ch_3"},
		{name: "another amount", landed: []int{4200}, want: ledger.Different, state: ledger.Uncertain, says: "not what was asked"},
		{name: "found on the third page", landed: []int{420}, side: func(s *side) { s.page = 1; s.charges = append([]charge{{ID: "x"}, {ID: "y"}}, s.charges...) },
			want: ledger.Landed, state: ledger.Committed},
		{name: "none over pages", side: func(s *side) { s.page = 1; s.charges = append(s.charges, charge{ID: "x"}, charge{ID: "y"}) },
			want: ledger.NotThere, state: ledger.Failed},
		{name: "too many pages", side: func(s *side) {
			s.page = 1
			for i := range 30 {
				s.charges = append(s.charges, charge{ID: fmt.Sprint("x", i)})
			}
		}, want: ledger.CannotTell, state: ledger.Uncertain, says: "page limit reached"},
		{name: "pages in a circle", side: func(s *side) {
			s.onList = answer(200, nil, `{"object":"list","data":[],"more":true,"next":7}`)
		}, want: ledger.CannotTell, state: ledger.Uncertain, says: "round in circles"},
		{name: "no next page", side: func(s *side) { s.onList = answer(200, nil, `{"object":"list","data":[],"more":true,"next":null}`) },
			want: ledger.CannotTell, state: ledger.Uncertain, says: "not known to be the whole list"},
		{name: "renamed field", landed: []int{420}, side: func(s *side) {
			s.onList = answer(200, nil, `{"object":"list","data":[{"id":"ch_2","reference":"t"}],"more":false,"next":1}`)
		}, want: ledger.CannotTell, state: ledger.Uncertain, says: "finds no other operation"},
		{name: "list renamed", landed: []int{420}, side: func(s *side) {
			s.onList = answer(200, nil, `{"object":"list","items":[],"more":false,"next":1}`)
		}, want: ledger.CannotTell, state: ledger.Uncertain, says: "data"},
		{name: "credentials refused", landed: []int{420}, side: func(s *side) { s.onList = answer(401, nil, `{"error":"key"}`) },
			want: ledger.CannotTell, state: ledger.Uncertain, says: "downstream answered 401"},
		{name: "another account's empty list", landed: []int{420}, side: func(s *side) {
			s.onList = answer(200, nil, `{"object":"list","data":[],"more":false,"next":0}`)
		}, want: ledger.CannotTell, state: ledger.Uncertain, says: "finds no other operation"},
		{name: "truncated JSON", landed: []int{420}, side: func(s *side) { s.onList = answer(200, nil, `{"object":"list","data":[`) },
			want: ledger.CannotTell, state: ledger.Uncertain},
		{name: "HTML", landed: []int{420}, side: func(s *side) { s.onList = answer(200, nil, `<html>login</html>`) },
			want: ledger.CannotTell, state: ledger.Uncertain},
		{name: "500", side: func(s *side) { s.onList = answer(500, nil, `{"object":"list","data":[],"more":false}`) },
			want: ledger.CannotTell, state: ledger.Uncertain, says: "downstream answered 500"},
		{name: "429", side: func(s *side) { s.onList = answer(429, map[string]string{"Retry-After": "30"}, ``) },
			want: ledger.CannotTell, state: ledger.Uncertain, says: "downstream answered 429"},
		{name: "from a cache", side: func(s *side) {
			s.onList = answer(200, map[string]string{"Age": "12"}, `{"object":"list","data":[],"more":false,"next":0}`)
		}, want: ledger.CannotTell, state: ledger.Uncertain, says: "came from a cache, 12 s old"},
		{name: "moved elsewhere", side: func(s *side) { s.onList = answer(302, map[string]string{"Location": "http://127.0.0.1:1/"}, ``) },
			want: ledger.CannotTell, state: ledger.Uncertain, says: "downstream answered 302"},
		{name: "breaks off", side: func(s *side) {
			s.onList = func(_ *side, w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Length", "400")
				_, _ = io.WriteString(w, `{"object":"list","data":[],"more":false,"next":0}`)
				return true
			}
		}, want: ledger.CannotTell, state: ledger.Uncertain, says: "answer broke off after 49 bytes: eof"},
		{name: "says a member twice", landed: []int{420}, side: func(s *side) {
			s.onList = answer(200, nil, `{"object":"list","data":[{"id":"ch_2"}],"more":false,"next":0,"data":[]}`)
		}, want: ledger.CannotTell, state: ledger.Uncertain, says: "answer is JSON that names a member twice"},
		{name: "hangs up", side: func(s *side) {
			s.onList = func(_ *side, w http.ResponseWriter, _ *http.Request) bool { hangUp(w); return true }
		}, want: ledger.CannotTell, state: ledger.Uncertain, says: "got no answer"},
		{name: "shows the second page only half", landed: []int{420}, side: func(s *side) {
			s.page = 2
			s.charges = append(s.charges, charge{ID: "x"})
			s.onList = func(_ *side, w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("after") == "" {
					return false
				}
				w.WriteHeader(502)
				return true
			}
		}, want: ledger.Landed, state: ledger.Committed, says: "a second one might be out of sight: downstream answered 502"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, payPolicy)
			w.known("pay")
			o := w.doubt("pay", 420, tc.landed...)
			w.pass(pastProof)
			if tc.side != nil {
				tc.side(w.side)
			}
			res := w.read(o.ID)
			if res.Read.Verdict != tc.want || res.Operation.State != tc.state || !strings.Contains(res.Read.Reason, tc.says) {
				t.Errorf("%s (%s), %s; want %s (…%s…), %s", res.Read.Verdict, res.Read.Reason, res.Operation.State, tc.want, tc.says, tc.state)
			}
			rec := w.get(o.ID)
			need.That(t, len(rec.Reads) != 0 && rec.Reads[0].Verdict == tc.want && len(rec.Reads[0].Evidence) != 0, "kept: %+v", rec.Reads)
			need.That(t, !strings.Contains(string(rec.Reads[0].Evidence), "sesame"), "the evidence holds a secret: %s", rec.Reads[0].Evidence)
			switch tc.want {
			case ledger.Twice:
				need.That(t, rec.Operation.Conflict == ledger.ConflictTwice && rec.Operation.Effects == 2 && len(rec.Operation.Receipts) == 2, "%+v", rec.Operation)
			case ledger.Different:
				need.Equal(t, rec.Operation.Conflict, ledger.ConflictDifferent, "conflict")
			case ledger.NotThere:
				if rec.Attempts[0].Proof != ledger.ProofNotThere || rec.Reads[0].ProofAt.IsZero() || !rec.Reads[0].BeganAt.After(rec.Reads[0].ProofAt) {
					t.Errorf("proof: %+v %+v", rec.Attempts[0], rec.Reads[0])
				}
			}
		})
	}
}

// I6: what a check with another credential, or for another account, does not find may be there.
func TestI6_AnotherCallersCheckProvesNothing(t *testing.T) {
	const own, other = "Bearer sesame-key", "Bearer other"
	for name, c := range map[string]struct {
		policy  string // of the downstream
		callers map[string]string
		says    string // "": it is not there
	}{
		"the same credential":        {callers: map[string]string{"Authorization": own, "X-Team": "t1"}},
		"another one":                {callers: map[string]string{"Authorization": other}, says: "does not ask with the Authorization"},
		"of one account":             {policy: "same_account: true", callers: map[string]string{"Authorization": other}},
		"in another header":          {callers: map[string]string{"X-Api-Key": "k"}, says: "does not ask with the X-Api-Key"},
		"none is known of":           {callers: map[string]string{}, says: "does not ask with the Authorization"},
		"for another account":        {policy: "callers: [X-Team]", callers: map[string]string{"Authorization": own, "X-Team": "t1"}, says: "does not ask with the X-Team"},
		"so, and the credential too": {policy: "{callers: [X-Team], same_account: true}", callers: map[string]string{"Authorization": other, "X-Team": "t1"}, says: "X-Team"},
		"for no account":             {policy: "callers: [X-Team]", callers: map[string]string{"Authorization": own}},
	} {
		t.Run(name, func(t *testing.T) {
			more := strings.NewReplacer("{", "", "}", "", ", same", "\n    same").Replace(c.policy)
			w := newWorld(t, strings.Replace(payPolicy, "    base: %s\n", "    base: %s\n    "+more+"\n", 1))
			w.known("pay")
			w.callers = c.callers
			o := w.doubt("pay", 420)
			w.pass(pastProof)
			res := w.read(o.ID)
			if want := c.says == ""; (res.Read.Verdict == ledger.NotThere) != want || !strings.Contains(res.Read.Reason, c.says) {
				t.Errorf("%s (%s)", res.Read.Verdict, res.Read.Reason)
			}
			need.Equal(t, res.Operation.State == ledger.Failed, c.says == "", res.Operation.State)
		})
	}
}

func TestShowsLate(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.side.late = 25 * time.Second
	w.known("pay")
	o := w.doubt("pay", 420, 420)
	r := w.read(o.ID).Read
	need.That(t, r.Verdict == ledger.CannotTell && strings.Contains(r.Reason, "too early: proof possible in"), "%s: %s", r.Verdict, r.Reason)
	w.pass(26 * time.Second)
	if r := w.read(o.ID); r.Read.Verdict != ledger.Landed || r.Operation.State != ledger.Committed {
		t.Errorf("%s: %s", r.Read.Verdict, r.Read.Reason)
	}
}

// Everything that I6 asks for, each taken away alone: nothing less proves absence.
func TestI6_EachConditionAlone(t *testing.T) {
	without := func(line string) func(string) string {
		return func(p string) string {
			if !strings.Contains(p, line) {
				panic(line)
			}
			return strings.Replace(p, line, "", 1)
		}
	}
	for _, tc := range []struct {
		name    string
		policy  func(string) string
		prepare func(w *world)
		doubt   func(w *world) ledger.Operation
		wait    time.Duration
		says    string
	}{
		{name: "all there", wait: pastProof},
		{name: "no lands_within", policy: without("    lands_within: 20s\n"), wait: 24 * time.Hour, says: "policy states no bound"},
		{name: "no visible_within", policy: without("    visible_within: 10s\n"), wait: 24 * time.Hour, says: "policy states no bound"},
		{name: "not complete", policy: func(p string) string { return strings.Replace(p, `"!body.more"`, `"false"`, 1) }, wait: pastProof, says: "round in circles"},
		{name: "too early", wait: 29 * time.Second, says: "too early: proof possible in"},
		{name: "too early where clocks may differ", wait: 30500 * time.Millisecond, says: "too early: proof possible in"},
		{name: "shown no longer", policy: func(p string) string {
			return strings.Replace(p, "    lands_within: 20s", "    visible_for: 60s\n    lands_within: 20s", 1)
		},
			wait: 61 * time.Second, says: "too late"},
		{name: "token never sent", wait: pastProof, says: "token is not known to have been sent", doubt: func(w *world) ledger.Operation {
			res := need.Get(ledger.Begin(w.ctx, w.store, ledger.BeginRequest{ChangeID: "c", OperationID: ledger.NewID(), AttemptID: "a", Kind: "pay", Key: "k",
				Token: ledger.NewToken(), Input: []byte(`{"amount":420}`), Deadline: time.Minute, Actor: pipeline}))(w)
			return w.settle(res, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, Status: -1})
		}},
		{name: "nothing else is known", wait: pastProof, prepare: func(w *world) {}, says: "finds no other operation"},
		{name: "only another kind is known", wait: pastProof, says: "finds no other operation",
			policy: func(p string) string {
				return p + strings.Replace(p[strings.Index(p, "  pay:\n    downstream"):], "  pay:", "  other:", 1)
			},
			prepare: func(w *world) { w.known("other") }},
		{name: "cached", wait: pastProof, says: "from a cache", prepare: func(w *world) {
			w.known("pay")
			w.side.onList = func(_ *side, rw http.ResponseWriter, _ *http.Request) bool { rw.Header().Set("Age", "1"); return false }
		}},
		{name: "another attempt ended later", wait: pastProof, says: "too early", doubt: func(w *world) ledger.Operation {
			o := w.doubt("pay", 420)
			w.pass(20 * time.Second)
			applied := need.Get(ledger.Allow(w.ctx, w.store, ledger.AllowRequest{ChangeID: "g", AllowID: "g", OperationID: o.ID, Version: o.Version,
				Basis: ledger.BasisRiskAccepted, Sender: "http", Actor: maya, Reason: "try", ExpiresAt: w.now().Add(time.Hour),
				AttemptID: "a2", Deadline: time.Minute, TokenSent: true}))(w)
			o = w.settle(ledger.BeginResult{Attempt: applied.Attempt}, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, Status: -1})
			w.pass(-20 * time.Second)
			return o
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := payPolicy
			if tc.policy != nil {
				text = tc.policy(text)
			}
			n := strings.Count(text, "%s")
			need.Must(t, n == 1, "%d addresses", n)
			w := newWorld(t, text)
			if tc.prepare == nil {
				w.known("pay")
			} else {
				tc.prepare(w)
			}
			o := ledger.Operation{}
			if tc.doubt == nil {
				o = w.doubt("pay", 420)
			} else {
				o = tc.doubt(w)
			}
			w.pass(tc.wait)
			res := w.read(o.ID)
			if tc.says == "" {
				need.Must(t, res.Read.Verdict == ledger.NotThere && res.Operation.State == ledger.Failed,
					"with everything there: %s: %s", res.Read.Verdict, res.Read.Reason)
				return
			}
			if res.Read.Verdict != ledger.CannotTell || res.Operation.State != ledger.Uncertain || !strings.Contains(res.Read.Reason, tc.says) {
				t.Errorf("%s: %s, %s; want …%s…", res.Read.Verdict, res.Read.Reason, res.Operation.State, tc.says)
			}
		})
	}
}

func TestI12_NotThereNow(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	o := w.doubt("pay", 420, 420)
	landed := w.read(o.ID).Operation
	need.Must(t, landed.State == ledger.Committed && landed.PersonOnly, "%+v", landed)
	need.Get(ledger.Decide(w.ctx, w.store, ledger.Decision{ChangeID: ledger.NewID(), ID: o.ID, Version: landed.Version, Verb: ledger.VerbUndo, Reason: "refunded by hand", Actor: maya}))(t)
	w.side.charges = w.side.charges[:1]
	w.pass(time.Hour)
	res := w.read(o.ID)
	if res.Read.Verdict != ledger.CannotTell || res.Operation.State != ledger.Uncertain || !strings.Contains(res.Read.Reason, "not there now") {
		t.Errorf("%s: %s", res.Read.Verdict, res.Read.Reason)
	}
}

func TestEvidenceIsBoundedAndClean(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.doubt("pay", 420, 420)
	w.side.onList = func(s *side, rw http.ResponseWriter, _ *http.Request) bool {
		_, _ = io.WriteString(rw, `{"object":"list","more":false,"next":0,"seen":"Bearer sesame-key","password":"hunter22","big":"`+strings.Repeat("x", 200_000)+
			`","data":[{"id":"ch_1","ref":"`+o.Token+`","amount":420,"client_secret":"cs_1234567","echo":"sesame-key"}]}`)
		return true
	}
	r := w.read(o.ID).Read
	need.Must(t, r.Verdict == ledger.Landed, "%s: %s", r.Verdict, r.Reason)
	ev := string(w.get(o.ID).Reads[0].Evidence)
	for _, secret := range []string{"sesame", "hunter22", "cs_1234567"} {
		need.Lacks(t, ev, secret)
	}
	need.That(t, len(ev) <= maxEvidence && strings.Contains(ev, "ch_1") && strings.Contains(ev, "env.PAY_KEY"), "%d bytes: %.600s", len(ev), ev)
}
