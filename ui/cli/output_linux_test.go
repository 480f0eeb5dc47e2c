package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ui/cli"
)

// What a command prints is not lost in silence where there is no room for it.
func TestE2E_OutputToAFullDisk(t *testing.T) {
	s := newSite(t)
	s.begin("stripe.charge", "k1", chargeInput)
	for exit, commands := range map[int][]string{
		1: {"list", "list --json", "list --all -o jsonl", "log", "runs", "doctor", "help", "help list", "list --help", "--help", "--version", "--version --json", "completion bash", "show nosuch --json"},
		2: {"policy"},
	} {
		for _, line := range commands {
			full := need.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
			said := strings.Builder{}
			got := cli.Inside(t.Context(), s.env, 0, full, &said, strings.Fields(line)...)
			full.Close()
			if got != exit || strings.Count(said.String(), "no space left") != 1 {
				t.Errorf("%v: exit %d, %q", line, got, said.String())
			}
		}
	}
}

// TestOutputOnAFullDiskIsNoSuccess to who reads the output, and the same again prints it.
func TestOutputOnAFullDiskIsNoSuccess(t *testing.T) {
	dir := place(t)
	args := []string{"run", "--kind", "post", "--key", "k", "--", "/bin/sh", "-c", "echo said; echo x >> runs"}
	for range 2 {
		cmd := binary(dir, args...)
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = need.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t), &stderr
		_ = cmd.Run()
		need.That(t, cmd.ProcessState.ExitCode() == 101 && strings.Contains(stderr.String(), "the output could not be written"), "%s: %s", cmd.ProcessState, stderr.String())
	}
	exit, stdout, stderr := ends(t, binary(dir, args...))
	need.That(t, exit == 0 && stdout == "said\n", "exit %d: %q %s", exit, stdout, stderr)
	need.Equal(t, string(need.Get(os.ReadFile(filepath.Join(dir, "runs")))(t)), "x\n")
}
