//go:build unix

package record

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"indoubt/ledger/record/procgroup"
)

// guard is a small process beside the command. The parent-death signal reaches
// only the command itself, not what that has started, and nothing reaches
// anybody while this process is stopped; the guard ends the whole group in both
// cases. The zero and the nil guard do nothing.
type guard struct {
	mu   sync.Mutex
	in   io.WriteCloser
	cmd  *exec.Cmd
	open bool
}

func startGuard(argv []string, note func(string)) *guard {
	if len(argv) == 0 {
		return nil
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.SysProcAttr = "/", ownSession()
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		note("no guard process: " + err.Error() + "; if this process is stopped, the command is not")
		return nil
	}
	return &guard{in: in, cmd: cmd, open: true}
}

// extend tells the guard which group it guards, and until when.
func (g *guard) extend(group int, left time.Duration) {
	g.say(fmt.Sprintf("%d %d\n", group, left.Milliseconds()))
}

func (g *guard) say(line string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		_, err := io.WriteString(g.in, line)
		g.open = err == nil
	}
}

// done dismisses the guard, and does not wait for it: the outcome is to be
// recorded now.
func (g *guard) done() {
	if g == nil {
		return
	}
	g.say("done\n")
	g.in.Close()
	go func() { _ = g.cmd.Wait() }()
}

// Guard is the guard process's whole life. It reads "GROUP MILLISECONDS" lines,
// and kills the group when the time of the last one is up (0: no limit), or when
// its input ends without the word "done", because then the process that should
// watch the command is gone.
func Guard(in io.Reader) {
	ignoreSignals()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	group := 0
	var up <-chan time.Time
	for {
		select {
		case line, open := <-lines:
			if !open {
				killGroup(group)
				return
			}
			if strings.TrimSpace(line) == "done" {
				return
			}
			var ms int64
			if _, err := fmt.Sscanf(line, "%d %d", &group, &ms); err != nil {
				killGroup(group)
				return
			}
			up = nil
			if ms > 0 {
				up = time.After(time.Duration(ms) * time.Millisecond)
			}
		case <-up:
			killGroup(group)
			up = nil
		}
	}
}

func killGroup(group int) {
	if group > 1 {
		procgroup.KillID(group)
	}
}
