package ledgertest

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/store"

	"modernc.org/sqlite"
)

// memory is a ledger in the memory of a process: SQLite on one connection, for one caller at a
// time. It asks the driver itself: a pool of database/sql has goroutines that outlive a test's bubble.
// All that is written to it is one transaction, which is never committed: so the connection, its
// schema and its statements serve the next ledger when this one is closed.
type memory struct {
	mu     sync.Mutex
	image  *image
	conn   *store.Conn // nil: it was closed
	moment func() ledger.Moment
	bells  store.Bells
	wrote  bool
}

// image is what ledgers in memory begin with.
type image struct {
	mu    sync.Mutex
	whole driver.Conn   // to a database that has it, from which others are copied
	spare []*store.Conn // to such copies, which no ledger is on
}

// InMemory makes the database of an empty ledger that is gone when it is closed. nil stands for
// the host's clocks.
func InMemory(clock ledger.Clock, steady ledger.SteadyClock) (store.Database, error) {
	return empty.of.inMemory(clock, steady, func(store.Database) error { return nil })
}

// inMemory makes the database of a ledger that begins with the image, which fill writes first.
func (i *image) inMemory(clock ledger.Clock, steady ledger.SteadyClock, fill func(store.Database) error) (_ store.Database, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := &memory{image: i, moment: hostclock.Of(clock, steady)}
	if i.whole == nil {
		whole, err := (&sqlite.Driver{}).Open(":memory:")
		if err != nil {
			return nil, err
		}
		m.conn = store.On(whole, 0)
		tables, guards := store.SQLiteSchema()
		if err = cmp.Or(m.conn.Script(context.Background(), tables+"\n"+guards), m.begin(), fill(m), m.do(`COMMIT`)); err != nil {
			return nil, fmt.Errorf("an image of ledgers in memory: %w", err)
		}
		i.whole = whole
	}
	if last := len(i.spare) - 1; last >= 0 {
		m.conn, i.spare = i.spare[last], i.spare[:last]
	} else if m.conn, err = copied(i.whole); err != nil {
		return nil, err
	}
	return m, m.begin()
}

// copied is a connection to a database in memory with the same contents.
func copied(whole driver.Conn) (*store.Conn, error) {
	b, err := whole.(interface {
		NewBackup(string) (*sqlite.Backup, error)
	}).NewBackup(":memory:")
	if err != nil {
		return nil, err
	}
	if _, err = b.Step(-1); err != nil {
		return nil, errors.Join(err, b.Finish())
	}
	conn, err := b.Commit()
	return store.On(conn, 0), err
}

func (m *memory) begin() error {
	return cmp.Or(m.do(`BEGIN`), store.SetMeta(m, "id", "memory"), store.SetMeta(m, "created", fmt.Sprint(m.moment().Wall.UnixMilli())))
}

func (m *memory) do(query string) error {
	_, err := m.Exec(query)
	return err
}

var errClosed = errors.New("this ledger in memory was closed")

func (m *memory) View(_ context.Context, read func(store.Tx) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		return errClosed
	}
	return refusal(read(m))
}

func (m *memory) Update(_ context.Context, change func(store.Tx) error) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		return errClosed
	}
	if err := m.do(`SAVEPOINT change`); err != nil {
		return err
	}
	m.wrote = false
	if err = change(m); err != nil {
		return errors.Join(refusal(err), m.do(`ROLLBACK TO change`), m.do(`RELEASE change`))
	}
	if err = m.do(`RELEASE change`); err == nil && m.wrote {
		m.bells.Ring()
	}
	return err
}

func (m *memory) Watch(ctx context.Context) <-chan struct{} { return m.bells.Watch(ctx) }

func (m *memory) Moment() ledger.Moment { return m.moment() }

func (m *memory) Query(query string, args ...any) (store.Rows, error) {
	m.wrote = m.wrote || strings.HasPrefix(query, "INSERT")
	return m.conn.Query(context.Background(), query, args...)
}

func (m *memory) Exec(query string, args ...any) (int64, error) {
	m.wrote = true
	return m.conn.Exec(context.Background(), query, args...)
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		return nil
	}
	err := m.do(`ROLLBACK`)
	if err == nil {
		m.image.mu.Lock()
		m.image.spare = append(m.image.spare, m.conn)
		m.image.mu.Unlock()
	}
	m.conn = nil
	return err
}

// refusal is the error of a guard in its own words.
func refusal(err error) error {
	var coded interface{ Code() int }
	if !errors.As(err, &coded) || coded.Code()&0xff != 19 {
		return err
	}
	return &ledger.GuardError{Message: store.GuardText(coded.(error).Error()), Err: err}
}
