//go:build soak

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"indoubt/ledger/need"
)

func TestBinaryWithoutTheRightToWrite(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("run by an ordinary user: the directory is closed to its owner")
	}
	dir := place(t)
	openToAll(dir)
	path := filepath.Join(dir, "ledger.db")
	if exit, _, stderr := ends(t, binary(dir, "--ledger", path, "init")); exit != 0 {
		t.Fatal(stderr)
	}
	os.Chmod(path, 0o444)
	os.Chmod(dir, 0o555)
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	as := func(args ...string) *exec.Cmd {
		cmd := binary("/", append([]string{"--ledger", path}, args...)...)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		return cmd
	}
	exit, _, stderr := ends(t, as("hold", "--all", "--reason", "r"))
	if exit != 1 && exit != 5 || strings.Count(stderr, "\n") < 2 {
		t.Errorf("a change: exit %d\n%s", exit, stderr)
	}
	need.That(t, !strings.Contains(stderr, "goroutine") && !strings.Contains(stderr, "SQLITE"),
		"not one clear sentence: %s", stderr)
	if exit, _, stderr := ends(t, as("list")); exit != 0 && strings.Count(stderr, "\n") < 2 {
		t.Errorf("looking: exit %d\n%s", exit, stderr)
	}
}

func TestBinaryAsksForAReason(t *testing.T) {
	dir := place(t)
	ends(t, binary(dir, "init"))
	if exit, screen := onTerminal(t, binary(dir, "hold", "--all"), "Reason:", "outage\r"); exit != 0 {
		t.Errorf("exit %d\n%q", exit, screen)
	}
	if _, stdout, _ := ends(t, binary(dir, "log")); !strings.Contains(stdout, "maya: outage") {
		t.Error(stdout)
	}
}
