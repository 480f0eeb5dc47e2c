package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// BeginRequest asks for an attempt of an operation. Ids come from the caller,
// so that a begin whose own commit was in doubt can be repeated.
type BeginRequest struct {
	ChangeID, OperationID, AttemptID string

	Kind, Scope, Key, Token, Fingerprint string
	// Gate is a digest, under the ledger's key, of what is asked and where it goes, whatever
	// its kind, its scope and its key are called. While one is in flight or in doubt under it,
	// no other begins. "": identical requests are normal.
	Gate    string
	SentKey string // what goes out, where Key does not; see Operation.KeyToSend
	// StandIn is the token of a new operation that has none, and none can be made for: its name is
	// made of its input alone, or this process lacks the ledger's key. A Request may hold it in the
	// place of the token that is made.
	StandIn                string
	Title, Target, Session string
	Marks                  Marks // names its effect may show under, where the policy has rules for that
	// Describe gives a new operation its title and its target, and says its Marks, once it has its
	// token and its key; nil: they are as they stand here. It is part of the rule.
	Describe func(*Operation) Marks
	Input    json.RawMessage
	Redacted bool
	Command  *Command
	Request  *Request // as an HTTP recorder sends it
	// Counts reports of a header in which two requests differ whether they may be of two
	// callers then; nil: of each. See Request.OtherCaller.
	Counts         func(header string) bool
	Source         Source
	Sender         string        // who transmits: pipeline, http, command
	TokenSent      bool          // the token is inside this transmission
	KeyWorks       bool          // the downstream treats a repeat under this key as the same request
	Deadline       time.Duration // of the attempt, from the ledger's Now
	TTL            time.Duration // how long a finished operation keeps its key; 0: for ever
	Remark         string        // said with the event's reason
	Supersedes     bool          // what is finished or given up gives its key up once it is Record.Superseded
	SentAt         time.Time     // when another program may first have sent it, before this is recorded; zero: nothing did
	AwaitsDelivery bool          // the caller says with Deliver when it has passed the final answer on
	// Beside is an operation in doubt that asks the same and holds nothing back (see
	// SettleRequest.Passes). Its caller was told. If this one lands while that one may have, it
	// is raised as maybe twice.
	Beside  string
	Follows string // an operation that was waited for: it stands for this request even if it is delivered
	Safe    bool   // a repeat cannot act twice: one in doubt gets a further attempt
	WhenLost
	Repeats string // an attempt whose answer was lost under a key that the other side remembers: while it is the last, another follows
	Replay  bool   // what is finished keeps its name for TTL, also where its input alone is that
	Host    string
	PID     int
	Place   Place
	Tree    Tree  // TreeOpen: a command of this process transmits
	Policy  int64 // number of the policy in force that the request was made by; 0: none is
	Actor   Actor
}

// BeginAnswer is what a begin is told.
type BeginAnswer string

const (
	AnswerBegun      BeginAnswer = "begun"        // the caller, and no other, must send now
	AnswerInProgress BeginAnswer = "in_progress"  // an attempt is in flight
	AnswerInDoubt    BeginAnswer = "in_doubt"     // check before you redo
	AnswerFinished   BeginAnswer = "finished"     // committed before; the result is in the operation
	AnswerHeld       BeginAnswer = "held"         // begins are held: nothing was sent, come again
	AnswerRefused    BeginAnswer = "refused"      // abandoned, a repeat that is held, or failed without proof and without a permission
	AnswerKeyReused  BeginAnswer = "key_reused"   // the key belongs to another input (I4)
	AnswerNotYours   BeginAnswer = "other_caller" // it may be another caller's: Request.OtherCaller
)

// BeginResult is the answer with the operation it is about. Attempt is set for
// AnswerBegun; Why is a sentence for AnswerRefused and AnswerHeld. Of what is held when it would have been new, the
// Operation has no id.
type BeginResult struct {
	Answer    BeginAnswer
	Operation Operation
	Attempt   Attempt
	Why       string
	Until     time.Time // until when begins are held; zero: until they are released
	Gated     bool      // the operation has another name; it asks the same
	Told      bool      // it is told once: who asks again, begins
	Like      bool      // it is another call of the same tool
	Forgotten bool      // with AnswerInDoubt: nothing is known, but that the ledger may have lost it. A check can tell
	Change    string    // with AnswerBegun: the change id of the begin
}

// Handle is what names the attempt that was begun to who may settle it; "" where none was.
func (r BeginResult) Handle() Handle {
	if r.Answer != AnswerBegun {
		return Handle{}
	}
	return Handle{r.Operation.ID, r.Attempt.N, r.Change}
}

const (
	// MinDeadline and MaxDeadline bound an attempt's deadline.
	MinDeadline = 10 * time.Millisecond
	MaxDeadline = 30 * 24 * time.Hour
)

// Begin records the intent to send, or says why the caller must not (I1, I3,
// I4). Only AnswerBegun allows sending. An error means that nothing was
// recorded or that it is not known: nothing may be sent then either.
func Begin(ctx context.Context, s Changer, req BeginRequest) (BeginResult, error) {
	if slices.Contains([]string{req.Kind, strings.TrimSpace(req.Key), req.OperationID, req.AttemptID, req.ChangeID}, "") {
		return BeginResult{}, fmt.Errorf("begin: kind, key and ids are needed")
	}
	if req.Deadline < MinDeadline || req.Deadline > MaxDeadline {
		return BeginResult{}, fmt.Errorf("begin: a deadline of %s is outside %s … %s", req.Deadline, MinDeadline, MaxDeadline)
	}
	var res BeginResult
	at := ByName(req.Kind, req.Scope, req.Key)
	at.Gate, at.Skip = req.Gate, AllParts&^(PartHolds|PartRelated)
	var further string // what a further attempt is of, under another name
	rule := func(rec *Record) (c Change, err error) {
		further = ""
		if res, c, err = begin(rec, req); err != nil || res.Answer != AnswerBegun {
			return c, err
		}
		other := rec.Open
		if other == nil || other.Operation.ID == res.Operation.ID || c.seenBeside(req.AttemptID, other.Operation.ID) {
			return c, nil
		}
		if !req.SentAt.IsZero() { // it was sent, and is in doubt beside the other
			c.Operation.Gate = ""
			return c, nil
		}
		res = BeginResult{Answer: AnswerInDoubt, Operation: other.Operation, Gated: true}
		if other.State() == Pending {
			res.Answer = AnswerInProgress
		} else if req.Safe {
			further = other.Operation.ID
		}
		return Change{}, nil
	}
	applied, err := s.Change(ctx, at, req.ChangeID, rule)
	if err == nil && further != "" {
		applied, err = s.Change(ctx, Locator{ID: further, Skip: at.Skip}, req.ChangeID, rule)
	}
	if err != nil {
		return BeginResult{}, err
	}
	if applied.Noop && (res.Answer == "" || res.Answer == AnswerBegun) { // what begins is written: the change was made before
		return repeatedBegin(applied.After, req)
	}
	if applied.After.ID != "" && !res.Gated {
		res.Operation = applied.After
	}
	if res.Forgotten { // it is recorded, and nobody sends it
		res.Answer, res.Attempt, res.Why = AnswerInDoubt, Attempt{}, "the ledger was adopted, and may have lost that it was sent"
		return res, nil
	}
	res.Change = req.ChangeID
	return res, nil
}

// repeatedBegin answers a begin whose change is recorded already: the caller
// may send only if the attempt it made is still the live one.
func repeatedBegin(o Operation, req BeginRequest) (BeginResult, error) {
	if o.LiveAttempt == req.AttemptID {
		return BeginResult{Answer: AnswerBegun, Operation: o, Change: req.ChangeID,
			Attempt: Attempt{ID: req.AttemptID, OperationID: o.ID, N: o.AttemptCount, DeadlineAt: o.DeadlineAt}}, nil
	}
	return BeginResult{Answer: AnswerInDoubt, Operation: o}, nil
}

// begin is the rule.
func begin(rec *Record, req BeginRequest) (BeginResult, Change, error) {
	if !rec.Found {
		return beginNew(rec, req, false)
	}
	o := rec.Operation
	if !req.SentAt.IsZero() && !rec.Expired(req.SentAt) { // it stands for what was sent
		return BeginResult{Answer: AnswerRefused, Operation: o}, Change{}, nil
	}
	var passed Change // of a deadline that is not written down yet
	told := func(a BeginAnswer, why string) (BeginResult, Change, error) {
		return BeginResult{Answer: a, Operation: o, Why: why}, passed, nil
	}
	if rec.NameOver(req) {
		return beginNew(rec, req, true)
	}
	if o.AsksElse(req) {
		return told(AnswerKeyReused, "")
	}
	if rec.Superseded(req) {
		return beginNew(rec, req, true)
	}
	state := rec.State()
	if o.State == Pending && state == Uncertain {
		passed = expire(rec)
		o = *passed.Operation
		state = o.State // an earlier attempt may have landed
	}
	if names := o.Request.OtherCaller(req.Request, req.Counts); len(names) > 0 && o.State == Committed { // holding asks for no credential
		return told(AnswerNotYours, strings.Join(names, ", "))
	}
	switch state {
	case Pending:
		return told(AnswerInProgress, "")
	case Committed:
		return told(AnswerFinished, "")
	case Abandoned:
		return told(AnswerRefused, fmt.Sprintf("abandoned by %s (%s)", o.Actor, o.Reason))
	}
	if passed.Operation != nil {
		return told(AnswerInDoubt, "")
	}
	if g := rec.OpenAllowed(); g != nil && g.Version == o.Version {
		return beginAllowed(rec, req, *g)
	}
	switch state {
	case Uncertain:
		return beginSafe(rec, req)
	default: // Failed
		if o.PersonOnly {
			return told(AnswerRefused, fmt.Sprintf("it is recorded as failed, but was said to have landed (%s); a retry needs a person's permission", cmp.Or(o.ConflictNote, o.Reason)))
		}
		if !allProven(o, rec.Attempts) {
			return told(AnswerRefused, fmt.Sprintf("%s said it did not land (%s), which is no proof; a retry needs a person's permission",
				o.Actor, o.Reason))
		}
		// One that asks the same and is open is the gate's to tell of.
		if rel := rec.Overtaken(); rel != nil && !rel.is(rec.Open) {
			return told(AnswerRefused, fmt.Sprintf("it did not land, but another one did or may have: %s; a retry needs a person's permission",
				rel.says()))
		}
		if h := rec.HeldBy(); h != nil {
			return h.stops(o)
		}
		return rec.Look.again(rec, req)
	}
}

// AsksElse reports whether a request under the name of an operation asks for something else. At
// one gate it never does, though what is kept of it may differ; nor where fields name it.
func (o Operation) AsksElse(req BeginRequest) bool {
	same := o.Fingerprint == req.Fingerprint || o.Gate != "" && o.Gate == req.Gate
	return !same && o.Fingerprint != "" && req.Fingerprint != "" && !madeOf(o.Key, namedByFields)
}

// beginSafe begins a further attempt of what cannot act twice, or has not, while nothing else
// may have acted on its target: a permission given and used at once.
func beginSafe(rec *Record, req BeginRequest) (BeginResult, Change, error) {
	o := rec.Operation
	if n := len(rec.Attempts); !req.Safe && (n == 0 || rec.Attempts[n-1].ID != req.Repeats) {
		return BeginResult{Answer: AnswerInDoubt, Operation: o}, Change{}, nil
	}
	g := AllowRequest{ChangeID: req.ChangeID, AllowID: DeriveID(req.ChangeID, "allow"), OperationID: o.ID, Version: o.Version,
		Basis: BasisKeySafe, Sender: req.Sender, KeyWorks: true, Actor: req.Actor, ExpiresAt: rec.Now.Add(req.Deadline),
		AttemptID: req.AttemptID, Own: true, Safe: req.Safe, TokenSent: req.TokenSent, Deadline: req.Deadline,
		Host: req.Host, PID: req.PID, Place: req.Place, Tree: req.Tree}
	c, err := g.allow(rec)
	var refused *RefusedError
	if errors.As(err, &refused) {
		return BeginResult{Answer: AnswerInDoubt, Operation: o, Why: refused.Why}, Change{}, nil
	}
	if err != nil {
		return BeginResult{}, Change{}, err
	}
	return BeginResult{Answer: AnswerBegun, Operation: *c.Operation, Attempt: c.Attempts[0]}, c, nil
}

// expired reports whether what is settled or abandoned has given its key up. What is pending,
// in doubt, allowed or in conflict never has.
func expired(rec *Record) bool {
	o := rec.Operation
	return !o.State.Open() && o.Conflict == NoConflict && rec.Over(o.TTL)
}

// Expired reports whether the key of an operation was over at a time, and is now: a request
// that was sent then is another one.
func (r *Record) Expired(then time.Time) bool {
	return expired(r) && then.After(r.Operation.SettledAt.Add(r.Operation.TTL))
}

// allProven reports whether every attempt is known to have had no effect. One that
// is counted and not recorded is not.
func allProven(o Operation, attempts []Attempt) bool {
	for _, a := range attempts {
		if !a.NoEffect() {
			return false
		}
	}
	return len(attempts) > 0 && len(attempts) == o.AttemptCount
}

func beginNew(rec *Record, req BeginRequest, retire bool) (BeginResult, Change, error) {
	now := rec.Now
	o := Operation{
		ID: req.OperationID, Kind: req.Kind, Scope: req.Scope, Key: req.Key, SentKey: req.SentKey, KeyLive: true, Gate: req.Gate,
		Token: req.Token, Fingerprint: req.Fingerprint, Title: req.Title, Target: req.Target,
		Input: req.Input, Redacted: req.Redacted, Command: req.Command, Source: req.Source, Session: req.Session,
		Request: req.Request, TTL: req.TTL, CreatedAt: now,
	}
	rec.Mask.make(&o, rec.Times, req.StandIn)
	held := covering(rec.Holds, req.Kind, now)
	stopped := held != nil && held.Begins && req.Actor.Machine && req.SentAt.IsZero()
	if !stopped && rec.Look.Covers(req, now) {
		if res, refused := rec.Look.refuses(o, req); refused {
			res.Operation = unwritten(req, o)
			return res, Change{}, nil
		}
		req, o.CreatedAt = rec.Look.forgot(req, now), rec.Look.Since
	}
	marks := req.Marks
	if req.Describe != nil {
		marks = req.Describe(&o)
	}
	if stopped {
		return held.stops(unwritten(req, o))
	}
	o.Target, o.MarkRules = cmp.Or(o.Target, req.requestTarget()), marks.Rules
	rec = &Record{Operation: o, Now: now}
	res, c, err := beginAgain(rec, req, nil)
	c.Insert, c.Retire, c.Marks = true, retire, marks.Values
	return res, c, err
}

// unwritten is an operation as it is told of, where it is not recorded.
func unwritten(req BeginRequest, o Operation) Operation {
	return Operation{Kind: req.Kind, Scope: req.Scope, Key: req.Key, Title: o.Title, Target: o.Target}
}

func beginAllowed(rec *Record, req BeginRequest, g Allowed) (BeginResult, Change, error) {
	if h := rec.HeldBy(); h != nil {
		return h.stops(rec.Operation)
	}
	if rel := g.voidedBy(rec); rel != nil {
		return beginOvertaken(rec, req, g, rel)
	}
	return beginAgain(rec, req, &g)
}

// beginOvertaken takes a permission back that was given before another operation on the
// same target was begun, or may have landed: sending now might do that again, or undo it.
func beginOvertaken(rec *Record, req BeginRequest, g Allowed, by *Relation) (BeginResult, Change, error) {
	why := fmt.Sprintf("what %s had allowed is void: since then, %s", g.Actor, by.says())
	o := rec.Operation
	o.Version++
	note(rec, &o, req.Actor, why)
	return BeginResult{Answer: AnswerRefused, Operation: o, Why: why},
		Change{Operation: &o, Allowed: voided(rec, why), Event: &Event{ID: req.ChangeID, Verb: "void", Actor: req.Actor, Reason: why,
			Detail: detail(map[string]any{"allow": g.ID, "related": by.ID})}}, nil
}

// beginAgain starts an attempt: the first, one after proven failures, or one
// that consumes a permission.
func beginAgain(rec *Record, req BeginRequest, g *Allowed) (BeginResult, Change, error) {
	o := rec.Operation
	a := Attempt{
		ID: req.AttemptID, OperationID: o.ID, N: o.AttemptCount + 1, Sender: req.Sender,
		KeyWorks: req.KeyWorks, TokenSent: req.TokenSent, Actor: req.Actor.Name, Host: req.Host, PID: req.PID,
		StartedAt: rec.Now, DeadlineAt: rec.Now.Add(req.Deadline), Place: req.Place, Tree: req.Tree,
	}
	if req.SentAt.IsZero() {
		a.Policy = req.Policy
	}
	if !req.SentAt.IsZero() && req.SentAt.Before(a.StartedAt) {
		a.StartedAt = req.SentAt
	}
	c := Change{Event: &Event{ID: req.ChangeID, Verb: "begin", Actor: req.Actor, Reason: fmt.Sprintf("attempt %d", a.N)}}
	switch {
	case g != nil:
		a.Basis, a.AllowID = g.Basis, g.ID
		a.KeyWorks = a.KeyWorks || g.KeyWorks
		used := *g
		used.ConsumedAt, used.AttemptID = rec.Now, a.ID
		c.Allowed = []Allowed{used}
		c.Event.Reason = fmt.Sprintf("attempt %d, allowed by %s", a.N, g.Actor)
	case a.N > 1:
		a.Basis = BasisProof
		c.Allowed = voided(rec, "a new attempt began")
	case req.Beside != "" && !req.Safe:
		a.Basis = BasisRiskAccepted
		c.Event.Reason = fmt.Sprintf("attempt %d, beside %s, which asks the same and is in doubt", a.N, req.Beside)
	}
	facts := struct {
		Attempt string `json:"attempt"`
		Basis   Basis  `json:"basis"`
		Beside  string `json:"beside,omitempty"`
		N       int    `json:"n"`
		Sender  string `json:"sender"`
	}{Attempt: a.ID, Basis: a.Basis, N: a.N, Sender: a.Sender}
	if a.Basis == BasisRiskAccepted && g == nil {
		facts.Beside = req.Beside
	}
	if req.Remark != "" {
		c.Event.Reason += "; " + req.Remark
	}
	c.Event.Detail = detail(facts)
	start(&o, a, a.StartedAt)
	o.Undelivered = req.AwaitsDelivery || o.NamedByInput()
	note(rec, &o, req.Actor, c.Event.Reason)
	c.Operation, c.Attempts = &o, []Attempt{a}
	return BeginResult{Answer: AnswerBegun, Operation: o, Attempt: a, Forgotten: a.Sender == SenderForgotten}, c, nil
}

// start puts an attempt in flight.
func start(o *Operation, a Attempt, now time.Time) {
	o.State, o.LiveAttempt, o.DeadlineAt = Pending, a.ID, a.DeadlineAt
	o.AttemptCount = a.N
	if o.Verdict == NotThere { // that was of the attempts before
		o.Verdict = ""
	}
	o.TokenSent = o.TokenSent || a.TokenSent
	o.Version++
	o.ParkedUntil = time.Time{}
	if o.StartedAt.IsZero() {
		o.StartedAt = now
	}
}
