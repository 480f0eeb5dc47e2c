package connect

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

var errTooLong = errors.New("the database answered with more than is read")

// wire is a connection to a database. It bounds what comes back for one message
// sent, so that a single huge value cannot fill the memory.
type wire struct {
	net.Conn
	got atomic.Int64
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
	return w.Conn.Write(p)
}

func dialWire(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn}, nil
}

// tooLong reports whether a single answer was longer than is read.
func tooLong(err error) bool {
	return errors.Is(err, errTooLong) || errors.As(err, new(*pgproto3.ExceededMaxBodyLenErr)) || sqliteCode(err) == sqliteTooBig
}
