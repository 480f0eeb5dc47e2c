package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"indoubt/ui/safe"
)

func newPolicyTestCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "test [KIND]",
		Short: "Run the cases that the policy file brings along (tests:)",
		Long: `Run the cases under tests: of every kind, or of one, with the evaluator that
the engine uses. Nothing is asked of any downstream. Exit 1 when one fails.`,
		Args: maxArgs(1), ValidArgsFunction: a.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.policy()
			if err != nil {
				return err
			}
			kinds := args
			if len(kinds) == 0 {
				kinds = p.Kinds()
			}
			cases, failed := []caseJSON{}, 0
			for _, name := range kinds {
				for _, r := range p.Kind(name).RunTests(cmd.Context()) {
					cases = append(cases, caseJSON{name, r.Test.Name, r.Test.Line, r.OK, r.Test.Want, r.Got, r.Why})
					if !r.OK {
						failed++
					}
				}
			}
			data := map[string]any{"cases": cases, "failed": failed}
			write := func(w io.Writer) { writeCases(w, cases) }
			if failed > 0 {
				return &failure{Exit: exitError, Code: "policy_test", Message: fmt.Sprintf("%d of %d cases failed", failed, len(cases)), Data: data, Text: write}
			}
			return a.done("", data, write)
		},
	}
}

type caseJSON struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	Line int    `json:"line"`
	OK   bool   `json:"ok"`
	Want string `json:"want"`
	Got  string `json:"got"`
	Why  string `json:"why"`
}

func writeCases(w io.Writer, cases []caseJSON) {
	if len(cases) == 0 {
		fmt.Fprintln(w, "no cases: write some under tests: of a kind")
		return
	}
	for _, c := range cases {
		line := "ok    "
		if !c.OK {
			line = "fail  "
		}
		line += c.Kind + ": " + c.Name
		if !c.OK {
			line += fmt.Sprintf("  (line %d) want %s, got %s", c.Line, c.Want, c.Got)
			if c.Why != "" {
				line += ": " + c.Why
			}
		}
		fmt.Fprintln(w, safe.Text(line))
	}
}
