package sqlite

import (
	"errors"
	"maps"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/tables"
)

func migrate(s *Store, steps []tables.Step) error {
	return s.write(ctx, func(tx *tx) error { return tx.migrate(steps) })
}

// The mechanism is tried with steps of its own, on a ledger with something in it:
// a step that fails leaves the schema before it, and all steps leave what was
// recorded, and the guards.
func TestMigrations(t *testing.T) {
	t.Parallel()
	s, db := guarded(t)
	now := tables.Newest(steps)
	more := append(append([]tables.Step{}, steps...),
		tables.Step{Version: now + 1, SQL: `ALTER TABLE attempts ADD COLUMN distance INTEGER NOT NULL DEFAULT 0; CREATE TABLE two (x)`},
		tables.Step{Version: now + 2, SQL: `CREATE TABLE three (x); DROP TABLE two`})
	broken := append(append([]tables.Step{}, more...), tables.Step{Version: now + 3, SQL: `CREATE TABLE four (x); CREATE TABLE three (x)`})
	look := func() (version int, objects map[string]string) {
		objects = map[string]string{}
		need.OK(t, s.read.QueryRow(`SELECT user_version FROM pragma_user_version`).Scan(&version))
		rows := need.Get(s.read.Query(`SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema WHERE name <> 'attempts'`))(t)
		defer rows.Close()
		for rows.Next() {
			var name, text string
			need.OK(t, rows.Scan(&name, &text))
			objects[name] = text
		}
		need.OK(t, rows.Err())
		return version, objects
	}
	before := dump(t, db)
	delete(before, "attempts") // they get a column
	was, objects := look()
	need.Must(t, was == now, "a new ledger has schema %d", was)
	err := migrate(s, broken)
	if v, left := look(); err == nil || v != now || !maps.Equal(left, objects) {
		t.Fatalf("a broken step left schema %d: %v\n%s", v, err, diff(objects, left))
	}
	need.OK(t, migrate(s, more))
	need.OK(t, migrate(s, more))
	objects["table three"] = "CREATE TABLE three (x)"
	v, left := look()
	if d := diff(objects, left); v != now+2 || d != "" {
		t.Fatalf("schema %d (-want +got):\n%s", v, d)
	}
	after := dump(t, db)
	delete(after, "attempts")
	if d := diff(before, after); d != "" {
		t.Fatalf("something changed on the way:\n%s", d)
	}
	if _, err := db.Exec(`UPDATE operations SET key = 'other' WHERE id = 'pending'`); err == nil {
		t.Fatal("it has lost its guards")
	}
	var newer *ledger.NewerError
	if err := migrate(s, steps); !errors.As(err, &newer) {
		t.Fatal(err)
	}
	var older *ledger.OlderError
	if _, err := checkSchema(ctx, s.read, s.path, now+3, true); !errors.As(err, &older) {
		t.Fatalf("a reader took an older schema: %v", err)
	}
	settleAs(t, s, "pending.1", ledger.OutcomeCommitted)
}
