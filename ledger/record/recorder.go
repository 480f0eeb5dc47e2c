package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/wire/procgroup"
)

// Recorder records requests and what became of them. It is safe for use by many
// goroutines.
type Recorder struct {
	store   bounded
	rules   Rules
	options Options
	host    string
	redact  redactor
	doubts  doubts
	fields  fieldNames

	kept keeping
	sent remembered

	mu      sync.Mutex
	secrets map[string][]string // by live attempt: values that must not be stored
}

// New makes a recorder over a store. rules may be nil: then built-in defaults
// apply to every kind.
func New(store ledger.Store, rules Rules, o Options) *Recorder {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if o.Actor.Name == "" {
		o.Actor = ledger.Actor{Name: "pipeline", Host: host, Machine: true}
	}
	return &Recorder{store: bounded{store}, rules: rules, options: o, host: host, secrets: map[string][]string{},
		redact: redactor{ask: func(ctx context.Context) ([]byte, error) { return within(ctx, store.DigestKey) }}}
}

func (r *Recorder) Rule(kind string) KindRule {
	var rule KindRule
	if r.rules != nil {
		rule = r.rules(kind)
	}
	if rule.Deadline <= 0 {
		rule.Deadline = DefaultDeadline
	}
	return rule
}

// Begin records the intent to send one request, durably, or says why the caller
// must not send (I1, I3, I4). Only ledger.AnswerBegun allows sending; an error
// means that nothing may be sent either, because what cannot be recorded is not
// sent.
//
// The attempt counts as having carried a working idempotency key where the
// policy says that the downstream remembers keys and the caller sends it: a
// Sender that is none of tellsKeySent is trusted to, those only with KeySent.
func (r *Recorder) Begin(ctx context.Context, w Request) (ledger.BeginResult, error) {
	res, err := r.BeginToSend(ctx, w)
	return res.BeginResult, err
}

// tellsKeySent are the senders that say of each request whether the key went with it.
var tellsKeySent = []string{"command", "http", "mcp", ledger.SenderImport}

// ownSenders send in the process that begins.
var ownSenders = []string{"command", "http", "mcp"}

// Begun is the answer to a begin, with the time until which its attempt may be
// sent.
type Begun struct {
	ledger.BeginResult
	Until SendDeadline
}

// BeginToSend is Begin for a sender in this process.
func (r *Recorder) BeginToSend(ctx context.Context, w Request) (Begun, error) {
	b, err := r.beginToSend(ctx, w)
	if ledger.ByOlder(err) && r.options.Renew != nil { // by now another policy is in force, which may name it otherwise
		r.options.Renew(ctx)
		b, err = r.beginToSend(ctx, w)
	}
	return b, err
}

func (r *Recorder) beginToSend(ctx context.Context, w Request) (Begun, error) {
	rule := r.Rule(w.Kind)
	req, secrets, err := r.request(w, rule)
	if err != nil {
		return Begun{}, err
	}
	for read := false; ; {
		asked := r.options.Clock()
		res, told, err := r.tell(ctx, w, rule, &req)
		if err == nil && !told {
			res, err = r.begin(ctx, w, rule, req)
		}
		if err != nil {
			return Begun{BeginResult: res}, err
		}
		ended := false
		if res.Answer == ledger.AnswerInProgress {
			if ended, err = r.endGone(ctx, res.Operation.ID); err != nil {
				return Begun{BeginResult: res}, err
			}
		}
		switch {
		case ended:
		case res.Answer == ledger.AnswerInProgress && w.Wait:
			if _, err := r.Wait(ctx, ledger.Locator{ID: res.Operation.ID}); err != nil {
				return Begun{BeginResult: res}, err
			}
		case res.Answer == ledger.AnswerInDoubt && (w.Reconcile || res.Forgotten) && r.CanRead() && !read && !res.Like:
			read, req.Follows = true, res.Operation.ID
			if err := r.ReadNow(ctx, res.Operation.ID); err != nil {
				res.Why = strings.TrimPrefix(res.Why+"; "+Unchecked(err), "; ")
				return Begun{BeginResult: res}, nil // still in doubt
			}
		default:
			if res.Answer == ledger.AnswerBegun {
				r.AddSecrets(res.Attempt.ID, secrets...)
			}
			if res.Answer == ledger.AnswerFinished && res.Operation.Undelivered && !w.AwaitsDelivery { // the caller has it with this
				err = ledger.Deliver(ctx, r.store, res.Operation.ID)
			}
			return Begun{res, deadlineOf(res.Attempt, asked, r.options.Clock)}, err
		}
	}
}

// endGone settles the attempt in flight of an operation where the proxy of this host that sent
// it is gone: then it is in doubt, and need not wait for its deadline. What a command that lost
// its recorder does is not known, and another process may go on with a call that awaits an answer.
func (r *Recorder) endGone(ctx context.Context, operationID string) (ended bool, err error) {
	rec, err := r.store.Read(ctx, ledger.Locator{ID: operationID, Skip: ledger.AllParts})
	if err != nil {
		return false, err
	}
	a := rec.Attempt(rec.Operation.LiveAttempt)
	if a == nil || rec.Operation.Awaits != "" || a.Tree != ledger.TreeNone || !procgroup.Ended(*a) {
		return false, nil
	}
	applied, err := ledger.Settle(ctx, r.store, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: a.ID,
		Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassKilled,
		Error: fmt.Sprintf("process %d, which sent it, is gone", a.PID), Status: -1, Actor: r.options.Actor})
	return err == nil && !applied.Noop, err
}

// ToJudge is the record that the outcome rule reads for an attempt that was begun.
// Before a first attempt there is nothing to look up.
func (r *Recorder) ToJudge(ctx context.Context, b Begun) ledger.Record {
	if b.Attempt.N > 1 {
		if rec, err := r.store.Read(context.WithoutCancel(ctx), ledger.Locator{ID: b.Operation.ID}); err == nil {
			return rec
		}
	}
	return ledger.Record{Found: true, Operation: b.Operation, Attempts: []ledger.Attempt{b.Attempt}, Now: r.options.Clock()}
}

// Store is where the recorder records. Its look-ups and changes take StoreDeadline at most.
func (r *Recorder) Store() ledger.Store { return r.store }

// CanRead reports whether the recorder has a reader to ask the downstream with.
func (r *Recorder) CanRead() bool { return r.options.Reader != nil }

// ReadNow asks the downstream about an operation in doubt, and settles it where the
// answer does; without a reader it does nothing.
func (r *Recorder) ReadNow(ctx context.Context, operationID string) error {
	if !r.CanRead() {
		return nil
	}
	_, err := r.options.Reader.ReadNow(ctx, operationID)
	return err
}

// Unchecked says why ReadNow settled nothing, for who asked for the write.
func Unchecked(err error) string {
	var refused *ledger.RefusedError
	if errors.As(err, &refused) {
		return "it cannot be checked: " + refused.Why
	}
	return "the check failed: " + err.Error()
}

// begin asks once, under the name that the request has.
func (r *Recorder) begin(ctx context.Context, w Request, rule KindRule, req ledger.BeginRequest) (ledger.BeginResult, error) {
	req, err := r.named(ctx, w, rule, req)
	if err != nil {
		return ledger.BeginResult{}, err
	}
	return r.beginAs(ctx, recording{r.store, rule.Price}, rule, req)
}

// beginAs asks under the key of the request.
func (r *Recorder) beginAs(ctx context.Context, store recording, rule KindRule, req ledger.BeginRequest) (ledger.BeginResult, error) {
	req.Describe = rule.describe
	if req.ChangeID == "" {
		req.ChangeID, req.AttemptID = ledger.NewID(), ledger.NewID()
	}
	res, err := ledger.Begin(ctx, store, req)
	if errors.Is(err, ledger.ErrUnknown) && req.SentAt.IsZero() { // else another program has sent it, or may have
		r.neverSent(req.AttemptID, err)
		return ledger.BeginResult{}, &UnknownError{err}
	}
	if err != nil {
		return ledger.BeginResult{}, fmt.Errorf("record %s: %w", req.Kind, err)
	}
	if res.Answer == ledger.AnswerBegun {
		if res.Attempt.StartedAt.IsZero() { // a repeated begin knows only the ids
			res.Attempt.TokenSent, res.Attempt.Sender = req.TokenSent, req.Sender
			res.Attempt.StartedAt = res.Attempt.DeadlineAt.Add(-req.Deadline)
		}
		if rule.Marks != nil {
			req.Marks = rule.Marks(res.Operation)
		}
		r.sent.keep(ledger.SentOf(req, res))
	}
	return res, nil
}

// describe gives a new operation what the policy says of it.
func (rule KindRule) describe(o *ledger.Operation) (m ledger.Marks) {
	op := *o
	if rule.Title != nil {
		o.Title = rule.Title(op)
	}
	if rule.Target != nil && o.Target == "" {
		o.Target = rule.Target(op)
	}
	if rule.Marks != nil {
		m = rule.Marks(op)
	}
	return m
}

// recording is the store as a begin sees it. What a policy says of the new
// operation is written in the transaction that begins it.
type recording struct {
	ledger.Store
	price func(ledger.Record) ledger.Pricing
}

// Change applies the rule of a begin.
func (s recording) Change(ctx context.Context, at ledger.Locator, changeID string, rule ledger.Rule) (ledger.Applied, error) {
	return s.Store.Change(ctx, at, changeID, func(rec *ledger.Record) (ledger.Change, error) {
		after := *rec
		c, err := rule(rec)
		if err != nil || c.Operation == nil || c.Operation.State != ledger.Pending || s.price == nil {
			return c, err
		}
		if c.Insert {
			after = ledger.Record{Now: rec.Now, Steady: rec.Steady}
		}
		after.Found, after.Operation = true, *c.Operation
		after.Attempts = append(after.Attempts[:len(after.Attempts):len(after.Attempts)], c.Attempts...)
		p := s.price(after)
		p.OperationID = c.Operation.ID
		c.Pricing = &p
		return c, nil
	})
}

// BeginRequest is what a begin of a request would ask the ledger, with secrets
// replaced.
func (r *Recorder) BeginRequest(ctx context.Context, w Request) (ledger.BeginRequest, error) {
	rule := r.Rule(w.Kind)
	req, _, err := r.request(w, rule)
	if err == nil {
		req, err = r.named(ctx, w, rule, req)
	}
	return req, err
}

// request is what the ledger is asked for a request, with secrets replaced.
func (r *Recorder) request(w Request, rule KindRule) (ledger.BeginRequest, []string, error) {
	if w.Kind == "" {
		return ledger.BeginRequest{}, nil, errors.New("a request needs a kind")
	}
	clean, err := r.redact.request(w.Input, w.Command, append(rule.redact(w), w.Secret...))
	if err != nil {
		return ledger.BeginRequest{}, nil, fmt.Errorf("record %s: %w", w.Kind, err)
	}
	fingerprint := "" // without an input, requests are told by their keys alone
	if len(clean.input) > 0 {
		if fingerprint, err = ledger.Fingerprint(clean.input); err != nil {
			return ledger.BeginRequest{}, nil, fmt.Errorf("record %s: %w", w.Kind, err)
		}
	}
	source := cmp.Or(w.Source, r.options.Source)
	if source.Host == "" {
		source.Host, source.PID = r.host, os.Getpid()
	}
	req := ledger.BeginRequest{
		OperationID: w.ID, Kind: w.Kind, Scope: w.Scope, Token: w.Token, Fingerprint: fingerprint,
		Session: strings.TrimSpace(w.Client + " " + w.Session), Input: clean.input, Redacted: clean.redacted, Command: clean.command, Source: source,
		Sender: w.Sender, TokenSent: w.TokenSent, KeyWorks: rule.Remembers > 0 && (w.KeySent || !slices.Contains(tellsKeySent, w.Sender)),
		Policy: rule.Policy, Deadline: w.Deadline, TTL: keepFor(rule), AwaitsDelivery: w.AwaitsDelivery, Remark: w.Remark, Host: r.host, PID: os.Getpid(), Actor: r.options.Actor,
	}
	if req.Request = w.HTTP; req.Request != nil && clean.redacted {
		req.Request = &ledger.Request{Method: w.HTTP.Method, Origin: w.HTTP.Origin, Callers: w.HTTP.Callers, Lost: "parts of it are secret, and not kept"}
	}
	// A client of HTTP that lost its answer asks again like one that wants it back.
	req.Supersedes = rule.Supersedes && w.Sender != "http"
	req.Follows, req.Counts, req.Repeats = w.Follows, w.Counts, w.Repeats
	req.Safe, req.Replay, req.WhenLost = rule.Safe, rule.Repeat == RepeatReplay, rule.WhenLost
	if w.Replaces != "" && !rule.Named {
		req.Safe, req.Target, req.WhenLost = true, w.Replaces, ledger.NoHarm
	}
	if rule.Repeat != RepeatAllow {
		if req.Gate, err = r.gate(w, rule); err != nil {
			return ledger.BeginRequest{}, nil, fmt.Errorf("record %s: %w", w.Kind, err)
		}
	}
	if slices.Contains(ownSenders, w.Sender) {
		req.Place = procgroup.Here()
	}
	if w.Wrapped {
		req.Tree = ledger.TreeOpen
	}
	req.OperationID, req.StandIn = cmp.Or(req.OperationID, ledger.NewID()), cmp.Or(w.StandIn, ledger.NewToken())
	req.Sender, req.Deadline = cmp.Or(req.Sender, "pipeline"), cmp.Or(req.Deadline, rule.Deadline)
	return req, clean.values, nil
}

// keepFor is how long a finished operation keeps its key: never shorter than
// the downstream remembers it, or a new request would get the old one's answer.
func keepFor(rule KindRule) time.Duration {
	if rule.TTL <= 0 {
		return 0
	}
	return max(rule.TTL, rule.Remembers)
}

// Settle reports what became of an attempt. Texts are bounded and cleared of
// secrets first; the change id is made when empty. See ledger.Settle.
func (r *Recorder) Settle(ctx context.Context, req ledger.SettleRequest) (ledger.Applied, error) {
	req.ChangeID, req.Actor = r.signed(req.ChangeID, req.Actor)
	req.Looks = func(kind string) ledger.Looks { return r.Rule(kind).Looks }
	req = outcome.Tidy(req, r.Secrets(req.AttemptID))
	req.Delivered = !r.sent.of(req.AttemptID).Awaits
	req.Passes = req.Outcome == ledger.OutcomeUncertain && outcome.Answered(req.ErrorClass) && r.lets(req.AttemptID)
	sent := r.sent.of(req.AttemptID)
	applied, err := ledger.SettleSent(ctx, r.store, sent, req)
	if errors.Is(err, ledger.ErrMoving) {
		applied, err = settleElsewhere(ctx, r, sent, req, err)
	}
	if err != nil {
		return applied, fmt.Errorf("settle: %w", err)
	}
	if o := applied.After; req.Passes && o.State == ledger.Uncertain && o.Gate == "" {
		r.doubts.keep(sent.Operation.Gate, o.ID)
	} else if o.State == ledger.Uncertain && sent.Attempt.Sender == "mcp" && !outcome.Answered(req.ErrorClass) {
		r.doubts.keep(o.Kind, o.ID)
	}
	if req.Outcome != ledger.OutcomeUncertain { // else a late answer may come
		r.forget(req.AttemptID)
	}
	return applied, nil
}

// signed is a change with an id and an actor, where it has none.
func (r *Recorder) signed(changeID string, by ledger.Actor) (string, ledger.Actor) {
	if by.Name == "" {
		by = r.options.Actor
	}
	return cmp.Or(changeID, ledger.NewID()), by
}

// Suspend keeps an attempt in flight whose answer was none yet; see ledger.Suspend.
// A Result is cleared of secrets, and left out where it is too long to be kept.
func (r *Recorder) Suspend(ctx context.Context, req ledger.SuspendRequest) (ledger.Applied, error) {
	req.ChangeID, req.Actor = r.signed(req.ChangeID, req.Actor)
	if len(req.Result) > outcome.MaxResult {
		req.Result = nil
	}
	req.Result = outcome.TidyResult(req.Result, r.Secrets(req.AttemptID))
	return ledger.Suspend(ctx, r.store, req)
}

// Wait returns the operation as soon as it is not pending: settled, or in doubt
// because its deadline has passed.
func (r *Recorder) Wait(ctx context.Context, at ledger.Locator) (ledger.Operation, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news := r.store.Watch(ctx)
	for {
		rec, err := r.store.Read(ctx, at)
		if err != nil {
			return ledger.Operation{}, err
		}
		o := rec.Operation
		left := o.DeadlineAt.Sub(rec.Now)
		if rec.State() != ledger.Pending {
			return o, nil
		}
		if left <= 0 { // its deadline has passed by one clock only
			left = time.Second
		}
		// A heartbeat may move the deadline without a word, and a watch may miss
		// one; a look now and then is cheap.
		timer := time.NewTimer(min(max(left, 0)+5*time.Millisecond, time.Second))
		select {
		case _, open := <-news:
			if !open {
				news = nil
			}
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return o, err
		}
	}
}
