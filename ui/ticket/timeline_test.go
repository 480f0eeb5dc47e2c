package ticket

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
)

// TestTimelineTellsOfWhatACommandLeft while it is in doubt.
func TestTimelineTellsOfWhatACommandLeft(t *testing.T) {
	at := time.UnixMilli(1_790_000_000_000)
	for name, c := range map[string]struct {
		a    ledger.Attempt
		want string
	}{
		"not seen gone":       {ledger.Attempt{EndedAt: at, Outcome: ledger.OutcomeUncertain, Tree: ledger.TreeOpen}, "may still write"},
		"gone later":          {ledger.Attempt{EndedAt: at, Outcome: ledger.OutcomeUncertain, Tree: ledger.TreeEmpty, TreeAt: at.Add(time.Minute)}, "lives any more"},
		"gone with its end":   {ledger.Attempt{EndedAt: at, Outcome: ledger.OutcomeUncertain, Tree: ledger.TreeEmpty, TreeAt: at}, ""},
		"it committed":        {ledger.Attempt{EndedAt: at, Outcome: ledger.OutcomeCommitted, Tree: ledger.TreeOpen}, ""},
		"it ran no command":   {ledger.Attempt{EndedAt: at, Outcome: ledger.OutcomeUncertain}, ""},
		"it is in flight yet": {ledger.Attempt{Tree: ledger.TreeOpen}, ""},
	} {
		c.a.N = 1
		var said []string
		for _, e := range attemptEntries(&ledger.Record{}, c.a) {
			if strings.Contains(e.What.String(), "may still write") || strings.Contains(e.What.String(), "lives any more") {
				said = append(said, e.What.String())
			}
		}
		if all := strings.Join(said, "; "); c.want == "" && all != "" || !strings.Contains(all, c.want) {
			t.Errorf("%s: %q, want %q", name, all, c.want)
		}
	}
}
