//go:build unix

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// TestI3_ConcurrentDeliveries of one event, each in a process of its own: one of
// them goes on.
func TestI3_ConcurrentDeliveries(t *testing.T) {
	dir := place(t)
	const deliveries = 6
	started := make([]*exec.Cmd, deliveries)
	for i := range started {
		started[i] = binary(dir, "begin", "--kind", "webhook", "--key", "evt_1")
		need.OK(t, started[i].Start())
	}
	exits := map[int]int{}
	for _, cmd := range started {
		_ = cmd.Wait()
		exits[cmd.ProcessState.ExitCode()]++
	}
	need.That(t, exits[0] == 1 && exits[0]+exits[7] == deliveries, "exit codes %v", exits)
	if exit, _, stderr := inside(t, dir, "begin", "--kind", "webhook", "--key", "evt_1"); exit != 7 {
		t.Errorf("a late one: exit %d\n%s", exit, stderr)
	}
}

// TestRunRetriesByThePolicy: what had no connection is tried again, and the person is told
// of the wait.
func TestRunRetriesByThePolicy(t *testing.T) {
	dir := place(t)
	file, curl := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "curl")
	need.OK(t, os.WriteFile(file, []byte("version: 1\nkinds:\n  upload:\n    retry: { max: 2, backoff: 1ms..5ms }\n"), 0o600))
	need.OK(t, os.WriteFile(curl, []byte("#!/bin/sh\n"+`echo x >> "runs-$INDOUBT_KEY"; [ $(wc -l < "runs-$INDOUBT_KEY") -ge 3 ] || exit 7`+"\n"), 0o700))
	exit, _, stderr := ends(t, binary(dir, "--policy", file, "run", "--kind", "upload", "--key", "a", "--", curl, "-q", "http://127.0.0.1:1/upload"))
	if exit != 0 || strings.Count(stderr, "had no effect") != 2 {
		t.Errorf("exit %d\n%s", exit, stderr)
	}
}
