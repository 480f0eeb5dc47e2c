package tables

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"indoubt/ledger"
)

// A ledger is copied to another place table by table, in the order of a key that each has.
// What is read, written and compared are the columns that the two databases say they have,
// in the shape of SQLite.

// Copied are the tables of a copy, and the keys of their rows. Who leads now (lead) stays
// behind, and so do sums (total): their place is that of one database.
var Copied = []struct{ Name, Key string }{
	{"operations", "seq"}, {"marks", "value, operation_id"}, {"attempts", "operation_id, n"}, {"reads", "rowid"}, {"grants", "rowid"},
	{"events", "seq"}, {"holds", "id"}, {"outages", "id"},
	{"open_operations", "seq"},
}

// ofOneDatabase are columns that say something of the database they are in.
var ofOneDatabase = map[string]bool{"db_user": true, "xid": true}

// The kinds of columns.
const (
	KindText = "text"
	KindInt  = "int"
	KindReal = "real"
	KindTime = "time" // read in milliseconds
	KindFlag = "flag" // read as 0 or 1
	KindMade = "made" // of other columns: only read
)

// Copyable is a database that is read for a copy. Columns are those
// of a table, with their kinds.
type Copyable interface {
	Query(ctx context.Context, query string, args ...any) (Rows, error)
	Columns(ctx context.Context, table string) (map[string]string, error)
}

// Fresh is a ledger that is being made as a copy: no one can open it before it is whole.
type Fresh interface {
	Copyable
	ID() string // of the copy
	// Insert adds rows, in one durable transaction.
	Insert(ctx context.Context, table string, columns []string, kinds map[string]string, rows [][]any) error
	// Finish makes it a ledger.
	Finish(ctx context.Context, meta map[string]string) error
	// Finished reports whether it is one already.
	Finished() bool
	// Holds says why a text cannot be kept there, or "".
	Holds(text string) string
	// Discard removes a copy that is no ledger yet.
	Discard(ctx context.Context) error
	Close() error
}

// A Move is what a ledger says of itself while it goes to another place. From its beginning
// nothing changes here; Gone, the ledger is there.
type Move struct {
	ID   string `json:"id"` // of its copy
	To   string `json:"to"` // as it is shown
	Gone bool   `json:"gone,omitempty"`
}

// MetaMove is the name of a move in meta, MetaCopied of the one that made a ledger.
const (
	MetaMove   = "move"
	MetaCopied = "copied"
)

// MoveOf reads the move of a ledger.
func MoveOf(meta map[string]string) (m Move) {
	_ = json.Unmarshal([]byte(meta[MetaMove]), &m)
	return m
}

// MovedTo is where a ledger went whose meta has this move, or "".
func MovedTo(move string) string {
	if m := MoveOf(map[string]string{MetaMove: move}); m.Gone {
		return m.To
	}
	return ""
}

// Text is how it is kept.
func (m Move) Text() string {
	b, _ := json.Marshal(m)
	return string(b)
}

// says is what the database tells a writer, by whether the ledger is there.
var says = map[bool]string{
	false: "the ledger is being copied to %s: nothing changes here",
	true:  "the ledger has moved to %s: write there",
}

// Says is what the database tells a writer.
func (m Move) Says() string { return fmt.Sprintf(says[m.Gone], m.To) }

// Refusal is the error of what a database says where it refuses a write: *ledger.MovingError
// for the words of a move, which pass, else *ledger.GuardError.
func Refusal(said string, err error) error {
	for _, words := range says {
		if before, after, _ := strings.Cut(words, "%s"); strings.HasPrefix(said, before) && strings.HasSuffix(said, after) {
			return &ledger.MovingError{Message: said, Err: err}
		}
	}
	return &ledger.GuardError{Message: said, Err: err}
}

// Follows reports whether a move comes after the one that stands, or stands already: two
// commands may be at work on the same one. The error says so.
func (m Move) Follows(was, stands Move) (already bool, err error) {
	if stands != was && stands != m {
		return false, ledger.Trouble{Code: "moving", Message: "another command has carried the copy of this ledger on, or has ended it", Do: "let one of them end, and give it again"}
	}
	return stands == m, nil
}

// Kept are the tables that a move keeps as they are. An engine that cannot lead learns
// that there is nothing to do.
func (m Move) Kept() (all []string) {
	for _, t := range Copied {
		all = append(all, t.Name)
	}
	return append(all, "lead")
}

// page is how many rows a copy reads and writes at once.
const page = 500

// Copying copies the tables of a ledger that does not change.
type Copying struct {
	From     Copyable
	To       Fresh
	Progress func(table string, n, of int, rows int64) // the n-th table of so many, and its rows until now
}

// Copy copies every table.
func (c Copying) Copy(ctx context.Context) (rows int64, err error) {
	for i, t := range Copied {
		columns, kinds, err := c.columns(ctx, t.Name)
		if err != nil {
			return rows, err
		}
		columns = slices.DeleteFunc(columns, func(name string) bool { return kinds[name] == KindMade })
		key := strings.Split(t.Key, ", ")
		n := int64(0)
		err = eachPage(ctx, c.From, t.Name, key, columns, func(found [][]any) error {
			for _, row := range found {
				if err := c.fits(columns, row); err != nil {
					return err
				}
			}
			if err := c.To.Insert(ctx, t.Name, columns, kinds, found); err != nil {
				return err
			}
			n += int64(len(found))
			c.Progress(t.Name, i+1, len(Copied), n)
			return nil
		})
		if rows += n; err != nil {
			return rows, fmt.Errorf("copy %s: %w", t.Name, err)
		}
	}
	return rows, nil
}

// fits refuses a row that the target would keep as another one.
func (c Copying) fits(columns []string, row []any) error {
	for i, v := range row {
		if text, ok := v.(string); ok {
			if why := c.To.Holds(text); why != "" {
				return fmt.Errorf("%s of the row %s cannot be kept there: %s", columns[i], strconv.Quote(fmt.Sprint(row[0])), why)
			}
		}
	}
	return nil
}

// Verify compares the digests of every table.
func (c Copying) Verify(ctx context.Context) (digests map[string]string, err error) {
	digests = map[string]string{}
	for i, t := range Copied {
		columns, _, err := c.columns(ctx, t.Name)
		if err != nil {
			return nil, err
		}
		key := strings.Split(t.Key, ", ")
		is, n, err := Digest(ctx, c.To, t.Name, key, columns)
		if err != nil {
			return nil, err
		}
		was, of, err := Digest(ctx, c.From, t.Name, key, columns)
		if err != nil {
			return nil, err
		}
		if is != was {
			return nil, fmt.Errorf("%s is not the same on both sides: %d rows with the digest %s, and %d with %s", t.Name, of, was, n, is)
		}
		digests[t.Name] = is
		c.Progress(t.Name+" compared", i+1, len(Copied), n)
	}
	return digests, nil
}

// columns are those of a table that both have. What only one has is refused.
func (c Copying) columns(ctx context.Context, table string) ([]string, map[string]string, error) {
	from, err := c.From.Columns(ctx, table)
	if err != nil {
		return nil, nil, err
	}
	to, err := c.To.Columns(ctx, table)
	if err != nil {
		return nil, nil, err
	}
	var both []string
	for _, name := range slices.Sorted(maps.Keys(from)) {
		switch _, ok := to[name]; {
		case ok && name != "xid": // the number of a transaction is that of its database
			both = append(both, name)
		case !ofOneDatabase[name]:
			return nil, nil, fmt.Errorf("%s has a column %s that the other ledger lacks", table, name)
		}
	}
	for name := range to {
		if _, ok := from[name]; !ok && !ofOneDatabase[name] {
			return nil, nil, fmt.Errorf("%s there has a column %s that this ledger lacks", table, name)
		}
	}
	if len(both) == 0 {
		return nil, nil, fmt.Errorf("there is no table %s", table)
	}
	return both, to, nil
}

// eachPage gives the rows in the order of a key.
func eachPage(ctx context.Context, at Copyable, table string, key, columns []string, take func([][]any) error) error {
	list := strings.Join(key, ", ")
	var after []any
	for {
		query := `SELECT ` + list + `, ` + strings.Join(columns, ", ") + ` FROM ` + table
		if after != nil {
			query += ` WHERE (` + list + `) > (` + strings.TrimSuffix(strings.Repeat("?, ", len(key)), ", ") + `)`
		}
		found, err := values(ctx, at, len(key)+len(columns), query+` ORDER BY `+list+` LIMIT `+strconv.Itoa(page), after...)
		if err != nil || len(found) == 0 {
			return err
		}
		after = found[len(found)-1][:len(key):len(key)]
		for i := range found {
			found[i] = found[i][len(key):]
		}
		if err := take(found); err != nil || len(found) < page {
			return err
		}
	}
}

func values(ctx context.Context, at Copyable, wide int, query string, args ...any) (out [][]any, err error) {
	rows, err := at.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		row, dest := make([]any, wide), make([]any, wide)
		for i := range row {
			dest[i] = &row[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// Digest is that of all rows of a table, in the order of its key.
func Digest(ctx context.Context, at Copyable, table string, key, columns []string) (digest string, rows int64, err error) {
	sum := sha256.New()
	err = eachPage(ctx, at, table, key, columns, func(found [][]any) error {
		for _, row := range found {
			for i, v := range row {
				if err := canonical(sum, v); err != nil {
					return fmt.Errorf("%s of %s: %w", columns[i], table, err)
				}
			}
		}
		rows += int64(len(found))
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)), rows, err
}

// canonical writes a value with its kind and its length: what differs is written otherwise.
func canonical(to hash.Hash, v any) error {
	switch v := v.(type) {
	case nil:
		fmt.Fprint(to, "0;")
	case int64:
		fmt.Fprintf(to, "i%d;", v)
	case float64:
		if v == 0 { // also where its sign is kept
			v = 0
		}
		fmt.Fprintf(to, "r%s;", strconv.FormatFloat(v, 'g', -1, 64))
	case string:
		fmt.Fprintf(to, "t%d:%s;", len(v), v)
	default:
		return fmt.Errorf("a value of the kind %T", v)
	}
	return nil
}

// IsText says why a text is none that any database keeps, or "".
func IsText(text string) string {
	switch {
	case strings.IndexByte(text, 0) >= 0:
		return "it has a zero byte"
	case !utf8.ValidString(text):
		return "it is not UTF-8"
	}
	return ""
}
