package connect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// mysqlServer is MySQL or MariaDB.
type mysqlServer struct {
	config *mysql.Config
	pool   *sql.DB
}

func openMySQL(dsn string) (database, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("the address of the MySQL database cannot be read")
	}
	config.MultiStatements, config.AllowAllFiles, config.InterpolateParams = false, false, false
	config.ParseTime, config.RejectReadOnly = false, false
	config.Logger = log.New(io.Discard, "", 0) // its log would be drawn over the screen
	m := &mysqlServer{config: config}
	reads := config.Clone()
	reads.DialFunc = dialWire(nil)
	if reads.Params == nil {
		reads.Params = map[string]string{}
	}
	reads.Params["time_zone"] = "'+00:00'"
	connector, err := mysql.NewConnector(reads)
	if err != nil {
		return nil, withheld(err, m.secrets())
	}
	m.pool = sql.OpenDB(connector)
	m.pool.SetMaxOpenConns(maxConnections)
	m.pool.SetMaxIdleConns(maxConnections / 2)
	m.pool.SetConnMaxIdleTime(idleConnection)
	return m, nil
}

func (m *mysqlServer) secrets() []string { return []string{m.config.Passwd} }
func (m *mysqlServer) close()            { _ = m.pool.Close() }

func (m *mysqlServer) read(ctx context.Context, q SQLRequest, into *table) (string, error) {
	// Ended early, a query is given up together with its connection.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := m.pool.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stale, err := mysqlPrepare(ctx, conn)
	if err != nil {
		return "", err
	}
	if _, err := conn.ExecContext(ctx, "START TRANSACTION READ ONLY"); err != nil {
		return "", err
	}
	rows, err := conn.QueryContext(ctx, q.Query, q.Args...)
	if err == nil {
		err = into.take(rows, mysqlValue)
		if into.cut || err != nil {
			cancel()
		}
		err = errors.Join(err, rows.Close())
	}
	if into.cut {
		return stale, nil
	}
	if _, undone := conn.ExecContext(ctx, "ROLLBACK"); undone != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // it is not used again
	}
	return stale, err
}

// mysqlPrepare limits how long a query runs, and reports whether the server is
// one that follows another.
func mysqlPrepare(ctx context.Context, conn *sql.Conn) (stale string, err error) {
	var version string
	var readOnly, engineReadOnly bool
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return "", err
	}
	limit := fmt.Sprintf("SET SESSION max_execution_time = %d", remaining(ctx))
	if strings.Contains(version, "MariaDB") {
		limit = fmt.Sprintf("SET SESSION max_statement_time = %.3f", float64(remaining(ctx))/1000)
	}
	if _, err := conn.ExecContext(ctx, limit); err != nil {
		return "", err
	}
	switch err := conn.QueryRowContext(ctx, "SELECT @@global.read_only, @@global.innodb_read_only").Scan(&readOnly, &engineReadOnly); {
	case err != nil && ctx.Err() != nil:
		return "", err
	case err != nil:
		return "unknown", nil
	case readOnly || engineReadOnly:
		return "replica", nil
	}
	return "", nil
}

func (m *mysqlServer) send(ctx context.Context, q SQLRequest, into *table) (affected int64, err error) {
	f := &fence{deadline: q.Deadline}
	config := m.config.Clone()
	config.DialFunc = dialWire(f)
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return 0, err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return 0, err
	}
	f.arm() // a table without transactions changes at once
	if err := m.run(ctx, conn, q, into, &affected); err != nil {
		if mysqlUndone(ctx, conn, q, err) {
			return 0, undone(err)
		}
		return 0, f.judge(err)
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return 0, unproven{err}
	}
	return affected, nil
}

func (m *mysqlServer) run(ctx context.Context, conn *sql.Conn, q SQLRequest, into *table, affected *int64) error {
	rows, err := conn.QueryContext(ctx, q.Query, q.Args...)
	if err != nil {
		return err
	}
	if err := errors.Join(into.take(rows, mysqlValue), rows.Close()); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, "SELECT ROW_COUNT()").Scan(affected); err != nil {
		return err
	}
	if *affected < 0 { // a statement that gave rows
		*affected = int64(into.rows)
	}
	return nil
}

// mysqlUndone undoes what the statement did before the server refused it, and
// reports whether all of it was. Of a statement that may commit by itself, of an
// answer that is not the server's, and of tables that cannot roll back, it is
// not known.
func mysqlUndone(ctx context.Context, conn *sql.Conn, q SQLRequest, err error) bool {
	var said *mysql.MySQLError
	switch word := firstWord(q.Query); {
	case !errors.As(err, &said), word != "INSERT" && word != "UPDATE" && word != "DELETE" && word != "REPLACE":
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		return false
	}
	rows, err := conn.QueryContext(ctx, "SHOW WARNINGS")
	if err != nil {
		return false
	}
	defer rows.Close()
	for rows.Next() { // a table that cannot roll back is warned of here
		var level, message string
		var code uint16
		if rows.Scan(&level, &code, &message) != nil || code != said.Number {
			return false
		}
	}
	return rows.Err() == nil
}

func mysqlTimedOut(err error) bool {
	var said *mysql.MySQLError
	return errors.As(err, &said) && (said.Number == 3024 || said.Number == 1969 || said.Number == 1205)
}

func mysqlValue(kind string, v any) []byte {
	text, isText := v.([]byte)
	if !isText {
		return jsonValue(v)
	}
	switch kind := strings.TrimPrefix(kind, "UNSIGNED "); kind {
	case "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "YEAR", "DECIMAL", "FLOAT", "DOUBLE":
		return jsonNumber(string(text))
	case "TIMESTAMP", "DATETIME":
		return jsonMoment(string(text), "2006-01-02 15:04:05")
	case "JSON":
		return jsonDocument(text)
	}
	return jsonBytes(text)
}
