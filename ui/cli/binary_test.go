//go:build unix

package cli_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"indoubt/ledger/need"
)

// binary starts the built program in a directory of its own.
func binary(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "XDG_STATE_HOME=" + dir + "/state", "XDG_CONFIG_HOME=" + dir + "/config", "PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "INDOUBT_ACTOR=maya", "TZ=UTC"}
	return cmd
}

// ends runs a command and gives its exit code and what it printed.
func ends(t *testing.T, cmd *exec.Cmd) (exit int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

func TestBinaryFirstSteps(t *testing.T) {
	dir := place(t)
	exit, stdout, stderr := ends(t, binary(dir))
	if exit != 3 || stdout != "" || !strings.HasPrefix(stderr, "No ledger at ~/state/indoubt/ledger.db. This is not an all-clear.\n") {
		t.Errorf("exit %d\n%s%s", exit, stdout, stderr)
	}
	if exit, stdout, _ := ends(t, binary(dir, "--version")); exit != 0 || !strings.HasPrefix(stdout, "indoubt ") || !strings.Contains(stdout, runtime.GOOS) {
		t.Errorf("exit %d\n%s", exit, stdout)
	}
	if exit, stdout, _ := ends(t, binary(dir, "init")); exit != 0 || !strings.Contains(stdout, "made a ledger at ~/state/indoubt/ledger.db") {
		t.Errorf("exit %d\n%s", exit, stdout)
	}
	if info, err := os.Stat(filepath.Join(dir, "state/indoubt/ledger.db")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if exit, stdout, _ := ends(t, binary(dir)); exit != 0 || !strings.Contains(stdout, "Not an all-clear") {
		t.Errorf("exit %d\n%s", exit, stdout)
	}
	if exit, _, stderr := ends(t, binary(dir, "policy", "init")); exit != 0 {
		t.Errorf("exit %d\n%s", exit, stderr)
	}
	if exit, stdout, stderr := ends(t, binary(dir, "policy", "check")); exit != 0 {
		t.Errorf("the example is not good: exit %d\n%s%s", exit, stdout, stderr)
	}
}

func TestBinaryFollowsUntilItIsInterrupted(t *testing.T) {
	dir := place(t)
	inside(t, dir, "init")
	cmd := binary(dir, "log", "--follow")
	out := need.Get(cmd.StdoutPipe())(t)
	need.OK(t, cmd.Start())
	inside(t, dir, "hold", "--all", "--reason", "outage")
	line := make([]byte, 512)
	n, err := out.Read(line)
	if err != nil || !strings.Contains(string(line[:n]), "outage") {
		t.Errorf("%q %v", line[:n], err)
	}
	cmd.Process.Signal(os.Interrupt)
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}

// onTerminal runs the program on a terminal and answers what it asks.
func onTerminal(t *testing.T, cmd *exec.Cmd, await, answer string) (exit int, screen string) {
	t.Helper()
	tty := need.Get(pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80}))(t)
	defer tty.Close()
	stuck := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer stuck.Stop()
	var seen bytes.Buffer
	buf := make([]byte, 4096)
	answered := false
	for {
		n, err := tty.Read(buf)
		seen.Write(buf[:n])
		if !answered && strings.Contains(seen.String(), await) {
			answered = true
			tty.Write([]byte(answer))
		}
		if err != nil {
			break
		}
	}
	cmd.Wait()
	need.That(t, answered, "it never showed %q:\n%q", await, seen.String())
	return cmd.ProcessState.ExitCode(), seen.String()
}

func TestBinaryOpensAndLeavesTheConsole(t *testing.T) {
	dir := place(t)
	inside(t, dir, "init")
	if exit, screen := onTerminal(t, binary(dir), "Nothing was ever recorded", "q"); exit != 0 || !strings.Contains(screen, "\x1b[?1049h") {
		t.Errorf("exit %d\n%q", exit, screen)
	}
}
