package connect

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	sqlite3 "modernc.org/sqlite"

	"indoubt/ledger"
	"indoubt/ledger/wire/transmit"
	"indoubt/policy/transport"
)

const (
	// maxRows bounds the rows that are kept of an answer.
	maxRows = 1000
	// HeaderStale is set in the answer of a database that follows another one, so
	// that what it does not show may be there all the same. Its value is
	// "replica", or "unknown" where the database does not tell.
	HeaderStale = "X-Indoubt-Stale"

	maxConnections = 8               // of one database
	idleConnection = time.Minute     // before one is closed
	maxWire        = 32 << 20        // bytes of one value, or of one message of a server
	maxBusyWait    = 5 * time.Second // for a writer of a SQLite file
)

// SQL reads databases. It keeps one small pool of connections
// for each. Its zero value is ready and safe for use by many goroutines.
type SQL struct {
	mu     sync.Mutex
	open   map[[2]string]database // by driver and address
	closed bool
}

// database is one pool, of whichever driver.
type database interface {
	// read runs a query in a read-only transaction and reports whether what it saw
	// may be old: "" where it is not.
	read(ctx context.Context, q transport.SQLRequest, into *table) (stale string, err error)
	close()
}

// Read runs one query in a read-only transaction under a statement timeout. It
// stops after maxRows rows and Max bytes; the answer is Truncated then.
// Values become JSON: numbers with all their digits, moments as RFC 3339 (in UTC
// where the database keeps no zone), bytes as text where they are UTF-8, else as
// base64. An answer of a replica has HeaderStale.
func (s *SQL) Read(ctx context.Context, q transport.SQLRequest) ledger.Answer {
	a := ledger.Answer{Via: "sql", BeganAt: time.Now()}
	ctx, cancel := context.WithDeadline(ctx, transmit.Ends(a.BeganAt, q.Timeout, time.Time{}))
	defer cancel()
	db, err := s.database(q)
	if err != nil {
		return transmit.Failed(a, err)
	}
	rows := &table{maxBody: cmp.Or(q.Max, transmit.DefaultMaxBody)}
	stale, err := db.read(ctx, q, rows)
	if err != nil && mistaken(err) {
		err = &Mistaken{err}
	}
	if a.Truncated = rows.cut || tooLong(err); err != nil && !a.Truncated {
		if a = failed(a, ctx, err); a.Class == "" && timedOut(err) {
			a.Class = ledger.ClassTimeout
		}
		return a
	}
	a.Sent = true
	a.Rows, a.EndedAt = rows.json(), time.Now()
	if stale != "" {
		a.Header = map[string][]string{HeaderStale: {stale}}
	}
	return a
}

// Close closes every pool. Requests that follow fail.
func (s *SQL) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, db := range s.open {
		db.close()
	}
	s.open = nil
}

// database is the pool of a request. One that no request names any more has no connections.
func (s *SQL) database(q transport.SQLRequest) (db database, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the databases were closed")
	}
	key := [2]string{q.Driver, q.DSN}
	if db := s.open[key]; db != nil {
		return db, nil
	}
	if db, err = openDatabase(q.Driver, q.DSN); err != nil {
		return nil, err
	}
	if s.open == nil {
		s.open = map[[2]string]database{}
	}
	s.open[key] = db
	return db, nil
}

func openDatabase(driver, dsn string) (database, error) {
	switch driver {
	case "sqlite":
		return openSQLite(dsn)
	case "postgres":
		return openPostgres(dsn)
	}
	return nil, fmt.Errorf("there is no driver %q: sqlite and postgres", driver)
}

// tooLong reports whether a single value was longer than is read.
func tooLong(err error) bool {
	return errors.As(err, new(*pgproto3.ExceededMaxBodyLenErr)) || sqliteCode(err) == sqliteTooBig
}

// mistaken reports whether a database answered that the statement makes no sense to
// it or may not be run.
func mistaken(err error) bool {
	var pg *pgconn.PgError
	state := ""
	switch {
	case errors.As(err, &pg):
		state = pg.Code
	case errors.As(err, new(*sqlite3.Error)):
		code := sqliteCode(err)
		return code == sqliteError || code == sqliteReadonly || code == sqliteRange
	}
	return strings.HasPrefix(state, "42") || strings.HasPrefix(state, "22") || state == "25006" // access or syntax; data; read-only
}

// remaining is how long a statement may run at most, in whole milliseconds.
func remaining(ctx context.Context) int64 {
	end, ok := ctx.Deadline()
	if !ok {
		return transmit.DefaultTimeout.Milliseconds()
	}
	return max(1, time.Until(end).Milliseconds())
}

// table collects rows as a JSON array of objects, to its limits and no further.
type table struct {
	maxBody int64

	names []string // quoted
	buf   bytes.Buffer
	rows  int
	cut   bool
}

// columns names what every row holds.
func (t *table) columns(names []string) error {
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		if seen[n] {
			return fmt.Errorf("two columns are called %q; give one of them another name with AS", n)
		}
		seen[n] = true
		t.names = append(t.names, string(jsonText(n)))
	}
	return nil
}

// add takes one row and reports whether to go on.
func (t *table) add(value func(i int) []byte) bool {
	begin := t.buf.Len()
	if begin > 0 {
		t.buf.WriteByte(',')
	}
	t.buf.WriteByte('{')
	for i, name := range t.names {
		if i > 0 {
			t.buf.WriteByte(',')
		}
		t.buf.WriteString(name)
		t.buf.WriteByte(':')
		t.buf.Write(value(i))
	}
	t.buf.WriteByte('}')
	if t.rows == maxRows || int64(t.buf.Len())+2 > t.maxBody {
		t.buf.Truncate(begin)
		t.cut = true
		return false
	}
	t.rows++
	return true
}

// json is the array, nil where the statement gives no rows at all.
func (t *table) json() json.RawMessage {
	if t.names == nil {
		return nil
	}
	out := make([]byte, 0, t.buf.Len()+2)
	out = append(append(append(out, '['), t.buf.Bytes()...), ']')
	return out
}

// take reads the rows of a database/sql driver.
func (t *table) take(rows *sql.Rows) error {
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range names {
		into[i] = &values[i]
	}
	if len(names) > 0 {
		if err := t.columns(names); err != nil {
			return err
		}
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if !t.add(func(i int) []byte { return jsonValue(values[i]) }) {
			return nil
		}
	}
	return rows.Err()
}

// jsonValue makes JSON of a value as a driver gives it.
func jsonValue(v any) []byte {
	switch x := v.(type) {
	case nil:
		return []byte("null")
	case bool:
		return strconv.AppendBool(nil, x)
	case int64:
		return strconv.AppendInt(nil, x, 10)
	case float64:
		return jsonNumber(strconv.FormatFloat(x, 'g', -1, 64))
	case time.Time:
		return jsonText(x.Format(time.RFC3339Nano))
	case []byte:
		return jsonBytes(x)
	case string:
		return jsonBytes([]byte(x))
	}
	return jsonText(fmt.Sprint(v))
}

// jsonNumber is a number with the digits it has; what JSON has no number for
// (NaN) is text.
func jsonNumber(text string) []byte {
	if len(text) > 0 && text[0] != '"' && json.Valid([]byte(text)) {
		return []byte(text)
	}
	return jsonText(text)
}

// jsonBytes is text where the bytes are UTF-8, else base64.
func jsonBytes(b []byte) []byte {
	if utf8.Valid(b) {
		return jsonText(string(b))
	}
	return jsonText(base64.StdEncoding.EncodeToString(b))
}

// jsonMoment is a moment in the layout a database writes it in. What is none,
// such as PostgreSQL's infinity, stays text.
func jsonMoment(text string, layouts ...string) []byte {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return jsonText(at.Format(time.RFC3339Nano))
		}
	}
	return jsonText(text)
}

// jsonDocument is JSON that the database keeps as such.
func jsonDocument(text []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, text) != nil {
		return jsonBytes(text)
	}
	return out.Bytes()
}

func jsonText(s string) []byte { return ledger.EncodeJSON(s) }
