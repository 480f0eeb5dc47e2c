package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/wire/procgroup"
	"indoubt/ledger/wire/transmit"
)

// CommandRequest is one program to run. It is started by its argument vector;
// no shell sees it.
type CommandRequest struct {
	Argv      []string
	Dir       string
	Env       []string // added to this process's own
	Stdin     []byte
	Timeout   time.Duration // DefaultTimeout when 0 and no Deadline is set
	Deadline  time.Time     // it is not started after this, and killed at it
	MaxOutput int           // bytes kept of each stream's end; DefaultMaxOutput when 0
	// Attempt is the one that the program makes, "" for one that only reads. Its
	// processes carry it, and the answer says whether any of them is left.
	Attempt string
}

const (
	// outputDelay is how long output is awaited after the program itself has ended:
	// a child it left behind may hold the pipes open for ever.
	outputDelay = time.Second
	// endPatience is how long what it left behind is killed again, at most.
	endPatience = 2 * time.Second
)

// Command runs a program in a process group of its own. At the deadline, when
// ctx ends and when the program fails, it kills it with all that it has started
// (see procgroup); what a program that ends well leaves running is left alone.
// Sent reports whether it was started.
func Command(ctx context.Context, q CommandRequest) ledger.Answer {
	a := ledger.Answer{Via: "command", BeganAt: time.Now()}
	if len(q.Argv) == 0 {
		return transmit.Failed(a, errors.New("no command was given"))
	}
	ctx, cancel := context.WithDeadline(ctx, transmit.Ends(a.BeganAt, q.Timeout, q.Deadline))
	defer cancel()
	bound := q.MaxOutput
	if bound <= 0 {
		bound = DefaultMaxOutput
	}
	stdout, stderr := &tail{max: bound}, &tail{max: bound}
	cmd := exec.Command(q.Argv[0], q.Argv[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = q.Dir, bytes.NewReader(q.Stdin), stdout, stderr
	cmd.Env = append(os.Environ(), q.Env...)
	if q.Attempt != "" {
		cmd.Env = procgroup.Environ(cmd.Env, q.Attempt)
	}
	cmd.WaitDelay = outputDelay
	procgroup.Prepare(cmd)

	// The kernel ties the child's life to the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if transmit.Past(q.Deadline) {
		return transmit.Failed(a, transmit.ErrPastDeadline)
	}
	if err := ctx.Err(); err != nil {
		return transmit.Failed(a, err)
	}
	group, over, err := procgroup.StartWithUs(cmd)
	if err != nil {
		return transmit.Failed(a, err)
	}
	defer group.Release()
	group.Widen(procgroup.Scope{Attempt: q.Attempt})
	a.Sent = true
	stop := context.AfterFunc(ctx, func() {
		if !group.Exited() {
			group.Kill()
		}
	})
	waited := group.AwaitExit(nil)
	if waited { // until it is collected, no other process gets its number
		q.endOrLook(group, group.EndedBadly(), &a)
		over()
	}
	err = cmd.Wait()
	over()
	inTime := stop()
	a.Stdout, a.Stderr = stdout.bytes(), stderr.bytes()
	a.Truncated = stdout.cut || stderr.cut || !inTime || errors.Is(err, exec.ErrWaitDelay)
	a.EndedAt = time.Now()
	if state := cmd.ProcessState; state != nil {
		if a.Signal = group.EndedBy(state); a.Signal == "" {
			a.Exited, a.Exit = true, state.ExitCode()
		}
	}
	well := a.Exited && a.Exit == 0
	if !waited {
		q.endOrLook(group, !well, &a)
	}
	if well {
		return a
	}
	switch {
	case ctx.Err() != nil:
		a.Err = fmt.Errorf("%s: killed: %w", q.Argv[0], ctx.Err())
		a.Class = transmit.Class(ctx.Err())
	case a.Signal != "":
		a.Err = fmt.Errorf("%s: ended by a signal: %s", q.Argv[0], a.Signal)
		a.Class = ledger.ClassKilled
	case !a.Exited:
		a.Err, a.Class = err, ledger.ClassKilled
	}
	return a
}

// endOrLook ends what a program that failed has left behind, which could still
// act after its attempt is judged, and looks for what one has left that did not.
// Nothing hangs on what a check leaves.
func (q CommandRequest) endOrLook(group *procgroup.Group, failed bool, a *ledger.Answer) {
	switch {
	case q.Attempt == "" && failed:
		group.Kill()
	case failed:
		left, err := group.End(endPatience)
		procgroup.Tell(a, left, err)
	case q.Attempt != "":
		left, err := group.Left()
		procgroup.Tell(a, left, err)
	}
}

// tail keeps the last max bytes written to it.
type tail struct {
	max int
	buf []byte
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > t.max {
		p, t.cut = p[len(p)-t.max:], true
	}
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*t.max {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.max:]...)
		t.cut = true
	}
	return n, nil
}

func (t *tail) bytes() []byte {
	if len(t.buf) > t.max {
		t.buf, t.cut = t.buf[len(t.buf)-t.max:], true
	}
	return t.buf
}
