//go:build unix

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// What was redacted is on no screen, in no row and in no file, and its key is known still.
func TestE2E_RedactedForGood(t *testing.T) {
	s := bareSite(t)
	s.giveKey()
	s.writePolicy("version: 1\n")
	say := func(exit int, what string, args ...string) string {
		t.Helper()
		r := s.do(args...)
		if r.Exit != exit || !strings.Contains(r.Out+r.Err, what) {
			t.Fatalf("indoubt %s: exit %d, want %d with %q\n%s%s", strings.Join(args, " "), r.Exit, exit, what, r.Out, r.Err)
		}
		return r.Out
	}
	send := func(exit int, what, key, input, script string) {
		t.Helper()
		say(exit, what, "run", "--kind", "mail.send", "--key", key, "--input", input, "--", "sh", "-c", script)
	}
	const jane = "jane.doe@example.com"
	send(0, "sent", jane, `{"to":"`+jane+`"}`, "echo sent to "+jane)
	send(0, "sent", "k2", `{"to":"omar"}`, "echo sent to omar")
	send(106, "", "k3", `{"to":"`+jane+`","n":3}`, "exit 1 # "+jane)
	named := func(args ...string) []string {
		t.Helper()
		var rows []string
		for line := range strings.Lines(say(0, `"version"`, append([]string{"list", "--all", "-o", "jsonl"}, args...)...)) {
			var row struct {
				ID      string
				Version int
			}
			need.OK(t, json.Unmarshal([]byte(line), &row))
			rows = append(rows, fmt.Sprintf("%s@%d", row.ID, row.Version))
		}
		return rows
	}
	done, _, _ := strings.Cut(named("key:" + jane)[0], "@")
	doubt, _, _ := strings.Cut(named("key:k3")[0], "@")
	say(6, "it is in doubt", "redact", doubt+"@2", "--reason", "r7", "--yes")
	say(2, "needs the version", "redact", done, "--reason", "r7", "--yes")
	say(5, "--dry-run", "redact", done+"@2", "--reason", "r7")
	say(4, "", "redact", done+"@1", "--reason", "r7", "--yes")
	say(0, `"effect":"would_update"`, "redact", done+"@2", "--dry-run", "--json")
	say(0, "deny", "deny", doubt+"@2", "--reason", "their log: not "+jane)
	say(0, "redact", append([]string{"redact", "--key", "--reason", "request 7", "--yes"}, slices.Concat(named("key:"+jane), named("key:k3"))...)...)
	out := say(0, "redacted by", "show", done) + say(0, `"by":`, "show", doubt, "--json") + say(0, "request 7", "log") + say(0, "", "list", "--all", "-o", "jsonl") + say(0, "", "log", "--all", "-o", "jsonl") +
		say(0, "", "list", "--json") + say(0, "", "runs", "--all", "--json")
	need.That(t, !strings.Contains(out, "jane") && strings.Contains(out, "omar"), "%s", out)
	send(109, "nothing was run", jane, `{"to":"`+jane+`"}`, "echo sent again to "+jane) // half an answer is none
	send(108, "", jane, `{"to":"another"}`, "true")
	say(5, "redacted by", "retry", doubt+"@4", "--reason", "again", "--json")
	for _, side := range []string{"", "-wal", "-shm"} {
		text, err := os.ReadFile(s.ledger + side)
		if err == nil && bytes.Contains(text, []byte("jane")) {
			t.Errorf("%s has it", filepath.Base(s.ledger+side))
		}
	}
	if s.afar {
		if out := everyRow(s); strings.Contains(out, "jane") || !strings.Contains(out, "omar") {
			t.Error("a table has it")
		}
	}
}
