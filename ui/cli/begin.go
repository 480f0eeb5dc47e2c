package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/open"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/policy"
	"indoubt/policy/transport"
	"indoubt/reconcile"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
)

// requestFlags say what is asked for, the same for begin and run.
type requestFlags struct {
	kind, scope, key, session, source string
	input, deadline                   string
	wait, reconcile, dryRun           bool
}

func (w *requestFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.kind, "kind", "", "what sort of operation it is, as the policy names it")
	f.StringVar(&w.input, "input", "", "what is asked for, as JSON; @FILE reads it from a file, - from standard input")
	f.StringVar(&w.key, "key", "", "idempotency key; made as the policy says when left out")
	f.StringVar(&w.scope, "scope", "", "the same key in another scope is another one; the same request in doubt holds in every scope")
	f.StringVar(&w.session, "session", "", "the agent's or pipeline's session")
	f.StringVar(&w.source, "source", "", "the pipeline, or PIPELINE@RUN (INDOUBT_SOURCE)")
	f.StringVar(&w.deadline, "deadline", "", "how long the attempt may take before it is in doubt; the kind's when left out")
	f.BoolVar(&w.wait, "wait", false, "wait while another attempt is in flight")
	f.BoolVar(&w.reconcile, "reconcile", false, "look at the downstream when it is in doubt, before it is sent and after")
	f.BoolVar(&w.dryRun, "dry-run", false, "say what would happen and record nothing")
}

// request reads the flags. run may leave the input out.
func (w *requestFlags) request(a *base.App, needInput bool) (record.Request, error) {
	var out record.Request
	if strings.TrimSpace(w.kind) == "" {
		return out, base.Usage("--kind is needed", "it names the sort of operation: --kind stripe.charge")
	}
	if !policy.NamesKind(w.kind) {
		return out, base.Usage(fmt.Sprintf("--kind `%s`: a policy cannot name such a kind", w.kind), "write letters, digits and _ . / : @ - as in stripe.charge")
	}
	input, err := w.readInput(a)
	if err != nil {
		return out, err
	}
	if needInput && input == nil && w.key == "" {
		return out, base.Usage("--input or --key is needed", `it says what is asked for: --input '{"invoice":"INV-1"}'`)
	}
	out = record.Request{Kind: w.kind, Scope: w.scope, Key: w.key, Session: w.session, Input: input,
		Source: sourceOf(a, w.source), Wait: w.wait, Reconcile: w.reconcile}
	if w.dryRun {
		out.Wait, out.Reconcile = false, false
	}
	out.Deadline, err = sendDeadline("--deadline", w.deadline)
	return out, err
}

const maxInput = 16 << 20

func (w *requestFlags) readInput(a *base.App) (json.RawMessage, error) {
	var text []byte
	var err error
	switch {
	case w.input == "":
		return nil, nil
	case w.input == "-":
		text, err = io.ReadAll(io.LimitReader(a.In, maxInput+1))
	case strings.HasPrefix(w.input, "@"):
		text, err = os.ReadFile(w.input[1:])
	default:
		text = []byte(w.input)
	}
	switch {
	case err != nil:
		return nil, base.Usage("--input: "+err.Error(), "")
	case len(text) > maxInput:
		return nil, base.Usage("--input is longer than 16 MiB", "record a reference to it instead")
	case !json.Valid(text):
		return nil, base.Usage("--input is not JSON", `write text in double quotes: --input '"text"'`)
	}
	if _, err := ledger.Fingerprint(text); err != nil {
		return nil, base.Usage("--input: "+err.Error(), "mend the JSON, or write what is out of range as text")
	}
	return json.RawMessage(strings.TrimSpace(string(text))), nil
}

// positive parses an optional duration.
func positive(flag, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := ledger.ParseDuration(s)
	if err != nil || d <= 0 {
		wrong := "is not a duration"
		if err == nil {
			wrong = "is not longer than nothing"
		}
		return 0, base.Usage(fmt.Sprintf("%s %q %s", flag, s, wrong), "write "+flag+" 90s, 30m or 2h")
	}
	return d, nil
}

// sendDeadline parses the deadline of an attempt; 0 is the kind's.
func sendDeadline(flag, s string) (time.Duration, error) {
	d, err := positive(flag, s)
	if err == nil && d != 0 && (d < ledger.MinDeadline || d > ledger.MaxDeadline) {
		err = base.Usage(fmt.Sprintf("%s %s is not between %s and %.0fd", flag, s, ledger.MinDeadline, ledger.MaxDeadline.Hours()/24), "write "+flag+" 90s, 30m or 2h")
	}
	return d, err
}

func sourceOf(a *base.App, flag string) ledger.Source {
	pipeline, run, _ := strings.Cut(cmp.Or(flag, a.Env("INDOUBT_SOURCE")), "@")
	s := ledger.Source{Pipeline: pipeline, Run: run, PID: os.Getppid()}
	s.Host, _ = os.Hostname()
	return s
}

// newRecorder opens the ledger for a writer and wires the policy and the reader in.
// A policy that cannot be read stops it: it may name what must not be stored.
func newRecorder(ctx context.Context, a *base.App, source ledger.Source, dryRun bool) (*record.Recorder, error) {
	if err := a.MayChange("record"); err != nil && !dryRun {
		return nil, err
	}
	var store ledger.Store
	var err error
	if dryRun {
		if store, err = rehearse(ctx, a); err == nil {
			_, err = a.Policy()
		}
	} else {
		store, err = a.Rules().Ledger(ctx, base.ToCreate)
	}
	if err != nil {
		return nil, err
	}
	o := record.Options{Actor: a.Machine(source.Pipeline, base.OSUser(), "pipeline"), Source: source, Clock: a.Clock,
		Log: a.Tell, Elsewhere: base.Elsewhere(a), Renew: a.Rules().Look}
	if !dryRun {
		o.Reader = readNow{a.Engine(store, a.Rules().InForce, false, nil)}
	}
	return record.New(store, recordingRules(a.Rules().Numbered), o), nil
}

// readNow is the engine's read on demand, as recorders ask for it.
type readNow struct{ engine *reconcile.Engine }

func (r readNow) ReadNow(ctx context.Context, id string) (ledger.Operation, error) {
	res, err := r.engine.ReadNow(ctx, id)
	return res.Operation, err
}

// numberless is a policy that no number stands for: its pipelines name none.
func numberless(of func() *policy.Policy) record.Rules {
	return recordingRules(func() (*policy.Policy, int64) { return of(), 0 })
}

// recordingRules are what the policy in force says about recording a kind.
func recordingRules(inForce func() (*policy.Policy, int64)) record.Rules {
	return record.Rules(func(name string) record.KindRule {
		p, number := inForce()
		k := p.Kind(name)
		ds := k.Downstream
		if of, http := strings.CutPrefix(name, "http."); ds == nil && http && !k.Known { // http.HOST.METHOD
			ds = p.DownstreamAt(of[:max(0, strings.LastIndex(of, "."))])
		}
		ds = cmp.Or(ds, &transport.Downstream{})
		return record.KindRule{
			Downstream: ds.Name, Callers: ds.Callers, SameAccount: ds.SameAccount,
			Policy: number, Looks: k.Looks,
			Deadline: k.Deadline, TTL: k.Key.TTL, Remembers: k.Remembers, KeyFrom: k.Key.From, Named: k.Known,
			Match: policy.Patterns(k.Match), Covers: policy.Covers,
			TokenArgument: k.Token.Argument, TokenInto: k.Token.Into, TokenAppend: k.Token.Append,
			Redact: k.Redact, Access: k.Effect.Access(), Input: k.Input, Repeat: k.Repeat, Safe: k.Effect.Safe(), Supersedes: k.Effect.Replaces(),
			WhenLost:  base.WhenLost(k),
			KeyHeader: k.KeyHeader, Retry: outcome.Retry{Max: k.Retry.Max, BackoffMin: k.Retry.BackoffMin, BackoffMax: k.Retry.BackoffMax},
			Title: k.Title, Target: k.Target, Marks: k.Marks, Price: k.Price, RepeatUntil: k.RepeatUntil,
			Judge: k.JudgeAnswer,
		}
	})
}

// rehearse is the ledger for --dry-run: rules run on what is recorded, and
// nothing is written. A ledger that does not exist is an empty one.
func rehearse(ctx context.Context, a *base.App) (ledger.Store, error) {
	s, err := a.LedgerFor(ctx, base.ToLook)
	switch {
	case err == nil:
		err = open.Recordable(ctx, s, a.LedgerOptions())
	case base.AsFailure(err).Code == "no_ledger":
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return &rehearsal{Store: s, clock: a.Clock}, nil
}

type rehearsal struct {
	ledger.Store // nil when there is no ledger
	clock        ledger.Clock
}

func (r *rehearsal) Read(ctx context.Context, at ledger.Locator) (ledger.Record, error) {
	if r.Store == nil {
		return ledger.Record{}, ledger.ErrNotFound
	}
	return r.Store.Read(ctx, at)
}

// Records are those of the ledger, if there is one.
func (r *rehearsal) Records(ctx context.Context, ids []string) ([]ledger.Record, error) {
	if r.Store == nil {
		return nil, nil
	}
	return r.Store.Records(ctx, ids)
}

func (r *rehearsal) FieldNames(ctx context.Context) ([]string, error) {
	if r.Store == nil {
		return nil, nil
	}
	return r.Store.FieldNames(ctx)
}

// DigestKey is the ledger's; where there is none, nothing was told by a digest yet.
func (r *rehearsal) DigestKey(ctx context.Context) ([]byte, error) {
	if r.Store == nil {
		return make([]byte, 32), nil
	}
	return r.Store.DigestKey(ctx)
}

func (r *rehearsal) Info(ctx context.Context) (ledger.Info, error) {
	if r.Store == nil {
		return ledger.Info{}, ledger.ErrNotFound
	}
	return r.Store.Info(ctx)
}

func (r *rehearsal) Change(ctx context.Context, at ledger.Locator, _ string, rule ledger.Rule) (ledger.Applied, error) {
	rec, err := r.Read(ctx, at)
	if errors.Is(err, ledger.ErrNotFound) {
		rec.Now = r.clock() // what holds begins is in it all the same
		var key []byte
		key, err = r.DigestKey(ctx)
		rec.Mask = ledger.Mask(key)
	}
	if err != nil {
		return ledger.Applied{}, err
	}
	before := rec.Operation
	c, err := rule(&rec)
	if err != nil {
		return ledger.Applied{}, err
	}
	applied := ledger.Applied{Before: before, After: before, Noop: c.Operation == nil}
	if c.Operation != nil {
		applied.After = *c.Operation
	}
	if len(c.Attempts) > 0 {
		applied.Attempt = c.Attempts[0]
	}
	return applied, nil
}

func newBeginCommand(a *base.App) *cobra.Command {
	var flags requestFlags
	var tokenSent bool
	cmd := &cobra.Command{
		Use: "begin --kind K --input JSON|--key K", GroupID: base.GroupRecord,
		Short: "Record the intent to write, before writing",
		Long: `Records the intent to write and prints id, handle, deadline, key and token. Exit
code 0 means that you, and nobody else, must send now, before the deadline; then say
what became of it with "indoubt settle HANDLE". Who has the handle may do that: it is
shown to no one else. Every other exit code means: do not send.
  6 in doubt   7 in progress   8 key used with another input   9 finished already`,
		Example: `  indoubt begin --kind post --key INV-1042 --input '{"invoice":"INV-1042"}'
  indoubt begin --kind webhook --key "$EVENT_ID"`,
		Args: base.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			request, err := flags.request(a, true)
			if err != nil {
				return err
			}
			request.TokenSent = tokenSent
			return begin(cmd.Context(), a, request, flags.dryRun)
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&tokenSent, "token-sent", false, "the token will be inside what is sent, so that a read can look for it")
	return cmd
}

func begin(ctx context.Context, a *base.App, request record.Request, dryRun bool) error {
	r, err := newRecorder(ctx, a, request.Source, dryRun)
	if err != nil {
		return err
	}
	res, err := r.Begin(ctx, request)
	if err != nil {
		return err
	}
	if res.Answer != ledger.AnswerBegun {
		return notToSend(res, begunAsJSON(ctx, a, res), a.PolicyToLookBy())
	}
	data := begunAsJSON(ctx, a, res)
	if dryRun { // there is nothing to settle
		data.Handle = nil
	}
	return a.Done(base.EffectOf(res.Attempt.N == 1, dryRun), data, func(w *safe.Writer) {
		if dryRun {
			w.Println("would begin attempt", res.Attempt.N, "under key", res.Operation.KeyToSend())
			return
		}
		w.Printf("id        %s\nhandle    %s\ndeadline  %s\nkey       %s\ntoken     %s\n", res.Operation.ID, res.Handle(),
			res.Attempt.DeadlineAt.UTC().Format(time.RFC3339), res.Operation.KeyToSend(), res.Operation.Token)
	})
}

type begunJSON struct {
	base.OperationJSON
	Answer  ledger.BeginAnswer `json:"answer"`
	Attempt *string            `json:"attempt"` // to be sent; null when nothing is
	Handle  *string            `json:"handle"`  // with which it is settled
	N       int                `json:"n,omitempty"`
	Why     *string            `json:"why,omitempty"`
}

func begunAsJSON(ctx context.Context, a *base.App, res ledger.BeginResult) begunJSON {
	return begunJSON{readAsJSON(ctx, a, res.Operation), res.Answer, base.Text(res.Attempt.ID), base.Text(res.Handle().String()),
		res.Attempt.N, base.Text(res.Why)}
}

// readAsJSON is one operation as the commands print it, read anew where it can be.
func readAsJSON(ctx context.Context, a *base.App, o ledger.Operation) base.OperationJSON {
	rec := ledger.Record{Found: true, Operation: o, Now: a.Clock()}
	if a.Store != nil {
		if now, err := a.Store.Read(ctx, ledger.Locator{ID: o.ID}); err == nil {
			rec = now
		}
	}
	return base.AsJSON(base.See(a.PolicyToLookBy(), rec))
}

// notToSend says why the caller must not send, and what to do where the policy has a check.
func notToSend(res ledger.BeginResult, data any, by *policy.Policy) *base.Failure {
	o := res.Operation
	f := &base.Failure{Code: string(res.Answer), Data: data, Hint: "indoubt show " + o.ID}
	switch res.Answer {
	case ledger.AnswerFinished:
		f.Effect = base.EffectNoop
		f.Message = fmt.Sprintf("committed at %s; nothing is to be sent", o.SettledAt.UTC().Format(time.RFC3339))
		out, whole := outcome.Kept(o)
		if o.Moved != "" {
			f.Message += ", and its history was moved to a file: " + base.Moved(o)
		} else if !whole {
			f.Message += ", and its result was not kept whole"
		}
		f.Text = func(w *safe.Writer) {
			if whole && len(out) > 0 {
				fmt.Fprintln(w, strings.TrimSuffix(string(out), "\n"))
			}
		}
	case ledger.AnswerInProgress:
		f.Message = fmt.Sprintf("an attempt is in flight, until %s at the latest", o.DeadlineAt.UTC().Format(time.RFC3339))
		f.Message += underKey(res)
		f.Hint = "wait for it with --wait\n" + f.Hint
	case ledger.AnswerHeld:
		f.Code, f.Message, f.Hint = "held", record.Held(res), "indoubt doctor names the holds, and who to ask"
	case ledger.AnswerKeyReused:
		f.Message = fmt.Sprintf("key %s was used with another input", o.Key)
		f.Hint = "use a new key for a new request\n" + f.Hint
	case ledger.AnswerRefused:
		f.Message = res.Why
		if o.State == ledger.Abandoned {
			f.Hint = "to have it sent after all, take that back: indoubt undo " + o.ID + "\n" + f.Hint
		}
	default:
		f.Code, f.Message = "in_doubt", inDoubtText(o)
		if f.Message += underKey(res); res.Why != "" {
			f.Message += " (" + res.Why + ")"
		}
		if by.Kind(o.Kind).Read == nil {
			f.Hint = "look before you redo: " + f.Hint
		} else {
			f.Hint = "check before you redo: indoubt check " + o.ID + "\n" + f.Hint
		}
	}
	return f.OfSending(f.Code, o.ID)
}

// underKey says which key the answer is of, where it is not the one that was asked.
func underKey(res ledger.BeginResult) string {
	if !res.Gated {
		return ""
	}
	return "; it asks the same under the key " + res.Operation.KeyToSend()
}

func inDoubtText(o ledger.Operation) string {
	since := o.DoubtedAt
	if since.IsZero() {
		since = o.DeadlineAt
	}
	out := "in doubt"
	if !since.IsZero() {
		out += " since " + since.UTC().Format(time.RFC3339)
	}
	if o.ErrorClass != "" {
		out += " (" + string(o.ErrorClass) + ")"
	}
	return out + ": it may have landed; nothing was sent now"
}
