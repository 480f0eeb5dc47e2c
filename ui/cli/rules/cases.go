package rules

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/policy"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

func newPolicyTestCommand(a *base.App) *cobra.Command {
	return &cobra.Command{
		Use:   "test [KIND]",
		Short: "Run the cases that the policy file brings along (tests:)",
		Long: `Run the cases under tests: of every kind, or of one, with the evaluator that
the engine uses. Nothing is asked of any downstream. Of a case that fails it shows
what every expression gave. Exit 1 when one fails.`,
		Args: base.MaxArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.Policy()
			if err != nil {
				return err
			}
			kinds := p.Kinds()
			if len(args) > 0 {
				if _, err := kindNamed(a, p, args[0]); err != nil {
					return err
				}
				kinds = args
			}
			cases, failed := []caseJSON{}, 0
			for _, name := range kinds {
				for _, r := range p.Kind(name).RunTests(cmd.Context(), outcomeOf) {
					cases = append(cases, caseJSON{Kind: name, Name: r.Test.Name, Line: r.Test.Line, OK: r.OK, Want: r.Test.Want,
						Got: r.Got, Why: r.Why, Steps: base.List(r.Steps)})
					if !r.OK {
						failed++
					}
				}
			}
			data := map[string]any{"cases": cases, "failed": failed}
			write := func(w *safe.Writer) { writeCases(w, cases, failed) }
			if failed > 0 {
				return &base.Failure{Code: "bad_policy", Data: data, Text: write,
					Message: fmt.Sprintf("%d of %d cases failed", failed, len(cases))}
			}
			return a.Done("", data, write)
		},
	}
}

// outcomeOf is the outcome rule that every sender uses.
func outcomeOf(ctx context.Context, k *policy.Kind, rec ledger.Record, answer ledger.Answer) ledger.Outcome {
	return outcome.Judge(ctx, k.JudgeAnswer, rec, answer).Outcome
}

type caseJSON struct {
	Kind  string        `json:"kind"`
	Name  string        `json:"name"`
	Line  int           `json:"line"`
	OK    bool          `json:"ok"`
	Want  string        `json:"want"`
	Got   string        `json:"got"`
	Why   string        `json:"why"`
	Steps []policy.Step `json:"steps"` // of a case that failed
}

func writeCases(w *safe.Writer, cases []caseJSON, failed int) {
	if len(cases) == 0 {
		w.Println("no cases: write some under tests: of a kind")
		return
	}
	for _, c := range cases {
		name := cmp.Or(c.Name, fmt.Sprintf("the case in line %d", c.Line))
		if c.OK {
			w.Println(safe.Exact("ok    " + c.Kind + ": " + name))
			continue
		}
		w.Println(safe.Exact(fmt.Sprintf("FAIL  %s: %s  (line %d)", c.Kind, name, c.Line)))
		w.Println(safe.Exact(fmt.Sprintf("        wanted %s, got %s%s", c.Want, c.Got, strings.TrimSuffix(": "+c.Why, ": "))))
		for _, one := range c.Steps {
			w.Println(safe.Exact(fmt.Sprintf("        %-8s %s → %s", one.Name, one.Expression, ansi.Truncate(gave(one), 300, "…"))))
		}
	}
	if failed == 0 {
		w.Printf("%s, all good\n", ticket.Plural(len(cases), "case", "cases"))
	}
}
