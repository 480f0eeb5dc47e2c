package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/act"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

type runsCommand struct {
	*base.App
	reason string
}

func newRunsCommand(a *base.App) *cobra.Command {
	var all bool
	var limit int
	cmd := &cobra.Command{
		Use: "runs [ID]", GroupID: base.GroupDecide, Short: "List bulk runs, and what became of each item of one",
		Long: `A decision over several operations is a run: its set is frozen in the ledger
before the first change, and what becomes of each item is written down as it
comes. So another person can go on with a run that waits, was paused at its console, has
stopped by itself or was broken off, from another console or with runs resume.
An item that was sent is never sent again. A run that a person stopped is over:
to go on with what is left is a new decision.

A run that sends makes three sends and waits for a person; then ten a second. It
stops at answers that failed or are unclear: one of the first three, later two.
Without an ID, runs that are not finished are listed.`,
		Example: "  indoubt runs\n  indoubt runs 0198c1de\n  indoubt runs resume 0198c1de --as sam",
		Args:    base.MaxArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && cmd.Flags().Changed("limit") {
				return base.Usage("--limit goes with the list of runs", "leave out the ID, or --limit")
			} else if len(args) == 1 {
				return runsCommand{App: a}.show(cmd.Context(), args[0])
			}
			return runsCommand{App: a}.list(cmd.Context(), !all, limit)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that are finished")
	cmd.Flags().IntVar(&limit, "limit", 100, "at most this many, the newest")
	for _, sub := range []struct {
		verb, short string
		do          func(runsCommand, context.Context, string) error
	}{
		{"resume", "Go on with a run: a new decision", runsCommand.resume},
		{"stop", "End a run for good: what is left stays as it is", runsCommand.stop},
	} {
		c := &runsCommand{App: a}
		one := &cobra.Command{Use: sub.verb + " ID", Short: sub.short, Args: base.Exactly("the ID of a run"), ValidArgsFunction: cobra.NoFileCompletions,
			RunE: func(cmd *cobra.Command, args []string) error {
				if err := a.MayChange("runs " + sub.verb); err != nil {
					return err
				}
				return sub.do(*c, cmd.Context(), args[0])
			}}
		if sub.verb != "resume" {
			one.Flags().StringVar(&c.reason, "reason", "", "why; kept in the history")
		}
		cmd.AddCommand(one)
	}
	return cmd
}

// bulkJSON is a run, and with show what became of its items.
type bulkJSON struct {
	ID        string              `json:"id"`
	Verb      string              `json:"verb"`
	State     ledger.RunState     `json:"state"`
	Why       string              `json:"why"`
	Reason    string              `json:"reason"`
	Outage    *string             `json:"outage"`
	Actor     string              `json:"actor"`
	Driver    *string             `json:"driver"`
	Size      int                 `json:"size"`
	Left      int                 `json:"left"`
	Tally     map[ledger.Came]int `json:"tally"`
	CreatedAt *string             `json:"created_at"`
	Finished  *string             `json:"finished_at"`
	Items     []bulkItemJSON      `json:"items,omitempty"`
}

type bulkItemJSON struct {
	Operation string      `json:"operation"`
	Version   int64       `json:"version"`
	Title     string      `json:"title"`
	Came      ledger.Came `json:"came"`
	Word      string      `json:"word"`
	By        string      `json:"by"`
	At        *string     `json:"at"`
}

func (c runsCommand) json(r ledger.DecisionRun, items []ledger.RunItem) bulkJSON {
	return bulkJSON{ID: r.ID, Verb: r.Verb, State: r.State, Why: r.Why, Reason: r.Terms.Reason, Outage: base.Text(r.Terms.Outage),
		Actor: r.Actor.Name, Driver: base.Text(r.DrivenBy(c.Clock())), Size: r.Size, Left: r.Left(), Tally: r.Tally,
		CreatedAt: base.Moment(r.CreatedAt), Finished: base.Moment(r.FinishedAt),
		Items: base.Each(items, func(it ledger.RunItem) bulkItemJSON {
			return bulkItemJSON{it.OperationID, it.Version, it.Title, it.Came, it.Word, it.By, base.Moment(it.At)}
		})}
}

func (c runsCommand) list(ctx context.Context, open bool, limit int) error {
	if err := base.AtMost(limit); err != nil {
		return err
	}
	s, err := c.LedgerFor(ctx, base.ToLook)
	if err != nil {
		return err
	}
	runs, err := s.Runs(ctx, ledger.RunQuery{Open: open, Limit: limit + 1})
	if err != nil {
		return err
	}
	runs, cut := base.Within(c.App, runs, limit)
	out := base.Each(runs, func(r ledger.DecisionRun) bulkJSON { return c.json(r, nil) })
	return c.Done("", map[string]any{"runs": out, "cut": cut}, func(w *safe.Writer) {
		if len(runs) == 0 && open {
			w.Println("no run is open; --all lists those that are finished")
		}
		for _, r := range runs {
			w.Printf("%s  %s  %s  %s of %s by %s  %s\n", r.ID, base.ClockTime(r.CreatedAt), c.state(r), r.Verb, ledger.Count(r.Size), ticket.Who(r.Actor.Name), act.Account{Record: r}.Tally())
		}
	})
}

func (c runsCommand) state(r ledger.DecisionRun) safe.Text {
	return safe.Say("%s%s", act.State(r, c.Clock()), ticket.Colon(r.Why))
}

// find opens the ledger and finds the run whose id begins so.
func (c runsCommand) find(ctx context.Context, id string, why base.Purpose) (ledger.Store, ledger.DecisionRun, error) {
	s, err := c.LedgerFor(ctx, why)
	if err != nil {
		return nil, ledger.DecisionRun{}, err
	}
	runs, err := s.Runs(ctx, ledger.RunQuery{ID: id, Limit: 2})
	switch {
	case err != nil:
		return nil, ledger.DecisionRun{}, err
	case len(runs) == 0 || id == "":
		return nil, ledger.DecisionRun{}, &base.Failure{Code: "not_found", Message: fmt.Sprintf("no run begins with %q", id), Hint: "`indoubt runs --all` lists them"}
	case len(runs) > 1:
		return nil, ledger.DecisionRun{}, &base.Failure{Code: "usage", Message: fmt.Sprintf("several runs begin with %q", id), Hint: "write more of the id"}
	}
	return s, runs[0], nil
}

func (c runsCommand) show(ctx context.Context, id string) error {
	s, run, err := c.find(ctx, id, base.ToLook)
	if err != nil {
		return err
	}
	data, text, err := c.tell(ctx, s, run)
	if err != nil {
		return err
	}
	return c.Done("", data, text)
}

// tell accounts for every item of a run.
func (c runsCommand) tell(ctx context.Context, s ledger.Store, run ledger.DecisionRun) (bulkJSON, func(w *safe.Writer), error) {
	a, err := act.Read(ctx, s, run.ID)
	run = a.Record
	return c.json(run, a.Items), func(w *safe.Writer) {
		w.Printf("%s of %s by %s, %s: %s\n", run.Verb, ledger.Count(run.Size), ticket.Who(run.Actor.Name), base.ClockTime(run.CreatedAt), c.state(run))
		w.Println(a.Sum(c.Clock()))
		for _, it := range a.Exceptions() {
			w.Printf("  %s  %s\n", it.OperationID, act.Line(run.Verb, it).Text)
		}
	}, err
}

func (c runsCommand) stop(ctx context.Context, id string) error {
	s, run, err := c.find(ctx, id, base.ToChange)
	if err != nil {
		return err
	}
	if err = act.Halt(ctx, s, run, c.Actor(), c.reason, true); err != nil {
		return err
	}
	data, text, err := c.tell(ctx, s, run)
	if err != nil {
		return err
	}
	effect := base.EffectUpdated
	if data.State == run.State && (data.Finished == nil) == run.Open() {
		effect = base.EffectNoop
	}
	return c.Done(effect, data, text)
}

// resume drives a run on from here. A run that was to be looked at goes on, because
// the person who says so has looked.
func (c runsCommand) resume(ctx context.Context, id string) error {
	s, run, err := c.find(ctx, id, base.ToChange)
	if err != nil {
		return err
	}
	if _, err := c.Policy(); err != nil { // never send under a policy that cannot be read
		return err
	}
	if err := base.Copied(ctx, s); err != nil {
		return err
	}
	p := c.PolicyToLookBy()
	if run.Terms.Policy != "" && run.Terms.Policy != p.Digest() {
		c.Warnf("the policy has changed since this was decided: the run stops before what would be sent otherwise now")
	}
	rules := c.Rules()
	hands := act.Hands{Store: s, Engine: c.Engine(s, rules.InForce, false, nil), Actor: c.Actor(),
		Looks: func(kind string) ledger.Looks { return p.Kind(kind).Looks }}
	step := hands.Step(run)
	each := func(ctx context.Context, it ledger.RunItem, change string) act.Outcome {
		if err := rules.Again(ctx); err != nil && run.Sends() {
			return act.Outcome{Left: err}
		}
		return step(ctx, it, change)
	}
	r := &decisionRun{app: c.App, store: s, policy: p, verb: run.Verb, flags: &decideFlags{}, actor: c.Actor(), Run: act.Resume(s, run, c.Actor(), each)}
	r.carry(ctx)
	if err := r.Err(); err != nil {
		return err
	}
	data, text, err := c.tell(ctx, s, r.Record)
	if err != nil {
		return err
	}
	if r.Record.State == ledger.RunDone {
		return c.Done(base.EffectUpdated, data, text)
	}
	f := base.AsFailure(r.left())
	f.Effect, f.Data, f.Text = base.EffectUpdated, data, text
	return f
}
