package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/procgroup"
)

const (
	maxStderr = 16 << 10
	look      = 500 * time.Millisecond
	// endPatience is how long what is left of a command is killed again, at most.
	endPatience = 2 * time.Second
)

type child struct {
	Request           // with its placeholders filled in
	asked   os.Signal // the last that asked this process to end
	told    string    // the first signal that asked the command to end while it ran
	watch   *guard
	attempt string // that its processes carry; "" for a command that only reads
	root    int    // this process, when it adopts every orphan of the command

	until record.SendDeadline
	beat  func(ctx context.Context) (time.Time, error) // moves the deadline; nil: there is none

	cmd     *exec.Cmd
	group   *procgroup.Group
	tty     *terminal // that the command has, nil: none
	out     tee
	err     tee
	stopped error             // why it was told to end
	class   ledger.ErrorClass // and what that is called
	killAt  time.Time         // when TERM becomes KILL
	killed  bool
	over    bool // it has ended, and what it has said is passed on
}

func (c *child) run(ctx context.Context) (a ledger.Answer) {
	a = ledger.Answer{Via: "command", BeganAt: time.Now()}
	defer func() { a.EndedAt = time.Now() }()
	if err := c.interrupted(); err != nil {
		a.Err = err
		return a
	}
	c.cmd = exec.Command(c.Argv[0], c.Argv[1:]...)
	c.cmd.Dir, c.cmd.Env = c.Dir, c.Env
	procgroup.Prepare(c.cmd)
	if c.tty = ownTerminal(c.Stdin, c.Stdout, c.Guard); c.tty != nil {
		c.tty.holds(c.cmd)
		defer func() { c.tty.back(a.Signal != "" || c.stopped != nil) }()
	}
	closeInput, err := c.input()
	if err != nil {
		a.Err = err
		return a
	}
	defer closeInput()
	scope := procgroup.Scope{Attempt: c.attempt, Spare: []int{c.watch.ready(c.Note)}}
	if c.Alone && procgroup.Adopt() {
		c.root = os.Getpid()
		scope.Root = c.root
	}
	c.watch.extend(c.charge(0)) // this process may be killed before it knows the group
	// The deadline may have passed while this process was stopped or slow.
	if c.beat != nil && c.until.Left() <= 0 {
		a.Err = errors.New("the deadline had passed before the command was started")
		return a
	}
	started, err := c.output()
	if err != nil {
		a.Err = err
		return a
	}
	l := life{started: make(chan error, 1), exited: make(chan struct{}), collect: make(chan struct{}), ended: make(chan error, 1)}
	go c.live(l, scope)
	err = <-l.started
	started()
	if err != nil {
		a.Err = err
		return a
	}
	a.Sent = true
	c.attend(ctx, l.exited)
	c.told = cmp.Or(c.told, c.tty.asked())
	if c.stopped != nil || c.group.EndedBadly() {
		c.end(&a)
	}
	c.watch.rest() // what a command that ended well has left is its own business
	c.over = true
	c.attend(context.WithoutCancel(ctx), c.drained()) // for as long as its reader takes
	close(l.collect)
	a = c.answer(a, <-l.ended)
	if a.Tree == ledger.TreeNone && !(a.Exited && a.Exit == 0) {
		c.end(&a) // where it is not known before that it ended badly
	}
	return a
}

// end ends what a command that did not end well has left: it could still act
// after its attempt is judged.
func (c *child) end(a *ledger.Answer) {
	left, err := c.group.End(endPatience)
	procgroup.Tell(a, left, err)
	if len(left) > 0 {
		c.Note("could not be ended: process " + procgroup.List(left))
	}
}

// charge is what the guard is to end, and when.
type charge struct {
	Attempt string    // "-": none
	Group   int       // 0: not known yet
	Root    int       // a process whose descendants are all the command's, or 0
	Until   time.Time // zero: no limit
}

// charge names the command by its group, or by its attempt alone.
func (c *child) charge(group int) charge {
	return charge{Attempt: c.attempt, Group: group, Root: c.root, Until: c.guarded()}
}

// life is how the thread that owns the process tells of it.
type life struct {
	started chan error
	exited  chan struct{} // closed when it has exited
	collect chan struct{} // closed when its process id may go
	ended   chan error
}

// live starts the command and waits for it, all on one thread: the kernel's
// parent-death signal fires when the thread that started it ends.
func (c *child) live(l life, scope procgroup.Scope) {
	runtime.LockOSThread()
	var err error
	c.group, err = procgroup.Start(c.cmd)
	if err == nil { // before anything else, because this process may be stopped at any moment
		c.watch.extend(c.charge(c.group.ID()))
		if pid := c.tty.joins(c.group.ID()); pid > 0 {
			scope.Spare = append(scope.Spare, pid)
		}
		c.group.Widen(scope)
	}
	l.started <- err
	if err != nil {
		return
	}
	var stopped func()
	if c.tty != nil {
		stopped = func() { c.tty.paused(c.cmd.Process.Pid) }
	}
	if c.group.AwaitExit(stopped) {
		close(l.exited)
		<-l.collect // until then no other process gets its id, and can be signalled
		l.ended <- c.cmd.Wait()
		return
	}
	err = c.cmd.Wait()
	close(l.exited)
	l.ended <- err
}

// interrupted tells of a signal that came before the command was started.
func (c *child) interrupted() error {
	select {
	case c.asked = <-c.Signals:
		return fmt.Errorf("%s before the command was started", c.asked)
	default:
		return nil
	}
}

// attend keeps the attempt alive while the command lives, and ends the command
// when it may not live on. Of one that is over only the output is left, and who asks
// this process to end does without the rest.
func (c *child) attend(ctx context.Context, exited <-chan struct{}) {
	ticker := time.NewTicker(c.pace())
	defer ticker.Stop()
	beats := make(chan heartbeat, 1)
	beatCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	beating, lastBeat := false, time.Now()
	for {
		select {
		case <-exited:
			c.unheard()
			return
		case <-ctx.Done():
			c.stop(ctx.Err(), ledger.ClassKilled, c.Grace)
			ctx = context.WithoutCancel(ctx)
		case s := <-c.Signals:
			c.hears(s)
			switch {
			case !c.over:
				c.group.Signal(s)
			case ends(s):
				return
			}
		case b := <-beats:
			beating = false
			c.beaten(b)
		case <-ticker.C:
			c.group.Reap()
		}
		if !c.over {
			c.enforce()
		}
		if c.beat != nil && !beating && time.Since(lastBeat) >= c.until.Every() && c.until.Left() > 0 {
			beating, lastBeat = true, time.Now()
			go func(asked time.Time, left time.Duration) {
				ctx, cancel := context.WithTimeout(beatCtx, left)
				defer cancel()
				deadline, err := c.beat(ctx)
				beats <- heartbeat{asked, deadline, err}
			}(c.until.Now(), c.until.Left())
		}
	}
}

// hears notes a signal that asks to end. A command that was asked to end while it ran
// may leave its work half done and exit 0.
func (c *child) hears(s os.Signal) {
	if !ends(s) {
		return
	}
	if c.asked = s; !c.over && c.told == "" {
		c.told = s.String()
	}
}

// unheard notes the signals that came before this process saw the command exit: whoever
// sent them may have sent them to the command as well.
func (c *child) unheard() {
	for {
		select {
		case s := <-c.Signals:
			c.hears(s)
		default:
			return
		}
	}
}

type heartbeat struct {
	asked, deadline time.Time
	err             error
}

// beaten takes a heartbeat's result. An attempt that is not live any more ends
// the command at once; a ledger that does not answer is asked again until the
// deadline is near.
func (c *child) beaten(b heartbeat) {
	switch {
	case b.err == nil:
		c.until.Extend(b.asked, b.deadline)
		if !c.over {
			c.watch.extend(c.charge(c.group.ID()))
		}
	case errors.Is(b.err, ledger.ErrMoved), errors.Is(b.err, ledger.ErrNotFound), errors.Is(b.err, ledger.ErrReadOnly),
		errors.Is(b.err, ledger.ErrCopied), errors.Is(b.err, fs.ErrNotExist):
		c.stop(fmt.Errorf("killed: the ledger no longer lets it go on: %w", b.err), ledger.ClassDeadline, min(c.Grace, c.until.Left()))
	default:
		c.Note("heartbeat: " + b.err.Error())
	}
}

// enforce ends the command by the clock: near the deadline with TERM, at it
// with KILL, because from then on another sender may act.
func (c *child) enforce() {
	if c.beat != nil {
		switch left := c.until.Left(); {
		case left <= 0:
			c.stop(errors.New("killed: its deadline passed"), ledger.ClassDeadline, 0)
		case left <= c.until.Margin(c.Grace):
			c.stop(errors.New("killed: no heartbeat reached the ledger before the deadline"), ledger.ClassDeadline, left)
		}
	}
	if c.stopped != nil && !c.killed && !time.Now().Before(c.killAt) {
		c.killed = true
		c.group.Kill()
	}
}

// stop tells the command to end, and sets when it is made to. What ended by
// itself in the meantime is left to its own answer.
func (c *child) stop(why error, class ledger.ErrorClass, grace time.Duration) {
	killAt := time.Now().Add(max(0, grace))
	if c.stopped != nil {
		if killAt.Before(c.killAt) {
			c.killAt = killAt
		}
		return
	}
	if _, exited := c.group.Exit(); exited || c.over {
		return
	}
	c.stopped, c.class, c.killAt = why, class, killAt
	c.Note(why.Error())
	if grace > 0 {
		c.group.Terminate()
	}
}

func (c *child) pace() time.Duration {
	if c.beat == nil {
		return look
	}
	return max(time.Millisecond, min(look, c.until.Length()/20))
}

// guarded is until when the guard lets the command live without word from here:
// a little before the deadline, because another process takes its time too.
func (c *child) guarded() time.Time {
	if c.beat == nil {
		return time.Time{}
	}
	return time.Now().Add(c.until.Left() - c.until.Margin(c.Grace)/2)
}

func (c *child) answer(a ledger.Answer, err error) ledger.Answer {
	a.Stdout, a.Truncated = c.out.kept()
	a.Stderr, _ = c.err.kept()
	a.Err, a.Class = c.stopped, c.class
	state := c.cmd.ProcessState
	if state == nil {
		a.Err = errors.Join(a.Err, err)
		return a
	}
	if signal := c.group.EndedBy(state); signal != "" {
		a.Signal = signal
		return a
	}
	if err := c.tty.neverBegan(c.Argv[0]); err != nil {
		a.Sent, a.Err, a.Class = false, err, ""
		return a
	}
	if a.Exited, a.Exit = true, state.ExitCode(); c.told != "" && a.Exit == 0 {
		a.Doubt, a.Class = "it was asked to end ("+c.told+") and may have left its work half done", cmp.Or(a.Class, ledger.ClassKilled)
	}
	return outcome.Command(a, c.Argv, c.Env)
}

// input connects standard input. A file or pipe is handed over as it is, and so
// is the terminal with which the command is in the foreground; another one is
// copied, because a process group in the background may not read it.
func (c *child) input() (closeInput func(), err error) {
	if c.Stdin == nil {
		return func() {}, nil
	}
	if f, ok := c.Stdin.(*os.File); ok {
		info, err := f.Stat()
		if err == nil && info.Mode()&fs.ModeCharDevice == 0 || c.tty != nil || f.Name() == os.DevNull {
			c.cmd.Stdin = f
			return func() {}, nil
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	go func() {
		_, _ = io.Copy(w, c.Stdin)
		w.Close()
	}()
	c.cmd.Stdin = r
	return func() { r.Close() }, nil
}

// startCode is the exit code a shell gives for what could not be started.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotStartable
}

var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// ignored are those of them that this process was started to ignore (nohup),
// as found before anything subscribes to them.
var ignored = func() map[os.Signal]bool {
	found := map[os.Signal]bool{}
	for _, s := range forwarded {
		found[s] = signal.Ignored(s)
	}
	return found
}()

// Forwarded subscribes to the signals that a wrapped command must hear of, for
// Request.Signals. Those that this process was started to ignore (nohup) stay
// ignored. It also keeps a closed standard output from ending this process: the
// command's outcome must be recorded all the same.
func Forwarded() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	for _, s := range forwarded {
		if !ignored[s] {
			signal.Notify(c, s)
		}
	}
	return c, func() { signal.Stop(c); signal.Stop(pipe) }
}

// ends reports whether a signal asks a process to end.
func ends(s os.Signal) bool { return s != syscall.SIGUSR1 && s != syscall.SIGUSR2 }
