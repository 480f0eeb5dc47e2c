package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
)

func migrate(s *Store, steps []step) error {
	return s.writer.do(ctx, func(tx *tx) error { return tx.migrate(steps, false) })
}

// The mechanism is tried with steps of its own, from the newest schema.
func TestMigrations(t *testing.T) {
	s, _ := openTest(t)
	begin(t, s)
	now := newest(steps)
	more := append(append([]step{}, steps...),
		step{now + 1, `ALTER TABLE meta RENAME TO facts; ALTER TABLE facts RENAME TO meta; CREATE TABLE two (x)`},
		step{now + 2, `CREATE TABLE three (x)`})
	broken := append(append([]step{}, more...), step{now + 3, `CREATE TABLE four (x); CREATE TABLE two (x)`})
	version := func() (v int) {
		must(t, s.read.QueryRow(`SELECT user_version FROM pragma_user_version`).Scan(&v))
		return v
	}
	if err := migrate(s, broken); err == nil || version() != now {
		t.Fatalf("a broken step left schema %d: %v", version(), err)
	}
	must(t, migrate(s, more))
	must(t, migrate(s, more))
	if version() != now+2 {
		t.Fatalf("schema %d", version())
	}
	var newer *NewerError
	if err := migrate(s, steps); !errors.As(err, &newer) {
		t.Fatal(err)
	}
	if err := checkSchema(ctx, s.read, s.path, now+3, false, true); err == nil {
		t.Fatal("a reader took an older schema")
	}
	begin(t, s)
}

// ledgerOf makes a ledger as it was made under an older schema, with history.
func ledgerOf(t *testing.T, schema int) (path string, now time.Time) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.db")
	db := must1[*sql.DB](t)(sql.Open("sqlite", dsn(path, "rwc", "journal_mode(WAL)")))
	defer db.Close()
	db.SetMaxOpenConns(1)
	exec := func(query string, args ...any) {
		t.Helper()
		_, err := db.Exec(query, args...)
		must(t, err)
	}
	exec(string(must1[[]byte](t)(os.ReadFile(fmt.Sprintf("testdata/schema_%d.sql", schema)))))
	exec(fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, applicationID, schema))
	h := must1[home](t)(homeOf(path))
	for name, value := range map[string]string{"id": "the-ledger", "created_at": "1790000000000",
		"home.host": h.host, "home.device": h.device, "home.inode": h.inode, "home.boot": h.boot} {
		exec(`INSERT INTO meta (name, value) VALUES (?, ?)`, name, value)
	}
	exec(string(must1[[]byte](t)(os.ReadFile("testdata/history_1.sql"))))
	return path, time.UnixMilli(1_790_000_100_000).UTC()
}

// shape is what a schema says, without its layout and its comments.
func shape(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	rows, err := db.Query(`SELECT type || ' ' || name || ' on ' || tbl_name, coalesce(sql, '') FROM sqlite_schema WHERE name <> 'sqlite_sequence'`)
	must(t, err)
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var name, text string
		must(t, rows.Scan(&name, &text))
		text = regexp.MustCompile(`--[^\n]*`).ReplaceAllString(text, "")
		text = regexp.MustCompile(`\s+`).ReplaceAllString(text, " ")
		text = regexp.MustCompile(` ?([,()]) ?`).ReplaceAllString(text, "$1")
		out[name] = strings.ReplaceAll(text, `"`, "")
	}
	must(t, rows.Err())
	return out
}

func TestSchema1IsMigrated(t *testing.T) { testMigrated(t, 1) }
func TestSchema2IsMigrated(t *testing.T) { testMigrated(t, 2) }
func TestSchema3IsMigrated(t *testing.T) { testMigrated(t, 3) }

// An older ledger is refused by what only reads, and becomes the newest when it
// is opened for writing: the same schema as a new ledger's, with everything that
// was in it.
func testMigrated(t *testing.T, schema int) {
	path, now := ledgerOf(t, schema)
	var older *OlderError
	if _, err := Open(ctx, path, Options{ReadOnly: true}); !errors.As(err, &older) {
		t.Fatalf("a reader of schema %d: %v", schema, err)
	}
	db := rawDB(t, path)
	kept := []string{"operations", "attempts", "reads", "controls", "grants", "decisions", "events", "leases", "holds"}
	if schema > 1 { // it keeps these like the newest does
		kept = append(kept, "open_operations", "counts", "census", "tallies")
	}
	before := columnsOf(t, db, kept, nil)
	s := must1[*Store](t)(Open(ctx, path, Options{Clock: func() time.Time { return now }}))
	defer s.Close()
	if i := must1[ledger.Info](t)(s.Info(ctx)); i.Schema != newest(steps) || i.ID != "the-ledger" || i.Copied != "" {
		t.Fatalf("%+v", i)
	}
	fresh, _ := openTest(t)
	if d := diff(shape(t, fresh.read), shape(t, s.read)); d != "" {
		t.Fatalf("a migrated ledger is not like a new one (-new +migrated):\n%s", d)
	}
	if d := diff(before.rows, columnsOf(t, db, kept, before.columns).rows); d != "" {
		t.Fatalf("something changed on the way:\n%s", d)
	}
	for name, query := range map[string]string{"integrity": `PRAGMA integrity_check`, "foreign keys": `SELECT coalesce((SELECT 'broken' FROM pragma_foreign_key_check), 'ok')`} {
		var ok string
		must(t, db.QueryRow(query).Scan(&ok))
		if ok != "ok" {
			t.Fatalf("%s: %s", name, ok)
		}
	}
	// What a ledger keeps beside its history is what the history says.
	// Under schema 2, what is answered after its deadline was in doubt before; whether
	// it was is told by the wall clock, in a history made with plain SQL.
	tallies := must1[[]ledger.Tally](t)(s.Tallies(ctx))
	if d := diff([]ledger.Tally{{Kind: "card.charge", Class: "timeout", Landed: 3, Missed: 1}}, tallies); d != "" && schema == 1 {
		t.Fatalf("tallies (-want +got):\n%s", d)
	}
	var census []string
	for _, c := range must1[[]ledger.Census](t)(s.Census(ctx, now)) {
		census = append(census, fmt.Sprint(c.Kind, " ", c.State, " ", c.Count))
	}
	if d := diff([]string{"card.charge committed 3", "card.charge failed 3", "card.charge abandoned 1",
		"mail.send pending 1", "mail.send uncertain 2", "mail.send committed 1"}, census); d != "" {
		t.Fatalf("census (-want +got):\n%s", d)
	}
	counts := must1[ledger.Counts](t)(s.Counts(ctx, now))
	if counts.All != 11 || counts.InFlight != 2 || counts.NeedsYou != 3 && schema == 1 || counts.Checking != 1 || counts.ByState[ledger.Pending] != 2 {
		t.Fatalf("%+v", counts)
	}
	page := must1[ledger.Page](t)(s.Page(ctx, ledger.Query{Tab: ledger.TabNeedsYou, Now: now}))
	for _, r := range page.Rows {
		rec := must1[ledger.Record](t)(s.Read(ctx, ledger.Locator{ID: r.ID}))
		if d := diff(rec.Row(), r); d != "" {
			t.Fatalf("row (-record +list):\n%s", d)
		}
	}
	if rec := must1[ledger.Record](t)(s.Read(ctx, ledger.Locator{ID: "o-doubt"})); rec.Pricing.Digest != "p1" || rec.Pricing.Rank != 5 {
		t.Fatalf("its price is %+v", rec.Pricing)
	}
	if _, err := db.Exec(`UPDATE operations SET key = 'other' WHERE id = 'o-doubt'`); err == nil {
		t.Fatal("it has lost its guards")
	}
	var numbered int
	must(t, db.QueryRow(`SELECT max(seq) FROM events`).Scan(&numbered))
	begin(t, s)
	if last := must1[ledger.Info](t)(s.Info(ctx)).LastSeq; last != int64(numbered)+1 {
		t.Fatalf("event %d after %d", last, numbered)
	}
	// It goes on as it was left.
	rec := must1[ledger.Record](t)(s.Read(ctx, ledger.Locator{ID: "o-doubt"}))
	if rec.Operation.State != ledger.Uncertain || rec.Operation.Undelivered || rec.Operation.Awaits != "" || len(rec.Reads) != 1 || rec.Lease.Holder != "engine" {
		t.Fatalf("%+v", rec)
	}
	applied := must1[ledger.Applied](t)(ledger.Observe(ctx, s, ledger.Observation{ChangeID: "landed", Version: rec.Operation.Version, Lease: rec.Lease, Confirm: true,
		Actor: billing, Read: ledger.Read{ID: "r-2", OperationID: "o-doubt", BeganAt: now, EndedAt: now, Verdict: ledger.Landed, Found: 1, Receipts: []string{"m-1"}, Reason: "one found"}}))
	if applied.After.State != ledger.Committed {
		t.Fatalf("%+v", applied.After)
	}
	rec = must1[ledger.Record](t)(s.Read(ctx, ledger.Locator{Kind: "mail.send", Key: "in flight"}))
	must1[ledger.Applied](t)(ledger.Suspend(ctx, s, ledger.SuspendRequest{ChangeID: "wait", AttemptID: rec.Operation.LiveAttempt, Awaits: "task:7", For: time.Minute, Reason: "working", Actor: billing}))
	rec = must1[ledger.Record](t)(s.Read(ctx, ledger.Locator{Awaits: "task:7"}))
	if rec.Operation.Key != "in flight" {
		t.Fatalf("%+v", rec.Operation)
	}
}

// table contents by name, and the columns they are of.
type contents struct {
	columns map[string]string
	rows    map[string]string
}

// columnsOf reads tables in the columns given, or in all that they have.
func columnsOf(t *testing.T, db *sql.DB, tables []string, columns map[string]string) contents {
	t.Helper()
	out := contents{columns, map[string]string{}}
	if columns == nil {
		out.columns = map[string]string{}
	}
	for _, table := range tables {
		if columns == nil {
			var cols string
			must(t, db.QueryRow(`SELECT group_concat(name, ', ') FROM pragma_table_info(?)`, table).Scan(&cols))
			out.columns[table] = cols
		}
		var all sql.NullString
		quoted := "quote(" + strings.ReplaceAll(out.columns[table], ", ", ") || '|' || quote(") + ")"
		must(t, db.QueryRow(`SELECT group_concat(line, char(10)) FROM (SELECT `+quoted+` AS line FROM `+table+` ORDER BY 1)`).Scan(&all))
		if all.String == "" {
			t.Fatalf("the older ledger has nothing in %s", table)
		}
		out.rows[table] = all.String
	}
	return out
}
