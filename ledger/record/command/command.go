// Package command runs a command as one recorded attempt: Run records the intent,
// runs it, ends it with all that it has started when it may not go on, and
// records what became of it. Guard is the process beside it that ends the command
// when this one is stopped or killed.
//
// It imports ledger/record, ledger/outcome and ledger/wire/procgroup.
package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/procgroup"

	"golang.org/x/sys/unix"
)

// Request is a command to run as one attempt of an operation.
type Request struct {
	record.Request // Input empty: {argv, dir}; Command, Sender, TokenSent and KeySent are filled in

	// Argv may hold {{key}} and {{token}}, and ${NAME} for the names in Expand.
	Argv   []string
	Dir    string   // the current directory when empty
	Env    []string // the environment when nil
	Expand []string

	Grace time.Duration // between TERM and KILL; DefaultGrace when 0

	Stdin          io.Reader
	Stdout, Stderr io.Writer // the command's own, passed on as they come
	Note           func(string)

	// Signals are forwarded to the command's process group; see Forwarded.
	Signals <-chan os.Signal
	// Guard is the command line of a process that calls Guard. It ends the
	// command when this process is stopped or killed; nil: only the kernel does,
	// as far as procgroup says, and no command gets the terminal.
	Guard []string
	// Alone: this process starts nothing else while it runs the command, so that
	// every descendant it gets is the command's. Where the system can, it then
	// adopts those that lose their parent, and overlooks none.
	Alone bool
}

// settlePatience is how long an outcome waits for the ledger: when this process
// ends, it is lost.
const settlePatience = 10 * time.Minute

// DefaultGrace is how long a command that was told to end may take.
const DefaultGrace = 5 * time.Second

// Result is what became of a run.
type Result struct {
	ledger.BeginResult                      // Operation is as it stands after the run
	Ran                bool                 // the command was started
	Read               bool                 // a kind that only reads: nothing was recorded
	Recorded           bool                 // the outcome is in the ledger
	Outcome            ledger.SettleRequest // of this attempt
	Exit               int                  // the command's exit code, -1 when it was killed or never ran
	ExitCode           int                  // what `run` exits with
	Stored             []byte               // for a finished operation: the output it had
	Part               bool                 // Stored is not all of it, and must not be taken for that
	Unwritten          error                // the command's output could not be written, to where it is read
	// Interrupted: a key at the terminal ended the command, which had the terminal to
	// itself; this process and its job did not hear of it.
	Interrupted bool
}

// The exit codes of `run` that are its own.
const (
	exitRefused      = 105
	exitInDoubt      = 106
	exitInProgress   = 107
	exitKeyReused    = 108
	exitFinished     = 109
	exitNotStartable = 126
	exitNotFound     = 127
)

// Run records the intent, runs the command, and records what became of it. The
// command never starts before its attempt is durable (I1), and it does not live
// on past its deadline unless the ledger has extended it (I3). A wrapped
// command's failure is never proof: what it did stays in doubt.
//
// A failure that is known to have had no effect and may pass (see Retryable) is
// followed by another run within the kind's retry.max, if what the command reads
// can be read again.
//
// While this process is stopped (Ctrl-Z, a suspended machine) the deadline is not
// extended; the guard ends the command at it. After kill -9 of this process the
// kernel and the guard end the command at once, and the operation is in doubt
// when its deadline has passed.
//
// A command that does not end with exit code 0 is ended with all that it has
// started, as far as procgroup can see it, and the attempt says whether nothing
// of it was left. Until that was seen, nothing proves that it did not
// land. What a command that ends well leaves running is left alone, and soon has no
// output any more.
//
// An error means that nothing was run. What went wrong afterwards is in the
// result.
func Run(ctx context.Context, r *record.Recorder, req Request) (Result, error) {
	rule := r.Rule(req.Kind)
	c, err := prepare(r, &req)
	if err != nil {
		return Result{}, err
	}
	if rule.Access == "read" {
		return runRead(ctx, req, c)
	}
	if rule.TokenArgument && !req.TokenSent {
		c.Note("no argument of the command carries {{token}}, so no check can find its effect by that, and absence will not be proven")
	}
	watch := startGuard(req.Guard) // while the attempt is being recorded
	defer watch.done()
	rewind := rewinder(req.Stdin)
	for last := (Result{}); ; {
		begun, err := r.BeginToSend(ctx, req.Request)
		switch {
		case err != nil && last.Recorded: // the last attempt's outcome stands
			c.Note("no further attempt: " + err.Error())
			return last, nil
		case err != nil:
			return Result{}, err
		case begun.Answer != ledger.AnswerBegun:
			return told(begun.BeginResult), nil
		}
		res := begun.BeginResult
		c.warn(req.Argv, last.Ran)
		c.watch = watch
		answer := runOnce(ctx, r, req, c, begun)
		last = finish(ctx, r, rule, begun, c, answer)
		if req.Reconcile && last.Recorded && last.Operation.State == ledger.Uncertain {
			checked(ctx, r, c, &last, answer)
		}
		last.Interrupted = c.tty != nil && c.stopped == nil && (answer.Signal == "SIGINT" || answer.Signal == "SIGQUIT")
		wait, again := outcome.Retryable(rule.Retry, res.Attempt.N, last.Outcome, answer)
		if !again || !last.Recorded || last.Operation.State != ledger.Failed {
			return last, nil
		}
		if c.asked != nil {
			c.Note(fmt.Sprintf("no further attempt: %s", c.asked))
			return last, nil
		}
		if !rewind(last.Ran) {
			c.Note("no further attempt: the command's input can be read only once")
			return last, nil
		}
		c.Note(fmt.Sprintf("attempt %d had no effect (%s); the next one in %s", res.Attempt.N, last.Outcome.Error, wait.Round(time.Millisecond)))
		if err := rest(ctx, wait, req.Signals); err != nil {
			c.Note("no further attempt: " + err.Error())
			return last, nil
		}
		req.Key = res.Operation.Key // the same operation, also where keys are made
		if c, err = prepare(r, &req); err != nil {
			return last, nil
		}
	}
}

// warn says, before a command runs for the first time, why its exit code 0 may hide a failure.
func (c *child) warn(argv []string, ran bool) {
	if why := cmp.Or(curlHides(argv), hides(argv)); why != "" && !ran {
		c.Note(why)
	}
}

func runOnce(ctx context.Context, r *record.Recorder, req Request, c *child, begun record.Begun) ledger.Answer {
	res := begun.BeginResult
	for _, name := range req.Expand { // what the command repeats of them is not stored either
		if value := os.Getenv(name); len(value) >= 4 {
			r.AddSecrets(res.Attempt.ID, value)
		}
	}
	c.until = begun.Until
	c.beat = func(ctx context.Context) (time.Time, error) {
		return ledger.Heartbeat(ctx, r.Store(), res.Attempt.ID, begun.Until.Length())
	}
	c.Argv, c.Env, c.attempt = fill(req, res), environment(req, res), res.Attempt.ID
	return c.run(ctx)
}

// rewinder remembers where an input begins, and tells later whether it can be
// read from there again.
func rewinder(in io.Reader) func(ran bool) bool {
	f, isFile := in.(*os.File)
	if in == nil || isFile && f.Name() == os.DevNull {
		return func(bool) bool { return true }
	}
	if s, ok := in.(io.Seeker); ok {
		if start, err := s.Seek(0, io.SeekCurrent); err == nil {
			return func(bool) bool {
				_, err := s.Seek(start, io.SeekStart)
				return err == nil
			}
		}
	}
	return func(ran bool) bool { return isFile && !ran }
}

// rest waits before the next attempt. A signal that would end the command ends
// the waiting.
func rest(ctx context.Context, wait time.Duration, signals <-chan os.Signal) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case s := <-signals:
			if ends(s) {
				return fmt.Errorf("%s", s)
			}
		}
	}
}

// Rehearse is what Run would be told, on a store that writes nothing.
func Rehearse(ctx context.Context, r *record.Recorder, req Request) (ledger.BeginResult, error) {
	if _, err := prepare(r, &req); err != nil {
		return ledger.BeginResult{}, err
	}
	return r.Begin(ctx, req.Request)
}

// prepare checks everything that can be wrong with a request before anything is
// recorded, and completes its request.
func prepare(r *record.Recorder, req *Request) (*child, error) {
	rule := r.Rule(req.Kind)
	if len(req.Argv) == 0 || req.Argv[0] == "" {
		return nil, errors.New("run: no command was given")
	}
	dir := req.Dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return nil, fmt.Errorf("run: the current directory: %w", err)
		}
	}
	expand := map[string]string{}
	for _, name := range req.Expand {
		value, ok := os.LookupEnv(name)
		if !ok {
			return nil, fmt.Errorf("run: --expand %s: it is not set in the environment", name)
		}
		if err := noOption(req.Argv, "${"+name+"}", value); err != nil {
			return nil, err
		}
		if rule.Access == "read" {
			continue
		}
		digest, err := r.Digest(value)
		if err != nil {
			return nil, fmt.Errorf("run: --expand %s: %w", name, err)
		}
		expand[name] = digest[:ledger.CallerLength]
	}
	if err := noOption(req.Argv, "{{key}}", req.Key); err != nil {
		return nil, err
	}
	if err := noOption(req.Argv, "{{token}}", req.Token); err != nil {
		return nil, err
	}
	asked := []any{spelled(req.Argv), req.Key, req.Input}
	if req.Key == "" {
		asked = append(asked, dir)
	}
	fed, err := digestOf(req.Stdin)
	if err != nil {
		return nil, fmt.Errorf("run: standard input: %w", err)
	}
	if fed != "" {
		asked = append(asked, fed)
	}
	req.Asked = "run\n" + string(ledger.EncodeJSON(asked))
	if len(req.Input) == 0 {
		req.Input = ledger.EncodeJSON(map[string]any{"argv": req.Argv})
	}
	for _, text := range append([]string{dir}, req.Argv...) {
		if rule.Access != "read" && !utf8.ValidString(text) {
			return nil, fmt.Errorf("run: %q is not UTF-8 and cannot be recorded as it is, so nothing was run; give it in a file or on standard input", text)
		}
	}
	req.Command = &ledger.Command{Argv: req.Argv, Dir: dir, Expand: expand}
	req.Sender, req.Wrapped = "command", true
	req.TokenSent, req.KeySent = carried(*req)
	if req.Grace <= 0 {
		req.Grace = DefaultGrace
	}
	if req.Note == nil {
		req.Note = func(string) {}
	}
	c := &child{Request: *req}
	c.Dir = dir
	return c, nil
}

// carried reports what of the operation the command line itself names. What the
// command merely finds in its environment may never leave it.
func carried(req Request) (token, key bool) {
	probe := ledger.BeginResult{Operation: ledger.Operation{Key: req.Key, Token: ledger.NewToken()}}
	for i, arg := range fill(req, probe) {
		token = token || i > 0 && ledger.HasWord(arg, probe.Operation.Token)
		key = key || i > 0 && strings.Contains(req.Argv[i], "{{key}}")
	}
	return token, key
}

// noOption refuses a value that would turn an argument into an option (I11).
func noOption(argv []string, placeholder, value string) error {
	if !strings.HasPrefix(value, "-") {
		return nil
	}
	for _, arg := range argv {
		if strings.HasPrefix(arg, placeholder) {
			return fmt.Errorf("run: the argument %s would begin with \"-\"", placeholder)
		}
	}
	return nil
}

func fill(req Request, res ledger.BeginResult) []string {
	pairs := []string{"{{key}}", res.Operation.KeyToSend(), "{{token}}", res.Operation.Token}
	for _, name := range req.Expand {
		pairs = append(pairs, "${"+name+"}", os.Getenv(name))
	}
	replacer := strings.NewReplacer(pairs...)
	argv := make([]string, len(req.Argv))
	for i, arg := range req.Argv {
		argv[i] = replacer.Replace(arg)
	}
	return argv
}

func environment(req Request, res ledger.BeginResult) []string {
	base := req.Env
	if base == nil {
		base = os.Environ()
	}
	return append(procgroup.Environ(base, res.Attempt.ID),
		"INDOUBT_ID="+res.Operation.ID, "INDOUBT_KEY="+res.Operation.KeyToSend(), "INDOUBT_TOKEN="+res.Operation.Token)
}

// runRead runs a command that changes nothing, without a word in the ledger.
func runRead(ctx context.Context, req Request, c *child) (Result, error) {
	c.Argv = fill(req, ledger.BeginResult{Operation: ledger.Operation{Key: req.Key, Token: req.Token}})
	c.watch = startGuard(req.Guard)
	defer c.watch.done()
	answer := c.run(ctx)
	res := Result{Read: true, Ran: answer.Sent, Exit: outcome.Status(answer), ExitCode: outcome.Status(answer), Unwritten: c.out.unwritten()}
	switch {
	case !answer.Sent:
		res.ExitCode = startCode(answer.Err)
		c.Note("not started: " + answer.Err.Error())
	case !answer.Exited:
		res.ExitCode = 128 + int(unix.SignalNum(answer.Signal))
	}
	return res, nil
}

// told is the result of a run that was not to send.
func told(res ledger.BeginResult) Result {
	out := Result{BeginResult: res, Exit: -1, Recorded: true}
	switch res.Answer {
	case ledger.AnswerFinished:
		stored, whole := outcome.Kept(res.Operation)
		if out.Stored = stored; !whole {
			// What reads the output would take the part for everything.
			out.Part, out.ExitCode = true, exitFinished
		}
	case ledger.AnswerInProgress, ledger.AnswerHeld:
		out.ExitCode = exitInProgress
	case ledger.AnswerKeyReused:
		out.ExitCode = exitKeyReused
	case ledger.AnswerRefused:
		out.ExitCode = exitRefused
	default:
		out.ExitCode = exitInDoubt
	}
	return out
}

// finish records the answer and works out what to exit with.
func finish(ctx context.Context, r *record.Recorder, rule record.KindRule, begun record.Begun, c *child, answer ledger.Answer) Result {
	ctx = context.WithoutCancel(ctx) // who interrupts the command still wants to know
	res, rec := begun.BeginResult, r.ToJudge(ctx, begun)
	out := Result{BeginResult: res, Ran: answer.Sent, Exit: -1, Unwritten: c.out.unwritten()}
	if answer.Exited {
		out.Exit = answer.Exit
	}
	out.Outcome = outcome.JudgeAttempt(ctx, rule.Judge, rec, res.Attempt.ID, answer)
	if answer.Sent && answer.Tree == ledger.TreeNone && out.Outcome.Outcome != ledger.OutcomeCommitted {
		left, err := c.group.Left()
		procgroup.Tell(&answer, left, err)
		out.Outcome = outcome.JudgeAttempt(ctx, rule.Judge, rec, res.Attempt.ID, answer)
	}
	out.Outcome = outcome.Tidy(out.Outcome, r.Secrets(res.Attempt.ID))
	if said, whole := outcome.Output(out.Outcome.Result); whole && len(said) > 0 && !bytes.Equal(said, answer.Stdout) {
		out.Outcome.Result = outcome.TextResult(string(said), true, outcome.KeptRedacted)
	}
	out.Outcome.ChangeID = ledger.NewID()
	asked, settled := c.hear()
	applied, err := r.SettleUntil(ctx, &out.Outcome, time.Now().Add(settlePatience), asked)
	settled()
	if err != nil {
		out.Why = fmt.Sprintf("the outcome (%s) could not be recorded: %v", out.Outcome.Outcome, err)
		out.ExitCode = exitInDoubt
		return out
	}
	out.Recorded = true
	if applied.After.ID != "" {
		out.Operation = applied.After
	} else if rec, err := r.Store().Read(ctx, ledger.Locator{ID: res.Operation.ID}); err == nil {
		out.Operation = rec.Operation
	}
	if applied.Attempt.ID == res.Attempt.ID {
		out.Attempt = applied.Attempt
	}
	out.ExitCode = exitCode(out, answer)
	return out
}

// checked looks once whether an attempt that has just ended in doubt landed.
func checked(ctx context.Context, r *record.Recorder, c *child, out *Result, answer ledger.Answer) {
	if err := r.ReadNow(ctx, out.Operation.ID); err != nil {
		c.Note(record.Unchecked(err))
	}
	rec, err := r.Store().Read(ctx, ledger.Locator{ID: out.Operation.ID})
	if err != nil {
		return
	}
	out.Operation = rec.Operation
	if out.ExitCode = exitCode(*out, answer); len(rec.Reads) > 0 {
		c.Note("checked: " + rec.Reads[0].Reason)
	}
}

// hear takes signals until stop: asked is closed when one asks this process to end.
// After stop it takes no more, and what it took is in c.asked.
func (c *child) hear() (asked <-chan struct{}, stop func()) {
	end, over, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case s := <-c.Signals:
				if ends(s) {
					c.asked = s
					close(end)
					return
				}
			case <-over:
				return
			}
		}
	}()
	return end, func() { close(over); <-gone }
}

// exitCode passes the command's code through where its outcome is known.
func exitCode(out Result, answer ledger.Answer) int {
	switch out.Operation.State {
	case ledger.Committed:
		return 0
	case ledger.Failed:
		switch {
		case !answer.Sent:
			return startCode(answer.Err)
		case out.Exit > 0:
			return out.Exit
		}
		return 1 // a rule read a refusal out of an exit code 0
	case ledger.Abandoned:
		return exitRefused
	}
	return exitInDoubt
}
