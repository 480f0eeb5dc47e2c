package connect

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"indoubt/ledger"
	"indoubt/policy/transport"
)

// postgres talks to PostgreSQL in text, both ways: no driver guesses at types,
// and numbers keep their digits.
type postgres struct{ pool *pgxpool.Pool }

func openPostgres(dsn string) (database, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("the address of the PostgreSQL database cannot be read") // the error shows parts of it
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = maxConnections, 0, 0
	config.MaxConnIdleTime, config.HealthCheckPeriod = idleConnection, idleConnection
	c := &config.ConnConfig.Config
	c.MaxProtocolMessageBodyLen = maxWire
	const connectTimeout = 10 * time.Second
	if c.ConnectTimeout <= 0 || c.ConnectTimeout > connectTimeout {
		c.ConnectTimeout = connectTimeout
	}
	c.RuntimeParams["client_encoding"] = "UTF8"
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "indoubt"
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	return &postgres{pool}, nil
}

func (p *postgres) close() { p.pool.Close() }

func (p *postgres) read(ctx context.Context, q transport.SQLRequest, into *table) (string, error) {
	pooled, err := p.pool.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer pooled.Release() // drops a connection that is closed, busy or inside a transaction
	conn := pooled.Conn().PgConn()
	ms := remaining(ctx)
	setup, err := conn.Exec(ctx, fmt.Sprintf("BEGIN READ ONLY; SET LOCAL statement_timeout = %d; "+
		"SET LOCAL idle_in_transaction_session_timeout = %d; SET LOCAL datestyle = 'ISO'; SELECT pg_is_in_recovery()", ms, ms)).ReadAll()
	if err != nil {
		return "", err
	}
	stale := "unknown"
	if last := setup[len(setup)-1].Rows; len(last) == 1 && len(last[0]) == 1 {
		switch string(last[0][0]) {
		case "f":
			stale = ""
		case "t":
			stale = "replica"
		}
	}
	if err := p.run(ctx, conn, q, into); err != nil {
		return "", err
	}
	if into.cut {
		return stale, nil
	}
	return stale, conn.Exec(ctx, "ROLLBACK").Close()
}

// run runs the statement and takes its rows.
func (p *postgres) run(ctx context.Context, conn *pgconn.PgConn, q transport.SQLRequest, into *table) error {
	result := conn.ExecParams(ctx, q.Query, ledger.Each(q.Args, postgresText), nil, nil, nil)
	if fields := result.FieldDescriptions(); len(fields) > 0 {
		if err := into.columns(ledger.Each(fields, func(f pgconn.FieldDescription) string { return f.Name })); err != nil {
			_, _ = result.Close()
			return err
		}
	}
	for result.NextRow() {
		fields, values := result.FieldDescriptions(), result.Values()
		if !into.add(func(i int) []byte { return postgresValue(fields[i].DataTypeOID, values[i]) }) {
			_ = conn.Conn().Close() // without waiting for more rows
			break
		}
	}
	_, err := result.Close()
	return err
}

// timedOut reports whether the server stopped a statement because its time was up.
func timedOut(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && (said.Code == "57014" || said.Code == "25P03")
}

// postgresText is a parameter as text; nil is NULL.
func postgresText(v any) []byte {
	switch x := v.(type) {
	case nil:
		return nil
	case string:
		return []byte(x)
	case []byte:
		return []byte(`\x` + hex.EncodeToString(x))
	case float64:
		return strconv.AppendFloat(nil, x, 'g', -1, 64)
	}
	return fmt.Append(nil, v)
}

func postgresValue(oid uint32, text []byte) []byte {
	if text == nil {
		return []byte("null")
	}
	switch oid {
	case pgtype.BoolOID:
		return strconv.AppendBool(nil, string(text) == "t")
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID:
		return jsonNumber(string(text))
	case pgtype.JSONOID, pgtype.JSONBOID:
		return jsonDocument(text)
	case pgtype.ByteaOID:
		if raw, err := hex.DecodeString(strings.TrimPrefix(string(text), `\x`)); err == nil {
			return jsonBytes(raw)
		}
	case pgtype.TimestamptzOID:
		return jsonMoment(string(text), "2006-01-02 15:04:05Z07:00:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z07")
	case pgtype.TimestampOID:
		return jsonMoment(string(text), "2006-01-02 15:04:05")
	}
	return jsonBytes(text)
}
