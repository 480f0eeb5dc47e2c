//go:build soak

package cli_test

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// A pipeline whose ledger waits for a standby that is not there says so while it waits.
func TestE2E_ACommitThatWaitsForAStandby(t *testing.T) {
	c := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"synchronous_commit": "on"}})
	need.OK(t, c.Exec("postgres", "CREATE DATABASE ledger"))
	at := []string{"--ledger", c.URL("ledger")}
	out, err := exec.Command(program, append(at, "init")...).CombinedOutput()
	need.Must(t, err == nil, "%s", out)
	c.Set(t, "synchronous_standby_names", "gone")
	run := exec.Command(program, append(at, "run", "--kind", "post", "--", "true")...)
	said := need.Get(run.StderrPipe())(t)
	need.OK(t, run.Start())
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "warning: nothing is recorded yet: ") && strings.Contains(lines.Text(), "waits for a standby (gone)") {
			c.Set(t, "synchronous_standby_names", "")
			for lines.Scan() {
			}
			need.OK(t, run.Wait())
			return
		}
	}
	t.Errorf("it waits in silence: %v", run.Wait())
}
