// Package rules is `indoubt policy`: to check, show, try, test and begin the policy file, and
// to put it in force. One file a verb; what is short stands in this one.
//
// It stands on ui/cli/base and on the policy. No package of commands may import it but those
// that make or adopt a ledger under a policy, which ask Good and Force. A new verb
// is a file here and a line in NewCommand. TestArrowsPointDown in ui/house holds this.
package rules

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/policy"
	"indoubt/policy/advice"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// NewCommand is `indoubt policy` with its verbs.
func NewCommand(a *base.App) *cobra.Command {
	cmd := base.Grouped(&cobra.Command{
		Use: "policy", GroupID: base.GroupCare,
		Short: "Check, show, try, test and begin the policy file, and put it in force",
	})
	cmd.AddCommand(newPolicyApplyCommand(a), newPolicyCheckCommand(a), newPolicyShowCommand(a), newPolicyTryCommand(a),
		newPolicyTestCommand(a), newPolicyInitCommand(a), newPolicySchemaCommand(a))
	return cmd
}

func newPolicyCheckCommand(a *base.App) *cobra.Command {
	return &cobra.Command{
		Use:     "check [FILE]",
		Short:   "Check the policy file: line, column, and what to write instead",
		Example: "  indoubt policy check\n  indoubt policy check ./policy.yaml",
		Args:    base.MaxArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				a.PolicyPath = args[0]
			}
			p, err := a.Policy()
			if err != nil {
				f := *base.AsFailure(err)
				if f.Code == "bad_policy" {
					f.Hint = "" // every problem carries its own
				}
				return &f
			}
			warnings := p.Warnings()
			data := map[string]any{"path": base.Text(p.Path()), "digest": p.Digest(),
				"currency": p.Currency(), "kinds": base.List(p.Kinds()),
				"downstreams": base.List(p.Downstreams()), "warnings": base.List(warnings)}
			return a.Done(base.EffectNoop, data, func(w *safe.Writer) {
				if p.Empty() {
					path, _ := a.PolicyFile()
					w.Printf("no policy at %s: nothing is checked, costs are guesses\n  indoubt policy init\n", base.Short(path))
					return
				}
				for _, one := range warnings {
					w.Lines("warning: " + one.Error())
				}
				w.Printf("%s is good: %s, %s, %s\n", base.Short(p.Path()), ticket.Plural(len(p.Kinds()), "kind", "kinds"),
					ticket.Plural(len(p.Downstreams()), "downstream", "downstreams"), ticket.Plural(len(warnings), "warning", "warnings"))
			})
		},
	}
}

func newPolicyShowCommand(a *base.App) *cobra.Command {
	return &cobra.Command{
		Use:     "show [KIND]",
		Short:   "Show what applies to a kind, and where it comes from",
		Example: "  indoubt policy show\n  indoubt policy show stripe.charge",
		Args:    base.MaxArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.Policy()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				k := p.Kind(args[0])
				return a.Done("", kindJSON(p, k), func(w *safe.Writer) { w.Lines(strings.TrimRight(p.Explain(k.Name), "\n")) })
			}
			kinds := base.Each(p.Kinds(), func(name string) map[string]any { return kindJSON(p, p.Kind(name)) })
			data := map[string]any{"path": base.Text(p.Path()), "digest": p.Digest(), "currency": p.Currency(), "words": p.Words(),
				"kinds": kinds, "downstreams": base.List(p.Downstreams())}
			return a.Done("", data, func(w *safe.Writer) { writePolicy(w, p) })
		},
	}
}

// kindNamed is the kind of that name, which the policy must know: a mistyped one
// must not look as if there were nothing to check.
func kindNamed(a *base.App, p *policy.Policy, name string) (*policy.Kind, error) {
	k := p.Kind(name)
	path, _ := a.PolicyFile()
	switch {
	case p.Empty():
		return nil, &base.Failure{Code: "not_found", Message: "there is no policy at " + base.Short(path),
			Hint: "indoubt policy init, or name it with --policy"}
	case !k.Known:
		return nil, &base.Failure{Code: "not_found", Message: fmt.Sprintf("%s has no kind %q", base.Short(p.Path()), name),
			Hint: "there are: " + strings.Join(p.Kinds(), ", ")}
	}
	return k, nil
}

func kindJSON(p *policy.Policy, k *policy.Kind) map[string]any {
	out := map[string]any{
		"name": k.Name, "pattern": base.Text(k.Pattern), "known": k.Known, "line": k.Line, "effect": base.Text(string(k.Effect)),
		"read": k.Read != nil, "resend": cmp.Or(k.Resend, "pipeline"), "retry_max": k.Retry.Max, "downstream": nil,
		"explained": p.Explain(k.Name),
	}
	if k.Downstream != nil {
		out["downstream"] = k.Downstream.Name
	}
	return out
}

// writePolicy lists the kinds, whether each is checked, and who sends it.
func writePolicy(w *safe.Writer, p *policy.Policy) {
	if p.Empty() {
		w.Printf("No policy: nothing is checked, costs are guesses\n  indoubt policy init\n")
		return
	}
	w.Printf("%s  %s  costs in %s\n", base.Short(p.Path()), base.Prefix(p.Digest(), 12), p.Currency())
	for _, name := range p.Kinds() {
		k := p.Kind(name)
		check, send := "no check", "sent by its pipeline"
		if k.Read != nil {
			check = "checked"
		}
		if k.Resend == advice.ResendHere {
			send = "sent from here"
		}
		w.Printf("  %-28s line %-4d %-9s  %-21s  retry max %d\n", name, k.Line, check, send, k.Retry.Max)
	}
}
