package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/wire/procgroup"
	"indoubt/policy"
	"indoubt/policy/advice"
	"indoubt/policy/transport"
	"indoubt/reconcile/connect"
)

const (
	// allowLasts is how long a pipeline may take to come for a proven permission.
	allowLasts = 24 * time.Hour
	// riskLasts is the same for a risk: what the person saw gets old.
	riskLasts = time.Hour
	// settleRoom is kept between the end of an exchange and the deadline, so that
	// an answer is written down before the attempt counts as lost.
	settleRoom = 2 * time.Second
)

// Retry makes one more attempt for a person (I5): a fresh check first where
// there is one; then permission, attempt and deadline in one transaction; then
// one transmission; then its outcome. For a pipeline it only gives the
// permission. The caller's cancel is heeded until the attempt is recorded and
// not after.
//
// A refusal comes back as Did "refused" together with the error: *RefusedError
// (also code read_only, quitting, throttled, no_person), *MovedError,
// ErrNotFound, and *ChangedError when what would be sent is not
// what was shown.
func (e *Engine) Retry(ctx context.Context, q RetryRequest) (RetryResult, error) {
	q.ChangeID = cmp.Or(q.ChangeID, ledger.NewID())
	rec, err := e.o.Store.Read(ctx, ledger.Locator{ID: q.ID})
	if err != nil {
		return RetryResult{Did: DidRefuse, Why: err.Error()}, err
	}
	q.ID = rec.Operation.ID
	result, err := e.retry(ctx, q)
	if err != nil && result.Did == "" {
		result.Did = DidRefuse
	}
	if err != nil && result.Why == "" {
		result.Why = err.Error()
	}
	if result.Operation.ID == "" {
		result.Operation = rec.Operation
	}
	e.nudge()
	return result, err
}

// attempt is a retry on its way.
type attempt struct {
	q     RetryRequest
	pol   string // digest of the policy that k is of
	k     *policy.Kind
	rec   ledger.Record
	basis ledger.Basis
	why   string
	until time.Time         // when the basis lapses
	via   string            // http, command, mcp, or pipeline: the pipeline sends
	back  string            // why only the pipeline can, where the policy says `resend: here`
	req   transport.Request // what will be sent; none for a pipeline
	read  ledger.Read
	began ledger.Sent // what is recorded of it
}

func (e *Engine) retry(ctx context.Context, q RetryRequest) (RetryResult, error) {
	if e.o.ReadOnly {
		return RetryResult{}, refuse("read_only", "this program was started read-only", "start it without --read-only")
	}
	rec, moved, err := e.amongOthers(ctx, q.ID)
	if err != nil {
		return RetryResult{}, err
	}
	if done, known := repeated(rec, q); known {
		return done, nil
	}
	a := &attempt{q: q, rec: rec}
	a.q.Version = moved(q.Version)
	a.under(e.policy())
	if err := e.weigh(ctx, a, a.k.Read == nil); err != nil {
		return RetryResult{Operation: rec.Operation}, err
	}
	if result, done, err := e.checkFirst(ctx, a); done || err != nil {
		return result, err
	}
	if a.via == "pipeline" {
		return e.handBack(ctx, a)
	}
	return e.transmit(ctx, a)
}

// under has a policy say who sends.
func (a *attempt) under(pol *policy.Policy) {
	a.k, a.pol = pol.Kind(a.rec.Operation.Kind), pol.Digest()
}

// stillSo weighs anew what was weighed under another policy than the one in force.
func (e *Engine) stillSo(ctx context.Context, a *attempt) error {
	pol := e.policy()
	if pol.Digest() == a.pol {
		return nil
	}
	a.under(pol)
	return e.weigh(ctx, a, true)
}

// amongOthers is the operation as it stands, beside others that have its name: also
// those whose writer did not know the policy, where these can be marked.
func (e *Engine) amongOthers(ctx context.Context, id string) (ledger.Record, func(int64) int64, error) {
	_ = e.markAll(ctx)
	return e.current(ctx, id)
}

// repeated recognises a request that was carried out before, so that saying it
// again sends nothing.
func repeated(rec ledger.Record, q RetryRequest) (RetryResult, bool) {
	result := RetryResult{Operation: rec.Operation, Why: "this was asked for before"}
	if a := rec.Attempt(ledger.AttemptID(q.ChangeID)); a != nil {
		result.Did, result.Attempt = DidSend, *a
		return result, true
	}
	for _, g := range rec.Allowed {
		if g.ID == ledger.DeriveID(q.ChangeID, "allow") {
			result.Did = DidAllow
			return result, true
		}
	}
	return result, false
}

// weigh works out the basis that counts now, asks the ledger's rule whether it
// would allow the attempt, and compares what would be sent with what was shown.
// Before the check that is made first, it does not ask yet for what only a risk
// needs.
func (e *Engine) weigh(ctx context.Context, a *attempt, final bool) error {
	a.rec = asOf(a.rec, e.moment())
	a.basis, a.why, a.until = a.k.AllowedBasis(a.rec, a.rec.Now)
	if stronger(a.q.Basis, a.basis) {
		return lapsed(a.why)
	}
	shown := e.showing(ctx, a)
	g := a.allow()
	if a.basis == ledger.BasisRiskAccepted && final && a.q.Actor.Terminal && !a.q.LossTyped {
		return refuse("no_person", "taking the risk needs the loss typed in", "type what a duplicate would cost")
	}
	if !final { // a check may prove that there is no risk, and nothing to answer for
		g.Actor.Terminal, g.Reason = true, "to be said"
	}
	if _, err := g.Rule()(&a.rec); err != nil {
		return err
	}
	switch {
	case a.q.Showing.Digest == "":
		return refuse("refused", "what would be sent was not shown before", "look at it first")
	case a.q.Showing.Digest != shown.Digest:
		return &ChangedError{ID: a.rec.Operation.ID, Was: a.q.Showing.Text, Is: shown.Text}
	}
	return nil
}

// showing is what is to be shown of the retry. It renders what will be sent; what
// cannot be sent from here goes back to its pipeline.
func (e *Engine) showing(ctx context.Context, a *attempt) (s Showing) {
	for _, rel := range a.rec.Landings() {
		s.Related = append(s.Related, rel.ID)
	}
	a.req, a.back, a.via = transport.Request{}, "", a.k.Via(a.rec)
	req, err := a.k.Resending(a.rec, e.digest(ctx))
	if why := e.mayAsk(ctx); why != "" && err == nil {
		err = errors.New(why)
	}
	if err == nil && a.via != "pipeline" {
		a.req = req
		s.Digest, s.Text = req.Digest, req.Shown
		return s
	}
	if a.via = "pipeline"; err != nil && a.k.Resend == advice.ResendHere {
		a.back = err.Error()
	}
	s.Digest, s.Text = "pipeline", "one send is allowed; "+waitsFor(a.rec.Operation)+" makes it"
	if a.back != "" {
		s.Text += "\nIt cannot be sent from here: " + a.back + "."
	}
	return s
}

// digest makes the digests that recorders keep of headers, under the ledger's key.
func (e *reader) digest(ctx context.Context) transport.Digest {
	return func(value string) (string, error) {
		key, err := e.o.Store.DigestKey(ctx)
		if err != nil {
			return "", err
		}
		return ledger.KeyedDigest(key, value)[:ledger.CallerLength], nil
	}
}

// stronger reports whether a basis claims more than another.
func stronger(claimed, have ledger.Basis) bool {
	order := map[ledger.Basis]int{ledger.BasisRiskAccepted: 1, ledger.BasisNotSeen: 2, ledger.BasisKeySafe: 3, ledger.BasisProof: 4}
	return order[claimed] > order[have]
}

// allow is the request for permission as things stand.
func (a *attempt) allow() ledger.AllowRequest {
	now := a.rec.Now
	until := now.Add(allowLasts)
	if a.basis == ledger.BasisRiskAccepted {
		until = now.Add(riskLasts)
	}
	if a.until.Before(until) {
		until = a.until
	}
	safe := a.k.KeySafeUntil(a.rec)
	g := ledger.AllowRequest{
		ChangeID: a.q.ChangeID, AllowID: ledger.DeriveID(a.q.ChangeID, "allow"), OperationID: a.rec.Operation.ID,
		Version: a.q.Version, Basis: a.basis, Sender: a.via, KeyWorks: a.k.KeyWorks() && now.Before(safe),
		Actor: a.q.Actor, Reason: a.q.Reason, ExpiresAt: until,
		Related: a.q.Showing.Related, Request: a.q.Showing.Digest,
	}
	if a.via != "pipeline" { // its permission is of this try alone, see giveUp
		g.AllowID = ledger.NewID()
		g.AttemptID = ledger.AttemptID(a.q.ChangeID)
		g.Deadline, g.PID = a.k.Deadline, os.Getpid()
		if a.via == "command" {
			g.Tree, g.Place = ledger.TreeOpen, procgroup.Here()
		}
	}
	return g
}

// checkFirst makes the fresh read. done: it landed, and nothing is to be sent.
func (e *Engine) checkFirst(ctx context.Context, a *attempt) (result RetryResult, done bool, err error) {
	if a.k.Read == nil {
		return RetryResult{}, false, nil
	}
	before := a.rec.Operation
	checked, err := e.checkFor(ctx, before.ID, e.checkerFor(a.q.Actor))
	if err != nil {
		return RetryResult{Operation: before}, false, fmt.Errorf("check before sending: %w", err)
	}
	a.read = checked.Read
	result = RetryResult{Operation: checked.Operation, Read: checked.Read}
	switch checked.Read.Verdict {
	case ledger.Landed, ledger.Twice:
		result.Did, result.Why = DidLand, "a check just made "+checked.Read.Reason
		return result, true, nil
	case ledger.Different:
		return result, false, refuse("conflict", "a check just made "+checked.Read.Reason, "look at it")
	}
	// The read may have moved the operation itself, and only it: what it proved
	// makes the ground better, never worse.
	if a.rec, _, err = e.amongOthers(ctx, a.q.ID); err != nil {
		return result, false, err
	}
	if now := a.rec.Operation; now.Version != before.Version {
		if checked.Read.Verdict != ledger.NotThere || a.q.Version != before.Version || now.Version != before.Version+1 {
			return result, false, &ledger.MovedError{ID: now.ID, Verb: "retry", Seen: a.q.Version, Version: now.Version,
				State: now.State, Actor: now.Actor, Reason: now.Reason, At: now.UpdatedAt}
		}
		a.q.Version = now.Version
	}
	err = e.weigh(ctx, a, true)
	if refused := new(ledger.RefusedError); errors.As(err, &refused) && refused.Code == "no_person" {
		refused.Why += "; a check just made cannot tell: " + checked.Read.Reason
	}
	return result, false, err
}

// handBack gives the pipeline permission to send once more.
func (e *Engine) handBack(ctx context.Context, a *attempt) (RetryResult, error) {
	if err := e.stillSo(ctx, a); err != nil {
		return RetryResult{Operation: a.rec.Operation, Read: a.read}, err
	}
	applied, err := ledger.Allow(ctx, e.o.Store, a.allow())
	if err != nil {
		return RetryResult{Operation: a.rec.Operation, Read: a.read}, err
	}
	result := RetryResult{Did: DidAllow, Operation: applied.After, Read: a.read,
		Why: "one send is allowed, and waits for " + waitsFor(applied.After)}
	if a.back != "" {
		result.Why += "; it cannot be sent from here: " + a.back
	}
	return result, nil
}

func waitsFor(o ledger.Operation) string {
	if o.Source.Pipeline != "" {
		return o.Source.Pipeline
	}
	return "its pipeline"
}

// transmit consumes the permission, sends once and settles.
func (e *Engine) transmit(ctx context.Context, a *attempt) (RetryResult, error) {
	result := RetryResult{Operation: a.rec.Operation, Read: a.read}
	down := e.downs.of(a.k)
	free, err := down.admit(ctx)
	if wait := new(waitError); errors.As(err, &wait) {
		return result, refuse("throttled", wait.why, "try again later")
	}
	if err != nil {
		return result, err
	}
	defer free()
	if why := down.throttled(); why != "" {
		return result, refuse("throttled", why, "try again later")
	}
	return e.sendAndSettle(ctx, a)
}

// sendAndSettle is the write in flight: from the transaction that allows it to
// the one that says what became of it.
func (e *Engine) sendAndSettle(ctx context.Context, a *attempt) (RetryResult, error) {
	result := RetryResult{Operation: a.rec.Operation, Read: a.read}
	leave, err := e.writes.enter()
	if err != nil {
		return result, err
	}
	defer leave()
	if err := e.stillSo(ctx, a); err != nil {
		return result, err
	}
	// The fence stands before the ledger's own deadline can: it counts from here,
	// and the ledger's from the transaction that follows.
	fence := time.Now().Add(a.k.Deadline)
	g := a.allow()
	key, token := a.k.Carries(a.rec, a.req)
	g.TokenSent, g.KeyWorks = token, g.KeyWorks && (key || a.k.Effect.Safe())
	if a.basis == ledger.BasisKeySafe && !g.KeyWorks {
		return result, refuse("refused", "what would be sent does not carry its key, so a repeat is not known to be safe", "")
	}
	g.Host = e.host
	applied, err := ledger.Allow(ctx, e.o.Store, g)
	if err != nil {
		e.giveUp(ctx, a, g, err)
		return result, err
	}
	result.Did, result.Operation, result.Attempt = DidSend, applied.After, applied.Attempt
	if applied.Noop { // recorded before, so another caller is sending or has sent
		result.Why = "this was asked for before"
		return result, nil
	}
	a.began = ledger.Sent{ChangeID: g.ChangeID, Operation: applied.After, Attempt: applied.Attempt, Actor: g.Actor}
	settled, err := e.carryOut(ctx, a, g, fence)
	if err != nil {
		return result, err
	}
	result.Operation, result.Attempt = settled.After, settled.Attempt
	return result, nil
}

// carryOut transmits once what was recorded, and writes down what became of it.
func (e *Engine) carryOut(ctx context.Context, a *attempt, g ledger.AllowRequest, fence time.Time) (ledger.Applied, error) {
	lasting := context.WithoutCancel(ctx)
	answer := e.sendOnce(lasting, ctx, a, fence)
	_ = e.downs.of(a.k).heard(lasting, answer)
	settled, err := e.settle(lasting, a, g, answer)
	if err != nil {
		return settled, fmt.Errorf("it was sent, but its outcome could not be written down; it comes up as in doubt: %w", err)
	}
	return settled, nil
}

// sendOnce is the transmission. It outlives the caller's cancel, because a
// write that is hung up on is a write in doubt; a cancel before it is heeded.
func (e *Engine) sendOnce(ctx, caller context.Context, a *attempt, fence time.Time) (answer ledger.Answer) {
	req := a.req
	defer func() { answer.Err = req.WithholdFrom(answer.Err) }()
	if caller.Err() != nil {
		return ledger.Answer{Err: fmt.Errorf("given up before it was sent: %w", caller.Err()), BeganAt: time.Now(), EndedAt: time.Now()}
	}
	limits := transport.Limits{Timeout: a.k.Deadline - min(settleRoom, a.k.Deadline/10), Deadline: fence, Max: 1 << 20}
	switch {
	case req.HTTP != nil:
		q := *req.HTTP
		q.Limits = limits
		return e.downs.of(a.k).http.Send(ctx, q)
	case req.Command != nil:
		q := *req.Command
		q.Limits, q.Attempt = limits, ledger.AttemptID(a.q.ChangeID)
		return outcome.Command(connect.Command(ctx, q), q.Argv, append(os.Environ(), req.Command.Env...))
	case req.MCP != nil:
		q := *req.MCP
		q.Limits = limits
		return e.over.mcp.Send(ctx, q)
	}
	return ledger.Answer{Err: errors.New("there is nothing to send"), BeganAt: time.Now(), EndedAt: time.Now()}
}

func refuse(code, why, hint string) error {
	return &ledger.RefusedError{Verb: "retry", Code: code, Why: why, Hint: hint}
}

// Plan says what a retry of the operation would do now. It changes nothing and
// makes no read, so it works read-only too. Plan.Refused says why a person could
// not; an error means that nothing can be said. Errors: ErrNotFound.
func (e *Engine) Plan(ctx context.Context, id string) (Plan, error) {
	if !e.o.ReadOnly {
		_ = e.markAll(ctx) // the retry marks what this leaves
	}
	rec, err := e.o.Store.Read(ctx, ledger.Locator{ID: id})
	if err != nil {
		return Plan{}, err
	}
	rec = asOf(rec, e.moment())
	now := rec.Now
	k := e.policy().Kind(rec.Operation.Kind)
	p := Plan{Record: rec, FirstCheck: k.NoCheck(rec) == nil,
		Attempt: rec.Operation.AttemptCount + 1, Loss: k.Advise(rec, now).Duplicate}
	p.Basis, p.Why, p.LapsesAt = k.AllowedBasis(rec, now)
	a := &attempt{k: k, rec: rec, basis: p.Basis, until: p.LapsesAt, q: RetryRequest{
		ID: rec.Operation.ID, Version: rec.Operation.Version, LossTyped: true,
		ChangeID: "plan", Reason: "plan", Actor: ledger.Actor{Name: e.o.Actor.Name, Terminal: true},
	}}
	p.Showing = e.showing(ctx, a)
	a.q.Showing, p.Sender = p.Showing, a.via
	if p.WillSend, p.Body, _ = strings.Cut(p.Showing.Text, "\n"); p.Sender == "pipeline" {
		p.Body, p.Back = "", a.back
	}
	if e.o.ReadOnly {
		p.Refused = refuse("read_only", "this program was started read-only", "start it without --read-only")
		return p, nil
	}
	if _, err := a.allow().Rule()(&a.rec); err != nil {
		p.Refused = err
	}
	return p, nil
}

// Still refuses a retry that was planned before and would be another one now. Errors:
// *RefusedError (code basis), *ChangedError.
func (p Plan) Still(basis ledger.Basis, shown Showing) error {
	switch {
	case stronger(basis, p.Basis):
		return lapsed(p.Why)
	case shown.Digest != p.Showing.Digest:
		return &ChangedError{ID: p.Record.Operation.ID, Was: shown.Text, Is: p.Showing.Text}
	}
	return nil
}

func lapsed(why string) error {
	return refuse("refused", "what allowed it has lapsed: "+why, "look again")
}
