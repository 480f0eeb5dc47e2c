package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/act"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
)

// begin writes the run down before its first change, unless it is a rehearsal. A
// run that is known goes on where it stopped, with the versions it had seen then.
func (r *decisionRun) begin(ctx context.Context, args []string, items []ledger.RunItem, outage string, step act.Step) error {
	record := ledger.DecisionRun{IdempotencyKey: r.flags.idempotencyKey, Digest: r.flags.digest(r.verb, args), Verb: r.verb, Actor: r.actor, CreatedAt: r.app.Clock(),
		Terms: ledger.RunTerms{Outage: outage, Reason: strings.TrimSpace(r.flags.reason), Reference: r.flags.reference, Receipts: r.flags.receipts,
			Truth: ledger.Truth(r.flags.truth), Key: r.flags.key}}
	if r.verb == string(ledger.VerbPark) {
		record.Terms.Until, _ = until(r.flags.until, record.CreatedAt) // what cannot be read is told of each
	}
	if record.Sends() {
		record.Terms.Policy = r.policy.Digest()
	}
	r.Run = act.New(r.store, record, items, step)
	r.Unkept = r.flags.dryRun || len(items) == 1 && record.IdempotencyKey == ""
	err := r.Begin(ctx)
	if errors.Is(err, ledger.ErrKeyReused) {
		return &base.Failure{Code: "key_reused", Message: fmt.Sprintf("--idempotency-key %q was used with another command", r.flags.idempotencyKey),
			Hint: "use a new key for a new decision", Cause: err}
	}
	return err
}

// carry carries the run out as far as it goes from here. What its canaries came to
// is shown to a person, unless --yes said it beforehand.
func (r *decisionRun) carry(ctx context.Context) {
	a, told := r.app, time.Now()
	for {
		for work := r.Next(); work != nil; work = r.Next() {
			heard := r.slow()
			r.Take(work(ctx))
			if heard(); !a.JSON && time.Since(told) >= progressEvery {
				told = time.Now()
				a.ErrOut.Println(r.Sum(a.Clock()))
			}
		}
		if r.Record.State != ledger.RunWaiting || !r.flags.yes && !a.Terminal() {
			break
		}
		if !r.flags.yes {
			a.ErrOut.Println(r.Sum(a.Clock()))
			if !a.ConfirmYes(fmt.Sprintf("Go on with %s?", ledger.Count(r.Record.Left()))) {
				break
			}
		}
		r.GoOn()
	}
	if r.Record.State == ledger.RunRunning && !r.Unkept { // given up here: it says so, and another may go on
		quick, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := r.GiveUp(quick, "the command ended"); err != nil {
			a.Warnf("that the run has ended here could not be written down: %v", err)
		}
	}
}

// progressEvery is how often a run tells how far it is, and after how long it says that
// one row keeps it.
var progressEvery = 10 * time.Second

// slow says where the run stands, unless what is under way ends soon.
func (r *decisionRun) slow() (ended func()) {
	if r.app.JSON {
		return func() {}
	}
	done, size := r.Record.Done(), r.Record.Size
	said := make(chan struct{})
	timer := time.AfterFunc(progressEvery, func() {
		defer close(said)
		r.app.ErrOut.Println(safe.Say("%s of %s done; waiting for an answer, or until the lease of who was at the next one has run out", ledger.Count(done), ledger.Count(size)))
	})
	return func() {
		if !timer.Stop() {
			<-said
		}
	}
}

// left is why the run left an operation as it was.
func (r *decisionRun) left() error {
	why := r.Record.Why
	switch err := r.Err(); {
	case errors.As(err, new(*ledger.DrivenError)):
		return err
	case err != nil && r.Record.State == ledger.RunRunning:
		why = base.AsFailure(err).Message
	}
	hint := "look, then: indoubt runs resume " + r.Record.ID
	switch {
	case r.Unkept:
		hint = ""
	case !r.Record.Open():
		hint = r.Record.Anew()
	}
	return &ledger.RefusedError{Verb: r.verb, Code: "over", Why: why + "; it was left as it was", Hint: hint}
}

// digest binds an idempotency key to the verb and everything that was said.
func (d *decideFlags) digest(verb string, args []string) string {
	b, _ := json.Marshal([]any{verb, args, strings.TrimSpace(d.reason), d.receipts, d.reference, d.truth, d.until, d.request, d.key})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// result is an operation after a change.
func (r *decisionRun) result(ctx context.Context, id string, effect string, line safe.Text) resultJSON {
	out := resultJSON{OK: true, Effect: effect, line: line}
	if rec, err := r.store.Read(ctx, ledger.Locator{ID: id}); err == nil {
		out.OperationJSON = new(base.AsJSON(base.See(r.policy, rec)))
	}
	return out
}

// failed is an operation that was not changed, as it is now.
func (r *decisionRun) failed(ctx context.Context, id string, err error) resultJSON {
	out := failedResult(id, base.AsFailure(err))
	out.OperationJSON = r.result(context.WithoutCancel(ctx), id, "", safe.Text{}).OperationJSON
	return out
}

func failedResult(arg string, f *base.Failure) resultJSON {
	return resultJSON{Asked: arg, Error: f.JSON(), failure: f}
}

// finish prints the results. The worst exit code wins, and its error speaks for
// the whole.
func finish(a *base.App, results []resultJSON) error {
	worst := &base.Failure{}
	effect := base.EffectNoop
	for _, r := range results {
		if r.failure != nil && r.failure.Exit() > worst.Exit() {
			worst = r.failure
		}
		if r.Effect != "" && r.Effect != base.EffectNoop {
			effect = r.Effect
		}
	}
	data := map[string]any{"operations": results}
	write := func(w *safe.Writer) {
		for _, r := range results {
			if !r.line.Empty() {
				w.Println(r.line)
			}
		}
	}
	if worst.Code == "" {
		return a.Done(effect, data, write)
	}
	if effect == base.EffectNoop {
		effect = ""
	}
	whole := *worst
	whole.Effect, whole.Data, whole.Text = effect, data, write
	if len(results) > 1 {
		whole.Message, whole.More = sumUp(a, results, worst)
	}
	return &whole
}

// sumUp says what went wrong with several operations.
func sumUp(a *base.App, results []resultJSON, worst *base.Failure) (message string, lines []string) {
	if a.JSON {
		return worst.Message, worst.More
	}
	for _, r := range results {
		if r.failure != nil {
			lines = append(lines, "  "+r.Asked+": "+r.failure.Message)
		}
	}
	return fmt.Sprintf("%s of %s were not done", ledger.Count(len(lines)), ledger.Count(len(results))), lines
}
