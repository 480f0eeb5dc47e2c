package cli_test

import (
	"os/exec"
	"testing"
)

// TestI3_ConcurrentDeliveries of one event, each in a process of its own: one of
// them goes on.
func TestI3_ConcurrentDeliveries(t *testing.T) {
	dir := t.TempDir()
	const deliveries = 12
	started := make([]*exec.Cmd, deliveries)
	for i := range started {
		started[i] = binary(dir, "begin", "--kind", "webhook", "--key", "evt_1", "--once")
		if err := started[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	exits := map[int]int{}
	for _, cmd := range started {
		_ = cmd.Wait()
		exits[cmd.ProcessState.ExitCode()]++
	}
	if exits[0] != 1 || exits[0]+exits[7]+exits[9] != deliveries {
		t.Errorf("exit codes %v", exits)
	}
	if exit, _, stderr := ends(t, binary(dir, "begin", "--kind", "webhook", "--key", "evt_1", "--once")); exit != 9 {
		t.Errorf("a late one: exit %d\n%s", exit, stderr)
	}
}
