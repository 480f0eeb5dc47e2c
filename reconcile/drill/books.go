package drill

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the downstream keeps its own books, apart from any ledger
)

// Effect is something that really happened at the downstream.
type Effect struct {
	Resource string
	ID       string // the receipt
	Account  string
	Key      string // idempotency key of the request that made it
	Body     json.RawMessage
	At       time.Time
}

// answer is what the downstream said under an idempotency key.
type answer struct {
	Digest string // of the request that was answered
	Status int
	Body   []byte
	At     time.Time
}

// books is the downstream's own database. Nothing of indoubt reads it; what a
// drill scores against is here.
type books struct{ db *sql.DB }

const booksSchema = `
CREATE TABLE IF NOT EXISTS effects (
	n        INTEGER PRIMARY KEY,
	resource TEXT NOT NULL,
	id       TEXT NOT NULL UNIQUE,
	account  TEXT NOT NULL,
	key      TEXT NOT NULL,
	body     TEXT NOT NULL,
	at       INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS effects_by_resource ON effects (resource, account, n);
CREATE TABLE IF NOT EXISTS keys (
	account  TEXT NOT NULL,
	resource TEXT NOT NULL,
	key      TEXT NOT NULL,
	digest   TEXT NOT NULL,
	status   INTEGER NOT NULL,
	body     TEXT NOT NULL,
	at       INTEGER NOT NULL,
	PRIMARY KEY (account, resource, key)
) WITHOUT ROWID;`

func openBooks(ctx context.Context, path string) (*books, error) {
	dsn := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(),
		RawQuery: "mode=rwc&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=busy_timeout(5000)&_txlock=immediate"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("opening the downstream's books: %w", err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, booksSchema); err != nil {
		db.Close()
		return nil, fmt.Errorf("preparing the downstream's books: %w", err)
	}
	return &books{db}, nil
}

func (b *books) close() error { return b.db.Close() }

// taken reports whether an effect has this id.
func (b *books) taken(ctx context.Context, id string) (yes bool, err error) {
	err = b.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM effects WHERE id = ?)`, id).Scan(&yes)
	return yes, err
}

// commit writes effects and the answer remembered for their key, as one.
func (b *books) commit(ctx context.Context, effects []Effect, key string, ans answer) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, e := range effects {
		if _, err := tx.ExecContext(ctx, `INSERT INTO effects (resource, id, account, key, body, at) VALUES (?, ?, ?, ?, ?, ?)`,
			e.Resource, e.ID, e.Account, e.Key, string(e.Body), e.At.UnixMilli()); err != nil {
			return err
		}
	}
	if key != "" && len(effects) > 0 {
		e := effects[0]
		if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO keys (account, resource, key, digest, status, body, at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			e.Account, e.Resource, key, ans.Digest, ans.Status, string(ans.Body), ans.At.UnixMilli()); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// remembered finds what was answered under the key, if it is still known.
func (b *books) remembered(ctx context.Context, account, resource, key string, since time.Time) (answer, bool, error) {
	var (
		ans  answer
		body string
		at   int64
	)
	err := b.db.QueryRowContext(ctx, `SELECT digest, status, body, at FROM keys WHERE account = ? AND resource = ? AND key = ? AND at >= ?`,
		account, resource, key, since.UnixMilli()).Scan(&ans.Digest, &ans.Status, &body, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return answer{}, false, nil
	}
	ans.Body, ans.At = []byte(body), time.UnixMilli(at)
	return ans, err == nil, err
}

// effects lists what happened, newest first. An empty resource means all of
// them; an empty account too, and an empty text all bodies.
func (b *books) effects(ctx context.Context, resource, account, text string, since time.Time) ([]Effect, error) {
	rows, err := b.db.QueryContext(ctx, `
		SELECT resource, id, account, key, body, at FROM effects
		WHERE (?1 = '' OR resource = ?1) AND (?2 = '' OR account = ?2) AND (?3 = '' OR instr(body, ?3) > 0) AND at >= ?4
		ORDER BY n DESC`, resource, account, text, since.UnixMilli())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Effect
	for rows.Next() {
		var (
			e    Effect
			body string
			at   int64
		)
		if err := rows.Scan(&e.Resource, &e.ID, &e.Account, &e.Key, &body, &at); err != nil {
			return nil, err
		}
		e.Body, e.At = json.RawMessage(body), time.UnixMilli(at)
		all = append(all, e)
	}
	return all, rows.Err()
}

// rewrite replaces what an effect looks like: cancelled, refunded.
func (b *books) rewrite(ctx context.Context, id string, body []byte) error {
	_, err := b.db.ExecContext(ctx, `UPDATE effects SET body = ? WHERE id = ?`, string(body), id)
	return err
}
