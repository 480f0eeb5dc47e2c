package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/outcome"
)

// proven is an operation that a check calls not there.
func (w *world) proven(kind string) ledger.Operation {
	w.Helper()
	w.known(kind)
	o := w.doubt(kind, 420)
	w.pass(pastProof)
	res := w.read(o.ID)
	need.Must(w, res.Operation.State == ledger.Failed, "not proven: %s", res.Read.Reason)
	return res.Operation
}

func (w *world) retry(q RetryRequest) (RetryResult, error) {
	w.Helper()
	if q.Actor.Name == "" {
		q.Actor = maya
	}
	return w.engine.Retry(w.ctx, w.shown(w.engine, q))
}

// shown is the request of a person who agrees to what an engine shows.
func (w *world) shown(e *Engine, q RetryRequest) RetryRequest {
	w.Helper()
	if q.Showing.Digest == "" {
		p := need.Get(e.Plan(w.ctx, q.ID))(w)
		q.Showing = p.Showing
	}
	return q
}

func code(err error) string {
	var r *ledger.RefusedError
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}

func TestRetryWithProofSendsOnce(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.proven("pay")
	plan, err := w.engine.Plan(w.ctx, o.ID)
	need.Must(t, err == nil && plan.Refused == nil, "%v %v", err, plan.Refused)
	if plan.Basis != ledger.BasisProof || plan.Sender != "http" || !plan.FirstCheck || plan.Attempt != 2 ||
		plan.WillSend != "POST "+w.side.URL+"/charges" || !strings.Contains(plan.Body, "${env.PAY_KEY}") || !strings.Contains(plan.Body, o.Token) ||
		strings.Contains(plan.Body, "sesame") {
		t.Errorf("plan: %+v", plan)
	}
	before, _, _ := w.side.count()
	res := need.Get(w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: plan.Basis, ChangeID: "change-1"}))(t)
	effects, posts, _ := w.side.count()
	if res.Did != DidSend || res.Operation.State != ledger.Committed || effects != before+1 || posts != 1 {
		t.Errorf("%+v, %d effects, %d posts", res, effects-before, posts)
	}
	if a := res.Attempt; a.N != 2 || a.Basis != ledger.BasisProof || a.Outcome != ledger.OutcomeCommitted || !a.TokenSent || a.AllowID == "" || a.Sender != "http" {
		t.Errorf("attempt: %+v", a)
	}
	c := w.side.charges[len(w.side.charges)-1]
	need.That(t, c.Ref == o.Token, "another token was sent: %+v (I4)", c)
	// Said again, by its change id or by its old version: nothing more is sent.
	again, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: plan.Basis, ChangeID: "change-1"})
	need.That(t, err == nil && again.Did == DidSend && again.Attempt.ID == res.Attempt.ID, "again: %+v %v", again, err)
	again, err = w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: plan.Basis})
	need.That(t, errors.Is(err, ledger.ErrMoved) || code(err) != "", "old version: %+v %v", again, err)
	need.Equal(t, w.side.posted(), 1, "posts")
}

// What a client waits for over HTTP is kept as its proxy gives it again.
func TestARetrysAnswerIsKeptForItsClient(t *testing.T) {
	for _, c := range []struct {
		recordedBy string
		kept       func(outcome.StoredAnswer) bool
	}{
		{"http", func(a outcome.StoredAnswer) bool {
			return a.Status == 201 && a.Kept == "" && strings.Contains(string(a.JSON), `"id":"ch_`)
		}},
		{"pipeline", func(a outcome.StoredAnswer) bool { return a.Status == 0 }},
	} {
		t.Run(c.recordedBy, func(t *testing.T) {
			w := newWorld(t, payPolicy)
			w.known("pay")
			w.sender = c.recordedBy
			o := w.doubt("pay", 420)
			w.pass(pastProof)
			o = w.read(o.ID).Operation
			res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof})
			need.Must(t, err == nil && res.Did == DidSend, "%v %v", res.Did, err)
			var kept outcome.StoredAnswer
			if err := json.Unmarshal(w.get(o.ID).Attempts[1].Result, &kept); err != nil || !c.kept(kept) {
				t.Errorf("%s, %v", w.get(o.ID).Attempts[1].Result, err)
			}
		})
	}
}

func TestRetryChecksFirst(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.doubt("pay", 420, 420)
	res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted, Reason: "customer calls", LossTyped: true})
	need.That(t, err == nil && res.Did == DidLand && res.Operation.State == ledger.Committed && res.Operation.Receipt() == "ch_1", "%+v %v", res, err)
	need.Equal(t, w.side.posted(), 0, "posts of what had landed")
}

func TestRetryTakesProofOverRisk(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	o := w.doubt("pay", 420)
	w.pass(pastProof) // nobody has looked since proof became possible
	res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted, Reason: "customer calls", LossTyped: true})
	need.That(t, err == nil && res.Did == DidSend && res.Attempt.Basis == ledger.BasisProof && res.Operation.State == ledger.Committed, "%+v %v", res, err)
}

func TestI5_RiskNeedsAPerson(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.doubt("pay", 420)
	for name, tc := range map[string]struct {
		q    RetryRequest
		want string
	}{
		"machine":        {RetryRequest{Basis: ledger.BasisRiskAccepted, Reason: "x", LossTyped: true, Actor: ledger.Actor{Name: "engine", Machine: true}}, "no_person"},
		"no terminal":    {RetryRequest{Basis: ledger.BasisRiskAccepted, Reason: "x", LossTyped: true, Actor: ledger.Actor{Name: "maya"}}, "no_person"},
		"no reason":      {RetryRequest{Basis: ledger.BasisRiskAccepted, LossTyped: true, Actor: maya}, "incomplete"},
		"loss not typed": {RetryRequest{Basis: ledger.BasisRiskAccepted, Reason: "x", Actor: maya}, "no_person"},
		"claims proof":   {RetryRequest{Basis: ledger.BasisProof, Actor: maya}, "refused"},
		"claims a key":   {RetryRequest{Basis: ledger.BasisKeySafe, Actor: maya}, "refused"},
	} {
		tc.q.ID, tc.q.Version = o.ID, o.Version
		res, err := w.retry(tc.q)
		need.That(t, code(err) == tc.want && res.Did == DidRefuse && res.Why != "", "%s: %+v, %v", name, res.Did, err)
	}
	need.Equal(t, w.side.posted(), 0, "posts")
	res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted, Reason: "customer calls", LossTyped: true})
	need.That(t, err == nil && res.Did == DidSend && res.Attempt.Basis == ledger.BasisRiskAccepted, "%+v %v", res, err)
}

func TestRetryOutcomes(t *testing.T) {
	for _, tc := range []struct {
		name    string
		onPost  func(*side, http.ResponseWriter, *http.Request, charge)
		outcome ledger.Outcome
		proof   ledger.Proof
		state   ledger.State
		effects int
	}{
		{"applied and cut", applyAndCut, ledger.OutcomeUncertain, "", ledger.Uncertain, 1},
		{"cut before", cutFirst, ledger.OutcomeUncertain, "", ledger.Uncertain, 0},
		{"refused", func(_ *side, w http.ResponseWriter, _ *http.Request, _ charge) { w.WriteHeader(422) }, ledger.OutcomeFailed, ledger.Refused, ledger.Failed, 0},
		{"500", func(s *side, w http.ResponseWriter, _ *http.Request, c charge) { s.apply(c); w.WriteHeader(500) }, ledger.OutcomeUncertain, "", ledger.Uncertain, 1},
		{"hangs", func(s *side, _ http.ResponseWriter, r *http.Request, c charge) { s.apply(c); <-r.Context().Done() }, ledger.OutcomeUncertain, "", ledger.Uncertain, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var w *world
			var res RetryResult
			// One that hangs is waited for until its deadline. Where the machine is too slow for
			// a short one, a longer one is tried.
			for deadline := 200 * time.Millisecond; ; deadline *= 2 {
				text := payPolicy
				if tc.name == "hangs" {
					text = strings.Replace(payPolicy, "deadline: 20s", "deadline: "+deadline.String(), 1)
				}
				w = newWorldAlone(t, text)
				o := w.proven("pay")
				w.side.onPost = tc.onPost
				var err error
				res, err = w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof})
				need.Must(t, err == nil && res.Did == DidSend, "%+v %v", res, err)
				if tc.name != "hangs" || res.Attempt.Proof != ledger.NeverSent || deadline > time.Minute {
					break
				}
			}
			effects, posts, _ := w.side.count()
			if a := res.Attempt; a.Outcome != tc.outcome || a.Proof != tc.proof || res.Operation.State != tc.state || effects-1 != tc.effects || posts != 1 {
				t.Errorf("%s %s → %s; %d effects, %d posts", a.Outcome, a.Proof, res.Operation.State, effects-1, posts)
			}
			need.Equal(t, w.engine.Busy(), 0, "busy")
		})
	}
}

func TestSecondEffectIsADuplicate(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.side.late = 25 * time.Second // the first effect is not shown yet
	o := w.doubt("pay", 420, 420)
	w.side.late = 0
	w.side.onPost = func(s *side, rw http.ResponseWriter, _ *http.Request, c charge) {
		s.apply(c)
		w.pass(26 * time.Second) // and comes to light now
		rw.WriteHeader(200)
	}
	res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted, Reason: "x", LossTyped: true})
	need.That(t, err == nil && res.Did == DidSend && res.Operation.Conflict == ledger.ConflictMaybeTwice, "%+v %v", res, err)
	w.pass(time.Minute)
	w.once()
	got := w.get(o.ID).Operation
	need.That(t, got.Conflict == ledger.ConflictTwice && got.Effects == 2, "%q, %d effects", got.Conflict, got.Effects)
}

func TestHeldAndReadOnly(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.proven("pay")
	need.OK(t, w.store.Hold(w.ctx, ledger.Hold{Scope: "kind:pay", Actor: maya, Reason: "outage", ChangeID: ledger.NewID()}))
	lists := w.side.asked()
	_, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof})
	need.That(t, code(err) == "hold", "held: %v", err)
	plan, _ := w.engine.Plan(w.ctx, o.ID)
	need.That(t, code(plan.Refused) == "hold", "plan: %v", plan.Refused)
	blind := w.newEngine(Options{ReadOnly: true})
	_, err = blind.Retry(w.ctx, RetryRequest{ID: o.ID, Version: o.Version})
	need.That(t, code(err) == "read_only", "read-only retry: %v", err)
	_, err = blind.ReadNow(w.ctx, o.ID)
	need.That(t, errors.Is(err, ledger.ErrReadOnly), "read-only read: %v", err)
	_, err = blind.Once(w.ctx, nil)
	need.That(t, errors.Is(err, ledger.ErrReadOnly), "read-only once: %v", err)
	plan, err = blind.Plan(w.ctx, o.ID)
	need.That(t, err == nil && plan.WillSend != "" && code(plan.Refused) == "read_only", "read-only plan: %+v %v", plan, err)
	ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
	defer cancel()
	err = blind.Run(ctx)
	need.That(t, err == nil && len(blind.Health()) == 0, "read-only run: %v", err)
	_, posts, now := w.side.count()
	need.That(t, posts == 0 && now == lists, "%d posts, %d reads", posts, now-lists)
}

func TestRetryMaxIsOfMachinesAndNotOfPeople(t *testing.T) {
	w := newWorld(t, strings.Replace(payPolicy, "max: 3", "max: 0", 1))
	o := w.proven("pay")
	res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof})
	need.That(t, err == nil && res.Did == DidSend, "%+v %v", res, err)
}

func TestHandedBackToThePipeline(t *testing.T) {
	w := newWorld(t, payPolicy[:strings.Index(payPolicy, "    resend:")]+"    retry: { max: 3 }\n")
	o := w.proven("pay")
	res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof})
	need.Must(t, err == nil && res.Did == DidAllow && strings.Contains(res.Why, "billing"), "%+v %v", res, err)
	rec := w.get(o.ID)
	g := rec.OpenAllowed()
	need.That(t, g != nil && g.Basis == ledger.BasisProof, "allowed: %+v", rec.Allowed)
	begun, err := ledger.Begin(w.ctx, w.store, ledger.BeginRequest{ChangeID: "c2", OperationID: "unused", AttemptID: "a2", Kind: "pay", Key: o.Key,
		Fingerprint: o.Fingerprint, Input: o.Input, Deadline: time.Minute, Actor: pipeline})
	need.That(t, err == nil && begun.Answer == ledger.AnswerBegun && begun.Attempt.AllowID != "", "%+v %v", begun, err)
}

func TestRecordedCommandIsFilledInAtEachRun(t *testing.T) {
	text := `
version: 1
kinds:
  job:
    token: argument
    lands_within: 1s
    deadline: 5s
    resend: here
    retry: { max: 3 }
# %s
`
	w := newWorldAlone(t, text)
	t.Setenv("JOB_SECRET", "open-sesame")
	out := t.TempDir() + "/out"
	begin := func(key string, redacted bool, argv ...string) ledger.Operation {
		had := map[string]string{"JOB_SECRET": ledgertest.Caller(t, w.store, "open-sesame")}
		res := need.Get(ledger.Begin(w.ctx, w.store, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(),
			Kind: "job", Key: key, Token: ledger.NewToken(), Input: []byte(`{}`), Redacted: redacted, TokenSent: true, Deadline: time.Minute, Actor: pipeline,
			Command: &ledger.Command{Argv: argv, Expand: had}}))(t)
		return w.settle(res, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassKilled, Status: -1})
	}
	o := begin("k1", false, "/bin/sh", "-c", `echo "$0 $1 $2" > "$3"`, "{{key}}", "{{token}}", "${JOB_SECRET}", out)
	plan, err := w.engine.Plan(w.ctx, o.ID)
	need.That(t, err == nil && plan.Sender == "command" && strings.Contains(plan.WillSend, "k1 "+o.Token) && !strings.Contains(plan.WillSend+plan.Body, "sesame"), "%+v %v", plan, err)
	risk := RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted, Reason: "x", LossTyped: true}
	res, err := w.retry(risk)
	need.That(t, err == nil && res.Did == DidSend && res.Operation.State == ledger.Committed && res.Attempt.TokenSent, "%+v %v", res, err)
	need.Equal(t, readFile(t, out), "k1 "+o.Token+" open-sesame\n", "ran with")
	for key, argv := range map[string][]string{
		"redacted": {"/bin/sh", "-c", "true", "redacted:0123456789abcdef"},
		"no env":   {"/bin/sh", "-c", "true", "${JOB_SECRET}"},
		"another":  {"/bin/sh", "-c", "true", "${JOB_SECRET}"},
	} {
		t.Setenv("JOB_SECRET", "close-sesame")
		if key == "no env" {
			unset(t, "JOB_SECRET")
		}
		o := begin(key, key == "redacted", argv...)
		risk.ID, risk.Version = o.ID, o.Version
		res, err := w.retry(risk)
		need.That(t, err == nil && res.Did == DidAllow && strings.Contains(res.Why, "it cannot be sent from here: "), "%s: %+v %v", key, res, err)
		need.Equal(t, w.get(o.ID).Operation.State, ledger.Uncertain, key)
	}
}

func TestI7_ManyRetriesAreOneSend(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.proven("pay")
	engines := []*Engine{w.engine, w.newEngine(Options{}), w.newEngine(Options{})}
	var wg sync.WaitGroup
	var mu sync.Mutex
	did := map[string]int{}
	asked := w.shown(w.engine, RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof, Actor: maya})
	for i := range 9 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			res, _ := engines[i%3].Retry(w.ctx, asked)
			mu.Lock()
			did[res.Did]++
			mu.Unlock()
		}()
	}
	wg.Wait()
	need.That(t, w.side.posted() == 1 && did[DidSend] == 1, "%d posts, %v", w.side.posted(), did)
}

func TestCallerLeavingDoesNotHangUp(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.proven("pay")
	ctx, cancel := context.WithCancel(w.ctx)
	w.side.onPost = func(s *side, rw http.ResponseWriter, _ *http.Request, c charge) {
		cancel()
		time.Sleep(100 * time.Millisecond)
		s.apply(c)
		_, _ = io.WriteString(rw, `{}`)
	}
	done := make(chan struct{})
	asked := w.shown(w.engine, RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof, Actor: maya})
	go func() {
		defer close(done)
		_, _ = w.engine.Retry(ctx, asked)
	}()
	eventually(t, "busy", func() bool { return w.engine.Busy() == 1 || w.get(o.ID).Operation.State == ledger.Committed })
	w.engine.Drain(w.ctx)
	got := w.get(o.ID).Operation
	need.That(t, got.State == ledger.Committed && w.engine.Busy() == 0, "%s after draining", got.State)
	<-done
	p := w.proven("pay")
	_, err := w.retry(RetryRequest{ID: p.ID, Version: p.Version, Basis: ledger.BasisProof})
	need.That(t, code(err) == "quitting", "a write began after draining: %v", err)
}

func TestI4_SameKeyIsSafeWhileItIsRemembered(t *testing.T) {
	text := strings.Replace(payPolicy, "    headers:", "    key: { header: Idempotency-Key, remembers: 24h }\n    headers:", 1)
	text = text[:strings.Index(text, "    read:")] + text[strings.Index(text, "    resend:"):]
	w := newWorld(t, text)
	w.side.keys = true
	need.Equal(t, need.Get(w.engine.Plan(w.ctx, w.doubt("pay", 420).ID))(t).Basis, ledger.BasisRiskAccepted, "an attempt that is not known to have carried the key")
	w.keyWorks = true
	o := w.doubt("pay", 420, 420)
	plan, err := w.engine.Plan(w.ctx, o.ID)
	if err != nil || plan.Basis != ledger.BasisKeySafe || plan.LapsesAt.Before(w.now().Add(23*time.Hour)) || !strings.Contains(plan.Body, "Idempotency-Key: "+o.Key) {
		t.Fatalf("%+v %v", plan, err)
	}
	res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisKeySafe})
	effects, posts, _ := w.side.count()
	if err != nil || res.Did != DidSend || !res.Attempt.KeyWorks || res.Operation.State != ledger.Committed || res.Operation.Conflict != "" || effects != 1 || posts != 1 {
		t.Errorf("%+v %v, %d effects", res, err, effects)
	}
	o = w.doubt("pay", 421, 421)
	w.pass(24 * time.Hour)
	if _, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisKeySafe}); code(err) != "refused" {
		t.Errorf("after a day: %v", err)
	}
}
