package connect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"indoubt/policy/transport"

	sqlite3 "modernc.org/sqlite"
)

// sqliteFile is a SQLite database. Every request opens the file anew: it may
// have been replaced, and what a kept connection sees of a file that is gone
// would pass for the truth.
type sqliteFile struct{ path string }

func openSQLite(path string) (database, error) {
	if path == "" {
		return nil, errors.New("no path is given for the SQLite database")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if abs = filepath.ToSlash(abs); abs[0] != '/' { // C:/…
		abs = "/" + abs
	}
	return sqliteFile{abs}, nil
}

func (f sqliteFile) close() {}

// connect opens the file, which must exist.
func (f sqliteFile) connect(ctx context.Context, mode string, pragmas ...string) (*sql.Conn, func(), error) {
	wait := min(maxBusyWait, time.Duration(remaining(ctx))*time.Millisecond)
	query := url.Values{"mode": {mode}, "_pragma": append(pragmas, fmt.Sprintf("busy_timeout(%d)", wait.Milliseconds()))}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: f.path, RawQuery: query.Encode()}).String())
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close()
		return nil, nil, err
	}
	done := func() { _, _ = conn.Close(), db.Close() }
	if _, err := sqlite3.Limit(conn, limitLength, maxWire); err != nil {
		done()
		return nil, nil, err
	}
	return conn, done, nil
}

func (f sqliteFile) read(ctx context.Context, q transport.SQLRequest, into *table) (string, error) {
	conn, done, err := f.connect(ctx, "ro", "query_only(1)")
	if err != nil {
		return "", err
	}
	defer done()
	rows, err := conn.QueryContext(ctx, q.Query, q.Args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	return "", into.take(rows)
}

// Primary result codes (sqlite.org/rescode.html), and the limit on the length of
// a value (sqlite.org/c3ref/c_limit_attached.html).
const (
	sqliteError    = 1
	sqliteReadonly = 8
	sqliteTooBig   = 18
	sqliteRange    = 25

	limitLength = 0
)

func sqliteCode(err error) int {
	var said *sqlite3.Error
	if errors.As(err, &said) {
		return said.Code() & 0xff
	}
	return 0
}
