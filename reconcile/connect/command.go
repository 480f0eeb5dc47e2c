package connect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/wire/procgroup"
	"indoubt/ledger/wire/transmit"
	"indoubt/policy/transport"
)

const (
	// maxOutput bounds how much of each output stream is kept, in bytes, where the request does not.
	maxOutput = 1 << 20
	// outputDelay is how long output is awaited after the program itself has ended:
	// a child it left behind may hold the pipes open for ever.
	outputDelay = time.Second
	// endPatience is how long what it left behind is killed again, at most.
	endPatience = 2 * time.Second
)

// Command runs a program, by its argument vector and without a shell, in a process group of
// its own. At the deadline, when ctx ends and when the program fails, it kills it with all
// that it has started (see procgroup); what a program that ends well leaves running is left
// alone.
// Sent reports whether it was started.
func Command(ctx context.Context, q transport.CommandRequest) ledger.Answer {
	a := ledger.Answer{Via: "command", BeganAt: time.Now()}
	if len(q.Argv) == 0 {
		return transmit.Failed(a, errors.New("no command was given"))
	}
	ctx, cancel := context.WithDeadline(ctx, transmit.Ends(a.BeganAt, q.Timeout, q.Deadline))
	defer cancel()
	bound := int(cmp.Or(q.Max, maxOutput))
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
	group.Widen(procgroup.Scope{Attempt: q.Attempt})
	a.Sent = true
	stop := context.AfterFunc(ctx, func() {
		if _, exited := group.Exit(); !exited {
			group.Kill()
		}
	})
	waited := group.AwaitExit(nil)
	if waited { // until it is collected, no other process gets its number
		endOrLook(q.Attempt, group, group.EndedBadly(), &a)
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
		endOrLook(q.Attempt, group, !well, &a)
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
func endOrLook(attempt string, group *procgroup.Group, failed bool, a *ledger.Answer) {
	switch {
	case attempt == "" && failed:
		group.Kill()
	case failed:
		left, err := group.End(endPatience)
		procgroup.Tell(a, left, err)
	case attempt != "":
		left, err := group.Left()
		procgroup.Tell(a, left, err)
	}
}

// tail keeps the last max bytes written to it.
type tail struct {
	max int
	mu  sync.Mutex
	buf []byte
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
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
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf) > t.max {
		t.buf, t.cut = t.buf[len(t.buf)-t.max:], true
	}
	return bytes.Clone(t.buf)
}
