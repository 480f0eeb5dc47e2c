package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"

	"modernc.org/sqlite"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
)

// memory is a ledger in the memory of a process: SQLite on one connection, for one caller at a
// time. It asks the driver itself: a pool of database/sql has goroutines that outlive a test's bubble.
// All that is written to it is one transaction, which is never committed: so the connection, its
// schema and its statements serve the next ledger when this one is closed.
type memory struct {
	mu sync.Mutex
	*emptied
	moment func() ledger.Moment
	bells  []chan struct{}
	wrote  bool
}

// emptied is a connection to a database that has the schema and no rows.
type emptied struct {
	conn  driver.Conn
	stmts map[string]driver.Stmt
}

var spare struct {
	sync.Mutex
	all []*emptied
}

func newEmptied() (*emptied, error) {
	spare.Lock()
	defer spare.Unlock()
	if n := len(spare.all); n > 0 {
		e := spare.all[n-1]
		spare.all = spare.all[:n-1]
		return e, nil
	}
	conn, err := (&sqlite.Driver{}).Open(":memory:")
	if err != nil {
		return nil, err
	}
	if _, err = conn.(driver.ExecerContext).ExecContext(context.Background(), sqliteSchema(), nil); err != nil {
		return nil, errors.Join(fmt.Errorf("the schema of a ledger in memory: %w", err), conn.Close())
	}
	return &emptied{conn, map[string]driver.Stmt{}}, nil
}

// InMemory makes the database of an empty ledger that is gone when it is closed. nil stands for
// the host's clocks.
func InMemory(clock ledger.Clock, steady ledger.SteadyClock) (Database, error) {
	e, err := newEmptied()
	if err != nil {
		return nil, err
	}
	m := &memory{emptied: e, moment: hostclock.Of(clock, steady)}
	return m, errors.Join(exec(m, `BEGIN`), exec(m, `INSERT INTO meta (name, value) VALUES ('id', 'memory'), ('created', ?)`,
		fmt.Sprint(millis(m.moment().Wall))))
}

func (m *memory) View(_ context.Context, read func(Tx) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return refusal(read(m))
}

func (m *memory) Update(_ context.Context, change func(Tx) error) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := exec(m, `SAVEPOINT change`); err != nil {
		return err
	}
	m.wrote = false
	if err = change(m); err != nil {
		return errors.Join(refusal(err), exec(m, `ROLLBACK TO change`), exec(m, `RELEASE change`))
	}
	if err = exec(m, `RELEASE change`); err == nil && m.wrote {
		m.ring()
	}
	return err
}

// ring wakes those who watch.
func (m *memory) ring() {
	for _, bell := range m.bells {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

func (m *memory) Watch(ctx context.Context) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	bell := make(chan struct{}, 1)
	m.bells = append(m.bells, bell)
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i, b := range m.bells {
			if b == bell {
				m.bells = append(m.bells[:i:i], m.bells[i+1:]...)
				break
			}
		}
		close(bell)
	})
	return bell
}

func (m *memory) Moment() ledger.Moment { return m.moment() }

// dialect fills in the words of a statement that SQLite says otherwise.
func dialect(query string) string {
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
		case "in":
			first, text, _ := strings.Cut(of, ", ")
			of = "instr(" + text + ", " + first + ") > 0"
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

// prepared is the statement and what is bound to it.
func (m *memory) prepared(query string, args []any) (driver.Stmt, []driver.NamedValue, error) {
	if m.emptied == nil {
		return nil, nil, errors.New("this ledger in memory was closed")
	}
	st := m.stmts[query]
	if st == nil {
		var err error
		if st, err = m.conn.Prepare(dialect(query)); err != nil {
			return nil, nil, fmt.Errorf("%w in %s", err, query)
		}
		m.stmts[query] = st
	}
	bound := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, nil, err
		}
		bound[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return st, bound, nil
}

func (m *memory) Query(query string, args ...any) (Rows, error) {
	st, bound, err := m.prepared(query, args)
	if err != nil {
		return nil, err
	}
	m.wrote = m.wrote || strings.HasPrefix(query, "INSERT")
	rows, err := st.(driver.StmtQueryContext).QueryContext(context.Background(), bound)
	if err != nil {
		return nil, err
	}
	return &result{rows: rows, values: make([]driver.Value, len(rows.Columns()))}, nil
}

func (m *memory) Exec(query string, args ...any) (int64, error) {
	st, bound, err := m.prepared(query, args)
	if err != nil {
		return 0, err
	}
	res, err := st.(driver.StmtExecContext).ExecContext(context.Background(), bound)
	if err != nil {
		return 0, err
	}
	m.wrote = true
	return res.RowsAffected()
}

// result is that of a query.
type result struct {
	rows   driver.Rows
	values []driver.Value
	err    error
}

func (r *result) Next() bool {
	r.err = r.rows.Next(r.values)
	return r.err == nil
}

func (r *result) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}

func (r *result) Close() error { return r.rows.Close() }

// Scan takes the values of a row. A NULL goes into any only.
func (r *result) Scan(dest ...any) error {
	if len(dest) != len(r.values) {
		return fmt.Errorf("%d values for %d places", len(r.values), len(dest))
	}
	for i, to := range dest {
		n, isNumber := r.values[i].(int64)
		f, isReal := r.values[i].(float64)
		text, isText := r.values[i].(string)
		v, ok := reflect.ValueOf(to).Elem(), true
		switch v.Kind() {
		case reflect.Interface:
			*to.(*any) = r.values[i]
		case reflect.String:
			ok = isText
			v.SetString(text)
		case reflect.Bool:
			ok = isNumber
			v.SetBool(n != 0)
		case reflect.Float64:
			ok = isReal || isNumber
			v.SetFloat(f + float64(n))
		default:
			ok = isNumber
			v.SetInt(n)
		}
		if !ok {
			return fmt.Errorf("column %s is %T and not a %s", r.rows.Columns()[i], r.values[i], v.Type())
		}
	}
	return nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.emptied == nil {
		return nil
	}
	err := exec(m, `ROLLBACK`)
	if err == nil {
		spare.Lock()
		spare.all = append(spare.all, m.emptied)
		spare.Unlock()
	}
	m.emptied = nil
	return err
}

// refusal is the error of a guard in its own words.
func refusal(err error) error {
	var coded interface{ Code() int }
	if !errors.As(err, &coded) || coded.Code()&0xff != 19 {
		return err
	}
	text := strings.TrimPrefix(coded.(error).Error(), "constraint failed: ")
	if i := strings.LastIndex(text, " ("); i > 0 && strings.HasSuffix(text, ")") {
		text = text[:i]
	}
	return &ledger.GuardError{Message: text, Err: err}
}
