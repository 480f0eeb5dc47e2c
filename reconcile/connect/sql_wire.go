package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"indoubt/ledger/wire/transmit"
)

var errTooLong = errors.New("the database answered with more than is read")

// wire is a connection to a database. It bounds what comes back for one message
// sent, so that a single huge value cannot fill the memory, and where a fence is
// set it lets nothing out after the deadline.
type wire struct {
	net.Conn
	got   atomic.Int64
	fence *fence // nil for reads
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if w.got.Add(int64(n)) > maxWire {
		return n, errTooLong
	}
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	w.got.Store(0)
	if w.fence != nil {
		if err := w.fence.pass(); err != nil {
			return 0, err
		}
	}
	return w.Conn.Write(p)
}

// fence stands between one write and its connection (I3): nothing passes after
// the deadline, and what passes once it is armed may take effect.
type fence struct {
	deadline time.Time

	mu          sync.Mutex
	armed, sent bool
}

func (f *fence) arm() {
	f.mu.Lock()
	f.armed = true
	f.mu.Unlock()
}

func (f *fence) pass() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if transmit.Past(f.deadline) {
		return transmit.ErrPastDeadline
	}
	f.sent = f.sent || f.armed
	return nil
}

// passed reports whether anything left since it was armed.
func (f *fence) passed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent
}

// judge marks an error as unproven where something that takes effect may have
// left, and says else that a transaction was begun in vain.
func (f *fence) judge(err error) error {
	if f.passed() {
		return unproven{err}
	}
	return undone(err)
}

// undone says of an error that nothing of the statement was kept.
func undone(err error) error { return fmt.Errorf("rolled back: %w", err) }

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// dialWire connects. The connections a driver makes once a fence is armed, to
// ask for the cancellation of what it sent, carry no write.
func dialWire(f *fence) dialer {
	d := &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w := &wire{Conn: conn, fence: f}
		if f != nil {
			f.mu.Lock()
			if f.armed {
				w.fence = nil
			}
			f.mu.Unlock()
		}
		return w, nil
	}
}

// tooLong reports whether a single answer was longer than is read.
func tooLong(err error) bool {
	return errors.Is(err, errTooLong) || errors.As(err, new(*pgproto3.ExceededMaxBodyLenErr)) || sqliteCode(err) == sqliteTooBig
}
