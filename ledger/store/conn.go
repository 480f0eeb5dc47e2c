package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"modernc.org/sqlite"
)

// Conn is a connection to SQLite over its driver, for one caller at a time, with its statements,
// each prepared once. What database/sql does beside costs as much as a short statement.
type Conn struct {
	conn  driver.Conn
	stmts map[string]driver.Stmt
	most  int                 // statements are kept, 0: all
	bound []driver.NamedValue // to the newest statement; the driver copies it
}

// Dial opens a connection that keeps so many statements prepared, or all.
func Dial(name string, most int) (*Conn, error) {
	conn, err := (&sqlite.Driver{}).Open(name)
	if err != nil {
		return nil, err
	}
	return On(conn, most), nil
}

// On is a connection that the driver has opened.
func On(conn driver.Conn, most int) *Conn {
	return &Conn{conn: conn, stmts: map[string]driver.Stmt{}, most: most}
}

// Script runs statements as they are.
func (c *Conn) Script(ctx context.Context, text string) error {
	_, err := c.conn.(driver.ExecerContext).ExecContext(ctx, text, nil)
	return err
}

// prepared is the statement and what is bound to it.
func (c *Conn) prepared(query string, args []any) (st driver.Stmt, kept bool, err error) {
	if st, kept = c.stmts[query]; !kept {
		if st, err = c.conn.Prepare(dialect(query)); err != nil {
			return nil, false, err
		}
		if kept = c.most == 0 || len(c.stmts) < c.most; kept {
			c.stmts[query] = st
		}
	}
	c.bound = c.bound[:0]
	for i, arg := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, false, err
		}
		c.bound = append(c.bound, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return st, kept, nil
}

// Query reads.
func (c *Conn) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	st, kept, err := c.prepared(query, args)
	if err != nil {
		return nil, err
	}
	rows, err := st.(driver.StmtQueryContext).QueryContext(ctx, c.bound)
	if err != nil {
		return nil, err
	}
	r := &read{ctx: ctx, rows: rows, values: make([]driver.Value, len(rows.Columns()))}
	if !kept {
		r.st = st
	}
	return r, nil
}

// Exec writes, and returns how many rows have changed.
func (c *Conn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	st, _, err := c.prepared(query, args)
	if err != nil {
		return 0, err
	}
	res, err := st.(driver.StmtExecContext).ExecContext(ctx, c.bound)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Close closes the statements first: the driver faults on one whose connection is closed.
func (c *Conn) Close() error {
	var errs []error
	for _, st := range c.stmts {
		errs = append(errs, st.Close())
	}
	clear(c.stmts)
	return errors.Join(append(errs, c.conn.Close())...)
}

// read are the rows of a query.
type read struct {
	ctx    context.Context
	rows   driver.Rows
	values []driver.Value
	err    error
	st     driver.Stmt // that is not kept
}

func (r *read) Next() bool {
	if r.err = r.ctx.Err(); r.err == nil {
		r.err = r.rows.Next(r.values)
	}
	return r.err == nil
}

func (r *read) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}

func (r *read) Close() error {
	err := r.rows.Close()
	if r.st != nil {
		err = errors.Join(err, r.st.Close())
		r.st = nil
	}
	return err
}

// Scan takes the values of a row. A NULL goes into any only.
func (r *read) Scan(dest ...any) error {
	if len(dest) != len(r.values) {
		return fmt.Errorf("%d values for %d places", len(r.values), len(dest))
	}
	for i, to := range dest {
		if !Take(to, r.values[i]) {
			return fmt.Errorf("column %s is %T and not a %T", r.rows.Columns()[i], r.values[i], to)
		}
	}
	return nil
}

// Take puts a value where it goes, if it is of that type.
func Take(to any, from driver.Value) (ok bool) {
	switch to := to.(type) {
	case *any:
		*to, ok = from, true
		return ok
	case *string:
		switch from.(type) {
		case int64, float64: // in the JSON of another writer
			from = fmt.Sprint(from)
		}
		*to, ok = from.(string)
		return ok
	case *int64:
		*to, ok = from.(int64)
		return ok
	}
	n, isNumber := from.(int64)
	f, isReal := from.(float64)
	text, isText := from.(string)
	switch v := reflect.ValueOf(to).Elem(); v.Kind() {
	case reflect.String:
		v.SetString(text)
		return isText
	case reflect.Bool:
		v.SetBool(n != 0)
		return isNumber
	case reflect.Float64:
		v.SetFloat(f + float64(n))
		return isReal || isNumber
	default:
		v.SetInt(n)
		return isNumber
	}
}

// dialect fills in the words of a statement that SQLite says otherwise. A limit that is bound and
// stands alone has SQLite plan the statement anew each time.
func dialect(query string) string {
	query = strings.ReplaceAll(query, "LIMIT ?", "LIMIT 0 + ?")
	for {
		i := strings.LastIndex(query, "{")
		if i < 0 {
			return query
		}
		end := i + strings.Index(query[i:], "}")
		kind, of, _ := strings.Cut(query[i+1:end], " ")
		cut := strings.LastIndex(of, ", ")
		switch kind {
		case "int":
			of = "INTEGER"
		case "bare":
			of = "+(" + of + ") AS x"
		case "in":
			first, text, _ := strings.Cut(of, ", ")
			of = "instr(" + text + ", " + first + ") > 0"
		case "place": // of an event e in the feed
			of = "e.seq"
		case "ended":
			of = "9223372036854775807"
		case "take":
			of = "DELETE FROM " + of
		case "object":
			of = "json_object(" + of + ")"
		case "columns":
			of = "SELECT name FROM pragma_table_info(?)"
		case "by":
			of = "INDEXED BY " + of
		case "arm":
			_, of, _ = strings.Cut(of, "; ")
		case "quoted":
			of = `'"' || ` + of + ` || '"'`
		case "like":
			of = of[:cut] + " LIKE " + of[cut+2:] + ` ESCAPE '\'`
		case "glob":
			of = of[:cut] + " GLOB " + of[cut+2:]
		}
		query = query[:i] + of + query[end+1:]
	}
}

// GuardText is a refusal of SQLite without the driver's frame.
func GuardText(s string) string {
	s = strings.TrimPrefix(s, "constraint failed: ")
	if i := strings.LastIndex(s, " ("); i > 0 && strings.HasSuffix(s, ")") {
		s = s[:i]
	}
	return s
}
