//go:build unported

package postgres

import (
	"os"
	"os/exec"
	"slices"
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
// do no more than write.
func TestContractInPostgreSQL(t *testing.T) {
	url := withRoles(t)
	ci := pgtest.As(url, "ci")
	if out, want := perform(t, ci, "sh", example(t, "sh")), "committed|2|1\n"; out != want {
		t.Errorf("the shell printed %q, want %q", out, want)
	}
	for _, w := range [][2]string{{"x.post", `state = 'committed', receipt = 'post-1'`}, {"mail.send", `state = 'uncertain', error_class = 'timeout'`}} {
		id := w[0]
		psql(t, ci, `INSERT INTO indoubt.operations (id, kind, key, token, token_sent, input, deadline_at, source, actor)
			VALUES ('`+id+`', '`+id+`', 'key', 't-`+id+`', true, '{"to": "ana"}', now() + interval '30 s', 'nightly', 'nightly')`)
		psql(t, ci, `UPDATE indoubt.operations SET `+w[1]+`, change_id = gen_random_uuid()::text, actor = 'nightly', reason = 'said'
			WHERE id = '`+id+`' AND live_attempt = id || '.1'`)
	}
	got := psql(t, url, `
		SELECT o.kind, o.state, o.version, o.token_sent, o.effects, o.by_answer, o.doubted, a.outcome, a.receipt, a.db_user, input
		  FROM indoubt.operations o JOIN indoubt.attempts a ON a.id = o.id || '.1' ORDER BY o.seq;
		SELECT verb, from_state, to_state, actor, db_user FROM indoubt.events ORDER BY seq;
		SELECT kind, class, error_class FROM indoubt.open_operations;
		SELECT kind, what, n FROM indoubt.totals WHERE n > 0 ORDER BY kind, what;
		SELECT * FROM indoubt.deviations()`)
	want := `deploy|committed|2|f|1|t|f|committed||ci|{"version":"4.18.3"}
x.post|committed|2|t|1|t|f|committed|post-1|ci|{"to": "ana"}
mail.send|uncertain|2|t|0|f|t|uncertain||ci|{"to": "ana"}
begin||pending|release|ci
settle|pending|committed|release|ci
begin||pending|nightly|ci
settle|pending|committed|nightly|ci
begin||pending|nightly|ci
settle|pending|uncertain|nightly|ci
mail.send|ripe|timeout
deploy|committed|1
mail.send|uncertain|1
x.post|committed|1`
	need.That(t, got == want, "the ledger has\n%s\nwant\n%s", got, want)
	if lines := strings.Count(psql(t, pgtest.As(url, "bob"), example(t, "sql")), "\n"); lines != 5 {
		t.Errorf("the feed shows %d events, want two for each of three operations", lines+1)
	}
}

// Each refusal of the schema is tried.
func TestEveryRefusalIsTried(t *testing.T) {
	for _, refusal := range refusalsOf(t, schema()) {
		if !slices.ContainsFunc(tried, func(says string) bool { return strings.Contains(refusal, says) }) {
			t.Errorf("no test tries what is refused with %q", refusal)
		}
	}
}
