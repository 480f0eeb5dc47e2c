//go:build soak

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// Without a terminal the demo prints what there is to decide and is gone again.
func TestE2E_DemoAsText(t *testing.T) {
	s := newSite(t)
	dir := filepath.Join(s.dir, "night")
	r := s.must(0, "demo", "--seed", "4", "--dir", dir)
	if first, _, _ := strings.Cut(r.Out, "\n"); !strings.Contains(first, dir) {
		t.Errorf("the first line does not name the directory: %s", first)
	}
	need.Contains(t, r.Out, "payout 420.00 → acct_7Kd", "TWICE")
	// Its place depends on the odds, and those on how long ago the engine has looked at the counts.
	big := s.must(0, "list", "--ledger", filepath.Join(dir, "payments.db"), "--policy", filepath.Join(dir, "policy.yaml"), "--limit", "200")
	need.Contains(t, big.Out, "charge cus_1QX 12,000.00")
	// The same demo goes on: nothing is made anew, and its checks go on by the address that its
	// downstream has now.
	there := []string{"--ledger", filepath.Join(dir, "payments.db"), "--policy", filepath.Join(dir, "policy.yaml")}
	s.must(0, append(there, "policy", "apply", "--reason", "as the console does")...)
	r = s.must(0, "demo", "--dir", dir)
	need.Contains(t, s.must(0, append(there, "policy", "apply", "--reason", "again")...).Out, "in force already")
	need.Contains(t, r.Out, "payout 420.00 → acct_7Kd", "TWICE")
	after := s.must(0, "list", "--ledger", filepath.Join(dir, "payments.db"), "--policy", filepath.Join(dir, "policy.yaml"), "--limit", "200")
	need.Contains(t, after.Out, "charge cus_1QX 12,000.00")
	other := filepath.Join(s.dir, "other")
	need.OK(t, os.MkdirAll(filepath.Join(other, "thing"), 0o755))
	need.Equal(t, s.do("demo", "--dir", other).Exit, 2, "a demo over what is none: exit")
}

// The demo in a terminal opens the console. All of it runs inside: it ends when it is told to
// stop, and has no process that could stay behind.
func TestE2E_DemoLeavesNothingBehind(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			s := newSite(t)
			dir := filepath.Join(s.dir, "night")
			cmd := exec.Command(program, "demo", "--dir", dir)
			cmd.Env = append(s.env, "TERM=xterm-256color")
			screen := onScreen(t, cmd, 80)
			s.eventually("the console is open", func() bool { return strings.Contains(screen.drawn(), "NEED YOU") })
			need.That(t, len(children(t, cmd.Process.Pid)) == 0, "it has processes, which it may leave behind")
			cmd.Process.Signal(sig)
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-ended:
			case <-time.After(patience):
				t.Fatal("it does not end")
			}
		})
	}
}

func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				pids = append(pids, child)
			}
		}
	}
	if len(tasks) == 0 {
		t.Skip("the processes of another process cannot be listed here")
	}
	return pids
}
