package ledger

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// bench drives the rules over one record, as a store would.
type bench struct {
	t   *testing.T
	rec Record
	seq int
}

func newBench(t *testing.T) *bench {
	return &bench{t: t, rec: Record{Now: time.UnixMilli(1_790_000_000_000).UTC()}}
}

func (b *bench) id(prefix string) string {
	b.seq++
	return fmt.Sprintf("%s%d", prefix, b.seq)
}

func (b *bench) write(c Change) {
	if c.Insert {
		b.rec.Attempts, b.rec.Allowed, b.rec.Reads = nil, nil, nil
	}
	if c.Operation != nil {
		if b.rec.Found && !c.Insert && c.Event != nil && c.Event.Verb != "note" && c.Operation.Version <= b.rec.Operation.Version {
			b.t.Fatalf("%s did not move the version", c.Event.Verb)
		}
		b.rec.Operation, b.rec.Found = *c.Operation, true
	}
	for _, a := range c.Attempts {
		b.rec.Attempts = with(b.rec.Attempts, a)
	}
	for _, g := range c.Allowed {
		found := false
		for i := range b.rec.Allowed {
			if b.rec.Allowed[i].ID == g.ID {
				b.rec.Allowed[i], found = g, true
			}
		}
		if !found {
			b.rec.Allowed = append([]Allowed{g}, b.rec.Allowed...)
		}
	}
	if c.Read != nil {
		b.rec.Reads = append([]Read{*c.Read}, b.rec.Reads...)
	}
	b.rec.Now = b.rec.Now.Add(time.Second)
}

func (b *bench) begin(mod ...func(*BeginRequest)) (BeginResult, string) {
	req := BeginRequest{ChangeID: b.id("c"), OperationID: b.id("op"), AttemptID: b.id("a"), Kind: "k", Key: "key", Token: "tok",
		Fingerprint: "f", Sender: "pipeline", TokenSent: true, Deadline: time.Minute, Actor: Actor{Name: "billing", Machine: true}}
	for _, m := range mod {
		m(&req)
	}
	res, c, err := begin(&b.rec, req)
	need.OK(b.t, err)
	b.write(c)
	return res, res.Attempt.ID
}

func (b *bench) settle(attempt string, outcome Outcome, mod ...func(*SettleRequest)) {
	b.t.Helper()
	req := SettleRequest{ChangeID: b.id("c"), AttemptID: attempt, Outcome: outcome, Actor: Actor{Name: "billing", Machine: true}}
	switch outcome {
	case OutcomeFailed:
		req.Proof = Refused
	case OutcomeUncertain:
		req.ErrorClass = ClassTimeout
	}
	for _, m := range mod {
		m(&req)
	}
	c := need.Get(settle(&b.rec, req))(b.t)
	b.write(c)
}

func (b *bench) observe(v Verdict, found int, receipts ...string) {
	b.t.Helper()
	c := need.Get(observe(&b.rec, Observation{ChangeID: b.id("c"), Version: b.rec.Operation.Version, Settles: true,
		Actor: Actor{Name: "auto", Machine: true},
		Read:  Read{ID: b.id("r"), Verdict: v, Found: found, Receipts: receipts, Reason: "read " + string(v), BeganAt: b.rec.Now}}))(b.t)
	b.write(c)
}

func (b *bench) decide(v Verb, mod ...func(*Decision)) error {
	d := Decision{ChangeID: b.id("c"), ID: b.rec.Operation.ID, Version: b.rec.Operation.Version, Verb: v, Reason: "because",
		Actor: Actor{Name: "maya", Terminal: true}}
	for _, m := range mod {
		m(&d)
	}
	c, err := d.Rule()(&b.rec)
	if err == nil {
		b.write(c)
	}
	return err
}

// say deals with a conflict: what is true.
func (b *bench) say(t Truth, receipts ...string) error {
	return b.decide(VerbAck, func(d *Decision) {
		if d.Truth, d.Receipts = t, receipts; t == TakenBack {
			d.Reference = "re_1"
		}
	})
}

func (b *bench) allow(basis Basis, mod ...func(*AllowRequest)) (string, error) {
	g := AllowRequest{ChangeID: b.id("c"), AllowID: b.id("g"), OperationID: b.rec.Operation.ID, Version: b.rec.Operation.Version, Basis: basis,
		Sender: "http", Actor: Actor{Name: "maya", Terminal: true}, Reason: "because", ExpiresAt: b.rec.Now.Add(time.Hour),
		AttemptID: b.id("a"), Deadline: time.Minute}
	for _, m := range mod {
		m(&g)
	}
	c, err := g.Rule()(&b.rec)
	if err == nil {
		b.write(c)
	}
	return g.AttemptID, err
}

func (b *bench) want(s State, effects int, c Conflict) {
	b.t.Helper()
	o := b.rec.Operation
	if o.State != s || o.Effects != effects || o.Conflict != c {
		b.t.Fatalf("state %s, effects %d, conflict %q (%s); want %s, %d, %q", o.State, o.Effects, o.Conflict, o.ConflictNote, s, effects, c)
	}
}

func receipt(r string) func(*SettleRequest) { return func(s *SettleRequest) { s.Receipt = r } }

// doubt is an operation whose only attempt ended uncertain.
func doubt(t *testing.T) (*bench, string) {
	b := newBench(t)
	_, a := b.begin()
	b.settle(a, OutcomeUncertain)
	b.want(Uncertain, 0, NoConflict)
	return b, a
}

func TestI3_OneLiveAttempt(t *testing.T) {
	b := newBench(t)
	first, _ := b.begin()
	second, _ := b.begin()
	need.Must(t, first.Answer == AnswerBegun && second.Answer == AnswerInProgress, "%s, %s", first.Answer, second.Answer)
	b.rec.Now = b.rec.Now.Add(2 * time.Minute)
	third, _ := b.begin()
	if third.Answer != AnswerInDoubt || b.rec.Operation.State != Uncertain || b.rec.Operation.ErrorClass != ClassDeadline {
		t.Fatalf("%s, %s %s", third.Answer, b.rec.Operation.State, b.rec.Operation.ErrorClass)
	}
}

func TestI4_SameKeyOtherInput(t *testing.T) {
	b, _ := doubt(t)
	res, _ := b.begin(func(r *BeginRequest) { r.Fingerprint = "other" })
	need.Must(t, res.Answer == AnswerKeyReused, "%v", res.Answer)
}

func TestBeginAnswersByState(t *testing.T) {
	b, _ := doubt(t)
	if res, _ := b.begin(); res.Answer != AnswerInDoubt {
		t.Fatal(res.Answer)
	}
	need.OK(t, b.decide(VerbDeny))
	if res, _ := b.begin(); res.Answer != AnswerRefused { // a person's word is not a proof
		t.Fatal(res.Answer)
	}
	need.OK(t, b.decide(VerbAbandon))
	if res, _ := b.begin(); res.Answer != AnswerRefused {
		t.Fatal(res.Answer)
	}

	refused := newBench(t)
	_, a := refused.begin()
	refused.settle(a, OutcomeFailed)
	refused.want(Failed, 0, NoConflict)
	res, a := refused.begin()
	need.Must(t, res.Answer == AnswerBegun && res.Attempt.N == 2, "%v %v", res.Answer, res.Attempt.N)
	refused.settle(a, OutcomeCommitted)
	if res, _ := refused.begin(); res.Answer != AnswerFinished {
		t.Fatal(res.Answer)
	}
}

func TestFinishedOperationGivesItsKeyUpAfterTTL(t *testing.T) {
	b := newBench(t)
	first, a := b.begin(func(r *BeginRequest) { r.TTL = time.Hour })
	b.settle(a, OutcomeCommitted)
	b.rec.Now = b.rec.Now.Add(2 * time.Hour)
	second, _ := b.begin(func(r *BeginRequest) { r.Fingerprint = "other" })
	need.Must(t, second.Answer == AnswerBegun && second.Operation.ID != first.Operation.ID, "%v", second.Answer)
	d, _ := doubt(t)
	d.rec.Operation.TTL = time.Hour
	d.rec.Now = d.rec.Now.Add(48 * time.Hour)
	res, _ := d.begin()
	need.Must(t, res.Answer == AnswerInDoubt, "%v", res.Answer) // what is in doubt never expires
}

func TestI2_RefusedRetryKeepsTheDoubt(t *testing.T) {
	b, _ := doubt(t)
	a := need.Get(b.allow(BasisRiskAccepted))(t)
	b.settle(a, OutcomeFailed)
	b.want(Uncertain, 0, NoConflict)
}

func TestAlreadyThereCommitsWithoutDuplicate(t *testing.T) {
	b, _ := doubt(t)
	a, _ := b.allow(BasisRiskAccepted)
	b.settle(a, OutcomeCommitted, func(s *SettleRequest) { s.Already = true })
	b.want(Committed, 1, NoConflict)
}

func TestCommitBesideAnUnknownAttempt(t *testing.T) {
	b, first := doubt(t)
	a, _ := b.allow(BasisRiskAccepted)
	b.settle(a, OutcomeCommitted, receipt("r2"))
	b.want(Committed, 1, ConflictMaybeTwice)
	b.settle(first, OutcomeCommitted, receipt("r1"))
	b.want(Committed, 2, ConflictTwice)
	need.OK(t, b.say(BothWanted))
	b.want(Committed, 2, NoConflict)
	b.observe(Twice, 2, "r1", "r2") // covered by the acknowledgement
	b.want(Committed, 2, NoConflict)
	b.observe(Twice, 3, "r1", "r2", "r3")
	b.want(Committed, 3, ConflictTwice)
}

func TestSameWorkingKeyIsOneEffect(t *testing.T) {
	b := newBench(t)
	_, first := b.begin(func(r *BeginRequest) { r.KeyWorks = true })
	b.settle(first, OutcomeUncertain)
	a := need.Get(b.allow(BasisKeySafe, func(g *AllowRequest) { g.KeyWorks = true }))(t)
	b.settle(a, OutcomeCommitted)
	b.want(Committed, 1, NoConflict)
	b.settle(first, OutcomeCommitted)
	b.want(Committed, 1, NoConflict)
}

func TestLateAnswers(t *testing.T) {
	t.Run("settles the doubt", func(t *testing.T) {
		b, a := doubt(t)
		b.settle(a, OutcomeCommitted, receipt("r1"))
		b.want(Committed, 1, NoConflict)
	})
	t.Run("refusal of the only attempt", func(t *testing.T) {
		b, a := doubt(t)
		b.settle(a, OutcomeFailed)
		b.want(Failed, 0, NoConflict)
	})
	t.Run("never settles the live attempt", func(t *testing.T) {
		b, first := doubt(t)
		second, _ := b.allow(BasisRiskAccepted)
		b.settle(first, OutcomeFailed)
		b.want(Pending, 0, NoConflict)
		b.settle(second, OutcomeCommitted, receipt("r2"))
		b.want(Committed, 1, NoConflict)
	})
	t.Run("late commit then a second one", func(t *testing.T) {
		b, first := doubt(t)
		second, _ := b.allow(BasisRiskAccepted)
		b.settle(first, OutcomeCommitted, receipt("r1"))
		b.want(Pending, 1, NoConflict)
		b.settle(second, OutcomeCommitted, receipt("r2"))
		b.want(Committed, 2, ConflictTwice)
	})
	t.Run("same answer twice is nothing new", func(t *testing.T) {
		b, a := doubt(t)
		b.settle(a, OutcomeCommitted, receipt("r1"))
		v := b.rec.Operation.Version
		b.settle(a, OutcomeCommitted, receipt("r1"))
		need.Must(t, b.rec.Operation.Version == v, "moved")
	})
}

func TestI9_LateTruthAgainstADecision(t *testing.T) {
	b, a := doubt(t)
	need.OK(t, b.decide(VerbDeny))
	b.settle(a, OutcomeCommitted, receipt("r1"))
	b.want(Failed, 1, ConflictDisputed)
	need.Must(t, b.rec.Operation.Receipt() == "r1" && b.rec.Operation.PersonOnly, "the receipt is lost or automation goes on")

	c, _ := doubt(t)
	need.OK(t, c.decide(VerbConfirm))
	c.observe(NotThere, 0)
	c.want(Committed, 1, ConflictDisputed)

	d, _ := doubt(t)
	d.observe(NotThere, 0)
	d.want(Failed, 0, NoConflict)
	d.observe(Landed, 1, "r1")
	d.want(Failed, 1, ConflictDisputed)
}

func TestReceiptFoundByAReadIsNotAnotherEffect(t *testing.T) {
	b, a := doubt(t)
	b.observe(Landed, 1, "r1")
	b.want(Committed, 1, NoConflict)
	b.settle(a, OutcomeCommitted) // late, and without a receipt
	b.want(Committed, 1, NoConflict)
}

func TestI12_AfterUndoOnlyAPersonSettles(t *testing.T) {
	b, _ := doubt(t)
	b.observe(Landed, 1, "r1")
	need.OK(t, b.decide(VerbUndo))
	b.want(Uncertain, 1, NoConflict)
	b.observe(NotThere, 0)
	b.want(Uncertain, 1, NoConflict)
	v := b.rec.Reads[0].Verdict
	need.Must(t, v == CannotTell, "%v", v)
	b.observe(Landed, 1, "r1")
	b.want(Uncertain, 1, NoConflict)
	_, err := b.allow(BasisKeySafe, ownRepeat)
	r := new(RefusedError)
	need.Must(t, errors.As(err, &r) && r.Code == "refused", "%v", err)
	if _, err := b.allow(BasisProof); err == nil {
		t.Fatal("proof after an undo")
	}
	need.OK(t, b.decide(VerbConfirm))
}

func TestI12_AnUndoneAnswerDoesNotComeBack(t *testing.T) {
	for _, outcome := range []Outcome{OutcomeUncertain, OutcomeFailed} {
		b := newBench(t)
		_, first := b.begin()
		b.settle(first, OutcomeCommitted, receipt("pi_1"))
		need.OK(t, b.decide(VerbUndo))
		second := need.Get(b.allow(BasisKeySafe))(t)
		b.settle(second, outcome) // knows nothing of the first, whose answer was taken back
		b.want(Uncertain, 1, NoConflict)
	}
}

func TestI7_StaleDecisionIsRefusedAndSaysWho(t *testing.T) {
	b, _ := doubt(t)
	seen := b.rec.Operation.Version
	need.OK(t, b.decide(VerbConfirm))
	err := b.decide(VerbDeny, func(d *Decision) { d.Version = seen; d.Actor.Name = "sam" })
	m := new(MovedError)
	if !errors.As(err, &m) || !errors.Is(err, ErrMoved) || m.Actor != "maya" || m.State != Committed || m.Seen != seen {
		t.Fatalf("%v", err)
	}
}

// ownRepeat is what a recorder asks for that has just lost the answer.
func ownRepeat(g *AllowRequest) {
	g.Actor, g.Own, g.KeyWorks, g.Reason = Actor{Name: "billing", Machine: true}, true, true, ""
}

func TestI5_ARecorderRepeatsOnlyUnderAKeyThatWorks(t *testing.T) {
	b, _ := doubt(t)
	for _, basis := range []Basis{BasisRiskAccepted, BasisProof} {
		_, err := b.allow(basis, ownRepeat)
		need.Must(t, errors.Is(err, ErrRefused), "%s: %v", basis, err)
	}
	_, err := b.allow(BasisKeySafe, ownRepeat, func(g *AllowRequest) { g.KeyWorks = false })
	need.Must(t, errors.Is(err, ErrRefused), "%v", err)
	_, err = b.allow(BasisKeySafe, ownRepeat, func(g *AllowRequest) { g.AttemptID = "" })
	need.Must(t, errors.Is(err, ErrRefused), "%v", err)
	_, err = b.allow(BasisRiskAccepted, func(g *AllowRequest) { g.Actor.Terminal = false })
	need.Must(t, errors.Is(err, ErrRefused), "%v", err)
	_, err = b.allow(BasisRiskAccepted, func(g *AllowRequest) { g.Reason = " " })
	need.Must(t, errors.Is(err, ErrRefused), "%v", err)
	b.rec.Related = []Relation{{ID: "later", Overtook: true}}
	_, err = b.allow(BasisKeySafe, ownRepeat)
	need.Must(t, errors.Is(err, ErrRefused), "%v", err)
	b.rec.Related = nil
	b.rec.Holds = []Hold{{Scope: "all", Actor: Actor{Name: "sam"}}}
	_, err = b.allow(BasisKeySafe)
	need.Must(t, errors.Is(err, ErrRefused), "%v", err)
	b.rec.Holds = nil
	need.Get(b.allow(BasisKeySafe, ownRepeat))(t)
}

func TestGrantIsConsumedOnceAndVoidAfterNews(t *testing.T) {
	pipeline := func(g *AllowRequest) { g.AttemptID, g.Sender = "", "pipeline" }
	b, _ := doubt(t)
	need.Get(b.allow(BasisRiskAccepted, pipeline))(t)
	res, a := b.begin()
	need.Must(t, res.Answer == AnswerBegun && res.Attempt.Basis == BasisRiskAccepted, "%v", res.Answer)
	b.settle(a, OutcomeUncertain)
	if res, _ := b.begin(); res.Answer != AnswerInDoubt {
		t.Fatal(res.Answer)
	}
	need.Get(b.allow(BasisRiskAccepted, pipeline))(t)
	need.OK(t, b.decide(VerbDeny)) // a decision makes it void
	if res, _ := b.begin(); res.Answer != AnswerRefused {
		t.Fatal(res.Answer)
	}
	need.OK(t, b.decide(VerbUndo))
	need.Get(b.allow(BasisRiskAccepted, pipeline))(t)
	b.observe(CannotTell, 0) // which tells nothing new
	b.rec.Now = b.rec.Now.Add(2 * time.Hour)
	if res, _ := b.begin(); res.Answer != AnswerInDoubt { // it has lapsed
		t.Fatal(res.Answer)
	}
}

func TestAbsentFreesTheKey(t *testing.T) {
	b, _ := doubt(t)
	b.observe(NotThere, 0)
	b.want(Failed, 0, NoConflict)
	need.Must(t, b.rec.Attempts[0].Proof == ProofNotThere, "%v", b.rec.Attempts[0].Proof)
	res, a := b.begin()
	need.Must(t, res.Answer == AnswerBegun, "%v %v", res.Answer, res.Why)
	b.settle(a, OutcomeCommitted, receipt("r2"))
	b.want(Committed, 1, NoConflict)
}

func TestMismatchIsAConflictAndAPersonsMatter(t *testing.T) {
	b, _ := doubt(t)
	b.observe(Different, 1, "r1")
	b.want(Uncertain, 0, ConflictDifferent)
	need.OK(t, b.say(NotLanded))
	b.observe(Different, 1, "r1")
	b.want(Failed, 0, NoConflict)
	b.observe(NotThere, 0)
	b.want(Failed, 0, NoConflict)
}

func TestDecisionOnAnOverdueAttempt(t *testing.T) {
	b := newBench(t)
	b.begin()
	err := b.decide(VerbConfirm)
	need.Must(t, errors.Is(err, ErrMoved), "%v", err)
	b.rec.Now = b.rec.Now.Add(time.Hour)
	need.OK(t, b.decide(VerbConfirm))
	b.want(Committed, 1, NoConflict)
}

// A hold on a downstream names the kinds that the policy names for it, patterns too.
func TestAHoldCoversWhatItsPatternsMatch(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, h := range []Hold{{Scope: "downstream:memory", Kinds: []string{"git.push", "mcp.memory.*"}}, {Scope: "kind:mcp.memory.*"}} {
		for kind, want := range map[string]bool{"mcp.memory.create": true, "git.push": len(h.Kinds) > 0, "mcp.github.create": false, "memory": false} {
			need.That(t, h.Covers(kind, now) == want, "%s covers %s: %t", h.Scope, kind, !want)
		}
		h.Until = now.Add(-time.Second)
		need.That(t, !h.Covers("mcp.memory.create", now), "%s covers although it is over", h.Scope)
	}
	every := Hold{Scope: "kind:*"}
	need.That(t, every.Covers("git.push", now), "a pattern that fits all")
}
