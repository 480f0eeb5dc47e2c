package drill

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"indoubt/ledger/need"
)

// keepTable lets the market show what is to be seen in a SQLite file, and take
// what is written there.
func (d *market) keepTable(t testing.TB, path string) {
	db := need.Get(sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=busy_timeout(5000)"))(t)
	db.SetMaxOpenConns(1)
	need.Get(db.Exec(`
		CREATE TABLE things (id TEXT, ref TEXT, key TEXT, "to" TEXT, amount INTEGER, created INTEGER);
		CREATE TABLE sent (n INTEGER PRIMARY KEY, op TEXT, ref TEXT, key TEXT, "to" TEXT, amount INTEGER);
		CREATE TRIGGER shown AFTER INSERT ON sent BEGIN
			INSERT INTO things VALUES ('s_' || new.n, new.ref, new.key, new."to", new.amount, 4000000000);
		END`))(t)
	t.Cleanup(func() { db.Close() })
	d.table = db
}

// fillTable shows what is to be seen now.
func (d *market) fillTable(u *wide) {
	if d.table == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	tx, err := d.table.Begin()
	u.must(err, "begin")
	defer tx.Rollback()
	_, err = tx.Exec(`DELETE FROM things`)
	u.must(err, "empty the table")
	for _, t := range d.visible(url.Values{}) {
		_, err = tx.Exec(`INSERT INTO things VALUES (?, ?, ?, ?, ?, ?)`, t.ID, t.Ref, t.Key, t.To, t.Amount, t.At.Add(d.off).Unix())
		u.must(err, "fill the table")
	}
	u.must(tx.Commit(), "fill the table")
}

// takeTable enters into the journal what engines wrote.
func (d *market) takeTable(u *wide) {
	if d.table == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	rows, err := d.table.Query(`SELECT n, op, ref, key, "to", amount FROM sent WHERE n > ?`, d.pages)
	u.must(err, "read what was written")
	defer rows.Close()
	for rows.Next() {
		var t thing
		var n int
		u.must(rows.Scan(&n, &t.Op, &t.Ref, &t.Key, &t.To, &t.Amount), "read what was written")
		t.ID, d.pages = fmt.Sprint("s_", n), n
		d.posts[t.Op]++
		d.bookLocked(t, 0)
	}
	u.must(rows.Err(), "read what was written")
}

// builtMarket is the market's command line and MCP server, as a program of its own.
func builtMarket(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "market")
	build := exec.Command("go", "build", "-o", path, "./testdata/market")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("the market's program cannot be built here: %v\n%s", err, out)
	}
	return path
}
