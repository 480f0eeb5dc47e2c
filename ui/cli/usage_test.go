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
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	before := b.lastEvent()
	for _, c := range []struct {
		line string
		exit int
		says string
	}{
		{"lists", 2, "there is no command `lists`; did you mean `list`?"},
		{"delete", 2, "to look for the text: indoubt /delete"},
		{"hodl --all --reason r", 2, "did you mean `hold`?"},
		{"list --limt 5", 2, "indoubt list has no option --limt; did you mean `--limit`?"},
		{"list --nothing-like-it", 2, "has no option --nothing-like-it\n"},
		{"list --limit abc", 2, "--limit takes a whole number, not `abc`"},
		{"demo --no-console --seed -1", 2, "--seed takes a whole number, not below 0, not `-1`"},
		{"run --limt -- true", 102, "indoubt run has no option --limt"},
		{"run --kind bad! --key 1 -- true", 102, "a policy cannot name such a kind"},
		{"begin --kind stripe.* --key 1", 2, "a policy cannot name such a kind"},
		{"confirm " + b.at(1), 2, "confirm needs a reason"},
		{"hold stripe.chrage --reason r", 2, "did you mean `stripe.charge`?"},
		{"hold mail.welcome --reason r", 2, "neither the policy nor the ledger knows a kind `mail.welcome`; nothing is held"},
		{"list --since tomorrow", 2, `--since "tomorrow" is not a time that has passed`},
		{"list --until 2026-07-15", 2, `--until "2026-07-15" is not a time that has passed`},
		{"log --since 2026-13-01", 2, "write 30m, 7d, today"},
		{"help logs", 2, "there is no command `logs`; did you mean `log`?"},
		{"help policy chekc", 2, "there is no command `policy chekc`; did you mean `check`?"},
		{"note " + b.at(1) + " --reason r --idempotency-key=", 2, "--idempotency-key is empty"},
		{"run --policy= --kind k -- true", 102, "--policy is empty"},
		{"hold bad!kind --anyway --reason r", 2, "is not the name of a kind"},
		{"man logs", 2, "there is no command `logs`"},
	} {
		exit, out, errOut := b.run(strings.Fields(c.line)...)
		need.That(t, exit == c.exit && out == "" && strings.Contains(errOut, c.says), "indoubt %s: exit %d, want %d; %s%s, want %q", c.line, exit, c.exit, out, errOut, c.says)
	}
	need.Equal(t, b.lastEvent(), before, "a refused command line changed something")
	need.Lacks(t, b.want(0, "runs"), "hold")
	if out := b.want(0, "version"); out != b.want(0, "--version") || !strings.HasPrefix(out, "indoubt ") {
		t.Errorf("%q", out)
	}
	b.want(0, "hold", "mail.welcome", "--anyway", "--reason", "before its first use")
	need.Contains(t, b.want(0, "release", "mail.welcome", "--reason", "r"), "released kind:mail.welcome")
	need.Equal(t, b.want(0, "help", "policy", "check"), b.want(0, "policy", "check", "--help"), "help")
	b.want(3, "019808a9")
	b.want(0, "/019808a9")
	b.want(0, "INV-1042") // the name of something is looked for
	b.want(0, `"logs"`)
	need.Contains(t, b.want(0, "/cus_9"), id(1))
	for command, says := range map[string]string{"run": "105  refused", "policy try": "indoubt-policy-try"} {
		if page := b.want(0, append([]string{"man"}, strings.Fields(command)...)...); !strings.Contains(strings.ReplaceAll(page, `\-`, "-"), says) {
			t.Errorf("man %s does not say %q:\n%s", command, says, page)
		}
	}
}

// --since and --until take a time that is written out, in the list and in the history.
func TestSinceAndUntilTakeADate(t *testing.T) {
	b := newBench(t)
	b.begin(1, "stripe.charge", charge) // at 03:06
	b.settle(1, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 200})
	b.now = b.now.Add(2 * 24 * time.Hour)
	for flags, lists := range map[string]bool{
		"list --since 2026-07-13": true, "list --since 2026-07-14T03:07Z": false, "list --until 2026-07-14T03:05:59Z": false, "list --since 3d --until 1d": true,
		"list --until 3d": false, "log --since 2026-07-13": true, "log --since 2026-07-15T00:00:00Z": false, "list state:failed,committed": true, "list source:bill": false,
	} {
		if out := b.want(0, strings.Fields(flags)...); strings.Contains(out, id(1)[:13]) != lists {
			t.Errorf("indoubt %s:\n%s", flags, out)
		}
	}
	b.want(0, "report", "--since", "2026-07-13")
	b.want(0, "stats", "--since", "2026-07-13")
	b.now = b.now.Add(-2 * 24 * time.Hour)
	need.Contains(t, b.want(0, "list", "--since", "today", "kind:other OR kind:stripe.charge"), id(1)[:13])
	need.Lacks(t, b.want(0, "list", "--until", "yesterday"), id(1)[:13])
	need.Contains(t, b.completes("list", "state:failed,u"), "state:failed,uncertain")
}
