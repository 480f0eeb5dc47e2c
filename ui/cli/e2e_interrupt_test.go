//go:build soak

package cli_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// An engine that is interrupted again leaves what it sent in doubt, and nothing running
// that could still send it.
func TestI3_E2E_ASecondInterruptEndsWhatASentCommandHasStarted(t *testing.T) {
	s := bareSite(t)
	started := filepath.Join(s.dir, "started")
	s.writePolicy(`version: 1
kinds:
  work:
    effect: safe
    retry: { max: 1 }
    lands_within: 0s
    resend: here
`)
	s.do("run", "--kind", "work", "--key", "k", "--", "sh", "-c", "test -e "+started+".2 || { touch "+started+".2; kill -9 $$; }; sleep 1000 & echo $! > "+started+"; wait")
	op := s.only()
	p := s.start("retry", seen(op), "--reason", "outage over", "--yes")
	pid := 0
	s.eventually("the command has started its child", func() bool {
		text, _ := os.ReadFile(started)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid != 0
	})
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	over := make(chan error, 1)
	go func() { over <- p.cmd.Wait() }()
	s.eventually("it has ended once it was interrupted again", func() bool {
		_ = p.cmd.Process.Signal(os.Interrupt)
		return len(over) > 0
	})
	s.eventually("the child has ended", func() bool { return !alive(pid) })
}
