//go:build soak && unix

package connect

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

func TestI3_StoppedPastItsDeadlineSendsNothing(t *testing.T) {
	url, effects := newCutter(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CONNECT_TEST_SENDER="+url)
	out := need.Get(cmd.StdoutPipe())(t)
	in := need.Get(cmd.StdinPipe())(t)
	need.OK(t, cmd.Start())
	buf := make([]byte, 64)
	if n, err := out.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "connected") {
		t.Fatalf("%q %v", buf[:n], err)
	}
	_ = cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(800 * time.Millisecond)
	in.Close()
	_ = cmd.Process.Signal(syscall.SIGCONT)
	n, _ := out.Read(buf)
	_ = cmd.Wait()
	got := strings.TrimSpace(string(buf[:n]))
	need.That(t, got == "sent false" && effects.Load() == 0, "said %q, %d effects", got, effects.Load())
}

func TestLeftBehindChildDoesNotHoldTheAnswer(t *testing.T) {
	a := Command(t.Context(), transport.CommandRequest{Argv: []string{"sh", "-c", "echo done; sleep 30 & exit 0"}, Limits: transport.Limits{Timeout: time.Minute}})
	need.That(t, a.Exited && a.Exit == 0 && string(a.Stdout) == "done\n" && a.Truncated, "%+v", a) // not truncated, had it waited for the child
}
