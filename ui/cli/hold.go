package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/act"
	"indoubt/ui/cli/base"
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
			return "", base.Usage("the kind is empty", "")
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
		return "", base.Usage("name one of KIND, --downstream D and --all", "")
	}
	return out[0], nil
}

type holdCommand struct{ *base.App }

func newHoldCommand(a *base.App) *cobra.Command {
	var flags decideFlags
	cmd := ofScope(&cobra.Command{
		Use:   "hold [KIND|--downstream D|--all]",
		Short: "Stop every repeat, retry and bulk run at once, and first sends where that is asked",
		Long: `Stop every recorder's own repeat, every permission to send again and every bulk run
for a kind, a downstream or everything. Checks go on, and pipelines with what is new
or known to have had no effect. A hold on the same scope
is replaced. A kind that neither the policy nor the ledger knows is refused as a slip.

With --begins it stops what is new as well: for maintenance, for a restore, or because
the other side asks for it. Every recorder says that nothing was sent, and to come again.
What is in flight goes on and is settled; the command waits until nothing is, and prints
the ledger's newest event. Ctrl-C ends the waiting, and leaves the hold. Begins stay held
until that is released, also where another hold takes its place.`,
		Example: `  indoubt hold --all --reason 'stripe outage, sam is on it'
  indoubt hold stripe.charge --reason 'wrong amounts' --until 2h
  indoubt hold --downstream stripe --begins --reason 'their support says stop'`,
	}, a, &flags, holdCommand.hold)
	cmd.Flags().StringVar(&flags.until, "until", "", "a duration (2h), a time of day (06:00) or an RFC 3339 time; without it, until released")
	cmd.Flags().BoolVar(&flags.begins, "begins", false, "first sends, too, and wait until nothing is in flight")
	return cmd
}

func newReleaseCommand(a *base.App) *cobra.Command {
	var flags decideFlags
	cmd := ofScope(&cobra.Command{
		Use:   "release [KIND|--downstream D|--all]",
		Short: "Lift a hold; go on after an adoption",
		Long: `Lift a hold, and say how many sends that lets loose.

A ledger that was adopted may have lost what was sent last. So once its begins are released,
each whose key is unknown, or failed before the adoption, is looked for first, for as long as
--look-first says: it is recorded as sent before, and a check tells whether that landed. Then
its answer is given, or it begins. Choose a time that is no shorter than what queues and
clients keep. Kinds that are safe to repeat, or replace what is there, pass, and so does what
has no key. A kind whose check does not compare the token stays held. Once a person has
looked at the other side for what was sent last, --look-first 0 lets one kind go.`,
		Example: `  indoubt release --all --reason 'outage over'
  indoubt release --all --look-first 3d --reason 'restored; the queue keeps 2 days'
  indoubt release mail.send --look-first 0 --reason 'looked in the outbox: nothing is missing'`,
	}, a, &flags, holdCommand.release)
	cmd.Flags().StringVar(&flags.lookFirst, "look-first", "",
		"after an adoption: for how long begins are looked for first; 24h, or longer where keys are remembered for longer")
	return cmd
}

// ofScope has a command take what it is about: a kind, a downstream or everything.
func ofScope(cmd *cobra.Command, a *base.App, flags *decideFlags,
	do func(holdCommand, context.Context, ledger.HoldScope, *decideFlags) error) *cobra.Command {
	var which scopeFlags
	cmd.GroupID, cmd.Args, cmd.ValidArgsFunction = base.GroupDecide, base.MaxArgs(1), cobra.NoFileCompletions
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
	return map[string]any{"hold": map[string]any{"scope": h.Scope, "begins": h.Begins, "kinds": base.List(h.Kinds), "actor": h.Actor, "reason": h.Reason,
		"created_at": base.Moment(h.CreatedAt), "until": base.Moment(h.Until)}}
}

func (c holdCommand) hold(ctx context.Context, scope ledger.HoldScope, flags *decideFlags) error {
	now := c.Clock()
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
	h := ledger.Hold{Scope: scope, Begins: flags.begins, Kinds: kinds, Actor: run.actor, Reason: flags.reason, Until: ends, ChangeID: run.Record.ChangeID(run.Items[0])}
	holds, err := run.store.Holds(ctx, now)
	if err != nil {
		return err
	}
	standing := slices.IndexFunc(holds, func(h ledger.Hold) bool { return h.Scope == scope })
	effect := base.EffectOf(standing < 0, flags.dryRun)
	if standing >= 0 {
		h.Begins = h.Begins || holds[standing].Begins
	}
	if flags.dryRun {
		return c.Done(effect, holdJSON(h), func(w *safe.Writer) { w.Println("would hold " + string(scope)) })
	}
	if run.Record.Done() > 0 || standing >= 0 && holds[standing].ChangeID == h.ChangeID {
		effect = base.EffectNoop
	} else if err := run.store.Hold(ctx, h); err != nil {
		return err
	}
	run.carry(ctx)
	line := "holding " + string(scope)
	if !ends.IsZero() {
		line += " until " + base.ClockTime(ends)
	}
	if !h.Begins {
		return c.Done(effect, holdJSON(h), func(w *safe.Writer) { w.Println(line + ": nothing is repeated, and no retry is allowed") })
	}
	c.ErrOut.Println(line + ": nothing is begun, repeated or allowed")
	newest, err := c.standstill(ctx, run.store, h)
	if err != nil {
		return err
	}
	data := holdJSON(h)
	data["newest"] = map[string]any{"seq": newest.Seq, "change": newest.ID, "at": base.Moment(newest.At)}
	return c.Done(effect, data, func(w *safe.Writer) {
		w.Printf("nothing is in flight. The newest event is %d, change %s, at %s\n", newest.Seq, newest.ID, base.ClockTime(newest.At))
	})
}

// standstill waits until nothing that a hold covers is in flight, and returns the newest event then.
func (c holdCommand) standstill(ctx context.Context, s ledger.Store, h ledger.Hold) (newest ledger.Event, err error) {
	changed, said, reads := s.Watch(ctx), -1, context.WithoutCancel(ctx) // who stops the waiting is told of what
	for {
		states, err := s.StateCounts(reads, c.Clock())
		if err != nil {
			return newest, err
		}
		flying := 0
		for _, of := range states {
			if of.State == ledger.Pending && h.Covers(of.Kind, c.Clock()) {
				flying += of.Count
			}
		}
		if flying == 0 {
			events, err := s.History(reads, ledger.HistoryQuery{Newest: true, Limit: 1})
			return append(events, newest)[0], err
		}
		if flying != said {
			c.ErrOut.Printf("%d in flight; waiting for their answers or their deadlines. Ctrl-C leaves the hold\n", flying)
			said = flying
		}
		select {
		case <-changed:
		case <-time.After(time.Second): // a deadline passes without an event
		case <-ctx.Done():
			return newest, &base.Failure{Code: "in_progress", Message: fmt.Sprintf("%s is held, and %d are still in flight", h.Scope, flying),
				Hint: "indoubt list lane:in_flight"}
		}
	}
}

func (c holdCommand) release(ctx context.Context, scope ledger.HoldScope, flags *decideFlags) error {
	length, err := lookFirstOf(flags.lookFirst, scope)
	if err != nil {
		return err
	}
	lift := ledger.Lift{Scope: scope, Reason: flags.reason, LookFirst: length}
	known := func(s ledger.Store, p *policy.Policy) (err error) {
		if length != nil { // of a slip of the pen the real kind would stay held
			_, err = c.covered(ctx, s, p, scope)
		}
		return err
	}
	run, err := c.scoped(ctx, "release", []string{string(scope)}, needs{reason: true, silent: true}, flags, known)
	if err != nil {
		return err
	}
	data := map[string]any{"scope": scope}
	holds, err := run.store.Holds(ctx, c.Clock())
	if err != nil {
		return err
	}
	looks, err := c.looksFirst(ctx, run, &lift)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(holds), func(h ledger.Hold) bool { return h.Scope == scope })
	switch standing := len(others) < len(holds) || looks; {
	case run.Record.Done() > 0 || !standing && len(others) == 0:
		run.carry(ctx)
		return c.Done(base.EffectNoop, data, func(w *safe.Writer) { w.Println(string(scope) + " is not held") })
	case !standing: // it may be another one that was meant
		run.carry(ctx)
		return &base.Failure{Code: "not_found", Message: string(scope) + " is not held; nothing was released", More: held(others),
			Hint: others[0].Scope.Release()}
	case flags.dryRun:
		return c.Done(base.EffectWouldUpdate, data, func(w *safe.Writer) { w.Println("would release " + string(scope)) })
	}
	lift.Actor, lift.ChangeID = run.actor, run.Record.ChangeID(run.Items[0])
	if err := run.store.LiftHold(ctx, lift); err != nil {
		return err
	}
	run.carry(ctx)
	loose := 0
	for _, h := range holds {
		if h.Scope == scope && err == nil {
			loose, err = c.letLoose(ctx, run.store, h)
		}
	}
	if err != nil {
		return err
	}
	data["allowed"] = loose
	lines := held(others)
	if looks {
		said, err := c.lookedFor(ctx, run, data)
		if err != nil {
			return err
		}
		lines = append(said, lines...)
	}
	return c.Done(base.EffectUpdated, data, func(w *safe.Writer) {
		w.Println("released " + string(scope))
		if loose > 0 {
			w.Printf("%d allowed sends go out when their pipelines come\n", loose)
		}
		for _, line := range lines {
			w.Println(line)
		}
	})
}

// letLoose is how many sends are allowed that a hold kept back.
func (c holdCommand) letLoose(ctx context.Context, s ledger.Store, h ledger.Hold) (n int, err error) {
	allowed, err := ledger.ParseFilter("lane:" + string(ledger.LaneUnfetched))
	for after, more := "", err == nil; more; more = after != "" && err == nil {
		var page ledger.Page
		page, err = s.Page(ctx, ledger.Query{Tab: ledger.TabAll, Filter: allowed, Now: c.Clock(), After: after, Limit: 500})
		for _, row := range page.Rows {
			if h.Covers(row.Kind, c.Clock()) {
				n++
			}
		}
		after = page.Next
	}
	return n, err
}

func held(holds []ledger.Hold) []string {
	return ledger.Each(holds, func(h ledger.Hold) string {
		begins := ""
		if h.Begins {
			begins = ", begins too"
		}
		return fmt.Sprintf("held is %s%s, by %s: %s", h.Scope, begins, h.Actor.Name, h.Reason)
	})
}

// covered are the kinds that a hold on a downstream names. It refuses a downstream or a
// kind that neither the policy nor the ledger knows: a slip of the pen would leave
// everything running.
func (c holdCommand) covered(ctx context.Context, s ledger.Store, p *policy.Policy, scope ledger.HoldScope) ([]string, error) {
	if downstream, ok := strings.CutPrefix(string(scope), "downstream:"); ok {
		if p.Downstream(downstream) == nil {
			return nil, base.Usage(fmt.Sprintf("the policy has no downstream `%s`%s", downstream, base.Meant(downstream, p.Downstreams())), "it has: "+strings.Join(p.Downstreams(), " "))
		}
		return act.KindsOf(ctx, s, c.Clock(), scope, p.Kinds(), p.DownstreamOf)
	}
	kind, ok := strings.CutPrefix(string(scope), "kind:")
	if !ok {
		return nil, nil
	}
	counts, err := s.StateCounts(ctx, c.Clock())
	if err != nil {
		return nil, err
	}
	known := append(p.Kinds(), ledger.Each(counts, func(c ledger.StateCount) string { return c.Kind })...)
	switch {
	case slices.Contains(known, kind):
		return nil, nil
	case !policy.NamesKind(kind):
		return nil, base.Usage(fmt.Sprintf("`%s` is not the name of a kind; nothing was changed", kind), "a kind is like stripe.charge; everything is --all")
	}
	return nil, base.Usage(fmt.Sprintf("neither the policy nor the ledger knows a kind `%s`; nothing was changed%s", kind, base.Meant(kind, known)),
		"see `indoubt policy show`; everything is --all")
}

// scoped prepares a decision about a scope or an outage, which the first argument
// names, instead of operations; check refuses it before anything is written.
func (c holdCommand) scoped(ctx context.Context, verb string, args []string, needs needs, flags *decideFlags,
	check func(ledger.Store, *policy.Policy) error) (*decisionRun, error) {
	run, err := deciding(ctx, c.App, verb, flags, false)
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
