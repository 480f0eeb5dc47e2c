package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/act"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

func newRetryCommand(a *base.App) *cobra.Command {
	var flags decideFlags
	cmd := newDecidingCommand("retry", "Send once more, after showing exactly what",
		`Send once more. What will be sent is shown first, with why it is allowed; one
more check is made, and if it landed nothing is sent. Without proof that it did
not land, a retry is a risk: it needs a person at a terminal, a reason, and the
loss typed in. Where the pipeline sends, it is allowed one more attempt and
comes for it itself.

Exit 0: it landed, or waits for its pipeline; 1: refused by the other side;
5: not allowed; 6: in doubt again.`,
		"  indoubt retry 0198c1de-7a3b@4\n  indoubt retry 0198c1de-7a3b@4 --reason 'outage over' --json", &flags)
	cmd.Flags().StringVar(&flags.request, "request-digest", "", "send only what has this digest, as --dry-run --json prints it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.request != "" && len(args) > 1 {
			return base.Usage("--request-digest goes with one operation", "")
		}
		r := &retrying{}
		return decideAll(cmd.Context(), a, "retry", args, &flags, needs{version: true, silent: true, plan: r.plan}, r.one)
	}
	return cmd
}

type retrying struct {
	engine *reconcile.Engine
	rules  *base.LivePolicy
	shown  map[string]reconcile.Plan // by operation, as the run began
}

// plan freezes on what ground a row is sent, and what.
func (r *retrying) plan(ctx context.Context, run *decisionRun, it *ledger.RunItem) {
	if r.engine == nil {
		r.rules, r.shown = run.app.Rules(), map[string]reconcile.Plan{}
		r.engine = run.app.Engine(run.store, r.rules.InForce, false, nil)
	}
	if p, err := r.engine.Plan(ctx, it.OperationID); err == nil { // else its turn says why
		it.Basis, it.Request, r.shown[it.OperationID] = p.Basis, p.Showing.Digest, p
	}
}

type planJSON struct {
	Basis      ledger.Basis `json:"basis"`
	Why        string       `json:"why"`
	LapsesAt   *string      `json:"lapses_at"`
	Sender     string       `json:"sender"`
	WillSend   string       `json:"will_send"`
	Body       string       `json:"body"`
	Back       *string      `json:"back"` // why only its pipeline can send it, where the policy would send it from here
	Digest     string       `json:"request_digest"`
	FirstCheck bool         `json:"first_check"`
	Attempt    int          `json:"attempt"`
	Loss       float64      `json:"loss"`
}

func (r *retrying) one(ctx context.Context, run *decisionRun, rec ledger.Record, seen ledger.RunItem, changeID string) (resultJSON, error) {
	id, version := rec.Operation.ID, seen.Version
	if err := r.rules.Again(ctx); err != nil && !run.flags.dryRun {
		return resultJSON{came: act.Outcome{Left: err}}, err
	}
	run.policy = r.rules.InForce()
	plan, err := r.engine.Plan(ctx, id)
	if err != nil {
		return resultJSON{}, err
	}
	asked := plan.Asked(changeID) // by this run, which was killed before it wrote down what came of it
	if now := plan.Record.Operation; version != now.Version && !asked {
		return resultJSON{}, &ledger.MovedError{ID: id, Verb: "retry", Seen: version, Version: now.Version, State: now.StateAt(plan.Record.Now),
			Actor: now.Actor, Reason: now.Reason, At: now.UpdatedAt}
	}
	ask := reconcile.RetryRequest{ID: id, Version: version, Basis: plan.Basis, Showing: plan.Showing, Reason: strings.TrimSpace(run.flags.reason), Actor: run.actor, ChangeID: changeID}
	if d := run.flags.request; d != "" && d != plan.Showing.Digest {
		ask.Showing = reconcile.Shown(d)
	}
	if !asked {
		if err := r.still(seen, plan); err != nil {
			return resultJSON{}, err
		}
	}
	// A check that is made first may find that there is no risk to take.
	if plan.Basis == ledger.BasisRiskAccepted && plan.Refused == nil && !run.app.Terminal() && !plan.FirstCheck {
		plan.Refused = &ledger.RefusedError{Verb: "retry", Code: "no_person", Why: "taking the risk needs a person at a terminal", Hint: "run it at a terminal, or open indoubt and press R"}
	}
	if !run.app.JSON && (run.app.Terminal() || run.flags.dryRun) && !asked {
		writePlan(run.app.ErrOut, base.See(run.policy, plan.Record), plan)
	}
	if plan.Refused != nil && !asked {
		return resultJSON{}, plan.Refused
	}
	if run.flags.dryRun {
		out := run.result(ctx, id, base.EffectWouldUpdate, safe.Say("would send once more: %s", plan.WillSend))
		out.Plan = onePlanJSON(plan)
		return out, nil
	}
	if !asked {
		if err := r.consent(run, plan, &ask); err != nil {
			return resultJSON{}, err
		}
	}
	// Once it is sent the engine waits: leaving would itself make a doubt.
	quiet := context.AfterFunc(ctx, func() { run.app.Warnf("waiting for the answer; interrupt again to leave it in doubt") })
	did, err := r.engine.Retry(ctx, ask)
	quiet()
	if err != nil {
		return resultJSON{came: act.Sent(did, err)}, err
	}
	out := retried(ctx, run, id, plan, did)
	out.came = act.Sent(did, nil)
	return out, nil
}

// still refuses a row that would be sent otherwise now than was planned. One that could not
// be planned has nothing to be compared with.
func (r *retrying) still(seen ledger.RunItem, plan reconcile.Plan) error {
	if seen.Request == "" {
		return nil
	}
	was := reconcile.Shown(seen.Request)
	if p := r.shown[seen.OperationID].Showing; p.Digest == was.Digest {
		was = p
	}
	return plan.Still(seen.Basis, was)
}

// consent gets what a person must say before something is sent: a y where it
// is safe, at own risk a reason and the loss.
func (r *retrying) consent(run *decisionRun, plan reconcile.Plan, ask *reconcile.RetryRequest) error {
	a := run.app
	refuse := func(code, why string) error {
		return &ledger.RefusedError{Verb: "retry", Code: code, Why: why, Hint: "nothing was sent"}
	}
	risk := plan.Basis == ledger.BasisRiskAccepted
	if !a.Terminal() {
		return nil // ID@VERSION was given, and what is missing for a risk is refused after the check
	}
	if risk && ask.Reason == "" {
		reason, err := a.Ask("Reason: ")
		if err != nil || reason == "" {
			return refuse("incomplete", "taking the risk needs a reason")
		}
		ask.Reason = reason
	}
	if risk {
		want := ticket.ToType(plan.Loss)
		typed, err := a.Ask("Type " + ticket.Quoted(want) + " to send it without proof: ")
		if err != nil || strings.ReplaceAll(typed, ",", "") != want {
			return refuse("no_person", "the loss was not typed")
		}
		ask.LossTyped = true
		return nil
	}
	if !run.flags.yes && !a.ConfirmYes("Send once?") {
		return refuse("no_person", "the question was not answered with yes")
	}
	return nil
}

// retried is what became of a retry, with its exit code.
func retried(ctx context.Context, run *decisionRun, id string, plan reconcile.Plan, did reconcile.RetryResult) resultJSON {
	o := did.Operation
	state := o.State
	out := run.result(ctx, id, base.EffectUpdated, safe.Text{})
	out.Did, out.Plan = did.Did, onePlanJSON(plan)
	if did.Read.ID != "" {
		out.Read = new(base.ReadJSON(did.Read))
	}
	wrong := func(code, message, hint string) {
		out.OK, out.failure = false, &base.Failure{Code: code, Message: message, Hint: hint}
		out.Error = out.failure.JSON()
	}
	sent, again := "sent", "again"
	if did.NeverSent() {
		sent, again = "nothing was sent", "as before"
	}
	switch {
	case did.Did == reconcile.DidRefuse:
		out.Effect = ""
		wrong("refused", "not sent: "+did.Why, "look again: indoubt show "+id)
	case did.Did == reconcile.DidLand && state == ledger.Uncertain:
		out.Effect = base.EffectNoop
		wrong("in_doubt", "nothing was sent: "+did.Why+". Only a person settles this one", "look at it, then: indoubt confirm "+id)
	case did.Did == reconcile.DidLand:
		out.line = safe.Say("%s: landed already, nothing was sent. %s", id, did.Why)
	case did.Did == reconcile.DidAllow:
		out.line = safe.Say("%s: one send is allowed and waits for %s", id, ticket.Source(o.Source))
		if plan.Back != "" {
			out.line = safe.Say("%s; it cannot be sent from here: %s", out.line, safe.Of(plan.Back))
		}
	case state == ledger.Committed:
		out.line = safe.Of(strings.TrimSpace(id + ": sent, it landed. " + o.Receipt()))
	case state == ledger.Failed:
		wrong("did_not_land", sent+", and it did not land: "+attemptWhy(did), "see what it answered: indoubt show "+id)
	case state == ledger.Pending:
		wrong("in_progress", "sent, and not answered yet", "watch it: indoubt log --follow "+id)
	default:
		wrong("in_doubt", fmt.Sprintf("%s, and in doubt %s: %s", sent, again, attemptWhy(did)), "see indoubt show "+id)
	}
	return out
}

func attemptWhy(did reconcile.RetryResult) string {
	return cmp.Or(did.Attempt.Error, did.Why, string(did.Attempt.ErrorClass), "no reason is known")
}

func onePlanJSON(p reconcile.Plan) *planJSON {
	return &planJSON{p.Basis, p.Why, base.Moment(p.LapsesAt), p.Sender, p.WillSend, p.Body, base.Text(p.Back), p.Showing.Digest, p.FirstCheck, p.Attempt, base.Number(p.Loss.Value)}
}

// writePlan shows what a retry would do, before a person agrees to it.
func writePlan(w *safe.Writer, t ticket.Ticket, p reconcile.Plan) {
	o, head := p.Record.Operation, "RETRY WITHOUT PROOF"
	if ticket.Enough(p.Basis) || p.Basis == "" {
		head = "Retry"
	}
	w.Printf("%s  %s  %s@%d  as seen at %s\n", head, t.Title(), o.ID, o.Version, base.ClockTime(p.Record.Now))
	facts := t.Ground(p, "", len(p.Record.Related))
	if ticket.Enough(p.Basis) && !p.LapsesAt.IsZero() && p.LapsesAt.Before(ledger.Never) {
		facts = append(facts, ticket.Tell("UNTIL", "%s", base.ClockTime(p.LapsesAt)))
	}
	facts = append(facts, ticket.Tell("EVIDENCE", "%s", evidenceAge(p.Record)))
	for _, f := range append(facts, t.Sending(p)...) {
		w.Printf("  %-16s %s\n", f.Label, f.Text)
	}
	if p.Body == "" {
		return
	}
	for i, line := range ticket.Body(p.Body) {
		w.Printf("  %-16s %s\n", map[bool]string{true: "BODY"}[i == 0], line)
	}
}

// evidenceAge says what the newest check found, and how long ago.
func evidenceAge(rec ledger.Record) safe.Text {
	if len(rec.Reads) == 0 {
		return safe.Say("never checked")
	}
	r := rec.Reads[0]
	return safe.Say("check %d, %s ago: %s, %s", len(rec.Reads), ticket.Age(rec.Now.Sub(r.BeganAt)), ticket.VerdictWord(r.Verdict), r.Reason)
}
