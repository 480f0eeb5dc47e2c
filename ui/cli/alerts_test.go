package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"indoubt/ledger/need"
)

// An alert that asks for a gauge alone ends with the engine that served it. Each goes on
// with what was served last, or asks itself whether an engine is there.
func TestNoAlertEndsWithItsEngine(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	need.OK(t, yaml.Unmarshal(need.Get(os.ReadFile("../../reconcile/alerts.yaml"))(t), &file))
	own := map[string]string{
		"NoEngineChecks": "absent(indoubt_engine_seconds)",
		"OutageGrows":    "offset 30m", // it is about growth: what is not seen to grow does not
		"NotToldAnyone":  "[15m]",      // it is about the last minutes
	}
	selector := regexp.MustCompile(`indoubt_[a-z_]+(\{[^}]*\})?`)
	kept := 0
	for _, r := range file.Groups[0].Rules {
		expr := strings.Join(strings.Fields(r.Expr), " ")
		if part, ok := own[r.Alert]; ok {
			need.Contains(t, expr, part)
			continue
		}
		s := selector.FindString(expr)
		expr = strings.TrimPrefix(expr, "time() - ")
		form := "(" + s + " or last_over_time(" + s + "[1d]) unless on (job) " + s + ") "
		need.That(t, s != "" && strings.HasPrefix(expr, form) && regexp.MustCompile(`^(>|<|==) [0-9.e]+$`).MatchString(expr[min(len(form), len(expr)):]),
			"%s is resolved when the engine dies: %s\nwant %s> 0", r.Alert, expr, form)
		kept++
	}
	need.That(t, kept >= 6, "%d alerts are kept", kept)
}
