package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/act"
	"indoubt/ui/safe"
)

// scopeFlags say what a hold covers.
type scopeFlags struct {
	downstream string
	all        bool
}

func (f *scopeFlags) scope(args []string) (ledger.HoldScope, error) {
	var out []ledger.HoldScope
	for _, kind := range args {
		if strings.TrimSpace(kind) == "" {
			return "", usage("the kind is empty", "")
		}
		out = append(out, ledger.HoldScope("kind:"+strings.TrimPrefix(kind, "kind:")))
	}
	if f.downstream != "" {
		out = append(out, ledger.HoldScope("downstream:"+f.downstream))
	}
	if f.all {
		out = append(out, "all")
	}
	if len(out) != 1 {
		return "", usage("name one of KIND, --downstream D and --all", "")
	}
	return out[0], nil
}

type holdCommand struct{ *app }

func newHoldCommand(a *app) *cobra.Command {
	var flags decideFlags
	cmd := ofScope(&cobra.Command{
		Use:   "hold [KIND|--downstream D|--all]",
		Short: "Stop every repeat, retry and bulk run at once",
		Long: `Stop every recorder's own repeat, every permission to send again and every bulk run
for a kind, a downstream or everything. Checks go on, and pipelines with what is new
or known to have had no effect. A hold on the same scope
is replaced. A kind that neither the policy nor the ledger knows is refused as a slip.`,
		Example: "  indoubt hold --all --reason 'stripe outage, sam is on it'\n  indoubt hold stripe.charge --reason 'wrong amounts' --until 2h",
	}, a, &flags, holdCommand.hold)
	cmd.Flags().StringVar(&flags.until, "until", "", "a duration (2h), a time of day (06:00) or an RFC 3339 time; without it, until released")
	return cmd
}

func newReleaseCommand(a *app) *cobra.Command {
	return ofScope(&cobra.Command{
		Use:     "release [KIND|--downstream D|--all]",
		Short:   "Lift a hold",
		Example: "  indoubt release --all --reason 'outage over'",
	}, a, &decideFlags{}, holdCommand.release)
}

// ofScope has a command take what it is about: a kind, a downstream or everything.
func ofScope(cmd *cobra.Command, a *app, flags *decideFlags,
	do func(holdCommand, context.Context, ledger.HoldScope, *decideFlags) error) *cobra.Command {
	var which scopeFlags
	cmd.GroupID, cmd.Args, cmd.ValidArgsFunction = groupDecide, maxArgs(1), cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		scope, err := which.scope(args)
		if err != nil {
			return err
		}
		return do(holdCommand{a}, cmd.Context(), scope, flags)
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&which.downstream, "downstream", "", "every kind of this downstream")
	cmd.Flags().BoolVar(&which.all, "all", false, "everything")
	return cmd
}

func holdJSON(h ledger.Hold) map[string]any {
	return map[string]any{"hold": map[string]any{"scope": h.Scope, "kinds": list(h.Kinds), "actor": h.Actor, "reason": h.Reason,
		"created_at": moment(h.CreatedAt), "until": moment(h.Until)}}
}

func (c holdCommand) hold(ctx context.Context, scope ledger.HoldScope, flags *decideFlags) error {
	now := c.clock()
	var ends time.Time
	if flags.until != "" {
		var err error
		if ends, err = until(flags.until, now); err != nil {
			return err
		}
	}
	var kinds []string
	run, err := c.scoped(ctx, "hold", []string{string(scope)}, needs{reason: true, silent: true}, flags, func(s ledger.Store, p *policy.Policy) (err error) {
		kinds, err = c.covered(ctx, s, p, scope)
		return err
	})
	if err != nil {
		return err
	}
	if flags.until != "" { // of a repeat, the same moment as the first time
		if ends, err = until(flags.until, run.Record.CreatedAt); err != nil {
			return err
		}
	}
	h := ledger.Hold{Scope: scope, Kinds: kinds, Actor: run.actor, Reason: flags.reason, Until: ends, ChangeID: run.Record.ChangeID(run.Items[0])}
	holds, err := run.store.Holds(ctx, now)
	if err != nil {
		return err
	}
	effect, would := effectCreated, effectWouldCreate
	standing := slices.IndexFunc(holds, func(h ledger.Hold) bool { return h.Scope == scope })
	if standing >= 0 {
		effect, would = effectUpdated, effectWouldUpdate
	}
	if flags.dryRun {
		return c.done(would, holdJSON(h), func(w *safe.Writer) { w.Println("would hold " + string(scope)) })
	}
	if run.Record.Done() > 0 || standing >= 0 && holds[standing].ChangeID == h.ChangeID {
		effect = effectNoop
	} else if err := run.store.Hold(ctx, h); err != nil {
		return err
	}
	run.carry(ctx)
	return c.done(effect, holdJSON(h), func(w *safe.Writer) {
		line := "holding " + string(scope)
		if !ends.IsZero() {
			line += " until " + clockTime(ends)
		}
		w.Println(line + ": nothing is repeated, and no retry is allowed")
	})
}

func (c holdCommand) release(ctx context.Context, scope ledger.HoldScope, flags *decideFlags) error {
	run, err := c.scoped(ctx, "release", []string{string(scope)}, needs{reason: true, silent: true}, flags, nil)
	if err != nil {
		return err
	}
	data := map[string]any{"scope": scope}
	holds, err := run.store.Holds(ctx, c.clock())
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(holds), func(h ledger.Hold) bool { return h.Scope == scope })
	nothing := func(w *safe.Writer) { w.Println(string(scope) + " is not held") }
	switch standing := len(others) < len(holds); {
	case run.Record.Done() > 0 || !standing && len(others) == 0:
		run.carry(ctx)
		return c.done(effectNoop, data, nothing)
	case !standing: // it may be another one that was meant
		run.carry(ctx)
		return &failure{Code: "not_found", Message: string(scope) + " is not held; nothing was released", More: held(others),
			Hint: others[0].Scope.Release()}
	case flags.dryRun:
		return c.done(effectWouldUpdate, data, func(w *safe.Writer) { w.Println("would release " + string(scope)) })
	}
	switch err := run.store.LiftHold(ctx, scope, run.actor, flags.reason, run.Record.ChangeID(run.Items[0])); {
	case errors.Is(err, ledger.ErrNotFound):
		return c.done(effectNoop, data, nothing)
	case err != nil:
		return err
	}
	run.carry(ctx)
	return c.done(effectUpdated, data, func(w *safe.Writer) {
		w.Println("released " + string(scope))
		for _, line := range held(others) {
			w.Println(line)
		}
	})
}

func held(holds []ledger.Hold) []string {
	return ledger.Each(holds, func(h ledger.Hold) string {
		return fmt.Sprintf("held is %s, by %s: %s", h.Scope, h.Actor.Name, h.Reason)
	})
}

// covered are the kinds that a hold on a downstream names. It refuses a downstream or a
// kind that neither the policy nor the ledger knows: a slip of the pen would leave
// everything running.
func (c holdCommand) covered(ctx context.Context, s ledger.Store, p *policy.Policy, scope ledger.HoldScope) ([]string, error) {
	if downstream, ok := strings.CutPrefix(string(scope), "downstream:"); ok {
		if p.Downstream(downstream) == nil {
			return nil, usage(fmt.Sprintf("the policy has no downstream `%s`%s", downstream, meant(downstream, p.Downstreams())), "it has: "+strings.Join(p.Downstreams(), " "))
		}
		return act.KindsOf(ctx, s, c.clock(), scope, p.Kinds(), p.DownstreamOf)
	}
	kind, ok := strings.CutPrefix(string(scope), "kind:")
	if !ok {
		return nil, nil
	}
	counts, err := s.StateCounts(ctx, c.clock())
	if err != nil {
		return nil, err
	}
	known := append(p.Kinds(), ledger.Each(counts, func(c ledger.StateCount) string { return c.Kind })...)
	switch {
	case slices.Contains(known, kind):
		return nil, nil
	case !policy.NamesKind(kind):
		return nil, usage(fmt.Sprintf("`%s` is not the name of a kind; nothing is held", kind), "a kind is like stripe.charge; hold everything: indoubt hold --all")
	}
	return nil, usage(fmt.Sprintf("neither the policy nor the ledger knows a kind `%s`; nothing is held%s", kind, meant(kind, known)),
		"see `indoubt policy show`, or hold everything: indoubt hold --all")
}

// scoped prepares a decision about a scope or an outage, which the first argument
// names, instead of operations; check refuses it before anything is written.
func (c holdCommand) scoped(ctx context.Context, verb string, args []string, needs needs, flags *decideFlags,
	check func(ledger.Store, *policy.Policy) error) (*decisionRun, error) {
	run, err := deciding(ctx, c.app, verb, flags, false)
	if err == nil && check != nil {
		err = check(run.store, run.policy)
	}
	if err != nil {
		return nil, err
	}
	something := []*ledger.Record{{Operation: ledger.Operation{ID: args[0]}}}
	if err := run.ask(ctx, something, needs); err != nil {
		return nil, err
	}
	items := []ledger.RunItem{{OperationID: args[0]}}
	return run, run.begin(ctx, args, items, "", func(context.Context, ledger.RunItem, string) act.Outcome { return act.Decided(nil) })
}
