package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/store"
)

// applicationID marks a file as a ledger: "indb" in ASCII.
const applicationID = 0x696e6462

// Pragmas go into the DSN, so that every connection of a pool has them. A
// statement that sets off triggers keeps what it would need to be undone: in
// memory, or the longer ones write it to a file of their own. The log that a slow
// reader has let grow is cut again when it has gone: SQLite would keep its size. It is
// folded into the ledger at that size: a page that many changes touched is copied once.
var (
	pragmas = []string{"busy_timeout(5000)", "foreign_keys(1)", "recursive_triggers(1)", "temp_store(MEMORY)"}
	writing = []string{"journal_mode(WAL)", "synchronous(FULL)", "journal_size_limit(16777216)", "cache_size(-8000)", "wal_autocheckpoint(4000)"}
)

// dsn names a database file. Only a URL survives ?, # and % in a path.
func dsn(path, mode string, more ...string) string {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	q := url.Values{"mode": {mode}, "_pragma": slices.Concat(pragmas, more)}
	return (&url.URL{Scheme: "file", Path: p, RawQuery: q.Encode()}).String()
}

// absolute is the one name of a file, with links followed where it exists.
func absolute(path string) (string, error) {
	if path == "" {
		return "", errors.New("the path of the ledger is empty")
	}
	p, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find the ledger: %w", err)
	}
	if real, err := filepath.EvalSymlinks(p); err == nil {
		return real, nil
	}
	return p, nil
}

// opening is held while a ledger is opened: closing a file that this process has
// open elsewhere, too, gives up the locks of both.
var opening sync.Mutex

func open(ctx context.Context, path string, o Options) (*Store, error) {
	at, err := filesAt(path)
	switch {
	case err != nil:
		return nil, err
	case !at.db.there() || at.db.size == 0:
		if err := former(path, o); err != nil {
			return nil, err
		}
	}
	switch {
	case !at.db.there():
		return nil, &ledger.MissingError{Ledger: path}
	case at.db.dir:
		return nil, notALedger(path, "a directory")
	}
	if err := cmp.Or(at.db.usable(path), local(path), regular(path), readable(path)); err != nil {
		return nil, err
	}
	if !o.ReadOnly {
		if err := writableBy(path); err != nil {
			return nil, err
		}
	}
	opening.Lock()
	defer opening.Unlock()
	h, err := settled(path)
	if err != nil {
		return nil, err
	}
	s := &handle{path: path, opts: o, moment: hostclock.Of(o.Clock, o.Steady), readers: make(chan struct{}, wide)}
	var meta map[string]string
	if err = s.behind(); err != nil {
		s.letGo()
		return nil, err
	}
	if o.ReadOnly {
		meta, err = s.openReader(ctx)
	} else {
		meta, err = s.openWriter(ctx, h.current())
	}
	opened := &Store{s, store.New(database{s}, s.keyPlace(), o.State)}
	opened.Enter(meta["id"])
	return opened, s.finish(ctx, meta, err)
}

// finish closes what was opened when something went wrong.
func (s *handle) finish(ctx context.Context, meta map[string]string, err error) error {
	if err == nil {
		err = s.identify(ctx, meta)
	}
	if err == nil {
		s.kept = keep(s)
		if s.writer != nil {
			remember(s.opts.State, s.path)
		}
		return nil
	}
	if s.writer != nil {
		s.writer.close()
	}
	s.disconnect()
	s.letGo()
	s.notifier.close()
	return err
}

// openWriter opens the file for writing, checks its schema if that is not known to be
// current, and sets up the reader pool beside it. Each connection reads the whole schema, which is most
// of what opening costs: here it is one.
func (s *handle) openWriter(ctx context.Context, current bool) (meta map[string]string, err error) {
	// Looked at before anything is written: opening must not turn a foreign
	// database into WAL.
	if !current {
		if err := checkSchema(s.path, func(query string, dest ...any) error {
			return askOnce(ctx, dsn(s.path, "ro"), query, dest...)
		}); err != nil {
			return nil, err
		}
	}
	s.notifier = newNotifier(s.path)
	if s.writer, err = newWriter(s); err != nil {
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		return nil, translate(s.path, err)
	}
	return s.meta(ctx) // a held lock does not keep a reader out
}

// connect opens what the store reads and writes with, and takes the files that
// are there for its own. The reader's connections are made when they are needed.
func (s *handle) connect(ctx context.Context) error {
	if s.writer != nil {
		if err := s.writer.connect(ctx); err != nil {
			return err
		}
	}
	reads := dsn(s.path, "ro")
	if s.writer == nil && s.whole() {
		reads += "&immutable=1"
	}
	s.mu.Lock()
	s.read.by = reads
	s.mu.Unlock()
	return s.anchor()
}

// whole reports whether the file is all there is of a ledger that this account, or
// this medium, only lets read. SQLite would want to make the log that it reads with,
// and where it can, leave files that the ledger's owner may not write. When a
// writer comes, its log shows that.
func (s *handle) whole() bool {
	at, err := filesAt(s.path)
	return err == nil && at.wal.size == 0 && !at.shm.there() && writableBy(s.path) != nil
}

// disconnect closes what connect opened. The writer goes last: the last
// connection folds the -wal file into the ledger, which one that only reads
// cannot do.
func (s *handle) disconnect() error {
	if err := s.endReading(); err != nil {
		return err
	}
	var errs []error
	if s.writer != nil {
		errs = append(errs, s.writer.disconnect())
	}
	if s.probe != nil {
		errs = append(errs, s.probe.Close())
		s.probe = nil
	}
	return errors.Join(errs...)
}

// openReader opens a ledger that is only read.
func (s *handle) openReader(ctx context.Context) (map[string]string, error) {
	s.notifier = &notifier{}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	if err := checkSchema(s.path, func(query string, dest ...any) error {
		r, err := s.reader(ctx)
		if err != nil {
			return err
		}
		defer r.giveBack()
		return one(r, query, dest...)
	}); err != nil {
		return nil, err
	}
	m, err := s.meta(ctx)
	return m, cmp.Or(err, s.anchor())
}

// checkSchema refuses what is not a ledger with the schema of this program.
func checkSchema(path string, ask func(query string, dest ...any) error) error {
	var app, version, objects int64
	err := ask(`SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`, &app, &version, &objects)
	if code(err)&0xff == codeCantOpen {
		return cmp.Or(readable(path), writableBy(path), translate(path, err))
	}
	if err != nil {
		return translate(path, err)
	}
	switch {
	case app == 0 && objects == 0:
		return notOurs(path, "it is empty")
	case app != applicationID:
		return notOurs(path, fmt.Sprintf("application_id %#x", app))
	case version != store.Schema:
		return &ledger.SchemaError{Ledger: path, Has: int(version), Knows: store.Schema}
	}
	return nil
}

// identify takes what the ledger knows of itself and tells a copy.
func (s *handle) identify(ctx context.Context, m map[string]string) error {
	s.id = m["id"]
	here, err := homeOf(s.path)
	if err != nil {
		return fmt.Errorf("look at the ledger's file: %w", err)
	}
	if to := m[movedTo]; to != "" && s.writer != nil {
		return &ledger.AwayError{Ledger: s.path, To: to}
	}
	was := homeFrom(m)
	s.copied = here.differs(was)
	if s.copied == "" && s.writer != nil && here.now(was) != was {
		// The same file after a restart of the host. The next process writes it down
		// where the lock is held.
		if err := s.writer.do(ctx, func(tx store.Tx) error { return setHome(tx, here.now(was)) }); !errors.Is(err, ledger.ErrBusy) {
			return err
		}
	}
	return nil
}

// Writable says why the ledger cannot be written to from here, nil where it can.
// Errors: *Refusal.
func Writable(path string) error {
	path, err := absolute(path)
	return cmp.Or(err, writableBy(path))
}

// Expire writes down deadlines that have passed. Where none has, an engine is told all the same
// that nothing can be written. Errors: *Refusal, ledger.ErrReadOnly.
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	if err := s.mayWrite(); err != nil {
		return 0, err
	}
	return s.Store.Expire(ctx, limit)
}

// Info describes the ledger itself. Errors: *Refusal.
func (s *Store) Info(ctx context.Context) (ledger.Info, error) {
	if err := s.anchored(); err != nil {
		return ledger.Info{}, err
	}
	i, err := s.Store.Info(ctx)
	if err == nil {
		err = s.same(i.ID)
	}
	i.Path, i.Schema, i.Parallel, i.ReadOnly = s.path, store.Schema, 1, s.opts.ReadOnly || s.copied != "" || i.MovedTo != ""
	i.Copied, i.Strained = s.copied, strained(s.path)
	if i.Unsaved.IsZero() {
		i.Unsaved = i.CreatedAt
	}
	return i, err
}
