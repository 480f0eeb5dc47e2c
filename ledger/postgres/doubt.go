package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// asking is how long the server is asked what became of a COMMIT.
const asking = 15 * time.Second

// resolve finds out what became of a transaction whose COMMIT got no answer. It returns
// nil when it is durable, errAgain when it has not happened, or was one that can be made
// twice, and else Unknown.
func (s *handle) resolve(ctx context.Context, lost *lostCommit, token int64, change string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.asking)
	defer cancel()
	for try := 0; ; try++ {
		durable, err := s.landed(ctx, token, change)
		switch {
		case err == nil && durable:
			return nil
		case err == nil:
			return errAgain
		case ctx.Err() != nil:
			return &Error{Unknown, s.address.shown, line(lost.err) + "; then: " + line(err), "", nil}
		}
		s.pool.Load().Reset()
		time.Sleep(rand.N(5 * time.Millisecond << min(try, 6)))
	}
}

// landed waits for the end of the transaction that holds the token, and then looks for
// its change. Its own COMMIT waits for the standbys that a COMMIT has to wait for, and
// so for what it has seen.
func (s *handle) landed(ctx context.Context, token int64, change string) (durable bool, err error) {
	t := s.session(ctx, beginWrite, token)
	rows, err := t.query(`SELECT EXISTS (SELECT 1 FROM indoubt.events WHERE id = ? AND id <> '')`, []any{change})
	if err == nil {
		rows.Next()
		err = rows.Scan(&durable)
	}
	if err == nil && durable {
		err = t.Quietly(`SELECT pg_logical_emit_message(true, 'indoubt', '')`)
	}
	if err != nil {
		t.end()
		return false, first(t, err)
	}
	if err := t.commit(); err != nil {
		return false, fmt.Errorf("ask again: %w", err)
	}
	return durable, nil
}
