package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"indoubt/ledger/store"
)

const (
	patience = 5 * time.Second // for the write lock and SQLite's, from when a change is asked for
	together = 128             // changes in one transaction at most
	single   = 16              // batches of one change in a row, after which no other caller is waited for
)

// writer is the one connection of this process that writes. Changes that arrive
// while a transaction waits for the write lock go into it together, and share its
// sync.
type writer struct {
	store   *handle
	conn    *store.Conn // nil while nothing is open
	lock    *writeLock
	gone    error // why nothing may be sent because of what this transaction writes, or nil
	queue   chan *job
	busy    chan struct{} // its holder writes for all that are queued
	roomy   time.Time     // when the disk had plenty of room
	room    func(dir string) (free, total int64, err error)
	stamps  bool // the next change writes page 1 to the log; see behind
	rereads bool // the next change forgets the pages in memory
	lone    int  // batches of one job since the newest with several
	closed  atomic.Bool
}

// job is one change. It may run more than once before its transaction commits.
type job struct {
	ctx  context.Context
	run  func(store.Tx) error
	came time.Time
	err  error
	took atomic.Bool // by the writer, or by a caller that left
	done chan struct{}
}

func newWriter(s *handle) (*writer, error) {
	g, err := newWriteLock(s.path)
	if err != nil {
		return nil, err
	}
	return &writer{store: s, lock: g, room: diskAt, queue: make(chan *job, 4*together), busy: make(chan struct{}, 1)}, nil
}

func (w *writer) connect(ctx context.Context) error {
	conn, err := store.Dial(dsn(w.store.path, "rw", writing...), 0)
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	// Waiting is done here, in short random naps under the write lock: SQLite's own
	// waits grow until others have all the luck.
	if err := conn.Script(ctx, `PRAGMA busy_timeout = 0; SELECT 1 FROM sqlite_schema LIMIT 1`); err != nil {
		return errors.Join(err, conn.Close())
	}
	w.conn, w.stamps = conn, true
	return nil
}

func (w *writer) disconnect() error {
	if w.conn == nil {
		return nil
	}
	err := w.conn.Close()
	w.conn = nil
	return err
}

// do runs one job in a durable transaction. When ctx ends first, the job has
// either not run or its result is waited for: it is never left in doubt here.
func (w *writer) do(ctx context.Context, run func(store.Tx) error) error {
	j := &job{ctx: ctx, run: run, came: time.Now(), done: make(chan struct{})}
	select {
	case w.queue <- j:
	case <-ctx.Done():
		return ctx.Err()
	}
	w.wait(ctx, j)
	return j.err
}

func (w *writer) wait(ctx context.Context, j *job) {
	for {
		select {
		case <-j.done:
			return
		case w.busy <- struct{}{}:
			w.batch()
			<-w.busy
		case <-ctx.Done():
			if j.took.CompareAndSwap(false, true) {
				j.err = ctx.Err()
				return
			}
			<-j.done
			return
		}
	}
}

// batch writes what is queued.
func (w *writer) batch() {
	first := w.next()
	if first == nil {
		return
	}
	jobs := []*job{first}
	finish := func(err error) {
		for _, j := range jobs {
			if err != nil && j.err == nil {
				j.err = err
			}
			close(j.done)
		}
	}
	if w.closed.Load() {
		finish(errors.New("the ledger is closed"))
		return
	}
	for n := -1; w.lone < single && len(w.queue) > n; runtime.Gosched() {
		n = len(w.queue) // callers that are about to queue a job do it now, and share the sync
	}
	until := first.came.Add(patience) // changes that waited for another batch have waited already
	ok, err := w.lock.acquire(max(time.Until(until), time.Second))
	if err == nil && !ok {
		err = locked(w.store.path)
	}
	if err != nil {
		finish(err)
		return
	}
	for len(jobs) < together {
		j := w.next()
		if j == nil {
			break
		}
		jobs = append(jobs, j)
	}
	if w.lone++; len(jobs) > 1 {
		w.lone = 0
	}
	var wrote bool
	if w.gone, err = w.store.ready(); err == nil {
		if w.gone == nil && w.short() {
			if w.checkpoint(); w.short() {
				w.gone = full(w.store.path)
			}
		}
		if wrote, err = w.transact(jobs, until); roomless(err) {
			w.makeRoom()
			wrote, err = w.transact(jobs, until)
		}
	}
	if err == nil {
		err = w.store.anchored()
	}
	if wrote && err == nil {
		w.store.notifier.notify()
	}
	w.lock.release()
	finish(translate(w.store.path, err))
}

// next takes a job whose caller still waits, or nil.
func (w *writer) next() *job {
	for {
		select {
		case j := <-w.queue:
			if j.took.CompareAndSwap(false, true) {
				return j
			}
		default:
			return nil
		}
	}
}

// transact runs the jobs in one transaction. A job that fails is undone alone;
// the error is that of the transaction. Most failures are refusals of a rule,
// which come before anything is written; savepoints cost too much to set for the
// few others, which make the batch start again with them.
func (w *writer) transact(jobs []*job, until time.Time) (wrote bool, err error) {
	for _, careful := range []bool{false, true} {
		if err := w.begin(until); err != nil {
			return false, err
		}
		wrote = false
		spoilt := false
		for _, j := range jobs {
			tx := &tx{w: w}
			if careful {
				err = w.exec(`SAVEPOINT job`)
			}
			if err == nil {
				j.err = j.run(tx)
			}
			switch {
			case err != nil:
			case j.err != nil && lost(j.err): // SQLite has undone everything already
				err, j.err = j.err, nil // all of them get it
			case j.err != nil && careful:
				err = w.exec(`ROLLBACK TO job`)
			case j.err != nil && tx.touched:
				spoilt = true
			}
			if err == nil && careful {
				err = w.exec(`RELEASE job`)
			}
			if err != nil {
				return false, w.rollback(err)
			}
			if spoilt {
				break
			}
			wrote = wrote || j.err == nil && tx.wrote
			j.err = translate(w.store.path, j.err)
		}
		if !spoilt {
			return wrote, w.commit(wrote)
		}
		if err := w.exec(`ROLLBACK`); err != nil {
			return false, err
		}
		if len(jobs) == 1 {
			jobs[0].err = translate(w.store.path, jobs[0].err)
			return false, nil
		}
	}
	return wrote, nil
}

// reread forgets the pages in memory, so that the change meets those that are there now. The
// schema, which no change reads, is compared with what a ledger has: the end of a long text can be
// written over, and SQLite does not see that. Errors: *DamagedError.
func (w *writer) reread() error {
	if !w.rereads {
		return nil
	}
	if err := w.exec(`PRAGMA shrink_memory`); err != nil {
		return err
	}
	rows, err := w.conn.Query(context.Background(), `SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL`)
	if err != nil {
		return err
	}
	defer rows.Close()
	tables, guards := store.SQLiteSchema()
	ours := tables + "\n" + guards
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		if strings.Contains(ours, " "+name+" ") && !strings.Contains(ours, text) {
			return &DamagedError{w.store.path, "what it says of " + name + " was written over"}
		}
	}
	err = rows.Err()
	w.rereads = err != nil
	return err
}

// stamp writes page 1 to the log, with what is in it.
func (w *writer) stamp() error {
	if !w.stamps || w.store.id == "" {
		return nil
	}
	return w.exec(fmt.Sprintf(`PRAGMA user_version = %d`, store.Schema))
}

// lost tells the errors that end a transaction, not only a statement.
func lost(err error) bool {
	switch code(err) & 0xff {
	case codeFull, codeIO, codeBusy, codeCorrupt, codeReadOnly:
		return true
	}
	return false
}

// begin takes SQLite's write lock, which a foreign writer may hold.
func (w *writer) begin(until time.Time) error {
	for {
		err := w.exec(`BEGIN IMMEDIATE`)
		if err == nil {
			if err = w.reread(); err == nil {
				err = w.same()
			}
			if err != nil {
				return w.rollback(err)
			}
		}
		if !busy(err) || time.Now().After(until) {
			return err
		}
		time.Sleep(100*time.Microsecond + rand.N(400*time.Microsecond))
	}
}

// same asks whether the ledger is the one that this process knows. One that is being made is none yet.
func (w *writer) same() error {
	if w.store.id == "" {
		return nil
	}
	var id string
	if err := one(&tx{w: w}, `SELECT coalesce((SELECT value FROM meta WHERE name = 'id'), '')`, &id); err != nil {
		return err
	}
	return w.store.same(id)
}

func (w *writer) commit(wrote bool) (err error) {
	if wrote {
		err = w.stamp()
	}
	if err == nil {
		err = w.store.logWhole()
	}
	if err == nil {
		err = w.exec(`COMMIT`)
	}
	if err != nil {
		return w.rollback(err)
	}
	w.stamps = w.stamps && !wrote
	return nil
}

// rollback ends a transaction that err has spoilt, if SQLite has not already.
func (w *writer) rollback(err error) error {
	_ = w.exec(`ROLLBACK`)
	return err
}

func (w *writer) exec(query string) error {
	_, err := w.conn.Exec(context.Background(), query)
	return err
}

// lend reads one state of the ledger over the connection that writes, while it is
// idle. lent is false where it is not, or where this cannot be read at once.
func (w *writer) lend(read func(store.Tx) error) (lent bool, err error) {
	select {
	case w.busy <- struct{}{}:
	default:
		return false, nil
	}
	defer func() { <-w.busy }()
	if w.conn == nil || w.exec(`BEGIN`) != nil {
		return false, nil
	}
	err = w.rollback(read(&tx{w: w}))
	return !busy(err), err
}

// close waits for the batch in hand.
func (w *writer) close() error {
	w.closed.Store(true)
	w.busy <- struct{}{}
	defer func() { <-w.busy }()
	return errors.Join(w.store.leave(), w.lock.close())
}
