package rules

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
)

func newPolicyApplyCommand(a *base.App) *cobra.Command {
	var reason string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "apply [FILE]",
		Short: "Put the policy file in force for every process of the ledger",
		Long: `Put the policy file in force: it is checked, its cases run, what differs from the one in
force is shown, and the text stands in the history, with who did it and why. Every process of
the ledger goes by it from then on. One whose host does not have the same text as a file asks
and sends nothing: roll the file out first, work goes on by the one in force.`,
		Example: "  indoubt policy apply --reason 'lists show a charge after 10 s'\n  indoubt policy apply ./policy.yaml --dry-run",
		Args:    base.MaxArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				a.PolicyPath = args[0]
			}
			if strings.TrimSpace(reason) == "" && !dryRun {
				return base.Usage("--reason is missing", "say what this policy mends: it stands in the history")
			}
			return apply(cmd.Context(), a, strings.TrimSpace(reason), dryRun)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would differ and change nothing")
	return cmd
}

// AppliedJSON is what came in force, and what the policy before it has left open.
type AppliedJSON struct {
	Number int64  `json:"number"`
	Digest string `json:"digest"`
	Path   string `json:"path"`
	Diff   string `json:"diff"`
	Left   []left `json:"left"`
}

// left is what stays behind in a kind that the new text does not name, or whose key it makes
// otherwise: how many are in flight or in doubt, and how many are finished.
type left struct {
	Kind     string `json:"kind"`
	Open     int    `json:"open"`
	Finished int    `json:"finished,omitzero"` // whose keys are left; with a kind that is not named
	Means    string `json:"means"`
}

// leftBehind finds what an edit of the names of kinds, or of their keys, leaves behind.
func leftBehind(ctx context.Context, s ledger.Store, was, is *policy.Policy, now time.Time) ([]left, error) {
	counts, err := s.StateCounts(ctx, now)
	all := []left{}
	fields := func(k *policy.Kind) []string { return slices.Sorted(slices.Values(k.Key.From)) }
	for _, c := range counts {
		from, to := was.Kind(c.Kind), is.Kind(c.Kind)
		i := slices.IndexFunc(all, func(l left) bool { return l.Kind == c.Kind })
		if i < 0 {
			i, all = len(all), append(all, left{Kind: c.Kind})
		}
		switch l := &all[i]; {
		case from.Known && !to.Known:
			l.Means = "the new text does not name the kind: nothing checks them, and another kind does not know their keys"
		case !slices.Equal(fields(from), fields(to)):
			l.Means = "key.from is another: the same wish in other words can be sent beside one of them"
		case from.Key.TTL != to.Key.TTL:
			l.Means = "key.ttl is another: they keep the time that they began with"
		}
		if c.State.Open() {
			all[i].Open += c.Count
		} else if c.State == ledger.Committed && !to.Known {
			all[i].Finished += c.Count
		}
	}
	return slices.DeleteFunc(all, func(l left) bool { return l.Means == "" || l.Open+l.Finished == 0 }), err
}

func apply(ctx context.Context, a *base.App, reason string, dryRun bool) error {
	if !dryRun {
		if err := a.MayChange("apply a policy"); err != nil {
			return err
		}
	}
	p, err := Good(ctx, a)
	if err != nil {
		return err
	}
	s, err := a.LedgerFor(ctx, base.ToChange.Unless(dryRun))
	if err != nil {
		return err
	}
	if err := base.Copied(ctx, s); err != nil && !dryRun {
		return err
	}
	last, err := s.Policy(ctx, ledger.PolicyText{})
	if err != nil {
		return err
	}
	data := AppliedJSON{last.Number, last.Digest, p.Path(), difference(last, p), []left{}}
	if last.Digest == p.Digest() && !last.Lapsed {
		return a.Done(base.EffectNoop, data, func(w *safe.Writer) { w.Printf("in force already as number %d\n", last.Number) })
	}
	was, err := policy.Parse("the one in force", []byte(last.Text))
	if err == nil && last.Number > 0 { // one that this program cannot read is replaced
		if data.Left, err = leftBehind(ctx, s, was, p, a.Clock()); err != nil {
			return err
		}
	}
	effect, said := base.EffectWouldUpdate, "would be"
	if !dryRun {
		if err := Force(ctx, a, s, last, p, reason); err != nil {
			return err
		}
		effect, said = base.EffectUpdated, "is"
	}
	data.Number, data.Digest = last.Number+1, p.Digest()
	return a.Done(effect, data, func(w *safe.Writer) {
		w.Lines(strings.TrimRight(data.Diff, "\n"))
		for _, l := range data.Left {
			finished := ""
			if l.Finished > 0 {
				finished = fmt.Sprintf(", %d finished", l.Finished)
			}
			w.Printf("%s, %d in flight or in doubt%s: %s\n", l.Kind, l.Open, finished, l.Means)
		}
		w.Printf("%s %s in force as number %d: %s\n", base.Short(p.Path()), said, data.Number, base.Prefix(p.Digest(), 12))
	})
}

// Force puts a policy in force after another one.
func Force(ctx context.Context, a *base.App, s ledger.Store, last ledger.PolicyText, p *policy.Policy, reason string) error {
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	if was, unread := policy.Parse("the one in force", []byte(last.Text)); info.Look != nil && unread == nil {
		names := p.Renamed(was, func(k *policy.Kind) bool {
			return base.WhenLost(k) == ledger.NoHarm || slices.Contains(info.Look.Kinds, k.Name)
		})
		if len(names) > 0 {
			return &ledger.RefusedError{Verb: "apply", Hint: "apply the last one (indoubt policy show), and this one when that is over: " +
				"indoubt doctor says until when",
				Why: "the ledger was adopted, and what it may have lost is looked for as the last policy names it. " +
					"With another match, key, token, caller or a shorter deadline it is not found: " + strings.Join(names, ", ")}
		}
	}
	return s.ApplyPolicy(ctx, ledger.PolicyText{Number: last.Number + 1, Digest: p.Digest(), Text: p.Text(),
		Actor: a.Actor(), Reason: reason, ChangeID: ledger.NewID()})
}

// Good is the policy file, if it may be put in force: it can be read, holds no secret,
// and its cases run.
func Good(ctx context.Context, a *base.App) (*policy.Policy, error) {
	if _, err := a.Policy(); err != nil {
		return nil, err
	}
	path, _ := a.PolicyFile()
	p, err := policy.Load(path)
	if err != nil {
		return nil, err
	}
	for _, name := range p.Kinds() {
		for _, r := range p.Kind(name).RunTests(ctx, outcomeOf) {
			if !r.OK {
				return nil, &base.Failure{Code: "bad_policy", Hint: "indoubt policy test",
					Message: fmt.Sprintf("a case of %s fails: %s", name, r.Why)}
			}
		}
	}
	return p, nil
}

func difference(was ledger.PolicyText, is *policy.Policy) string {
	if was.Number == 0 {
		return ""
	}
	shown := safe.Exact(filepath.Base(is.Path())).String() // a name may have any character
	return udiff.Unified(shown+" in force", shown, was.Text, is.Text())
}
