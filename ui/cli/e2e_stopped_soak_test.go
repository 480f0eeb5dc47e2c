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
)

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
