package sqlite

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/tables"
)

// What is derived is what it is derived from; what is not is named, and can be made
// so again.
func TestDeviationsAreSeenAndRebuilt(t *testing.T) {
	t.Parallel()
	s, db := guarded(t)
	exec := func(query string) {
		t.Helper()
		need.Get(db.Exec(query))(t)
	}
	prices := func() {
		for _, id := range []string{"uncertain", "granted", "pending"} {
			need.OK(t, s.Price(ctx, []ledger.Pricing{{OperationID: id, Digest: "d", Rank: 12.5, Miss: ledger.Cost{Value: 0.1}, DecideAt: ledger.Never, ReadAt: time.UnixMilli(1_790_000_100_000)}}))
		}
	}
	prices()
	derived := []string{"open_operations", "totals"}
	right := dump(t, db)
	for _, table := range derived {
		need.Must(t, right[table] != "", "there is nothing in %s", table)
	}
	if found := need.Get(s.Deviations(ctx))(t); len(found) != 0 {
		t.Fatalf("%+v", found)
	}
	for _, guard := range []string{"open_guard_insert", "open_guard_update", "open_guard_delete"} {
		exec(`DROP TRIGGER ` + guard)
	}
	row := func(id string) string { return ` WHERE seq = (SELECT seq FROM operations WHERE id = '` + id + `')` }
	for _, c := range []struct {
		name, sql string
		tables    string
		repriced  bool // what a policy says of the row is gone with it
	}{
		{"a row less", `DELETE FROM open_operations` + row("uncertain"), "open_operations", true},
		{"no row", `DELETE FROM open_operations`, "open_operations", true},
		{"a row too many", tables.ListNew + row("committed"), "open_operations", false},
		{"a row of nothing", `INSERT INTO open_operations (seq, search, ` + tables.ListColumns("") + `) SELECT 4711, search, ` + tables.ListColumns("") + ` FROM open_operations` + row("uncertain"), "open_operations", false},
		{"a row in another state", `UPDATE open_operations SET state = 'committed'` + row("uncertain"), "open_operations", true},
		{"a row of another kind", `UPDATE open_operations SET kind = 'another'` + row("uncertain"), "open_operations", true},
		{"a row that is not found by its words", `UPDATE open_operations SET search = 'x'` + row("uncertain"), "open_operations", true},
		{"a grant that is not", `UPDATE open_operations SET granted_at = 0, grant_until = 0` + row("granted"), "open_operations", true},
		{"wrong sums", `INSERT INTO total VALUES ('stripe.charge', 'committed', '', 1)`, "total", false},
		{"sums of nothing", `INSERT INTO total VALUES ('none', 'failed', '', 1)`, "total", false},
		{"wrong ends of doubts", `INSERT INTO total VALUES ('stripe.charge', 'landed', 'timeout', 1)`, "total", false},
		{"a place without its sums", `INSERT INTO total VALUES ('', 'place', (SELECT max(seq) FROM events), 0)`, "total", false},
	} {
		exec(c.sql)
		found := need.Get(s.Deviations(ctx))(t)
		need.That(t, len(found) == 1 && found[0].Table == c.tables && found[0].Rows != 0 && found[0].One != "",
			"%s: %+v", c.name, found)
		need.OK(t, s.Rebuild(ctx))
		if found := need.Get(s.Deviations(ctx))(t); len(found) != 0 {
			t.Errorf("%s: after a rebuild %+v", c.name, found)
		}
		if c.repriced {
			prices()
		}
		if d := diff(right, dump(t, db)); d != "" {
			t.Errorf("%s: a rebuild made (-right +got):\n%s", c.name, d)
		}
	}
}

// The trigger that keeps the list fires on every column that the list is made from,
// but for those that never change.
func TestTheListFollowsEveryColumnThatItIsMadeFrom(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	db := rawDB(t, s.path)
	sqlOf := func(name string) (text string) {
		need.OK(t, db.QueryRow(`SELECT sql FROM sqlite_schema WHERE name = ?`, name).Scan(&text))
		return text
	}
	firesOn := func(trigger string) map[string]bool {
		_, rest, _ := strings.Cut(sqlOf(trigger), "UPDATE OF ")
		names, _, _ := strings.Cut(rest, " ON ")
		names, _, _ = strings.Cut(names, "\n")
		out := map[string]bool{}
		for _, name := range strings.Split(names, ",") {
			out[strings.TrimSpace(name)] = true
		}
		return out
	}
	fires, never := firesOn("operations_keep_list"), firesOn("operations_guard_identity")
	never["seq"] = true // operations_guard_update
	made := regexp.MustCompile(`\bo\.(\w+)`).FindAllStringSubmatch(sqlOf("open_source"), -1)
	// and what the trigger itself, and is_open, compare
	for _, name := range []string{"version", "state", "doubted", "conflict", "recheck_at", "parked_until"} {
		made = append(made, []string{name, name})
	}
	need.Must(t, len(made) >= 20 && len(fires) >= 15, "%v %v", made, fires)
	for _, m := range made {
		need.That(t, fires[m[1]] || never[m[1]], "a change of %s does not reach the list", m[1])
	}
}
