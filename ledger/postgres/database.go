package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// database is how package store reaches a ledger on a server.
type database struct{ *handle }

var _ store.Database = database{}

// How a transaction begins. One that writes has all that a rule reads of one state, also where
// nothing is written because of it.
const (
	beginRead  = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`
	beginWrite = `BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE`
	beginAnew  = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`
)

// View reads from one state.
func (d database) View(ctx context.Context, read func(store.Tx) error) error {
	return d.again(ctx, func() error {
		t, err := d.transaction(ctx, beginRead)
		if err != nil {
			return err
		}
		defer t.leave()
		return first2(read(t), t)
	})
}

// asking is how long it is tried to learn what became of a COMMIT.
const asking = 15 * time.Second

// Update makes one durable transaction. It is made again where another one was in its way, and where
// the answer to its COMMIT was lost: every change has an id, by which it is found where it has happened.
// Error: Unknown where that cannot be learned.
func (d database) Update(ctx context.Context, change func(store.Tx) error) error {
	if err := d.Writable(); err != nil {
		return err
	}
	err := d.change(ctx, beginWrite, func(t *tx) error { return change(t) })
	if full := errors.Is(err, ledger.ErrFull); full || err == nil {
		d.full.Store(full)
	}
	if errors.Is(err, ledger.ErrFailover) {
		d.note()
	}
	return err
}

func (d database) change(ctx context.Context, begin string, change func(*tx) error) error {
	var lost *lostCommit
	for began := time.Now(); ; {
		err := d.again(ctx, func() error {
			err := d.once(ctx, begin, lost != nil, change)
			var said *pgconn.PgError
			switch {
			case errors.As(err, &lost):
				ctx = context.WithoutCancel(ctx) // what was sent is waited for
				return errAgain
			case errors.Is(err, ledger.ErrBusy), errors.As(err, &said) && said.Code == codeUnique:
				return errAgain // another one came first, and is seen then
			}
			return err
		})
		switch unheard := errors.Is(err, ledger.ErrLost) || errors.Is(err, ledger.ErrBusy); {
		case lost == nil || !unheard:
			return err
		case time.Since(began) > d.asking:
			return &Error{Unknown, d.address.shown, line(lost.err) + "; then: " + line(err), "", nil}
		}
		d.pool.Load().Reset()
		time.Sleep(rand.N(50 * time.Millisecond))
	}
}

// once makes a transaction that writes. After one whose end is not known it waits for the standbys
// that a COMMIT has to wait for, and so for what it finds there of that.
func (d database) once(ctx context.Context, begin string, waits bool, change func(*tx) error) error {
	t, err := d.transaction(ctx, begin)
	if err != nil {
		return err
	}
	defer t.leave()
	if err := first2(change(t), t); err != nil {
		return err
	}
	if waits {
		t.writes.Queue(`SELECT pg_logical_emit_message(true, 'indoubt', '')`)
	}
	return t.commit()
}

// lostCommit: COMMIT may have been sent, and its answer did not come.
type lostCommit struct{ err error }

func (e *lostCommit) Error() string { return e.err.Error() }
func (e *lostCommit) Unwrap() error { return e.err }

// errBrokenOff: the wait for a standby was broken off. It is committed here only.
var errBrokenOff = errors.New("the server warns that a standby may not have it")

// first2 prefers what ended the transaction to what was made of it.
func first2(err error, t *tx) error {
	if t.err != nil {
		return t.err
	}
	return err
}

// tx is a transaction. It begins with its first question, and what it writes travels with the next one,
// or with the COMMIT: a round trip takes longer than a statement. No write has to be counted, for one
// that finds its row changed fails.
type tx struct {
	database
	ctx    context.Context
	pooled *pgxpool.Conn
	begin  string // "" once it has begun
	at     ledger.Moment
	writes pgx.Batch
	coming []question // that will be asked, and their answers once they are here
	wrote  bool       // anything
	loud   bool       // it leaves something that others wait for
	err    error      // that ended it
}

func (d database) transaction(ctx context.Context, begin string) (*tx, error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &tx{ctx: ctx, database: d, pooled: conn, begin: begin}, nil
}

// leave gives the connection back, without what was not committed. No one waits for that.
func (t *tx) leave() {
	conn := t.pooled.Conn()
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		t.pooled.Release()
		return
	}
	if !t.background.work(func() {
		defer t.pooled.Release()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _ = conn.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol) // else the pool closes the connection
	}) {
		t.pooled.Release() // which closes it
	}
}

// opening is the first statement of a transaction. It tells the time, and behind a pooler it makes the
// settings, which no session keeps. One that writes is durable when it is done, and has the guards
// look at it, even where the database was told otherwise.
func (t *tx) opening() string {
	query := `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint`
	if t.plain.Load() { // else the server was looked at when it was connected to
		for _, set := range settings {
			query += `, set_config('` + set.name + `', '` + set.value + `', true)`
		}
		if left := t.succession.array(); left != "" {
			query += `, CASE WHEN (` + databaseQuery + `) = ANY (CAST('` + left + `' AS text[])) THEN CAST('` + oldServer +
				`' || concat_ws(':', host(inet_server_addr()), inet_server_port()) AS int) END`
		}
	}
	if t.begin != beginRead {
		query += `, CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`
		query += `, CASE current_setting('session_replication_role') WHEN 'replica' THEN set_config('session_replication_role', 'origin', true) END`
	}
	return query
}

// answer is what a question brought.
type answer struct {
	names  []string
	rows   [][]any
	tag    pgconn.CommandTag
	warned bool
}

// question is one that was announced.
type question struct {
	query string
	args  []any
	answer
	answered bool
}

// Ahead says what is going to be asked if nothing is written before: it travels with the next question.
func (t *tx) Ahead(query string, args ...any) {
	t.coming = append(t.coming, question{query: query, args: args})
}

// known is the answer to a question that has travelled ahead. What has not is asked now.
func (t *tx) known(query string, args []any) (a answer, is bool) {
	i := slices.IndexFunc(t.coming, func(q question) bool { return q.query == query && slices.Equal(q.args, args) })
	if i < 0 {
		return a, false
	}
	a, is = t.coming[i].answer, t.coming[i].answered
	t.coming = slices.Delete(t.coming, i, i+1)
	return a, is
}

// ask sends a question behind what there is to write, and reads the answers.
func (t *tx) ask(query string, args ...any) (a answer, err error) {
	if t.err != nil {
		return a, t.err
	}
	var b pgx.Batch
	begins, steady := t.begin != "", t.steady()
	if begins {
		b.Queue(t.begin)
		b.Queue(t.opening())
		t.begin = ""
	}
	n := t.writes.Len()
	b.QueuedQueries = append(b.QueuedQueries, t.writes.QueuedQueries...)
	t.writes = pgx.Batch{}
	if query != "" {
		b.Queue(query, args...)
		for _, q := range t.coming {
			if !q.answered {
				text, bound := said(q.query, q.args)
				b.Queue(text, bound...)
			}
		}
	}
	if b.Len() == 0 {
		return a, nil
	}
	t.err = t.exchange(&b, func(answers pgx.BatchResults) error {
		if begins {
			if _, err := answers.Exec(); err != nil {
				return err
			}
			told, err := all(answers)
			if err != nil {
				return err
			}
			if t.at = t.database.at(told.rows[0][0].(int64), steady); t.clock != nil {
				t.at = t.clock()
			}
		}
		for range n {
			if _, err := answers.Exec(); err != nil {
				return err
			}
		}
		if query == "" {
			return nil
		}
		a, err = all(answers)
		for i := range t.coming {
			if q := &t.coming[i]; err == nil && !q.answered {
				q.answer, err = all(answers)
				q.answered = true
			}
		}
		return err
	})
	a.warned = warned(t.pooled.Conn().PgConn())
	return a, t.err
}

// exchange is one round trip. A server that does not answer is given up.
func (t *tx) exchange(b *pgx.Batch, take func(pgx.BatchResults) error) (err error) {
	conn := t.pooled.Conn()
	wire := conn.PgConn().Conn()
	if err := wire.SetDeadline(time.Now().Add(t.silence)); err != nil {
		return err
	}
	defer func() {
		if !conn.IsClosed() { // else it has the time it takes to say so
			_ = wire.SetDeadline(time.Time{})
		}
	}()
	answers := conn.SendBatch(t.ctx, b)
	err = take(answers)
	if closed := answers.Close(); err == nil {
		err = closed
	}
	switch {
	case err == nil:
	case pgconn.Timeout(err) && t.ctx.Err() == nil:
		err = errSilent
	case conn.IsClosed() && !definite(err):
		err = fmt.Errorf("%w: %w", net.ErrClosed, err)
	}
	return err
}

// Lock keeps others from changing an operation that an event is told of.
func (t *tx) Lock(seq int64) error {
	_, err := t.ask(`SELECT FROM indoubt.op WHERE seq = $1 FOR UPDATE`, seq)
	return err
}

var errSilent = fmt.Errorf("the server has not answered for %s", silence)

// all reads the rows of one statement.
func all(answers pgx.BatchResults) (a answer, err error) {
	rows, err := answers.Query()
	if err != nil {
		return a, err
	}
	defer rows.Close()
	for _, f := range rows.FieldDescriptions() {
		a.names = append(a.names, f.Name)
	}
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			return a, err
		}
		a.rows = append(a.rows, row)
	}
	rows.Close()
	a.tag = rows.CommandTag()
	return a, rows.Err()
}

// commit makes it durable, or gives the error that has undone it, or lostCommit.
func (t *tx) commit() error {
	if !t.wrote && t.writes.Len() == 0 {
		return nil
	}
	t.ctx, t.coming = context.WithoutCancel(t.ctx), nil // a commit that was sent is waited for
	warned(t.pooled.Conn().PgConn())
	a, err := t.ask("COMMIT")
	switch {
	case err == nil && a.warned:
		err = &lostCommit{errBrokenOff}
	case err == nil && a.tag.String() != "COMMIT":
		err = fmt.Errorf("the server answered COMMIT with %s", a.tag)
	case err != nil && !definite(err):
		err = &lostCommit{err}
	}
	if err == nil && t.loud {
		t.notifier.notify()
	}
	return err
}

// definite reports whether the server has said that it undid the transaction. One that
// ends a session says nothing of the kind.
func definite(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.SeverityUnlocalized == "ERROR"
}

const warnedKey = "indoubt.warned"

// notice is told what the server remarks.
func notice(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warnedKey] = true
	}
}

// warned reports whether the server has warned of something since it was asked last.
func warned(conn *pgconn.PgConn) bool {
	_, is := conn.CustomData()[warnedKey]
	delete(conn.CustomData(), warnedKey)
	return is
}

// Moment is when it began.
func (t *tx) Moment() ledger.Moment {
	if t.begin != "" {
		_, _ = t.ask("")
	}
	return t.at
}

// Query reads.
func (t *tx) Query(query string, args ...any) (store.Rows, error) {
	a, is := t.known(query, args)
	if is {
		return &found{answer: a, at: -1}, t.err
	}
	text, bound := said(query, args)
	a, err := t.ask(text, bound...)
	return &found{answer: a, at: -1}, err
}

// Exec writes, and returns how many rows have changed.
func (t *tx) Exec(query string, args ...any) (int64, error) {
	t.wrote, t.coming = true, nil
	into, inserts := strings.CutPrefix(query, "INSERT INTO ")
	t.loud = t.loud || !strings.HasPrefix(into, "lead ") && !strings.HasPrefix(into, "total ") // who leads, and what is summed up, is no news
	text, bound := said(query, args)
	if inserts || strings.HasPrefix(query, "UPDATE op ") || strings.HasPrefix(query, "{take ") {
		t.writes.Queue(text, bound...)
		return 1, t.err
	}
	a, err := t.ask(text, bound...)
	return a.tag.RowsAffected(), err
}

// script runs several statements without values.
func (t *tx) script(sql string) error {
	t.wrote, t.loud = true, true
	if _, err := t.ask(""); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.ctx, 5*time.Minute)
	defer cancel()
	t.err = t.pooled.Conn().PgConn().Exec(ctx, sql).Close()
	return t.err
}

// Close ends what is under way first.
func (d database) Close() error {
	d.close()
	return nil
}

// aside runs a statement for which no one waits, in a transaction of its own.
func (s *handle) aside(query string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return
	}
	defer conn.Release()
	_, _ = conn.Exec(ctx, query, pgx.QueryExecModeSimpleProtocol)
}
