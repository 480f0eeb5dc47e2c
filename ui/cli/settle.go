package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
)

type settleFlags struct {
	outcome, proof, class, errorText, receipt, result, extend string
	tokenSent, already, dryRun                                bool
}

type settleCommand struct{ *base.App }

func newSettleCommand(a *base.App) *cobra.Command {
	var flags settleFlags
	cmd := &cobra.Command{
		Use: "settle HANDLE --outcome committed|failed|uncertain", GroupID: base.GroupRecord,
		Short: "Record what became of an attempt",
		Long: `Records what became of one attempt, by the handle that "indoubt begin" printed. At a
terminal a person may name the attempt instead; that is recorded as theirs.
"failed" says that it had no effect and needs --proof of that: the other side refused
it, or nothing was sent. An exit code is no proof; when in doubt, say "uncertain".
An answer that comes late is recorded too, and never overwrites a decision.
With --extend it is in flight still: its deadline is at least that far from now. Who
sends ends it before its deadline passes; one that has passed is not moved.`,
		Example: `  indoubt settle "$handle" --outcome committed --receipt ch_1 --result '{"id":"ch_1"}'
  indoubt settle "$handle" --outcome uncertain --error-class timeout --error "no answer after 30s"
  indoubt settle "$handle" --extend 10m`,
		Args: base.Exactly("a handle"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return settleCommand{a}.settle(cmd.Context(), args[0], flags)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.outcome, "outcome", "", "committed, failed or uncertain")
	f.StringVar(&flags.proof, "proof", "", "for failed, needed: refused (the other side said no) or never_sent")
	f.StringVar(&flags.class, "error-class", "", "how the answer failed to come: timeout, reset, eof, 5xx, conflict, throttled, killed, exit")
	f.StringVar(&flags.errorText, "error", "", "what was said")
	f.StringVar(&flags.receipt, "receipt", "", "the other side's name for the effect")
	f.StringVar(&flags.result, "result", "", "the answer, as JSON or text")
	f.BoolVar(&flags.tokenSent, "token-sent", false, "the token was inside what was sent")
	f.BoolVar(&flags.already, "already", false, "committed, because an earlier attempt's effect is there")
	f.StringVar(&flags.extend, "extend", "", "move its deadline to this time from now, instead of settling it")
	f.BoolVar(&flags.dryRun, "dry-run", false, "say what would happen and record nothing")
	return cmd
}

// request turns the flags into what the ledger is told.
func (s settleFlags) request(inFlight bool) (ledger.SettleRequest, error) {
	req := ledger.SettleRequest{Outcome: ledger.Outcome(s.outcome), ErrorClass: ledger.ErrorClass(s.class),
		Error: s.errorText, Receipt: s.receipt, Already: s.already, TokenSent: s.tokenSent, Status: -1}
	if inFlight {
		if s.outcome != "" || s.dryRun {
			return req, base.Usage("--extend says that it is in flight still, and settles nothing", "leave the other options out")
		}
		return req, nil
	}
	switch req.Outcome {
	case ledger.OutcomeCommitted, ledger.OutcomeUncertain:
		if s.proof != "" {
			return req, base.Usage(fmt.Sprintf("--proof says that nothing happened, and --outcome %s that it did or may have", s.outcome), "leave --proof out, or say --outcome failed")
		}
	case ledger.OutcomeFailed:
		req.Proof = ledger.Proof(strings.ReplaceAll(s.proof, "-", "_"))
		if s.proof == "" {
			return req, base.Usage("--outcome failed needs --proof: a failure says that nothing happened, and an exit code or an error does not",
				"--proof never_sent: nothing of it left\n--proof refused: the other side answered that it did nothing\nelse --outcome uncertain")
		}
		if !req.Proof.OfAttempt() {
			return req, base.Usage(fmt.Sprintf("--proof %q is neither refused nor never_sent", s.proof), "without proof that nothing happened it is --outcome uncertain")
		}
	case "":
		return req, base.Usage("--outcome is needed", "say committed, failed (it had no effect) or uncertain")
	default:
		return req, base.Usage(fmt.Sprintf("--outcome %q is none of committed, failed, uncertain", s.outcome), "")
	}
	if s.result != "" {
		req.Result = json.RawMessage(s.result)
		if !json.Valid(req.Result) {
			quoted, err := json.Marshal(s.result)
			if err != nil {
				return req, base.Usage("--result is no text", "")
			}
			req.Result = quoted
		}
	}
	return req, nil
}

// attempt finds what is to be settled: the attempt of a handle, or the one that a person at
// a terminal names, as by is then.
func (c settleCommand) attempt(ctx context.Context, named string) (a ledger.Attempt, by ledger.Actor, err error) {
	h, unfit := ledger.ParseHandle(named)
	if unfit == nil {
		a, err = h.Attempt(ctx, c.Store)
		return a, by, err
	}
	if !c.Terminal() {
		return a, by, base.Usage(unfit.Error(), "pass on the word that `indoubt begin` printed as the handle\na person names the attempt, at a terminal")
	}
	rec, err := c.Store.Read(ctx, ledger.Locator{AttemptID: named})
	if err != nil {
		return a, by, err
	}
	return *rec.Attempt(named), c.Actor(), nil
}

func (c settleCommand) settle(ctx context.Context, named string, flags settleFlags) error {
	named = strings.TrimSpace(named)
	longer, err := sendDeadline("--extend", flags.extend)
	if err != nil {
		return err
	}
	req, err := flags.request(longer != 0)
	if err != nil {
		return err
	}
	if err := c.MayChange("settle"); err != nil && !flags.dryRun {
		return err
	}
	// A mistyped ledger must not be made: the attempt is in one that exists.
	if _, err := c.LedgerFor(ctx, base.ToSettle.Unless(flags.dryRun)); err != nil {
		return err
	}
	_, broken := c.Policy()
	if broken != nil { // what came back is not lost to that (I9)
		c.Live = base.RulesAt("", c.App)
	}
	r, err := newRecorder(ctx, c.App, ledger.Source{}, flags.dryRun)
	if err != nil {
		return err
	}
	if broken != nil {
		c.Warnf("the policy cannot be read, and says what in an answer is secret: the result is not kept: %v", broken)
		req.Result = nil
	}
	a, by, err := c.attempt(ctx, named)
	if err == nil && longer != 0 {
		return c.extend(ctx, r, a, longer)
	}
	var applied ledger.Applied
	if req.AttemptID, req.Actor = a.ID, by; err == nil {
		applied, err = r.Settle(ctx, req)
	}
	if errors.Is(err, ledger.ErrNotFound) {
		return &base.Failure{Code: "not_found", Message: fmt.Sprintf("this ledger has no attempt `%s`: nothing is recorded", named),
			Hint: "check --ledger / INDOUBT_LEDGER: the handle may be of another one\n" +
				"if the ledger has lost it, record it under its kind, its key and when it was sent:\n" + importLine(named, req), Cause: err}
	}
	if err != nil {
		return err
	}
	effect := base.EffectOf(false, flags.dryRun)
	if applied.Noop || applied.Before.Version == applied.After.Version {
		effect = base.EffectNoop
	}
	o := applied.After
	if o.ID == "" {
		rec, err := c.Store.Read(ctx, ledger.Locator{AttemptID: req.AttemptID})
		if err != nil {
			return err
		}
		o = rec.Operation
	}
	data := struct {
		base.OperationJSON
		Attempt string `json:"attempt"`
	}{readAsJSON(ctx, c.App, o), req.AttemptID}
	if flags.dryRun {
		data.OperationJSON = base.AsJSON(base.See(c.PolicyToLookBy(), ledger.Record{Found: true, Operation: o, Now: c.Clock()}))
	}
	return c.Done(effect, data, func(w *safe.Writer) {
		line := string(o.State)
		if o.Conflict != ledger.NoConflict {
			line += ", " + string(o.Conflict) + ": " + o.ConflictNote
		}
		w.Printf("%s  %s  %s\n", o.ID, effect, line)
	})
}

// extend moves the deadline of an attempt in flight.
func (c settleCommand) extend(ctx context.Context, r *record.Recorder, a ledger.Attempt, longer time.Duration) error {
	until, err := ledger.Heartbeat(ctx, r.Store(), a.ID, longer)
	if err != nil {
		return err
	}
	rec, err := c.Store.Read(ctx, ledger.Locator{ID: a.OperationID})
	if err != nil {
		return err
	}
	return c.Done(base.EffectUpdated, readAsJSON(ctx, c.App, rec.Operation), func(w *safe.Writer) {
		w.Printf("%s  %s  until %s\n", a.OperationID, base.EffectUpdated, until.UTC().Format(time.RFC3339))
	})
}

// importLine is the command that records what became of an attempt which the ledger lacks.
// What landed is in doubt then, and `indoubt confirm` settles it.
func importLine(id string, req ledger.SettleRequest) string {
	row := struct {
		Kind    string `json:"kind"`
		Key     string `json:"key"`
		At      string `json:"at"`
		ID      string `json:"id"`
		Outcome string `json:"outcome"`
		Proof   string `json:"proof,omitempty"`
	}{"KIND", "KEY", "TIME", id, string(ledger.OutcomeUncertain), string(req.Proof)}
	if req.Outcome == ledger.OutcomeFailed {
		row.Outcome = string(req.Outcome)
	}
	text, _ := json.Marshal(row)
	return "echo " + ledger.ShellWord(string(text)) + " | indoubt import"
}
