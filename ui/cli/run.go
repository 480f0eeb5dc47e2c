package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ledger/record/command"
	"indoubt/ledger/record/command/standby"
	"indoubt/policy"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
)

type runFlags struct {
	requestFlags
	expand []string
	doubt  int // exit code of what is in doubt
	guard  bool
}

type runCommand struct{ *base.App }

func newRunCommand(a *base.App) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use: "run --kind K [--key K] -- COMMAND…", GroupID: base.GroupRecord,
		Short: "Run a command as one recorded write",
		Long: `Records the intent, runs the command, and records what became of it. Its input
and output pass through. Its exit code does too, where the outcome is known:
0 is committed, and every failure of a wrapped command leaves doubt, unless the
policy can read its answer, or a plain curl never connected. A finished key prints
the stored output and exits 0, and a line on standard error says that nothing was
run. Output that was not kept whole (more than 64 KiB, no text, or with a secret in
it) is not printed again: 109. Where it landed and its output cannot be written, as
on a full disk, the exit code is 101; the same again prints it.
Without --key it is named by all its words and the file on standard input: the same
is not run while it is in doubt, and where it was denied or abandoned not for a day
after it was sent. Once it landed, it runs anew. What comes through a pipe is not
compared: give each its own --key.
A failure that is known to have had no effect and may pass is tried again after
a pause, as often as the kind's retry.max allows; what is in doubt never is.
  105 refused   106 in doubt   107 in progress   108 key used with another input
  109 finished already, and its output was not kept whole
Standard output is the command's: --json prints its object on standard error, as
the last line.

A loop under set -e ends at the first doubt, tonight and every night after. Where
its items do not hang together, --doubt-exit 0 lets it go on: what is in doubt is on
record, is not run again, and stands in indoubt list state:uncertain.

{{key}} and {{token}} are replaced in the arguments, and the command finds
INDOUBT_ID, INDOUBT_KEY, INDOUBT_TOKEN and INDOUBT_ATTEMPT in its environment.
curl exits 0 at a redirect and at a 202: with -w '%{stderr}%{http_code}\n' run reads
its status, and both are in doubt. What a shell's script hides (a pipe, ||, &) run
cannot know, and warns about.
A command that TERM, INT, HUP or QUIT asked to end is in doubt, even if it exits 0:
it may have left its work half done. Only the policy's answer: can call it committed.
What it has started is ended when it fails; what it leaves running when it exits 0 is
left alone, but has lost its output: redirect it.`,
		Example: `  indoubt run --kind post --key INV-1042 -- curl --fail-with-body -w '%{stderr}%{http_code}\n' -d @invoice.json https://example.com/invoices
  indoubt run --kind deploy --expand TOKEN -- deployer --auth '${TOKEN}' --id '{{key}}'
  while read -r inv; do
    indoubt run --kind post --key "$inv" --doubt-exit 0 -- ./post-invoice "$inv" < /dev/null
  done < invoices.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.guard {
				command.Guard(a.Stdin, func(attempt string) { runCommand{a}.guardSaw(cmd.Context(), attempt) })
				return nil
			}
			return runCommand{a}.run(cmd.Context(), args, flags)
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the first word is the command's
	f.StringArrayVar(&flags.expand, "expand", nil, "keep ${NAME} as a placeholder in the recorded command, and fill it in at each run")
	f.IntVar(&flags.doubt, "doubt-exit", base.OwnVerdict+base.ExitInDoubt, "exit with this code where it is in doubt and that is recorded; 0 lets a loop go on")
	f.BoolVar(&flags.guard, "guard", false, "")
	_ = f.MarkHidden("guard")
	return cmd
}

// asVerdict says what a failed begin or run means for who asked: nothing was sent, where it
// does not say otherwise. What went wrong before run's command ran exits out of the way of
// the command's own codes.
func asVerdict(name string, err error) error {
	var quiet *base.ExitOnly
	if errors.As(err, &quiet) {
		return quiet
	}
	f := *base.AsFailure(err)
	if f.Facts == nil {
		f.OfSending(f.Code, "")
	}
	if name == "run" {
		f.Own = base.OwnVerdict + f.Exit()
	}
	return &f
}

func (c runCommand) run(ctx context.Context, argv []string, flags runFlags) error {
	if len(argv) == 0 {
		return base.Usage("run needs a command", "write it behind two dashes: indoubt run --kind post -- curl --fail-with-body …")
	}
	request, err := flags.request(c.App, false)
	if err != nil {
		return err
	}
	req := command.Request{Request: request, Argv: argv, Expand: flags.expand, Stdin: c.Stdin, Stdout: c.RawOut, Stderr: c.RawErr,
		Note: func(line string) { c.ErrOut.Println("indoubt: " + line) }}
	if flags.input == "-" {
		req.Stdin = nil // it was the input
	}
	if flags.doubt < 0 || flags.doubt > 255 {
		return base.Usage(fmt.Sprintf("--doubt-exit %d is no exit code", flags.doubt), "write one from 0 to 255")
	}
	r, err := newRecorder(ctx, c.App, request.Source, flags.dryRun)
	if err != nil {
		return err
	}
	if flags.dryRun {
		return c.rehearse(ctx, r, req)
	}
	self, err := os.Executable()
	where, lost := c.forAnother()
	if err == nil && lost == nil {
		req.Guard = slices.Concat([]string{self}, standby.Args, where)
	}
	req.Alone = true
	signals, stop := command.Forwarded()
	defer stop()
	req.Signals = signals
	// Signals are the command's to answer; what it answers is still recorded.
	ctx = context.WithoutCancel(ctx)
	res, err := command.Run(ctx, r, req)
	if err != nil {
		return err
	}
	exit := res.ExitCode
	if exit == base.OwnVerdict+base.ExitInDoubt && res.Recorded {
		exit = flags.doubt
	}
	err = c.ended(ctx, res, exit)
	if res.Interrupted {
		base.TellInterrupt()
	}
	return err
}

// forAnother are the arguments by which another process, in another directory, finds the
// ledger. An address is in its environment, or was an argument of this one.
func (c runCommand) forAnother() ([]string, error) {
	at, err := c.Place()
	if err != nil {
		return nil, err
	}
	if file, ok := at.(interface{ Absolute() (string, error) }); ok {
		path, err := file.Absolute()
		return []string{"--ledger", path}, err
	}
	if c.LedgerPath == c.Env("INDOUBT_LEDGER") {
		return nil, nil
	}
	return []string{"--ledger", c.LedgerPath}, nil
}

// guardSaw records what the guard of a killed run has seen. An error is
// dropped: then the engine looks for the attempt's processes.
func (c runCommand) guardSaw(ctx context.Context, attempt string) {
	store, err := c.Open(ctx, base.ToSettle)
	if err != nil {
		return
	}
	defer store.Close()
	_, _ = ledger.SeeTreeEmpty(ctx, store, ledger.TreeRequest{ChangeID: ledger.NewID(), AttemptID: attempt,
		Reason: "run was killed, and its guard has ended all that was left", Actor: c.Machine("guard")})
}

func (c runCommand) rehearse(ctx context.Context, r *record.Recorder, req command.Request) error {
	res, err := command.Rehearse(ctx, r, req)
	if err != nil {
		return err
	}
	data := begunAsJSON(ctx, c.App, res)
	if res.Answer != ledger.AnswerBegun {
		if res.Answer == ledger.AnswerFinished {
			return c.Done(base.EffectNoop, data, func(w *safe.Writer) { w.Println("would print the stored output; nothing would be sent") })
		}
		return notToSend(res, data, c.PolicyToLookBy())
	}
	return c.Done(base.EffectOf(res.Attempt.N == 1, true), data, func(w *safe.Writer) {
		o := res.Operation
		w.Printf("would run attempt %d under key %s: %s\n", res.Attempt.N, o.KeyToSend(), strings.Join(o.Command.Argv, " "))
	})
}

type runJSON struct {
	begunJSON
	Ran       bool    `json:"ran"`
	Recorded  bool    `json:"recorded"`
	Outcome   *string `json:"outcome"`     // of this attempt
	Class     *string `json:"error_class"` // of this attempt, else of the operation
	Error     *string `json:"error"`
	Exit      *int    `json:"exit"`      // the command's own
	ExitCode  int     `json:"exit_code"` // of run
	TokenSent bool    `json:"token_sent"`
}

// ended reports a run that exits with a code. Standard output belongs to the command.
func (c runCommand) ended(ctx context.Context, res command.Result, exit int) error {
	if res.Answer == ledger.AnswerFinished && !res.Part {
		// To its reader, a terminal too, this is what the command would have said.
		if _, err := c.RawOut.Write(res.Stored); !errors.Is(err, syscall.EPIPE) {
			res.Unwritten = err
		}
	}
	if res.Unwritten != nil {
		c.ErrOut.Println("indoubt: the output could not be written: " + res.Unwritten.Error())
		if exit == 0 { // what reads the output would take the part for everything
			exit = base.OwnVerdict + base.ExitError
		}
	}
	if res.Read {
		return exitWith(exit)
	}
	var data any
	if c.JSON { // else no one reads it, and the record need not be read again
		data = c.asJSON(ctx, res, exit)
	}
	f, effect := runOutcome(res, data, c.PolicyToLookBy())
	e := base.Envelope{OK: res.ExitCode == 0, Data: data, Effect: effect}
	if res.Answer == ledger.AnswerFinished && !res.Part && !c.JSON { // which is on standard error itself
		c.ErrOut.Println("indoubt: " + f.Message)
	}
	if res.ExitCode != 0 {
		e.Error = f.JSON()
	}
	switch {
	case c.JSON && !res.Ran && res.Answer != ledger.AnswerFinished:
		if err := base.PrintJSON(c.Out, e); err != nil { // nothing of the command's is on standard output
			return err
		}
	case c.JSON:
		if err := base.PrintJSON(c.ErrOut, e); err != nil {
			c.Warnf("the result could not be written: %v", err)
		}
	case res.ExitCode != 0 && f.Message != "":
		c.Say(f)
	}
	return exitWith(exit)
}

func (c runCommand) asJSON(ctx context.Context, res command.Result, exit int) runJSON {
	data := runJSON{begunJSON: begunAsJSON(ctx, c.App, res.BeginResult), Ran: res.Ran, Recorded: res.Recorded, Outcome: base.Text(string(res.Outcome.Outcome)),
		Error: base.Text(res.Outcome.Error), ExitCode: exit, TokenSent: res.Attempt.TokenSent}
	data.Class = data.begunJSON.ErrorClass
	if c := base.Text(string(res.Outcome.ErrorClass)); c != nil {
		data.Class = c
	}
	if res.Exit >= 0 {
		data.Exit = &res.Exit
	}
	return data
}

// runOutcome says in words what became of a run, and what it did to the ledger.
func runOutcome(res command.Result, data any, by *policy.Policy) (f *base.Failure, effect string) {
	f = &base.Failure{Data: data, Hint: "indoubt show " + res.Operation.ID}
	switch {
	case res.Answer == ledger.AnswerFinished:
		f.Code, f.Message = "finished", replayed(res)
		return f.OfSending(f.Code, res.Operation.ID), base.EffectNoop
	case res.Answer != ledger.AnswerBegun:
		return notToSend(res.BeginResult, data, by), ""
	}
	f.Code, f.Message = runVerdict(res)
	f.OfSending(f.Code, res.Operation.ID)
	if f.Code == "in_doubt" && res.Operation.NamedByInput() {
		f.Hint += "\nthe same command is not run again while it is in doubt"
	}
	if res.Operation.Redacted && res.ExitCode == base.OwnVerdict+base.ExitInDoubt {
		f.Hint += "\n" + expandHint
	}
	return f, base.EffectOf(res.Attempt.N == 1, false)
}

// expandHint is the way out where secrets in a command keep it from being sent again.
const expandHint = "its command holds secrets, which are not kept, so no retry from here can send it; next time, name them: indoubt run --expand NAME -- … '${NAME}'"

// replayed says that nothing was run, and when it was done.
func replayed(res command.Result) string {
	o := res.Operation
	said := "nothing was run: it was committed at " + o.SettledAt.UTC().Format(time.RFC3339)
	switch {
	case o.Moved != "":
		return said + ", and its output was moved to a file: " + base.Moved(o)
	case res.Part:
		return said + ", and its output was not kept whole, so it is not printed; what was kept: indoubt show " + o.ID + " --json"
	case len(res.Stored) > 0:
		return said + ", and this is its output of then"
	case !o.ByAnswer:
		said += ", and no output was kept"
		if o.Receipt() != "" {
			said += " (receipt: " + o.Receipt() + ")"
		}
	}
	return said
}

// runVerdict says in one sentence why a run did not exit 0.
func runVerdict(res command.Result) (code, message string) {
	switch {
	case !res.Recorded:
		settle := fmt.Sprintf("indoubt settle %s --outcome %s", res.Handle(), res.Outcome.Outcome)
		if res.Outcome.Proof != "" {
			settle += " --proof " + string(res.Outcome.Proof)
		}
		return "not_settled", res.Why + "; settle it: " + settle
	case res.Operation.State == ledger.Failed && !res.Ran:
		return "never_sent", res.Outcome.Error
	case res.Operation.State == ledger.Failed:
		return "failed", "it had no effect: " + res.Outcome.Error
	case res.ExitCode == base.OwnVerdict+base.ExitInDoubt && res.Outcome.Outcome == ledger.OutcomeUncertain:
		return "in_doubt", "in doubt, it may have landed: " + res.Outcome.Error
	case res.ExitCode == base.OwnVerdict+base.ExitInDoubt:
		return "in_doubt", fmt.Sprintf("this attempt %s, but an earlier one may have landed", res.Outcome.Outcome)
	}
	return string(res.Operation.State), fmt.Sprintf("%s by %s (%s)", res.Operation.State, res.Operation.Actor, res.Operation.Reason)
}

func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return &base.ExitOnly{Code: code}
}
