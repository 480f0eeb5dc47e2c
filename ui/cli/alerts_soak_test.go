//go:build soak

package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"indoubt/ledger/need"
)

// Prometheus itself reads the rules, and raises each alert when it should and no earlier.
func TestPrometheusRaisesTheAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: apt-get install prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "testdata/alerts_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = "../../reconcile"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	var rules struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	need.OK(t, yaml.Unmarshal(need.Get(os.ReadFile("../../reconcile/alerts.yaml"))(t), &rules))
	tests := string(need.Get(os.ReadFile("../../reconcile/testdata/alerts_test.yaml"))(t))
	for _, r := range rules.Groups[0].Rules {
		need.That(t, strings.Count(tests, "alertname: "+r.Alert) >= 2,
			"%s is not tested as silent and as raised", r.Alert)
	}
}
