package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/safe"
)

// decideFlags are what every deciding command takes.
type decideFlags struct {
	reason         string
	dryRun         bool
	yes            bool
	idempotencyKey string

	receipts  []string
	reference string
	until     string
}

func (d *decideFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.reason, "reason", "", "why; kept in the history")
	f.BoolVar(&d.dryRun, "dry-run", false, "say what would happen and change nothing")
	f.BoolVarP(&d.yes, "yes", "y", false, "do not ask")
	f.StringVar(&d.idempotencyKey, "idempotency-key", "", "the same command with the same key again changes nothing more")
}

// repeatable takes an idempotency key for a command whose repeat changes nothing
// anyway, so that callers need not tell one from the other.
func repeatable(cmd *cobra.Command) {
	cmd.Flags().String("idempotency-key", "", "the same command again changes nothing more, with or without it")
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
		id, version, given := strings.Cut(arg, "@")
		t := target{arg: arg, id: strings.ToLower(id)}
		if len(id) < 4 {
			return nil, usage(fmt.Sprintf("%q is not an ID or ID@VERSION", arg), "write at least 4 characters of the id")
		}
		if given {
			n, err := strconv.ParseInt(version, 10, 64)
			if err != nil || n < 1 {
				return nil, usage(fmt.Sprintf("%q is not a version, in %q", version, arg), "`indoubt list` prints ID@VERSION")
			}
			t.version = n
		}
		if seen[t.id] {
			return nil, usage(fmt.Sprintf("%s is named twice", id), "")
		}
		seen[t.id] = true
		out = append(out, t)
	}
	return out, nil
}

// resultJSON is what became of one operation: the operation as it is now, and
// how that came about.
type resultJSON struct {
	*operationJSON
	Asked  string     `json:"asked"` // the argument
	OK     bool       `json:"ok"`
	Effect string     `json:"effect,omitempty"`
	Error  *errorJSON `json:"error,omitempty"`
	Did    string     `json:"did,omitempty"`  // retry: sent, landed_already, granted or refused
	Read   *readJSON  `json:"read,omitempty"` // reconcile, and retry where it checked first
	Plan   *planJSON  `json:"plan,omitempty"` // retry

	failure *failure
	line    string // one line of text
}

// step decides about one operation. It is given the version that was seen and
// a change id that stays the same when the command is repeated.
type step func(ctx context.Context, run *decisionRun, rec ledger.Record, version int64, changeID string) (resultJSON, error)

// decisionRun is one deciding command under way.
type decisionRun struct {
	app      *app
	store    ledger.Store
	policy   *policy.Policy
	verb     string
	flags    *decideFlags
	actor    ledger.Actor
	id       string
	began    time.Time
	known    bool // the same command was given before
	finished int  // operations it had come through then
	versions map[string]int64
}

// decide runs one verb over several operations: what was seen is looked up and
// fixed first, then the run is recorded, then each is decided by itself. The
// worst exit code wins.
func (a *app) decide(ctx context.Context, verb string, args []string, flags *decideFlags, needs needs, do step) error {
	if err := a.mayChange(verb); err != nil && !flags.dryRun {
		return err
	}
	all, err := targets(args)
	if err != nil {
		return err
	}
	if !a.terminal() && needs.version {
		for _, t := range all {
			if t.version == 0 {
				return usage(fmt.Sprintf("without a terminal, %s needs the version that was seen: %s@VERSION", verb, t.arg), "`indoubt show "+t.arg+"` and `indoubt list` print it")
			}
		}
	}
	why := toChange
	if flags.dryRun {
		why = toLook
	}
	s, err := a.ledgerFor(ctx, why)
	if err != nil {
		return err
	}
	if err := copied(ctx, s); err != nil {
		return err
	}
	run := &decisionRun{app: a, store: s, policy: a.policyToLookBy(), verb: verb, flags: flags, actor: a.actor(), began: a.clock(), versions: map[string]int64{}}
	results := make([]resultJSON, len(all))
	found := run.look(ctx, all, results, needs.version)
	if err := run.ask(found, needs); err != nil {
		return err
	}
	if !flags.dryRun {
		if err := run.record(ctx, args, all, found); err != nil {
			return err
		}
	}
	for i, rec := range found {
		if rec == nil {
			continue
		}
		id := rec.Operation.ID
		r, err := do(ctx, run, *rec, run.versions[id], run.changeID(id))
		if err != nil {
			r = run.failed(ctx, id, err)
		}
		r.Asked = all[i].arg
		results[i] = r
		if !flags.dryRun {
			run.progress(ctx, i+1, results[:i+1], i == len(all)-1)
		}
	}
	return a.finish(results)
}

// copied refuses to rehearse what the ledger would refuse to do.
func copied(ctx context.Context, s ledger.Store) error {
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	if info.Copied != "" {
		return fmt.Errorf("%w (%s)", ledger.ErrCopied, info.Copied)
	}
	return nil
}

// needs is what a verb asks of the one who decides.
type needs struct {
	reason  bool
	version bool // a note does without
	silent  bool // the verb shows and asks by itself
}

// look finds every operation and fixes the version that was seen. What is not
// found is a result already.
func (r *decisionRun) look(ctx context.Context, all []target, results []resultJSON, bind bool) []*ledger.Record {
	found := make([]*ledger.Record, len(all))
	taken := map[string]bool{}
	for i, t := range all {
		rec, err := r.app.read(ctx, r.store, t.id)
		if err == nil && taken[rec.Operation.ID] {
			err = usage(t.arg+" is an operation that was named before", "")
		}
		if err != nil {
			results[i] = failedResult(t.arg, asFailure(err))
			continue
		}
		taken[rec.Operation.ID] = true
		version := t.version
		if version == 0 && bind {
			version = rec.Operation.Version
		}
		r.versions[rec.Operation.ID] = version
		found[i] = &rec
	}
	return found
}

// ask shows a person what is about to be decided where no version says that
// they saw it, and asks for a reason that is missing.
func (r *decisionRun) ask(found []*ledger.Record, needs needs) error {
	a := r.app
	some := false
	for _, rec := range found {
		some = some || rec != nil
	}
	if !some {
		return nil
	}
	if needs.reason && strings.TrimSpace(r.flags.reason) == "" {
		if !a.terminal() {
			return usage(r.verb+" needs a reason", "add --reason TEXT")
		}
		reason, err := a.ask("Reason: ")
		if err != nil || reason == "" {
			return usage(r.verb+" needs a reason; nothing was changed", "add --reason TEXT")
		}
		r.flags.reason = reason
	}
	if !a.terminal() || needs.silent || r.flags.yes || r.flags.dryRun || !needs.version {
		return nil
	}
	for _, rec := range found {
		if rec != nil {
			v := see(r.policy, *rec)
			fmt.Fprintf(a.errOut, "%s@%d  %s  %s  %s\n", safe.Text(rec.Operation.ID), rec.Operation.Version, v.state, safe.Text(v.title()), landed(v))
		}
	}
	if !a.confirmYes(strings.ToUpper(r.verb[:1]) + r.verb[1:] + "?") {
		return &failure{Exit: exitRefused, Code: "no_person", Message: "nothing was changed"}
	}
	return nil
}

// record writes the run down before its first change. A run that is known goes
// on where it stopped, with the versions it had seen then.
func (r *decisionRun) record(ctx context.Context, args []string, all []target, found []*ledger.Record) error {
	some := false
	var ops []string
	for i, rec := range found {
		if rec != nil {
			some = true
			ops = append(ops, fmt.Sprintf("%s@%d", rec.Operation.ID, r.versions[rec.Operation.ID]))
			all[i].id = rec.Operation.ID
		}
	}
	if !some {
		return nil
	}
	run := ledger.DecisionRun{ID: ledger.NewID(), IdempotencyKey: r.flags.idempotencyKey, Digest: r.flags.digest(r.verb, args), Verb: r.verb,
		Actor: r.actor, Operations: ops, CreatedAt: r.began}
	recorded, known, err := r.store.Run(ctx, run)
	if err != nil {
		if errors.Is(err, ledger.ErrKeyReused) {
			return &failure{Exit: exitKeyReused, Code: "key_reused", Message: fmt.Sprintf("--idempotency-key %q was used with another command", r.flags.idempotencyKey),
				Hint: "use a new key for a new decision", cause: err}
		}
		return err
	}
	r.id, r.known, r.finished = recorded.ID, known, recorded.Done
	if !recorded.CreatedAt.IsZero() {
		r.began = recorded.CreatedAt
	}
	if known {
		for _, op := range recorded.Operations {
			if id, version, ok := strings.Cut(op, "@"); ok {
				r.versions[id], _ = strconv.ParseInt(version, 10, 64)
			}
		}
	}
	return nil
}

// digest binds an idempotency key to the verb and everything that was said.
func (d *decideFlags) digest(verb string, args []string) string {
	b, _ := json.Marshal([]any{verb, args, strings.TrimSpace(d.reason), d.receipts, d.reference, d.until})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// changeID is the same for the same operation of the same run.
func (r *decisionRun) changeID(operationID string) string {
	if r.id == "" {
		return ledger.NewID()
	}
	return ledger.DeriveID(r.id, operationID)
}

// done tells whether this run has changed the operation already.
func (r *decisionRun) done(ctx context.Context, operationID string) (bool, error) {
	if !r.known {
		return false, nil
	}
	after, id := int64(0), r.changeID(operationID)
	for {
		events, err := r.store.Events(ctx, operationID, after, maxEvents)
		if err != nil {
			return false, err
		}
		for _, e := range events {
			if after = e.Seq; e.ID == id {
				return true, nil
			}
		}
		if len(events) < maxEvents {
			return false, nil
		}
	}
}

// progress keeps how far the run has come. The decisions stand without it.
func (r *decisionRun) progress(ctx context.Context, done int, results []resultJSON, last bool) {
	if r.id == "" {
		return
	}
	var result json.RawMessage
	if last {
		outcome := make(map[string]string, len(results))
		for _, one := range results {
			outcome[one.Asked] = one.Effect
			if one.Error != nil {
				outcome[one.Asked] = one.Error.Code
			}
		}
		result, _ = json.Marshal(outcome)
	}
	if err := r.store.Progress(context.WithoutCancel(ctx), r.id, done, result); err != nil {
		r.app.warnf("the decisions stand, but how far the run has come could not be kept: %v", err)
	}
}

// result is an operation after a change.
func (r *decisionRun) result(ctx context.Context, id string, effect, line string) resultJSON {
	out := resultJSON{OK: true, Effect: effect, line: line}
	if rec, err := r.store.Read(ctx, ledger.Locator{ID: id}); err == nil {
		j := see(r.policy, rec).asJSON()
		out.operationJSON = &j
	}
	return out
}

// failed is an operation that was not changed, as it is now.
func (r *decisionRun) failed(ctx context.Context, id string, err error) resultJSON {
	f := asFailure(err)
	out := failedResult(id, f)
	if rec, err := r.store.Read(context.WithoutCancel(ctx), ledger.Locator{ID: id}); err == nil {
		j := see(r.policy, rec).asJSON()
		out.operationJSON = &j
	}
	return out
}

func failedResult(arg string, f *failure) resultJSON {
	return resultJSON{Asked: arg, Error: f.json(), failure: f}
}

// finish prints the results. The worst exit code wins, and its error speaks for
// the whole.
func (a *app) finish(results []resultJSON) error {
	worst := &failure{}
	effect := effectNoop
	for _, r := range results {
		if r.failure != nil && r.failure.Exit > worst.Exit {
			worst = r.failure
		}
		if r.Effect != "" && r.Effect != effectNoop {
			effect = r.Effect
		}
	}
	data := map[string]any{"operations": results}
	write := func(w io.Writer) {
		for _, r := range results {
			if r.line != "" {
				fmt.Fprintln(w, safe.Lines(r.line))
			}
		}
	}
	if worst.Exit == exitDone {
		return a.done(effect, data, write)
	}
	if effect == effectNoop {
		effect = ""
	}
	whole := *worst
	whole.Effect, whole.Data, whole.Text = effect, data, write
	if len(results) > 1 {
		whole.Message, whole.Hint = a.sum(results, worst)
	}
	return &whole
}

// sum says what went wrong with several operations.
func (a *app) sum(results []resultJSON, worst *failure) (message, hint string) {
	if a.json {
		return worst.Message, worst.Hint
	}
	var lines []string
	for _, r := range results {
		if r.failure != nil {
			lines = append(lines, r.Asked+": "+r.failure.Message)
		}
	}
	return fmt.Sprintf("%d of %d were not done\n  %s", len(lines), len(results), strings.Join(lines, "\n  ")), worst.Hint
}

// rehearse applies a rule to a record that was read and shows what would be.
func (r *decisionRun) rehearse(rec ledger.Record, rule ledger.Rule, line string) (resultJSON, error) {
	change, err := rule(&rec)
	if err != nil {
		return resultJSON{}, err
	}
	if change.Operation != nil {
		rec.Operation = *change.Operation
		rec.Operation.UpdatedAt = rec.Now
	}
	j := see(r.policy, rec).asJSON()
	return resultJSON{OK: true, Effect: effectWouldUpdate, line: "would " + line, operationJSON: &j}, nil
}

// decision is the step of the verbs that only change the ledger.
func decision(verb ledger.Verb, fill func(r *decisionRun, d *ledger.Decision) error) step {
	return func(ctx context.Context, r *decisionRun, rec ledger.Record, version int64, changeID string) (resultJSON, error) {
		o := rec.Operation
		d := ledger.Decision{ChangeID: changeID, ID: o.ID, Version: version, Verb: verb, Reason: r.flags.reason, Actor: r.actor}
		if fill != nil {
			if err := fill(r, &d); err != nil {
				return resultJSON{}, err
			}
		}
		what := string(verb) + " " + see(r.policy, rec).title()
		if r.flags.dryRun {
			return r.rehearse(rec, d.Rule(), what)
		}
		applied, err := ledger.Decide(ctx, r.store, d)
		if err != nil {
			return resultJSON{}, err
		}
		if applied.Noop {
			return r.result(ctx, o.ID, effectNoop, o.ID+": done before, nothing changed"), nil
		}
		return r.result(ctx, o.ID, effectUpdated, changedLine(applied, string(verb))), nil
	}
}

// changedLine says what a change did, in one line that can be used to go on.
func changedLine(applied ledger.Applied, verb string) string {
	o := applied.After
	how := string(o.State)
	if applied.Before.State != "" && applied.Before.State != o.State {
		how = string(applied.Before.State) + " → " + how
	}
	line := fmt.Sprintf("%s@%d  %s  %s", o.ID, o.Version, verb, how)
	if o.Conflict != ledger.NoConflict {
		line += "  ! " + o.ConflictNote
	}
	return line
}

// newDecidingCommand is what the deciding commands have in common.
func (a *app) newDecidingCommand(use, short, long, example string, flags *decideFlags, from func(ledger.Row) bool) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " ID[@VERSION]…", GroupID: groupDecide, Short: short, Long: long, Example: example,
		Args: someArgs("an ID or ID@VERSION"), ValidArgsFunction: a.completeIDs(from, true),
	}
	flags.add(cmd)
	return cmd
}
