//go:build soak

package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"indoubt/ledger/need"
	"indoubt/reconcile/drill"
)

// A run that is killed with its command in the middle is in doubt after its
// deadline, and nothing sends it a second time by itself.
func TestI10_E2E_KilledRun(t *testing.T) {
	s := newSite(t)
	s.down.Meet(drill.Trouble{Fault: drill.CommitAndHang, Times: 1})
	p := s.start(append([]string{"run", "--kind", "quick", "--key", "k1"}, s.curl("hello")...)...)
	s.eventually("the write is under way", func() bool { return s.down.Hung() == 1 })
	p.cmd.Process.Signal(syscall.SIGKILL)
	p.finish()
	if r := s.run("quick", "k1", s.curl("hello")); r.Exit != 107 && r.Exit != 106 {
		t.Errorf("the same run while nobody knows: exit %d, want 107 or 106", r.Exit)
	}
	s.eventually("the deadline passes", func() bool { return s.only().State == "uncertain" })
	if r := s.run("quick", "k1", s.curl("hello")); r.Exit != 106 {
		t.Errorf("the same run after the deadline: exit %d, want 106\n%s", r.Exit, r.Err)
	}
	s.must(0, "check")
	op := s.only()
	s.wantState(op, "committed")
	s.wantEffects("hello", 1)
}

// A retry that is killed after it sent: in doubt after the deadline; the next
// one under the same key makes no second effect.
func TestI10_E2E_KilledRetry(t *testing.T) {
	s := newSite(t)
	op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
	s.down.Meet(drill.Trouble{Fault: drill.CommitAndHang, Times: 1},
		drill.Trouble{Fault: drill.BreakList, Status: 503}) // the check cannot help
	p := s.start("retry", seen(op), "--reason", "the key is remembered")
	s.eventually("the retry is under way", func() bool { return s.down.Hung() == 1 })
	p.cmd.Process.Signal(syscall.SIGKILL)
	p.finish()
	s.eventually("the deadline passes", func() bool {
		now := s.show(op.ID)
		if now.State != "pending" {
			s.wantState(now, "uncertain")
		}
		return now.State == "uncertain"
	})
	after := s.show(op.ID)
	need.Equal(t, len(after.Attempts), 2, after.Attempts, "attempts")
	s.down.Recover()
	s.must(0, "check", op.ID)
	s.wantState(s.show(op.ID), "committed")
	s.wantEffects(op.Token, 1)
}

// A run that is stopped past its deadline and then goes on sends nothing: the
// fence is the sender's own.
func TestI3_E2E_StoppedPastItsDeadline(t *testing.T) {
	s := newSite(t)
	curl := s.curl("hello")
	script := "echo $$ > pid; while [ ! -e go ]; do sleep 0.05; done; exec " + quoted(curl[slices.Index(curl, "--")+1:])
	p := s.start("run", "--kind", "quick", "--key", "k1", "--", "sh", "-c", script, "{{token}}")
	s.eventually("the command runs", func() bool { _, err := os.Stat(filepath.Join(s.dir, "pid")); return err == nil })
	p.cmd.Process.Signal(syscall.SIGSTOP)
	s.eventually("the deadline passes", func() bool { return s.only().State == "uncertain" })
	touch := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600)
	text, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	pid, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	need.OK(t, errors.Join(touch, err, bad))
	s.eventually("the command is gone", func() bool { return !alive(pid) })
	p.cmd.Process.Signal(syscall.SIGCONT)
	if r := p.finish(); r.Exit == 0 {
		t.Errorf("exit 0 after its deadline: %s", r.Out)
	}
	s.wantEffects("hello", 0)
	s.wantState(s.only(), "uncertain")
}
