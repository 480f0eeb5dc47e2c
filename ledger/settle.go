package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// SettleRequest reports what became of one attempt. It names the attempt, not
// the operation: an answer for an attempt that is no longer live is that
// attempt's late answer and never settles the live one.
type SettleRequest struct {
	ChangeID, AttemptID string
	Outcome             Outcome
	Proof               Proof // for OutcomeFailed: never_sent or refused
	ErrorClass          ErrorClass
	Error               string
	Status              int
	Receipt             string
	Result              json.RawMessage
	Already             bool // committed, because an earlier attempt's effect is there
	TokenSent           bool
	Tree                Tree // TreeEmpty: all processes that the attempt had started were seen to be gone
	TreeForeign         bool // what is left of them is another account's: only root can tell
	Delivered           bool // its caller has this answer; else Deliver says when it has
	// Passes: where it ends in doubt an identical request may go out beside it. The gate is
	// left, and a name that was made of the input alone is given up. Whoever sets it tells
	// the caller once before that.
	Passes bool
	Actor  Actor
	// Assumed: it failed by what a refusal means as a rule, and not by a rule of its kind.
	Assumed bool
	Looks   func(kind string) Looks `json:"-"` // nil: as where no kind has a check
}

// Settle records an attempt's outcome and what follows for the operation. The
// same answer twice is a Noop; another answer after a final one is recorded and
// raises a conflict (I9). Errors: ErrNotFound, a bad request.
func Settle(ctx context.Context, s Changer, req SettleRequest) (Applied, error) {
	switch req.Outcome {
	case OutcomeCommitted, OutcomeUncertain:
	case OutcomeFailed:
		if !req.Proof.OfAttempt() {
			return Applied{}, fmt.Errorf("settle: failed needs proof that nothing happened (never_sent or refused); without it the outcome is uncertain (I2)")
		}
	default:
		return Applied{}, fmt.Errorf("settle: outcome %q is none of committed, failed, uncertain", req.Outcome)
	}
	return changeBeside(ctx, s, Locator{AttemptID: req.AttemptID, Skip: AllParts}, req.ChangeID, func(rec *Record) (Change, error) {
		return settle(rec, req)
	})
}

func settle(rec *Record, req SettleRequest) (Change, error) {
	if !rec.Found {
		return Change{}, fmt.Errorf("attempt %s: %w", req.AttemptID, ErrNotFound)
	}
	a := *rec.Attempt(req.AttemptID)
	treeChanges := a.seen(rec, req)
	o := rec.Operation
	req.Receipt = o.known(rec.Mask, req.Receipt)
	live := o.State == Pending && o.LiveAttempt == a.ID
	switch {
	case live:
		return settleLive(rec, a, req), nil
	case a.Outcome == OutcomeUncertain && a.LateOutcome == "":
		if req.Outcome == OutcomeUncertain && treeChanges {
			return Change{Attempts: []Attempt{a}, Event: treeEvent(req.ChangeID, a, req.Actor, "")}, nil
		}
		if req.Outcome == OutcomeUncertain {
			return Change{}, nil // nothing new
		}
		return settleLate(rec, a, req), nil
	case a.Final() == req.Outcome && (req.Receipt == "" || req.Receipt == a.Receipt || req.Receipt == a.LateReceipt):
		return Change{}, nil
	case req.Outcome == OutcomeUncertain:
		return Change{}, nil // knows less than what is recorded
	case o.Moved != "" && req.Outcome == OutcomeFailed: // only another receipt disagrees with what was moved
		c := written(rec, o, a, "late", "late answer of attempt 1: "+describe(req), req)
		c.Operation, c.Attempts = nil, nil
		return c, nil
	default:
		return settleAgainst(rec, a, req), nil
	}
}

// settleLive ends the attempt in flight.
func settleLive(rec *Record, a Attempt, req SettleRequest) Change {
	o := rec.Operation
	late := rec.State() == Uncertain
	a.EndedAt, a.Outcome, a.Proof = rec.Now, req.Outcome, req.Proof
	a.ErrorClass, a.Error, a.Status = req.ErrorClass, req.Error, req.Status
	a.Receipt, a.Result, a.Already = req.Receipt, req.Result, req.Already
	a.TokenSent = a.TokenSent || req.TokenSent
	o.TokenSent = o.TokenSent || a.TokenSent
	verb := "settle"
	if late {
		verb, o.Doubted, o.ErrorClass = "late", true, cmp.Or(o.ErrorClass, ClassDeadline)
	}
	reason := fmt.Sprintf("attempt %d: %s", a.N, describe(req))
	return conclude(rec, o, a, verb, reason, req)
}

// settleLate records the one late answer of an attempt that had ended uncertain.
func settleLate(rec *Record, a Attempt, req SettleRequest) Change {
	o := rec.Operation
	a.LateOutcome, a.LateAt, a.LateReceipt = req.Outcome, rec.Now, req.Receipt
	if a.Error == "" {
		a.Error = req.Error
	}
	if req.Outcome == OutcomeFailed {
		a.Proof = req.Proof
	}
	if len(req.Result) > 0 {
		a.Result = req.Result
	}
	reason := fmt.Sprintf("late answer of attempt %d: %s", a.N, describe(req))
	switch {
	case o.State.Open(), o.State == Committed && req.Outcome == OutcomeCommitted:
		return conclude(rec, o, a, "late", reason, req)
	case o.State == Committed && !allProven(o, with(rec.Attempts, a)):
		// Another attempt has made it, or may have; this refusal only says that this
		// attempt had no part in it.
		o.Version++
		return written(rec, o, a, "late", reason, req)
	case (o.State == Failed || o.State == Abandoned) && req.Outcome == OutcomeFailed:
		o.Version++ // it says the same as the read or the person, or what was unknown
		if combined(with(rec.Attempts, a)) == Failed {
			o.failedAfterAll(rec.Now)
		}
		return written(rec, o, a, "late", reason, req)
	default:
		// A read or a person had said otherwise: the decision stays, the doubt shows.
		raise(&o, ConflictDisputed, fmt.Sprintf("recorded as %s by %s, but attempt %d answered late: %s", o.State, o.Actor, a.N, describe(req)))
		if req.Outcome == OutcomeCommitted {
			learn(&o, req.Receipt)
			o.Effects = max(o.Effects, 1)
		}
		o.PersonOnly = true
		o.Version++
		return written(rec, o, a, "late", reason, req)
	}
}

// failedAfterAll notes of an abandoned operation in doubt that every attempt of it is
// proven by now to have had no effect.
func (o *Operation) failedAfterAll(now time.Time) {
	if o.Fact == Uncertain && !o.PersonOnly {
		o.Fact, o.SettledAt = Failed, now
	}
}

// settleAgainst records an answer that contradicts the attempt's final one.
func settleAgainst(rec *Record, a Attempt, req SettleRequest) Change {
	o := rec.Operation
	reason := fmt.Sprintf("attempt %d had ended %s and now answers: %s", a.N, a.Final(), describe(req))
	if req.Outcome == OutcomeCommitted {
		learn(&o, req.Receipt)
		if a.Final() == OutcomeCommitted { // a second receipt from one transmission
			o.Effects = max(o.Effects, len(o.Receipts))
		}
		o.Effects = max(o.Effects, 1)
	}
	flag := ConflictDisputed
	if o.Effects > 1 && !covered(o) {
		flag = ConflictTwice
	}
	raise(&o, flag, reason)
	o.PersonOnly = true
	o.Version++
	c := written(rec, o, a, "late", reason, req)
	c.Attempts = nil // what was final stays as it was; the event keeps the news
	return c
}

// conclude works out the operation's state from all its attempts.
func conclude(rec *Record, o Operation, a Attempt, verb, reason string, req SettleRequest) Change {
	attempts := with(rec.Attempts, a)
	before := o.State
	live := before == Pending && o.LiveAttempt != a.ID
	o.Version++
	if len(req.Result) > 0 && req.Outcome == OutcomeCommitted {
		o.Result = req.Result
	}
	if req.Outcome == OutcomeCommitted {
		learn(&o, req.Receipt)
	}
	if o.EndedAt.Before(a.EndedAt) {
		o.EndedAt = a.EndedAt
	}
	o.Effects = max(o.Effects, effects(o, attempts))
	if o.Effects > 1 && !covered(o) {
		o.Verdict = Twice
		raise(&o, ConflictTwice, fmt.Sprintf("%d effects are known", o.Effects))
	}
	if !live { // else the attempt in flight goes on, whatever an older one answers
		o.LiveAttempt, o.DeadlineAt, o.Awaits = "", time.Time{}, ""
		o.State = combined(attempts)
		switch {
		case before == Committed:
			o.State = Committed
		case o.State == Failed && rec.Operation.PersonOnly:
			o.State = Uncertain // a proof that was undone or contradicted proves nothing (I12)
		case o.State == Committed && rec.Operation.PersonOnly && req.Outcome != OutcomeCommitted:
			o.State = Uncertain // the commit is an older attempt's, and a person had undone it (I12)
		}
		switch o.State {
		case Committed:
			o.ByAnswer = true
			o.PersonOnly = true // an answer said "landed" (I12)
			if before == Committed {
				break
			}
			if n := openDoubts(attempts); n > 0 && o.Effects < 2 && a.Basis != BasisKeySafe { // what cannot act twice has not
				raise(&o, ConflictMaybeTwice, fmt.Sprintf("committed by attempt %d while %d other attempt(s) without a working key stay unknown", a.N, n))
			}
			raiseRisked(rec, &o, attempts)
		case Uncertain:
			o.doubt(a, before, req)
		}
		if o.State == Uncertain {
			o.SettledAt = time.Time{}
		} else {
			o.Undelivered = o.Undelivered && !(req.Delivered && before == Pending)
			o.SettledAt = rec.Now
		}
	}
	c := written(rec, o, a, verb, reason, req)
	if req.Looks != nil {
		c.RecheckAt = req.Looks(o.Kind).next(o, rec.Now, mayStillLand(o, attempts, req.Assumed), false)
	}
	return c
}

// doubt notes that an operation is in doubt after an attempt of it ended.
func (o *Operation) doubt(a Attempt, before State, req SettleRequest) {
	if req.Passes && before == Pending {
		o.Gate = ""
		o.KeyLive = o.KeyLive && !madeOf(o.Key, namedByInput)
	}
	o.Doubted = true
	if req.Outcome == OutcomeUncertain {
		o.ErrorClass = req.ErrorClass
	}
	if o.DoubtedAt.IsZero() {
		o.DoubtedAt = a.EndedAt
	}
}

func written(rec *Record, o Operation, a Attempt, verb, reason string, req SettleRequest) Change {
	note(rec, &o, req.Actor, reason)
	d := struct {
		Already    bool       `json:"already,omitempty"`
		Attempt    string     `json:"attempt"`
		Error      string     `json:"error,omitempty"`
		ErrorClass ErrorClass `json:"error_class,omitempty"`
		N          int        `json:"n"`
		Outcome    Outcome    `json:"outcome"`
		Proof      Proof      `json:"proof,omitempty"`
		Receipt    string     `json:"receipt,omitempty"`
	}{req.Already, a.ID, req.Error, req.ErrorClass, a.N, req.Outcome, req.Proof, req.Receipt}
	return Change{Operation: &o, Attempts: []Attempt{a}, Allowed: voided(rec, reason),
		Event: &Event{ID: req.ChangeID, Verb: verb, Actor: req.Actor, Reason: reason, Detail: detail(d)}}
}

// combined is the state that the attempts, all ended, make together.
func combined(attempts []Attempt) State {
	state := Failed
	for _, a := range attempts {
		switch a.Final() {
		case OutcomeCommitted:
			return Committed
		case OutcomeFailed:
		default:
			if a.Proof != ProofNotThere {
				state = Uncertain
			}
		}
	}
	return state
}

// effects counts what is known to have been done: each receipt once, and each
// commit without one, except repeats under a working key and answers that only
// said "it is already there". A receipt that a read or a person found may be
// that of a commit without one, so it does not add to it.
func effects(o Operation, attempts []Attempt) int {
	answered := map[string]bool{}
	bare := 0
	for _, a := range attempts {
		receipt := a.Receipt
		if a.LateReceipt != "" {
			receipt = a.LateReceipt
		}
		switch {
		case a.Final() != OutcomeCommitted:
		case receipt != "":
			answered[receipt] = true
		case a.Already || a.KeyWorks:
		default:
			bare++
		}
	}
	n := max(len(o.Receipts), len(answered)+bare)
	if n == 0 && combined(attempts) == Committed {
		n = 1
	}
	return n
}

// openDoubts counts attempts that may have had an effect of their own beside
// the committed one. An answer "already there" explains one of them.
func openDoubts(attempts []Attempt) int {
	n := 0
	for _, a := range attempts {
		if a.Final() == OutcomeUncertain && a.Proof == "" && !a.KeyWorks {
			n++
		}
		if a.Already && a.Final() == OutcomeCommitted {
			n--
		}
	}
	return max(n, 0)
}

func describe(req SettleRequest) string {
	switch {
	case req.Outcome == OutcomeCommitted && req.Already:
		return "already there"
	case req.Outcome == OutcomeCommitted && req.Receipt != "":
		return "committed, receipt " + req.Receipt
	case req.Outcome == OutcomeFailed:
		return "failed, " + string(req.Proof)
	case req.Outcome == OutcomeUncertain && req.ErrorClass != "":
		return "no answer (" + string(req.ErrorClass) + ")"
	}
	return string(req.Outcome)
}

// Heartbeat extends the live attempt's deadline to extend from now, and returns
// it. A *MovedError says that the attempt is no longer live or its deadline has
// passed: the sender must stop (I3).
func Heartbeat(ctx context.Context, s Changer, attemptID string, extend time.Duration) (time.Time, error) {
	var deadline time.Time
	_, err := s.Change(ctx, Locator{AttemptID: attemptID, Skip: AllParts}, NewID(), func(rec *Record) (Change, error) {
		if !rec.Found {
			return Change{}, fmt.Errorf("attempt %s: %w", attemptID, ErrNotFound)
		}
		o := rec.Operation
		if rec.State() != Pending || o.LiveAttempt != attemptID {
			return Change{}, moved(rec, "go on with the attempt", 0, true)
		}
		a := *rec.Attempt(attemptID)
		deadline = rec.Now.Add(min(extend, MaxDeadline))
		if deadline.Before(a.DeadlineAt) {
			deadline = a.DeadlineAt
		}
		a.DeadlineAt, o.DeadlineAt = deadline, deadline
		return Change{Operation: &o, Attempts: []Attempt{a}}, nil
	})
	return deadline, err
}

// ExpireRule turns a pending operation whose deadline has passed into an
// uncertain one; every other record is left alone.
func ExpireRule() Rule {
	return func(rec *Record) (Change, error) {
		if !rec.Found || rec.Operation.State != Pending || rec.State() != Uncertain {
			return Change{}, nil
		}
		return expire(rec), nil
	}
}

// expire ends the live attempt at its deadline: its effect is unknown.
func expire(rec *Record) Change {
	o := rec.Operation
	req := SettleRequest{ChangeID: NewID(), AttemptID: o.LiveAttempt, Outcome: OutcomeUncertain, ErrorClass: ClassDeadline,
		Error: "no outcome was recorded before the deadline", Status: -1, Actor: Actor{Name: ActorClock, Machine: true}}
	a := Attempt{ID: o.LiveAttempt, OperationID: o.ID, DeadlineAt: o.DeadlineAt}
	live := rec.Attempt(o.LiveAttempt) // nil where a writer named an attempt and did not record it
	if live != nil {
		a = *live
	}
	a.EndedAt, a.Outcome, a.ErrorClass, a.Error, a.Status = a.DeadlineAt, req.Outcome, req.ErrorClass, req.Error, req.Status
	c := conclude(rec, o, a, "expire", "the deadline passed without an outcome", req)
	if live == nil {
		c.Attempts = nil
	}
	return c
}
