package care

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/ui/cli/base"
	"indoubt/ui/cli/rules"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

type adoptFlags struct {
	dryRun, yes      bool
	policy           bool // put in force: one was named
	at, asyncStandby string
}

type adoptCommand struct{ *base.App }

// NewAdopt is `indoubt adopt`.
func NewAdopt(a *base.App) *cobra.Command {
	var flags adoptFlags
	cmd := &cobra.Command{
		Use: "adopt", GroupID: base.GroupCare,
		Short: "Make a copied or moved ledger a ledger of its own; go on after a failover",
		Long: `A ledger remembers its home. A copy, or a file that moved, is only looked at:
two ledgers that both act would send twice. adopt makes this file the one that
acts; make sure that nothing writes to the original any more. What was sent after
its newest entry is not in it, and can be sent again: it says of when that is. So
begins are held from then on: look at the other sides for what was sent last, record
it, then release them. Nothing is checked or released before the policy that was in
force is applied anew: name it here with --policy FILE, or use indoubt policy apply.

A ledger in PostgreSQL notices that its database failed over or was restored: the
newest history may be missing, and nothing is begun or allowed until its owner adopts it.
Who remembers a change that the ledger lacks (a snapshot was put back) has begins held
until then. A server with a standby that no commit waits for is refused: see indoubt init.

For a move with nothing lost, hold begins first: "indoubt hold --all --begins" names the
newest event once nothing is in flight. Where that event is in the ledger and no attempt
began after it, --at adopts it as it is, and only that hold is left to release.`,
		Example: "  indoubt adopt\n  indoubt adopt --at 019f9c2e-7a31-7cc2-9a0f-4b1d2f6a7c11",
		Args:    base.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags.policy = cmd.Flag("policy").Changed
			return adoptCommand{a}.run(cmd.Context(), flags)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.at, "at", "", "the change of the newest event when begins were held: nothing that was sent is missing")
	f.StringVar(&flags.asyncStandby, asyncStandby, "", asyncStandbyHelp)
	f.BoolVar(&flags.dryRun, "dry-run", false, "say what would happen and change nothing")
	f.BoolVarP(&flags.yes, "yes", "y", false, "do not ask")
	return cmd
}

func (c adoptCommand) run(ctx context.Context, flags adoptFlags) error {
	if err := c.MayChange("adopt"); err != nil && !flags.dryRun {
		return err
	}
	s, err := c.LedgerFor(ctx, base.ToLook)
	if err != nil {
		return err
	}
	info, infoErr := s.Info(ctx)
	lost, err := lostSince(ctx, s, c.Clock())
	if err = cmp.Or(infoErr, err); err != nil {
		return err
	}
	name := base.Short(c.LedgerName())
	held := []string{lost, "begins are held until you have looked: " + ledger.HoldScope("all").Release()}
	if flags.at != "" {
		lost = "Nothing that was sent is missing, if event " + flags.at + " is in it and no attempt began after that"
		held = []string{"Nothing that was sent is missing"}
	}
	why, ask, done := info.Copied, "Does nothing write to the original any more?", " is a ledger of its own now"
	if failed := info.Failover.String(); info.Lacks != "" || !info.Failover.At.IsZero() {
		why, ask, done = cmp.Or(why, info.Lacks, failed), "Did you look at the other sides for what was sent last?", " goes on"
	}
	switch _, server := s.(reconcile.Replicated); {
	case flags.asyncStandby != "" && !server:
		return noStandby()
	case why == "" && flags.asyncStandby != "":
		return base.Usage(name+" is at home, there is nothing to adopt", "say it of a ledger that goes on: indoubt init --"+asyncStandby)
	case why == "":
		return c.Done(base.EffectNoop, ledgerJSON(info), func(w *safe.Writer) {
			w.Println(name + " is at home, there is nothing to adopt")
		})
	case flags.dryRun:
		return c.Done(base.EffectWouldUpdate, ledgerJSON(info), func(w *safe.Writer) {
			w.Println("would adopt " + name + ": " + why + ". " + lost)
		})
	case flags.yes:
	case !c.Terminal():
		return base.Usage("without a terminal, adopt needs --yes", "first look: "+ask+" "+lost)
	default:
		c.ErrOut.Println(name + ": " + why + ". " + lost)
		if !c.ConfirmYes(ask) {
			return &base.Failure{Code: "no_person", Message: "nothing was changed"}
		}
	}
	wanted := ""
	if info, wanted, err = c.adopt(ctx, flags, "adopted here: "+why); err != nil {
		return err
	}
	held = append(held, wanted)
	return c.Done(base.EffectUpdated, ledgerJSON(info), func(w *safe.Writer) {
		held[0] = name + done + ". " + held[0]
		for _, line := range slices.DeleteFunc(held, func(line string) bool { return line == "" }) {
			w.Println(line)
		}
	})
}

// adopt makes the ledger the one that acts, with a policy that was named. It says how it is then, and what is to be
// done about its policy.
func (c adoptCommand) adopt(ctx context.Context, flags adoptFlags, reason string) (info ledger.Info, wanted string, err error) {
	var first *policy.Policy
	if flags.policy { // refused before anything is changed
		if first, err = rules.Good(ctx, c.App); err != nil {
			return info, "", err
		}
	}
	c.Close()
	at, err := c.Place()
	if err != nil {
		return info, "", err
	}
	o := c.LedgerOptions()
	o.At, o.AsyncStandby = flags.at, flags.asyncStandby
	if err := at.Adopt(ctx, o); err != nil {
		return info, "", err
	}
	s, err := c.LedgerFor(ctx, base.ToChange.Unless(first == nil))
	if err != nil {
		return info, "", err
	}
	last, err := s.Policy(ctx, ledger.PolicyText{})
	switch {
	case err != nil:
		return info, "", err
	case first != nil && (last.Lapsed || last.Digest != first.Digest()):
		if err := rules.Force(ctx, c.App, s, last, first, reason); err != nil {
			c.ErrOut.Println("adopted " + base.Short(c.LedgerName()) + ", without its policy")
			return info, "", err
		}
		wanted = fmt.Sprintf("%s is in force as number %d", base.Short(first.Path()), last.Number+1)
	case last.Lapsed:
		wanted = "nothing is checked or released before its policy is applied anew: " + ledger.ApplyAnew
	case last.Number == 0 && flags.at == "":
		wanted = "no policy was in force in it, so none has to be applied"
	}
	info, err = s.Info(ctx)
	return info, wanted, err
}

// lostSince says from when on a ledger that is adopted knows nothing, and who was at work in the hour before.
func lostSince(ctx context.Context, s ledger.Store, now time.Time) (string, error) {
	const since = ": what was sent since is not in it, and can be sent again"
	var end time.Time
	began := map[string]int{}
	q := ledger.HistoryQuery{Newest: true, Limit: 1000}
	const most = 100_000 // events that are looked at
	for more, seen := true, 0; more; {
		events, err := s.History(ctx, q)
		if err != nil {
			return "", err
		}
		seen += len(events)
		more = len(events) == q.Limit && seen < most
		for _, e := range events {
			if q.Before = e.Seq; e.OperationID == "" {
				continue
			}
			if end.IsZero() {
				end = e.At
			}
			if e.At.Before(end.Add(-time.Hour)) {
				more = false
				break
			}
			if e.Verb == "begin" {
				began[e.Actor.Name]++
			}
		}
	}
	if end.IsZero() {
		return "It is empty" + since, nil
	}
	said := "Its newest entry is of " + ticket.Ago(now.Sub(end)) + ", " + end.UTC().Format(time.RFC3339) + since
	var who []string
	for _, name := range slices.Sorted(maps.Keys(began)) {
		who = append(who, name+" "+ledger.Count(began[name]))
	}
	if len(who) > 0 {
		said += ". Begun in the hour before, by: " + strings.Join(who, ", ")
	}
	return said, nil
}
