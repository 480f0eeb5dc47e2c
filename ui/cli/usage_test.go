package cli

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A wrong command line is refused, changes nothing, and the answer says what to write.
func TestAWrongCommandLineSaysWhatToWrite(t *testing.T) {
	b := newBenchAlone(t)
	b.doubt(1, "stripe.charge", charge)
	before := b.lastEvent()
	for _, c := range []struct {
		line string
		exit int
		says string
	}{
		{"list --limt 5", 2, "indoubt list has no option --limt; did you mean `--limit`?"},
		{"list --nothing-like-it", 2, "has no option --nothing-like-it\n"},
		{"run --limt -- true", 102, "indoubt run has no option --limt"},
		{"begin --kind stripe.* --key 1", 2, "a policy cannot name such a kind"},
		{"hold mail.welcome --reason r", 2, "neither the policy nor the ledger knows a kind `mail.welcome`; nothing was changed"},
		{"report --since tomorrow", 2, `--since "tomorrow" is not a time that has passed`},
		{"help logs", 2, "there is no command `logs`; did you mean `log`?"},
		{"note " + b.at(1) + " --reason r --idempotency-key=", 2, "--idempotency-key is empty"},
		{"run --policy= --kind k -- true", 102, "--policy is empty"},
		{"hold bad!kind --reason r", 2, "is not the name of a kind"},
	} {
		exit, out, errOut := b.run(strings.Fields(c.line)...)
		need.That(t, exit == c.exit && out == "" && strings.Contains(errOut, c.says), "indoubt %s: exit %d, want %d; %s%s, want %q", c.line, exit, c.exit, out, errOut, c.says)
	}
	need.Equal(t, b.lastEvent(), before, "a refused command line changed something")
	need.Lacks(t, b.want(0, "runs"), "hold")
	need.That(t, strings.HasPrefix(b.want(0, "--version"), "indoubt "), "--version")
	need.Contains(t, string(b.json(0, "--version").Data), `"version":`)
	need.Equal(t, b.want(0, "help", "policy", "check"), b.want(0, "policy", "check", "--help"), "help")
	b.want(3, "019808a9")
	b.want(0, "/019808a9")
	b.want(0, "INV-1042") // the name of something is looked for
	b.want(0, `"logs"`)
	need.Contains(t, b.want(0, "/cus_9"), id(1))
}

// Times of a filter and --since take a time that is written out, in the list and in the history.
func TestSinceAndUntilTakeADate(t *testing.T) {
	b := newBenchAlone(t)
	b.begin(1, "stripe.charge", charge) // at 03:06
	b.settle(1, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 200})
	b.now = b.now.Add(2 * 24 * time.Hour)
	for flags, lists := range map[string]bool{
		"list since:2026-07-13": true, "list since:2026-07-14T03:07Z": false, "list until:2026-07-14T03:05:59Z": false, "list since:3d until:1d": true,
		"list until:3d": false, "log --since 2026-07-13": true, "log --since 2026-07-15T00:00:00Z": false, "list state:failed,committed": true, "list source:bill": false,
	} {
		if out := b.want(0, strings.Fields(flags)...); strings.Contains(out, id(1)[:13]) != lists {
			t.Errorf("indoubt %s:\n%s", flags, out)
		}
	}
	b.want(0, "report", "--since", "2026-07-13")
	b.now = b.now.Add(-2 * 24 * time.Hour)
	need.Contains(t, b.want(0, "list", "since:today", "kind:other,stripe.charge"), id(1)[:13])
	need.Lacks(t, b.want(0, "list", "until:yesterday"), id(1)[:13])
}
