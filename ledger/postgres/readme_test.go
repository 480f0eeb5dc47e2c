//go:build soak

package postgres

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// example is the first block of the page in a language.
func example(t *testing.T, language string) string {
	t.Helper()
	return need.Blocks(t, "../README.md", language+"-postgres")[0].Text
}

// perform runs an example on a ledger, just as it stands on the page.
func perform(t *testing.T, url, program, source string) string {
	t.Helper()
	for _, needed := range []string{program, "psql"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip(needed + " is not installed")
		}
	}
	cmd := exec.Command(program)
	cmd.Stdin = strings.NewReader(source)
	cmd.Env = append(os.Environ(), "INDOUBT_LEDGER="+url)
	out, err := cmd.CombinedOutput()
	need.Must(t, err == nil, "%v\n%s", err, out)
	return string(out)
}

// Writers that know nothing of indoubt leave all that it keeps, also as a role that may
// do no more than write. Who signs is the user that logged in, whatever a view is told.
func TestContractInPostgreSQL(t *testing.T) {
	url := withRoles(t)
	ci := pgtest.As(url, "ci")
	if out, want := perform(t, ci, "sh", example(t, "sh")), "committed|2|1\n"; out != want {
		t.Errorf("the shell printed %q, want %q", out, want)
	}
	psql(t, ci, `INSERT INTO indoubt.intent (id, kind, key, token, input, source, actor) VALUES ('m', 'mail.send', 'key', 't-m', '{"to": "ana"}', 'nightly', 'nightly')`)
	psql(t, ci, `INSERT INTO indoubt.settle (attempt, outcome, class, actor) VALUES ('m.1', 'uncertain', 'timeout', 'nightly')`)
	got := psql(t, url, `SELECT kind, state, version, token_sent, effects, by_answer, doubted, payload -> 'op' ->> 'input' FROM indoubt.op ORDER BY seq;
		SELECT verb, before, state, actor, db_user FROM indoubt.ev ORDER BY seq`)
	want := `deploy|committed|2|0|1|1|0|
mail.send|uncertain|2|1|0|0|1|
begin||pending|ci|ci
settle|pending|committed|ci|ci
begin||pending|ci|ci
settle|pending|uncertain|ci|ci`
	need.That(t, got == want, "the ledger has\n%s\nwant\n%s", got, want)
	if lines := strings.Count(psql(t, pgtest.As(url, "bob"), example(t, "sql")), "\n"); lines != 3 {
		t.Errorf("the feed shows %d events, want two for each of two operations", lines+1)
	}
}
