//go:build unported

package postgres

import (
	"fmt"
	"strings"
	"testing"
)

// What is derived is what it is derived from; what is not is named, and can be made so
// again.
func TestDeviationsAreSeenAndRebuilt(t *testing.T) {
	url := made(t)
	psql(t, url, guarded)
	psql(t, url, `UPDATE indoubt.open_operations SET digest = '', rank = 0, miss_value = 0 WHERE granted_at <> 0 OR search LIKE '%overdue%'`)
	derived := func() string {
		return psql(t, url, `SELECT seq, class, search, state, error_class, granted_at, rank FROM indoubt.open_operations ORDER BY seq;
			SELECT * FROM indoubt.totals ORDER BY kind, what, class`)
	}
	right := derived()
	row := func(id string) string { return ` WHERE seq = (SELECT seq FROM operations WHERE id = '` + id + `')` }
	wrong := []struct{ name, sql, table string }{
		{"a row less", `DELETE FROM open_operations` + row("granted"), "open_operations"},
		{"a row of nothing", `UPDATE open_operations SET seq = 4711` + row("granted"), "open_operations"},
		{"a row in another state", `UPDATE open_operations SET error_class = 'reset'` + row("granted"), "open_operations"},
		{"a row that is not found by its words", `UPDATE open_operations SET search = 'x'` + row("granted"), "open_operations"},
		{"a grant that is not", `UPDATE open_operations SET granted_at = 1` + row("granted"), "open_operations"},
		{"wrong sums", `INSERT INTO total VALUES ('stripe.charge', 'committed', '', 1)`, "total"},
		{"sums of nothing", `INSERT INTO total VALUES ('none', 'failed', '', 1)`, "total"},
		{"wrong ends of doubts", `INSERT INTO total VALUES ('stripe.charge', 'landed', 'timeout', 1)`, "total"},
		{"a place without its sums", `INSERT INTO total VALUES ('', 'place', pg_current_snapshot(), 0)`, "total"},
	}
	var script strings.Builder
	for _, c := range wrong {
		fmt.Fprintf(&script, `
			SET search_path = indoubt; SET session_replication_role = replica; -- without triggers
			%s; RESET session_replication_role;
			SELECT '=' || deviating || ' ' || (wrong > 0 AND one <> '') FROM indoubt.deviations(); SELECT indoubt.rebuild();
			SELECT 'still ' || deviating FROM indoubt.deviations();
			\echo end
		`, c.sql)
	}
	said := strings.Split(psql(t, url, script.String()), "end")
	for i, c := range wrong {
		if !strings.Contains(said[i], "="+c.table+" true") || strings.Contains(said[i], "still") {
			t.Errorf("%s: %s", c.name, said[i])
		}
	}
	// What a policy says of a row that was gone or wrong is gone with it; all else is as it was.
	if got := derived(); got != right {
		t.Errorf("rebuilt is\n%s\nwas\n%s", got, right)
	}
}
