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
type memory struct {
	mu     sync.Mutex
	conn   driver.Conn
	stmts  map[string]driver.Stmt
	moment func() ledger.Moment
	bells  []chan struct{}
	wrote  bool
}

// InMemory makes the database of an empty ledger that is gone with the process. nil stands for the
// host's clocks.
func InMemory(clock ledger.Clock, steady ledger.SteadyClock) (Database, error) {
	conn, err := (&sqlite.Driver{}).Open(":memory:")
	if err != nil {
		return nil, err
	}
	m := &memory{conn: conn, stmts: map[string]driver.Stmt{}, moment: hostclock.Of(clock, steady)}
	if err = m.script(sqliteSchema()); err == nil {
		err = exec(m, `INSERT INTO meta (name, value) VALUES ('id', 'memory'), ('created', ?)`, fmt.Sprint(millis(m.moment().Wall)))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the schema of a ledger in memory: %w", err), conn.Close())
	}
	return m, nil
}

// script runs statements as they are.
func (m *memory) script(text string) error {
	_, err := m.conn.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

func (m *memory) View(_ context.Context, read func(Tx) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return refusal(read(m))
}

func (m *memory) Update(_ context.Context, change func(Tx) error) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.Exec(`BEGIN`); err != nil {
		return err
	}
	m.wrote = false
	if err = change(m); err != nil {
		_, failed := m.Exec(`ROLLBACK`)
		return errors.Join(refusal(err), failed)
	}
	if _, err = m.Exec(`COMMIT`); err == nil && m.wrote {
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
	var errs []error
	for _, st := range m.stmts {
		errs = append(errs, st.Close())
	}
	m.stmts = map[string]driver.Stmt{}
	return errors.Join(append(errs, m.conn.Close())...)
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
