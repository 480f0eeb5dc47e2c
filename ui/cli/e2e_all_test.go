//go:build unix

package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// exported is what the tests look at of a row of `--all`.
type exported struct {
	ID           string
	State, Kind  string
	Verb, Reason string
	Seq          int64
}

func exportedRows(t *testing.T, out string) (rows []exported) {
	t.Helper()
	for line := range strings.Lines(out) {
		var row exported
		need.OK(t, json.Unmarshal([]byte(line), &row))
		rows = append(rows, row)
	}
	return rows
}

// Over several pages, and while others write: what was there at the beginning is there
// once, in the order it came.
func TestE2E_AllHasEachOnce(t *testing.T) {
	n := 60
	if shipped {
		n = 1300 // several pages
	}
	s := bareSite(t)
	s.writePolicy("version: 1\n")
	s.must(0, "import", "--from", "sidekiq", deadLetters[0].file(t, s.dir, n))
	other := s.start("import", "--from", "oban", "--map", `kind="other"`, deadLetters[1].file(t, s.dir, n))
	ids := map[string]int{}
	for _, row := range exportedRows(t, s.must(0, "list", "--all", "-o", "jsonl").Out) {
		if row.Kind == "MailJob" {
			ids[row.ID]++
		} else {
			need.Equal(t, row.Kind, "other", "kind")
		}
	}
	need.That(t, len(ids) == n, "%d operations, want %d", len(ids), n)
	for id, times := range ids {
		need.That(t, times == 1, "%s is there %d times", id, times)
	}
	need.Equal(t, other.finish().Exit, 0, "the writer")

	events := exportedRows(t, s.must(0, "log", "--all", "-o", "jsonl").Out)
	need.That(t, slices.IsSortedFunc(events, func(a, b exported) int { return int(a.Seq - b.Seq) }) || s.afar, "the history is out of order")
	verbs := map[string]int{}
	for _, e := range events {
		verbs[e.Verb]++
	}
	need.That(t, verbs["begin"] == 2*n && verbs["settle"] == 2*n, "%v", verbs)
	need.Equal(t, s.must(0, "log", "--all", "-o", "jsonl", "--by", "nobody").Out, "")
	for _, line := range []string{"list --all", "list --all --json", "list --all -o jsonl --limit 5", "log --all", "log --all -o jsonl --follow", "log -o jsonl", "list --all -o json"} {
		r := s.must(2, strings.Fields(line)...)
		need.Contains(t, r.Out+r.Err, "--all ")
	}
}
