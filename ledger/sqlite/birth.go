package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/store"
)

// making is the ending of a file that a new ledger is made in. It gets its name when it is
// whole, so a kill leaves nothing at the path of the ledger.
const making = ".making"

// found makes a ledger where none is, with its directory. Only its owner can read it, and its
// group where it is given to one; -wal and -shm inherit its mode.
func found(ctx context.Context, path string, o Options) error {
	dir := filepath.Dir(path)
	_, err := os.Stat(dir)
	made := errors.Is(err, fs.ErrNotExist)
	parents := fs.FileMode(0o700)
	if o.Group != "" {
		parents = 0o755
	}
	if err := cmp.Or(makeDir(filepath.Dir(dir), parents, syncDir), makeDir(dir, 0o700, syncDir)); err != nil {
		return fmt.Errorf("make the ledger's directory: %w", err)
	}
	if err := local(path); err != nil {
		return err
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	at, missing := fileAt(path)
	if at.size > 0 {
		return nil // another process was first
	}
	part := path + making
	if err := sweep(part); err != nil {
		return err
	}
	if missing == nil { // an empty file gives it its owner and its mode
		err = errors.Join(at.usable(path), inPlaceOf(path))
	} else {
		err = empty(part)
	}
	if err == nil && o.Group != "" {
		err = share(part, o.Group, made)
	}
	if err == nil {
		err = bear(ctx, part, o, anew)
	}
	switch {
	case err != nil:
	case missing == nil:
		err = os.Rename(part, path)
	default:
		err = place(part, path)
	}
	switch err = errors.Join(err, syncDir(dir)); {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist): // something else was put there meanwhile
		return sweep(part)
	}
	err = errors.Join(err, sweep(part))
	if errors.Is(err, fs.ErrPermission) {
		return shut(path)
	}
	return fmt.Errorf("make the ledger: %w", translate(path, err))
}

// empty makes an empty file.
func empty(part string) error {
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// inPlaceOf makes an empty file that is to take the place of another one.
func inPlaceOf(path string) error {
	f, err := openSide(path, making, os.O_CREATE|os.O_EXCL|os.O_RDWR)
	if err != nil {
		return err
	}
	return f.Close()
}

// bear makes the whole ledger in an empty file: fill writes its rows, before there are guards. What is cut off
// is thrown away, so it is synced once, at the end.
func bear(ctx context.Context, part string, o Options, fill func(store.Tx) error) error {
	conn, err := store.Dial(dsn(part, "rwc", "journal_mode(OFF)", "synchronous(OFF)"), 0)
	if err != nil {
		return err
	}
	tables, guards := store.SQLiteSchema()
	err = conn.Script(ctx, "BEGIN;\n"+tables)
	if err == nil {
		err = fill(unborn{conn, hostclock.Of(o.Clock, o.Steady)})
	}
	var home string
	if err == nil {
		home, err = identity(part)
	}
	if err == nil {
		err = conn.Script(ctx, guards+"\n"+home+"COMMIT; PRAGMA journal_mode = WAL") // from now on it is written by way of a log
	}
	return cmp.Or(errors.Join(err, conn.Close()), syncFile(part))
}

// unborn is a ledger that is being made.
type unborn struct {
	conn   *store.Conn
	moment func() ledger.Moment
}

func (u unborn) Query(query string, args ...any) (store.Rows, error) {
	return u.conn.Query(context.Background(), query, args...)
}

func (u unborn) Exec(query string, args ...any) (int64, error) {
	return u.conn.Exec(context.Background(), query, args...)
}

func (u unborn) Moment() ledger.Moment { return u.moment() }

// anew is what an empty ledger knows of itself.
func anew(tx store.Tx) error {
	return cmp.Or(store.SetMeta(tx, "id", ledger.NewID()), store.SetMeta(tx, "created", fmt.Sprint(tx.Moment().Wall.UnixMilli())))
}

// identity is the script by which a file says where it is and that it is a ledger.
func identity(part string) (string, error) {
	h, err := homeOf(part)
	if err != nil {
		return "", fmt.Errorf("look at the ledger's file: %w", err)
	}
	var script strings.Builder
	add := func(name, value string) {
		fmt.Fprintf(&script, "INSERT OR REPLACE INTO meta (name, value) VALUES ('%s', '%s');\n", name, strings.ReplaceAll(value, "'", "''"))
	}
	for _, kv := range h.meta() {
		add(kv[0], kv[1])
	}
	fmt.Fprintf(&script, "PRAGMA application_id = %d; PRAGMA user_version = %d;\n", applicationID, store.Schema)
	return script.String(), nil
}

// sweep removes a file that was being made, with what SQLite keeps beside it.
func sweep(part string) (err error) {
	for _, side := range []string{"", "-journal", "-wal", "-shm"} {
		if e := os.Remove(part + side); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// lockDir keeps others from making a ledger in a directory. The lock goes with its process.
func lockDir(dir string) (unlock func() error, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the ledger's directory: %w", err)
	}
	for patience := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		switch ok, err := try(d); {
		case err != nil:
			return nil, errors.Join(&IOError{dir, err}, d.Close())
		case ok:
			return d.Close, nil
		case time.Now().After(patience):
			return nil, errors.Join(fmt.Errorf("%w: another process makes a ledger or a copy of one in %s", ledger.ErrBusy, dir), d.Close())
		}
	}
}

// place gives a finished file its name, where nothing has that name. Errors: fs.ErrExist.
func place(part, to string) error {
	err := renameNew(part, to)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, fs.ErrExist)
	}
	return os.Rename(part, to)
}

// replay has SQLite play back the rollback journal of a write that was cut off, under its
// lock. A journal that is in use stays as it is. Errors: *Refusal.
func replay(ctx context.Context, path string) error {
	const side = "-journal"
	at, err := fileAt(path)
	journal, none := fileAt(path + side)
	if err != nil || none != nil || journal.size == 0 || at.dir {
		return nil //nolint:nilerr // it is told when it is opened
	}
	if err := cmp.Or(at.usable(path), local(path), regular(path), readable(path)); err != nil {
		return err
	}
	if writableBy(path) != nil {
		return &Refusal{Code: "damaged", Before: "a write to ", Path: path, After: " was cut off, and its journal must be played back before it can be read",
			Do: "look at it once with an account that may write to it and to its directory: any command of indoubt does that", is: ledger.ErrReadOnly}
	}
	opening.Lock()
	defer opening.Unlock()
	var n int64
	return translate(path, askOnce(ctx, dsn(path, "rw"), `SELECT count(*) FROM sqlite_schema`, &n))
}
