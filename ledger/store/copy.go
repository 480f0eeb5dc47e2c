package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"indoubt/ledger"
)

// Copied is what a copy has done.
type Copied struct {
	Pending int64             `json:"pending"` // in flight, which a copy waits for
	Rows    int64             `json:"rows"`    // copied
	Digests map[string]string `json:"digests"` // of the tables, the same on both sides
}

// copied is a table that is copied, its key, and what comes before all keys. What is summed up is made anew, and so are
// those who lead.
type copied struct {
	name, key string
	first     any
}

// Waits says that a copy of another ledger is at a place.
func Waits(at string) error {
	return ledger.Trouble{Code: "exists", Message: "a copy of another ledger waits in " + at + ", and may be all that there is of it",
		Do: "end that copy: the same indoubt copy again; or name another place"}
}

// Tables are all of a ledger.
var Tables = []string{"meta", "op", "ev", "price", "outage", "total", "hold", "lead"}

var copying = []copied{{"op", "seq", int64(0)}, {"ev", "seq", int64(0)}, {"price", "op", int64(0)}, {"outage", "id", ""},
	{"hold", "scope", ""}}

// travels is what a ledger knows of itself and takes along; the rest is of its place.
var travels = []string{"id", "created", metaGap, metaLapsed, metaKey}

// copyAtOnce is how many rows are read, written and compared at once.
const copyAtOnce = 500

// Count is what a copy would do.
func (c *Copied) Count(tx Tx) error {
	*c = Copied{}
	for _, t := range copying {
		var n int64
		if err := One(tx, []any{&n}, `SELECT count(*) FROM `+t.name); err != nil {
			return err
		}
		c.Rows += n
	}
	return One(tx, []any{&c.Pending}, `SELECT count(*) FROM op o WHERE `+inFlight+` AND o.deadline_at >= ?`, millis(tx.Moment().Wall))
}

// Copy writes a ledger in which nothing is in flight into tables that are empty and have no guards yet, and
// reads each row back. No one may change it meanwhile. Error: in_progress.
func (c *Copied) Copy(from, to Tx, progress func(table string, n, of int, rows int64)) error {
	if err := c.Count(from); err != nil {
		return err
	}
	if c.Pending > 0 {
		return ledger.Trouble{Code: "in_progress", Message: fmt.Sprintf("%d operations are in flight", c.Pending),
			Do: "copy it when they have ended"}
	}
	c.Rows, c.Digests = 0, map[string]string{}
	for i, t := range copying {
		n, digest, err := t.copy(from, to)
		if err != nil {
			return fmt.Errorf("copy %s: %w", t.name, err)
		}
		c.Rows, c.Digests[t.name] = c.Rows+n, digest
		progress(t.name, i+1, len(copying), c.Rows)
	}
	meta, err := Meta(from)
	for _, name := range travels {
		if text, is := meta[name]; is && err == nil {
			err = SetMeta(to, name, text)
		}
	}
	return err
}

// copy copies the rows of a table, in the order of its key.
func (t copied) copy(from, to Tx) (rows int64, digest string, err error) {
	is, err := Collect(to, word, `{columns}`, t.name)
	if err != nil {
		return 0, "", err
	}
	has, err := Collect(from, word, `{columns}`, t.name)
	if err != nil {
		return 0, "", err
	}
	names := slices.DeleteFunc(has, func(name string) bool { // where an event is in the feed is another on each side
		return name == "place" || !slices.Contains(is, name)
	})
	key, isJSON := slices.Index(names, t.key), jsonColumns(t.name)
	selected := slices.Clone(names)
	for i, name := range names {
		if isJSON[name] {
			selected[i] = "{text " + name + "}"
		}
	}
	query := fmt.Sprintf(`SELECT %s FROM %s WHERE %s > ? ORDER BY %[3]s LIMIT ?`, strings.Join(selected, ", "), t.name, t.key)
	insert := fmt.Sprintf(`INSERT INTO %s (%s) VALUES (%s)`, t.name, strings.Join(names, ", "), placeholders(len(names)))
	sum, after := sha256.New(), t.first
	for {
		some, err := Collect(from, wholeRow(len(names)), query, after, copyAtOnce)
		if err != nil {
			return rows, "", err
		}
		for _, row := range some {
			bound := slices.Clone(row)
			for i, name := range names {
				if text, is := row[i].(string); is && isJSON[name] {
					bound[i] = JSON(text)
				}
			}
			if err := exec(to, insert, bound...); err != nil {
				return rows, "", err
			}
		}
		back, err := Collect(to, wholeRow(len(names)), query, after, copyAtOnce)
		if err != nil {
			return rows, "", err
		}
		text := ledger.EncodeJSON(some)
		if !bytes.Equal(text, ledger.EncodeJSON(back)) {
			return rows, "", fmt.Errorf("what is there now is not the same, behind %v", after)
		}
		sum.Write(text)
		rows += int64(len(some))
		if len(some) < copyAtOnce {
			return rows, hex.EncodeToString(sum.Sum(nil)), nil
		}
		after = some[len(some)-1][key]
	}
}

// jsonColumns are the columns of JSON of a table.
func jsonColumns(table string) map[string]bool {
	_, text, _ := strings.Cut(template, "CREATE TABLE "+table+" (")
	text, _, _ = strings.Cut(text, "{strict}")
	is := map[string]bool{}
	for _, m := range regexp.MustCompile(`(\w+) +\{json\}`).FindAllStringSubmatch(text, -1) {
		is[m[1]] = true
	}
	return is
}

// wholeRow reads a row of so many columns.
func wholeRow(n int) func(Rows) ([]any, error) {
	return func(rows Rows) ([]any, error) {
		row, dest := make([]any, n), make([]any, n)
		for i := range row {
			dest[i] = &row[i]
		}
		return row, rows.Scan(dest...)
	}
}
