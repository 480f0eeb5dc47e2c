package cli

import (
	"context"
	"fmt"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/policy"
	"indoubt/ui/safe"
)

func newPolicyTestCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "test [KIND]",
		Short: "Run the cases that the policy file brings along (tests:)",
		Long: `Run the cases under tests: of every kind, or of one, with the evaluator that
the engine uses. Nothing is asked of any downstream. Of a case that fails it shows
what every expression gave. Exit 1 when one fails.`,
		Args: maxArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.policy()
			if err != nil {
				return err
			}
			kinds := p.Kinds()
			if len(args) > 0 {
				if _, err := a.kindNamed(p, args[0]); err != nil {
					return err
				}
				kinds = args
			}
			cases, failed := []caseJSON{}, 0
			for _, name := range kinds {
				for _, r := range p.Kind(name).RunTests(cmd.Context(), outcomeOf) {
					cases = append(cases, caseOf(p, name, r))
					if !r.OK {
						failed++
					}
				}
			}
			data := map[string]any{"cases": cases, "failed": failed}
			write := func(w *safe.Writer) { writeCases(w, cases, failed) }
			if failed > 0 {
				return &failure{Code: "bad_policy", Message: fmt.Sprintf("%d of %d cases failed", failed, len(cases)), Data: data, Text: write}
			}
			return a.done("", data, write)
		},
	}
}

// outcomeOf is the outcome rule that every sender uses.
func outcomeOf(ctx context.Context, k *policy.Kind, rec ledger.Record, answer ledger.Answer) ledger.Outcome {
	return outcome.Judge(ctx, k.JudgeAnswer, rec, answer).Outcome
}

type caseJSON struct {
	Kind       string     `json:"kind"`
	Name       string     `json:"name"`
	Line       int        `json:"line"`
	OK         bool       `json:"ok"`
	Want       *string    `json:"want"`
	Got        string     `json:"got"`
	Why        string     `json:"why"`
	WantAdvice *string    `json:"want_advice"`
	Advice     string     `json:"advice"`
	Because    string     `json:"because"`
	Steps      []stepJSON `json:"steps"` // of a case that failed
}

func caseOf(p *policy.Policy, kind string, r policy.TestResult) caseJSON {
	c := caseJSON{Kind: kind, Name: p.Withhold(r.Test.Name), Line: r.Test.Line, OK: r.OK, Want: text(r.Test.Want), Got: r.Got, Why: p.Withhold(r.Why),
		WantAdvice: text(r.Test.Advice), Advice: r.Advice.Verb, Because: r.Advice.Reason, Steps: stepsAsJSON(r.Steps)}
	for i, s := range c.Steps {
		c.Steps[i].Value = withheld(s.Value, p.Withhold)
		if s.Error != nil {
			c.Steps[i].Error = text(p.Withhold(*s.Error))
		}
	}
	return c
}

func writeCases(w *safe.Writer, cases []caseJSON, failed int) {
	if len(cases) == 0 {
		w.Println("no cases: write some under tests: of a kind")
		return
	}
	for _, c := range cases {
		name := c.Name
		if name == "" {
			name = fmt.Sprintf("the case in line %d", c.Line)
		}
		if c.OK {
			w.Println(safe.Exact("ok    " + c.Kind + ": " + name))
			continue
		}
		w.Println(safe.Exact(fmt.Sprintf("FAIL  %s: %s  (line %d)", c.Kind, name, c.Line)))
		compare := func(what string, want *string, got, why string) {
			if want == nil {
				return
			}
			line := fmt.Sprintf("        %s wanted %s, got %s", what, *want, got)
			if why != "" {
				line += ": " + why
			}
			w.Println(safe.Exact(line))
		}
		compare("verdict", c.Want, c.Got, c.Why)
		compare("advice ", c.WantAdvice, c.Advice, c.Because)
		for _, one := range c.Steps {
			w.Println(safe.Exact(fmt.Sprintf("        %-8s %s → %s", one.Name, one.Expression, ansi.Truncate(one.result(), 300, "…"))))
		}
	}
	if failed == 0 {
		w.Printf("%d %s, all good\n", len(cases), plural(len(cases), "case", "cases"))
	}
}
