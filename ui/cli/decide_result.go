package cli

import (
	"context"
	"fmt"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// result is an operation after a change.
func (r *decisionRun) result(ctx context.Context, id string, effect string, line safe.Text) resultJSON {
	out := resultJSON{OK: true, Effect: effect, line: line}
	if rec, err := r.store.Read(ctx, ledger.Locator{ID: id}); err == nil {
		out.operationJSON = new(asJSON(see(r.policy, rec)))
	}
	return out
}

// failed is an operation that was not changed, as it is now.
func (r *decisionRun) failed(ctx context.Context, id string, err error) resultJSON {
	f := asFailure(err)
	out := failedResult(id, f)
	if rec, err := r.store.Read(context.WithoutCancel(ctx), ledger.Locator{ID: id}); err == nil {
		out.operationJSON = new(asJSON(see(r.policy, rec)))
	}
	return out
}

func failedResult(arg string, f *failure) resultJSON {
	return resultJSON{Asked: arg, Error: f.json(), failure: f}
}

// finish prints the results. The worst exit code wins, and its error speaks for
// the whole.
func (a *app) finish(results []resultJSON) error {
	worst := &failure{}
	effect := effectNoop
	for _, r := range results {
		if r.failure != nil && r.failure.exit() > worst.exit() {
			worst = r.failure
		}
		if r.Effect != "" && r.Effect != effectNoop {
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
		return a.done(effect, data, write)
	}
	if effect == effectNoop {
		effect = ""
	}
	whole := *worst
	whole.Effect, whole.Data, whole.Text = effect, data, write
	if len(results) > 1 {
		whole.Message, whole.More = a.sum(results, worst)
	}
	return &whole
}

// sum says what went wrong with several operations.
func (a *app) sum(results []resultJSON, worst *failure) (message string, lines []string) {
	if a.json {
		return worst.Message, worst.More
	}
	for _, r := range results {
		if r.failure != nil {
			lines = append(lines, "  "+r.Asked+": "+r.failure.Message)
		}
	}
	return fmt.Sprintf("%s of %s were not done", ledger.Count(len(lines)), ledger.Count(len(results))), lines
}
