package command

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"indoubt/ledger/record/command/standby"
	"indoubt/ledger/wire/procgroup"
)

// guard is a small process beside the command. The parent-death signal reaches
// only the command itself, not what that has started, and nothing reaches
// another process while this process is stopped; the guard ends all of it in both cases.
// The nil guard does nothing.
type guard struct {
	mu      sync.Mutex
	in      io.WriteCloser
	cmd     *exec.Cmd
	open    bool
	started chan struct{} // closed when it was started, or could not be
	failed  error
}

// startGuard starts the guard while the caller goes on.
func startGuard(argv []string) *guard {
	if len(argv) == 0 {
		return nil
	}
	g := &guard{cmd: exec.Command(argv[0], argv[1:]...), started: make(chan struct{})}
	g.cmd.Dir, g.cmd.SysProcAttr = "/", &syscall.SysProcAttr{Setsid: true}
	go func() {
		g.in, g.failed = g.cmd.StdinPipe()
		if g.failed == nil {
			g.failed = g.cmd.Start()
		}
		g.open = g.failed == nil
		close(g.started)
		if g.failed == nil {
			_ = g.cmd.Wait()
		}
	}()
	return g
}

// ready waits until the guard was started. It returns its process id, or 0.
func (g *guard) ready(note func(string)) int {
	if g == nil {
		return 0
	}
	<-g.started
	if g.failed != nil {
		note("no guard process: " + g.failed.Error() + "; if this process is stopped or killed, what the command has started is not")
		return 0
	}
	return g.cmd.Process.Pid
}

// noCharge is that of a guard that has nothing to end.
var noCharge = charge{Attempt: "-"}

func (g *guard) extend(c charge) {
	if g == nil {
		return
	}
	<-g.started
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		c.Attempt = cmp.Or(c.Attempt, noCharge.Attempt)
		until := "0"
		if !c.Until.IsZero() {
			until = standby.Time(max(time.Millisecond, time.Until(c.Until)), time.Now())
		}
		_, err := fmt.Fprintln(g.in, c.Attempt, c.Group, c.Root, until)
		g.open = err == nil
	}
}

// rest tells the guard that there is nothing to end any more.
func (g *guard) rest() { g.extend(noCharge) }

// done dismisses the guard, and does not wait for it: the outcome is known now.
func (g *guard) done() {
	if g == nil {
		return
	}
	g.rest()
	<-g.started
	if g.in != nil {
		g.in.Close()
	}
}

// Guard is the guard process's life, from where standby has something to do. It reads charges, "ATTEMPT GROUP ROOT
// MILLISECONDS@MOMENT" a line, and ends what the last one names when its time is up, or
// when the input ends, because then the process that should watch the command is
// gone. Of that one it calls empty with the attempt when it has seen that
// nothing of it lives any more.
func Guard(in io.Reader, empty func(attempt string)) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	in = standby.Input(in)
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	c := noCharge
	var up <-chan time.Time
	for {
		select {
		case line, open := <-lines:
			next := c
			var left time.Duration
			if open {
				var until string
				_, err := fmt.Sscan(line, &next.Attempt, &next.Group, &next.Root, &until)
				if err == nil {
					left, err = standby.Left(until, time.Now())
				}
				open = err == nil
			}
			if !open {
				if c != noCharge && c.end() && c.Attempt != noCharge.Attempt && empty != nil {
					empty(c.Attempt)
				}
				return
			}
			if c, up = next, nil; left > 0 {
				up = time.After(left)
			}
		case <-up:
			c.end()
			up = nil
		}
	}
}

// end ends everything that the charge names, and reports whether it has seen
// that nothing of it is left. While its root lives, it and the guard are spared.
func (c charge) end() bool {
	scope := procgroup.Scope{Attempt: c.Attempt}
	if c.Attempt == noCharge.Attempt {
		scope.Attempt = ""
	}
	if c.Root != 0 && os.Getppid() == c.Root {
		scope.Root, scope.Spare = c.Root, []int{c.Root}
	}
	left, err := procgroup.Of(c.Group, scope).End(endPatience)
	return err == nil && len(left) == 0
}
