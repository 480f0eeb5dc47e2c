package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

type checkCommand struct{ *base.App }

func newCheckCommand(a *base.App) *cobra.Command {
	return &cobra.Command{
		Use: "check [ID…]", GroupID: base.GroupLook,
		Short: "Ask the other side now whether writes in doubt landed",
		Long: `Ask the other side whether writes in doubt landed. With ids those are checked
now; without, everything that is due and that no engine or console checks is
checked once. It sends nothing. To go on checking, run ` + "`indoubt engine`" + `.

Exit 6 when a write that was named is still in doubt; without ids, when any is.`,
		Example:           "  indoubt check\n  indoubt check 0198c1de-7a3b",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c := checkCommand{a}
			s, err := c.open(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return c.now(cmd.Context(), s, args)
			}
			return c.once(cmd.Context(), s)
		},
	}
}

// open opens the ledger for checks, by a policy that can be read.
func (c checkCommand) open(ctx context.Context) (ledger.Store, error) {
	if err := c.MayChange("check"); err != nil {
		return nil, err
	}
	s, err := c.Rules().Ledger(ctx, base.ToCheck)
	if err != nil {
		return nil, err
	}
	return s, base.Copied(ctx, s)
}

func (c checkCommand) now(ctx context.Context, s ledger.Store, args []string) error {
	p, err := c.Policy()
	if err != nil {
		return err
	}
	engine := c.Engine(s, c.Rules().InForce, false, nil)
	defer engine.Claim()()
	run := &decisionRun{app: c.App, store: s, policy: p}
	results := make([]resultJSON, 0, len(args))
	for _, arg := range args {
		rec, err := base.ReadRecord(ctx, c.App, s, arg)
		if err != nil {
			results = append(results, failedResult(arg, base.AsFailure(err)))
			continue
		}
		if !c.JSON && base.IsTerminal(c.ErrOut) {
			c.ErrOut.Printf("checking %s …\n", base.See(p, rec).Title())
		}
		r, err := c.checkOne(ctx, engine, run, rec.Operation.ID)
		if err != nil {
			r = run.failed(ctx, rec.Operation.ID, err)
		}
		r.Asked = arg
		results = append(results, r)
	}
	return finish(c.App, results)
}

func (c checkCommand) checkOne(ctx context.Context, engine *reconcile.Engine, run *decisionRun, id string) (resultJSON, error) {
	found, err := engine.ReadNow(ctx, id)
	if err != nil {
		return resultJSON{}, err
	}
	effect := base.EffectUpdated
	if !found.Read.Verdict.Tells() {
		effect = base.EffectNoop
	}
	out := run.result(ctx, id, effect, safe.Text{})
	out.Read = new(base.ReadJSON(found.Read))
	o := found.Operation
	out.line = safe.Say("%s@%d  %s  %s", o.ID, o.Version, o.State, ticket.Verdict(found.Read))
	if o.State == ledger.Uncertain {
		out.OK = false
		out.failure = &base.Failure{Code: "in_doubt", Message: "still in doubt: " + found.Read.Reason, Hint: "see what can be done: indoubt show " + o.ID}
		if at := found.Read.ProofAt; at.After(c.Clock()) && at.Before(ledger.Never) {
			out.failure.Hint = "a check can tell from " + base.ClockTime(at)
		}
		out.Error = out.failure.JSON()
	}
	return out, nil
}

type summaryJSON struct {
	reconcile.Summary
	InDoubt int `json:"in_doubt"` // all that is
	// Others that check what this one left to them.
	Leaders []leaderJSON `json:"leaders,omitempty"`
}

type leaderJSON struct {
	Scope  string `json:"scope"`
	Holder string `json:"holder"`
}

func (c checkCommand) once(ctx context.Context, s ledger.Store) error {
	if os.Getenv("GOGC") == "" { // it soon ends: some memory for less work
		debug.SetGCPercent(400)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	live := c.WatchPolicy(ctx, func(line string) { c.ErrOut.Println(line) }) // with many it takes long
	engine := c.Engine(s, live.InForce, false, nil)
	sum, err := engine.Once(ctx, func(r reconcile.ReadResult, err error) {
		if c.JSON {
			return
		}
		said := ticket.Verdict(r.Read)
		if err != nil {
			said = safe.Of(err.Error())
		}
		c.ErrOut.Printf("%s  %s\n", r.Operation.ID, said)
	})
	if err != nil {
		return err
	}
	data := summaryJSON{Summary: sum}
	states, err := s.StateCounts(ctx, c.Clock())
	if err != nil {
		return err
	}
	for _, n := range states {
		if n.State == ledger.Uncertain {
			data.InDoubt += n.Count
		}
	}
	for _, l := range sum.Leaders {
		if l.Scope != ledger.LeadLedger {
			data.Leaders = append(data.Leaders, leaderJSON{l.Scope, l.Holder})
		}
	}
	effect, found := base.EffectNoop, []string(nil)
	for _, verdict := range slices.Sorted(maps.Keys(sum.Read)) {
		found = append(found, fmt.Sprintf("%s %s", ledger.Count(sum.Read[verdict]), ticket.VerdictWord(verdict)))
		if verdict.Tells() {
			effect = base.EffectUpdated
		}
	}
	write := func(w *safe.Writer) {
		for _, l := range data.Leaders {
			w.Printf("%s is left to who checks it: %s\n", ticket.Scope(ledger.HoldScope(l.Scope)), l.Holder)
		}
		if len(found) == 0 {
			w.Println("nothing is due")
		} else {
			w.Printf("checked: %s\n", strings.Join(found, ", "))
		}
		if sum.Skipped+sum.Errors > 0 {
			w.Printf("%s skipped (put off, or they moved), %s errors\n", ledger.Count(sum.Skipped), ledger.Count(sum.Errors))
		}
	}
	if data.InDoubt == 0 {
		return c.Done(effect, data, write)
	}
	return &base.Failure{Code: "in_doubt", Message: fmt.Sprintf("%s in doubt", ledger.Count(data.InDoubt)), Hint: "see them: indoubt list state:uncertain",
		Effect: effect, Data: data, Text: write}
}
