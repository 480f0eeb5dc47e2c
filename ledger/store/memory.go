package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
)

// memory is a ledger in the memory of a process: SQLite on one connection, for one caller at a
// time. It asks the driver itself: a pool of database/sql has goroutines that outlive a test's bubble.
// All that is written to it is one transaction, which is never committed: so the connection, its
// schema and its statements serve the next ledger when this one is closed.
type memory struct {
	mu     sync.Mutex
	image  *Image
	conn   *Conn // nil: it was closed
	moment func() ledger.Moment
	bells  Bells
	wrote  bool
}

// Image is what ledgers in memory begin with.
type Image struct {
	mu    sync.Mutex
	whole *Conn   // to a database that has it, from which others are copied
	spare []*Conn // to such copies, which no ledger is on
}

var empty Image

// InMemory makes the database of an empty ledger that is gone when it is closed. nil stands for
// the host's clocks.
func InMemory(clock ledger.Clock, steady ledger.SteadyClock) (Database, error) {
	return empty.InMemory(clock, steady, func(Database) error { return nil })
}

// InMemory makes the database of a ledger that begins with the image, which fill writes first.
func (i *Image) InMemory(clock ledger.Clock, steady ledger.SteadyClock, fill func(Database) error) (_ Database, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := &memory{image: i, moment: hostclock.Of(clock, steady)}
	if i.whole == nil {
		if m.conn, err = Dial(":memory:", 0); err == nil {
			tables, guards := sqliteSchema()
			err = m.conn.Script(context.Background(), tables+"\n"+guards)
		}
		if err = cmp.Or(err, m.begin(), fill(m), exec(m, `COMMIT`)); err != nil {
			return nil, fmt.Errorf("an image of ledgers in memory: %w", err)
		}
		i.whole = m.conn
	}
	if last := len(i.spare) - 1; last >= 0 {
		m.conn, i.spare = i.spare[last], i.spare[:last]
	} else if m.conn, err = i.whole.copied(); err != nil {
		return nil, err
	}
	return m, m.begin()
}

func (m *memory) begin() error {
	return cmp.Or(exec(m, `BEGIN`), SetMeta(m, "id", "memory"), SetMeta(m, "created", fmt.Sprint(millis(m.moment().Wall))))
}

var errClosed = errors.New("this ledger in memory was closed")

func (m *memory) View(_ context.Context, read func(Tx) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		return errClosed
	}
	return refusal(read(m))
}

func (m *memory) Update(_ context.Context, change func(Tx) error) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		return errClosed
	}
	if err := exec(m, `SAVEPOINT change`); err != nil {
		return err
	}
	m.wrote = false
	if err = change(m); err != nil {
		return errors.Join(refusal(err), exec(m, `ROLLBACK TO change`), exec(m, `RELEASE change`))
	}
	if err = exec(m, `RELEASE change`); err == nil && m.wrote {
		m.bells.Ring()
	}
	return err
}

func (m *memory) Watch(ctx context.Context) <-chan struct{} { return m.bells.Watch(ctx) }

func (m *memory) Moment() ledger.Moment { return m.moment() }

func (m *memory) Query(query string, args ...any) (Rows, error) {
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
	err := exec(m, `ROLLBACK`)
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
	return &ledger.GuardError{Message: GuardText(coded.(error).Error()), Err: err}
}

// GuardText is a refusal of SQLite without the driver's frame.
func GuardText(s string) string {
	s = strings.TrimPrefix(s, "constraint failed: ")
	if i := strings.LastIndex(s, " ("); i > 0 && strings.HasSuffix(s, ")") {
		s = s[:i]
	}
	return s
}
