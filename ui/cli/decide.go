package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/act"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
)

type decideFlags struct {
	reason         string
	dryRun         bool
	yes            bool
	idempotencyKey string

	receipts  []string
	reference string
	truth     string // ack
	until     string
	begins    bool   // hold
	lookFirst string // release
	request   string // retry: the digest of what may be sent
	key       bool   // redact
}

func (d *decideFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.reason, "reason", "", "why; kept in the history")
	f.BoolVar(&d.dryRun, "dry-run", false, "say what would happen and change nothing")
	f.BoolVarP(&d.yes, "yes", "y", false, "do not ask")
	f.StringVar(&d.idempotencyKey, "idempotency-key", "", "the same command with the same key again changes nothing more")
}

// target is one argument of a deciding command.
type target struct {
	arg     string
	id      string // as written, then the whole id
	version int64  // 0: not given
}

// targets parses ID[@VERSION] arguments.
func targets(args []string) ([]target, error) {
	out := make([]target, 0, len(args))
	seen := map[string]bool{}
	for _, arg := range args {
		id, version, given := base.CutVersion(strings.TrimSpace(arg))
		t := target{arg: arg, id: id, version: version}
		if id == "" {
			return nil, base.Usage(fmt.Sprintf("%q is not an ID or ID@VERSION", arg), "`indoubt list` prints ID@VERSION")
		}
		if given && version < 1 || !given && strings.Contains(id, "@") {
			return nil, base.Usage(fmt.Sprintf("%q does not end with a version", arg), "`indoubt list` prints ID@VERSION")
		}
		if seen[t.id] {
			return nil, base.Usage(fmt.Sprintf("%s is named twice", id), "")
		}
		seen[t.id] = true
		out = append(out, t)
	}
	return out, nil
}

// resultJSON is what became of one operation: the operation as it is now, and
// how that came about.
type resultJSON struct {
	*base.OperationJSON
	Asked  string          `json:"asked"` // the argument
	OK     bool            `json:"ok"`
	Effect string          `json:"effect,omitempty"`
	Error  *base.ErrorJSON `json:"error,omitempty"`
	Did    string          `json:"did,omitempty"`  // retry: sent, landed_already, allowed or refused
	Read   *ledger.Read    `json:"read,omitempty"` // check, and retry where it checked first
	Plan   *planJSON       `json:"plan,omitempty"` // retry

	failure *base.Failure
	line    safe.Text   // what is printed of it
	came    act.Outcome // of a retry
}

// step decides about one operation. It is given what was seen of it and a change id,
// which stay the same when the command is repeated.
type step func(ctx context.Context, run *decisionRun, rec ledger.Record, seen ledger.RunItem, changeID string) (resultJSON, error)

// decisionRun is one deciding command under way.
type decisionRun struct {
	app    *base.App
	store  ledger.Store
	policy *policy.Policy
	verb   string
	flags  *decideFlags
	actor  ledger.Actor
	*act.Run
}

// decideAll runs one verb over several operations: what was seen is looked up and
// fixed first, then the run is recorded, then each is decided by itself. The
// worst exit code wins.
func decideAll(ctx context.Context, a *base.App, verb string, args []string, flags *decideFlags, needs needs, do step) error {
	all, err := targets(args)
	if err != nil {
		return err
	}
	if !a.Terminal() && needs.version {
		for _, t := range all {
			if t.version == 0 {
				return base.Usage(fmt.Sprintf("without a terminal, %s needs the version that was seen: %s@VERSION", verb, t.arg), "`indoubt show "+t.arg+"` and `indoubt list` print it")
			}
		}
	}
	run, err := deciding(ctx, a, verb, flags, needs.plan != nil)
	if err != nil {
		return err
	}
	results := make([]resultJSON, len(all))
	found := run.look(ctx, all, results, needs)
	if err := run.ask(ctx, found, needs); err != nil {
		return err
	}
	items, outages, at := []ledger.RunItem{}, []string{}, map[string]int{} // of each operation, the argument that named it
	for i, rec := range found {
		if rec != nil {
			o := rec.Operation
			it := ledger.RunItem{OperationID: o.ID, Version: all[i].version, Kind: o.Kind, Title: base.See(run.policy, *rec).Row.Title}
			if needs.plan != nil {
				needs.plan(ctx, run, &it)
			}
			items = append(items, it)
			outages = append(outages, rec.Row().Outage())
			at[o.ID] = i
		}
	}
	if len(items) == 0 { // nothing to record, and nothing to end
		return finish(a, results)
	}
	err = run.begin(ctx, args, items, ledger.OneOutage(outages), func(ctx context.Context, it ledger.RunItem, changeID string) act.Outcome {
		i, named := at[it.OperationID]
		if !named { // of a run that was recorded before: its result says why it was not found
			return act.Outcome{Came: ledger.CameSkipped, Word: "it was not found"}
		}
		r, err := do(ctx, run, *found[i], it, changeID)
		came := r.came
		if came.Came == "" && came.Left == nil {
			came = act.Decided(err)
		}
		if err != nil {
			r = run.failed(ctx, it.OperationID, err)
		}
		r.Asked = all[i].arg
		results[i] = r
		return came
	})
	if err != nil {
		return err
	}
	run.known(ctx, at, all, results)
	run.carry(ctx)
	run.known(ctx, at, all, results)
	for id, i := range at {
		if results[i].Asked == "" {
			results[i] = run.failed(ctx, id, run.left())
			results[i].Asked = all[i].arg
		}
	}
	return finish(a, results)
}

// known gives the results of items that were done, and not by this command.
func (r *decisionRun) known(ctx context.Context, at map[string]int, all []target, results []resultJSON) {
	for _, it := range r.Items {
		i, named := at[it.OperationID]
		if !named || results[i].Asked != "" || it.Came == "" || it.Came == ledger.CameHeld {
			continue
		}
		rec, err := r.store.Read(context.WithoutCancel(ctx), ledger.Locator{ID: it.OperationID})
		if it.Came == ledger.CameUnclear && err == nil && rec.State() == ledger.Uncertain {
			results[i] = r.failed(ctx, it.OperationID, &base.Failure{Code: "in_doubt", Message: "sent before, and in doubt: " + it.Word,
				Hint: "see indoubt show " + it.OperationID})
			results[i].Asked = all[i].arg
			continue
		}
		results[i] = r.result(context.WithoutCancel(ctx), it.OperationID, base.EffectNoop, safe.Say("%s: done before, nothing was %s", it.OperationID, map[bool]string{true: "sent", false: "changed"}[r.Record.Sends()]))
		results[i].Asked = all[i].arg
	}
}

// deciding opens the ledger for a verb, for a rehearsal only to look.
func deciding(ctx context.Context, a *base.App, verb string, flags *decideFlags, sends bool) (*decisionRun, error) {
	if err := a.MayChange(verb); err != nil && !flags.dryRun {
		return nil, err
	}
	s, err := a.LedgerFor(ctx, base.ToChange.Unless(flags.dryRun))
	if err != nil {
		return nil, err
	}
	if err := base.Copied(ctx, s); err != nil {
		return nil, err
	}
	if sends && !flags.dryRun { // never under a policy that cannot be read
		if _, err := a.Policy(); err != nil {
			return nil, err
		}
	}
	return &decisionRun{app: a, store: s, policy: a.PolicyToLookBy(), verb: verb, flags: flags, actor: a.Actor()}, nil
}

// needs is what a verb asks of the one who decides.
type needs struct {
	reason  bool // or a receipt
	version bool // a note does without
	silent  bool // the verb shows and asks by itself

	shows func(ctx context.Context, run *decisionRun, found []*ledger.Record) error // and asks, where it does so beforehand
	plan  func(ctx context.Context, run *decisionRun, it *ledger.RunItem)           // what it would do; nil: nothing that changes
}

// look finds every operation and fixes the version that was seen. What is not
// found is a result already.
func (r *decisionRun) look(ctx context.Context, all []target, results []resultJSON, needs needs) []*ledger.Record {
	found := make([]*ledger.Record, len(all))
	taken := map[string]bool{}
	for i, t := range all {
		rec, err := base.ReadRecord(ctx, r.app, r.store, t.id)
		if err == nil && taken[rec.Operation.ID] {
			err = base.Usage(t.arg+" is an operation that was named before", "")
		}
		if err != nil {
			results[i] = failedResult(t.arg, base.AsFailure(err))
			continue
		}
		taken[rec.Operation.ID] = true
		if t.version == 0 && needs.version {
			all[i].version = rec.Operation.Version
		}
		found[i] = &rec
	}
	return found
}

// ask shows a person what is about to be decided where no version says that
// they saw it, and asks for a reason that is missing.
func (r *decisionRun) ask(ctx context.Context, found []*ledger.Record, needs needs) error {
	a := r.app
	if !slices.ContainsFunc(found, func(rec *ledger.Record) bool { return rec != nil }) {
		return nil
	}
	if needs.reason && len(r.flags.receipts) == 0 && strings.TrimSpace(r.flags.reason) == "" {
		if !a.Terminal() {
			return base.Usage(r.verb+" needs a reason", "add --reason TEXT")
		}
		reason, err := a.Ask("Reason: ")
		if err != nil || reason == "" {
			return base.Usage(r.verb+" needs a reason; nothing was changed", "add --reason TEXT")
		}
		r.flags.reason = reason
	}
	if needs.shows != nil {
		return needs.shows(ctx, r, found)
	}
	if !a.Terminal() || needs.silent || r.flags.yes || r.flags.dryRun || !needs.version {
		return nil
	}
	for _, rec := range found {
		if rec != nil {
			v := base.See(r.policy, *rec)
			landed, _ := v.Landed()
			a.ErrOut.Printf("%s@%d  %s  %s  %s\n", v.Row.ID, v.Row.Version, v.State(), v.Title(), landed)
		}
	}
	if !a.ConfirmYes(strings.ToUpper(r.verb[:1]) + r.verb[1:] + "?") {
		return &base.Failure{Code: "no_person", Message: "nothing was changed"}
	}
	return nil
}

// rehearse applies a rule to a record that was read and shows what would be.
func (r *decisionRun) rehearse(rec ledger.Record, rule ledger.Rule, line safe.Text) (resultJSON, error) {
	change, err := rule(&rec)
	if err != nil {
		return resultJSON{}, err
	}
	if change.Operation != nil {
		rec.Operation = *change.Operation
		rec.Operation.UpdatedAt = rec.Now
	}
	now := base.AsJSON(base.See(r.policy, rec))
	return resultJSON{OK: true, Effect: base.EffectWouldUpdate, line: safe.Say("would %s", line), OperationJSON: &now}, nil
}

// decide is the step of the verbs that only change the ledger.
func decide(ctx context.Context, r *decisionRun, rec ledger.Record, seen ledger.RunItem, changeID string) (resultJSON, error) {
	o, terms := rec.Operation, r.Record.Terms
	d := ledger.Decision{ChangeID: changeID, ID: o.ID, Version: seen.Version, Verb: ledger.Verb(r.verb), Reason: r.flags.reason, Actor: r.actor,
		Receipts: terms.Receipts, Reference: terms.Reference, Truth: terms.Truth, Until: terms.Until, Key: terms.Key, Looks: r.policy.Kind(o.Kind).Looks}
	if r.flags.dryRun {
		return r.rehearse(rec, d.Rule(), safe.Say("%s %s", r.verb, base.See(r.policy, rec).Title()))
	}
	applied, err := ledger.Decide(ctx, r.store, d)
	if err != nil {
		return resultJSON{}, err
	}
	if applied.Noop {
		return r.result(ctx, o.ID, base.EffectNoop, safe.Say("%s: done before, nothing changed", o.ID)), nil
	}
	return r.result(ctx, o.ID, base.EffectUpdated, changedLine(applied, r.verb)), nil
}

// changedLine says what a change did, in one line that can be used to go on.
func changedLine(applied ledger.Applied, verb string) safe.Text {
	o := applied.After
	how := string(o.State)
	if applied.Before.State != "" && applied.Before.State != o.State {
		how = string(applied.Before.State) + " → " + how
	}
	line := safe.Say("%s@%d  %s  %s", o.ID, o.Version, verb, how)
	if o.Conflict != ledger.NoConflict {
		line = safe.Say("%s  ! %s", line, o.ConflictNote)
	}
	return line
}

// newDecidingCommand is what the deciding commands have in common.
func newDecidingCommand(use, short, long, example string, flags *decideFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " ID[@VERSION]…", GroupID: base.GroupDecide, Short: short, Long: long, Example: example,
		Args: base.SomeArgs("an ID or ID@VERSION"), ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags.add(cmd)
	return cmd
}
