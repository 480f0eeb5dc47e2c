// Package sqlite keeps a ledger in one SQLite file on a local disk, shared by
// many processes of one host. It implements ledger.Store: it loads and writes,
// and leaves every decision to the rules of package ledger and every guarantee to
// ledger.sql of package store, whose tables other languages write to as well.
//
// What is read and written is that of package store. Here are the file and its home, the
// writer and its lock, damage, and who watches.
package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/adrg/xdg"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// Options are how a ledger is opened.
type Options = store.Options

// Store is a ledger in a SQLite file: what is asked of it.
type Store struct {
	*handle
	*store.Store
}

// handle is the open file: how it is opened, kept where it belongs, read and written.
type handle struct {
	path   string
	moment func() ledger.Moment // by the ledger's clocks, in the precision the ledger keeps
	opts   Options
	id     string
	copied string // why it is only looked at, "" when it is at home

	writer   *writer // nil when read-only
	notifier *notifier
	kept     *keeper

	mu     sync.Mutex
	files  files // in use
	read   reading
	probe  *os.File // see alone
	header *rawFile // see changeCounter
	log    *openLog // in use; nil where there is none

	readers chan struct{} // full while as many read as may
}

var _ ledger.Store = (*Store)(nil)

// DefaultPath is where the ledger lives by default.
func DefaultPath() string {
	return filepath.Join(xdg.StateHome, "indoubt", "ledger.db")
}

// Create opens the ledger at path for writing and makes one that does not exist
// yet, readable by its owner only. Errors: those of Open but *ledger.MissingError;
// *Refusal (former) where one was before, unless Options.Anew is set.
func Create(ctx context.Context, path string, o Options) (*Store, error) {
	path, err := absolute(path)
	if err != nil {
		return nil, err
	}
	if err := replay(ctx, path); err != nil {
		return nil, err
	}
	if at, err := fileAt(path); errors.Is(err, fs.ErrNotExist) || err == nil && at.size == 0 && !at.dir {
		if err := former(path, o); err != nil {
			return nil, err
		}
		if err := found(ctx, path, o); err != nil {
			return nil, err
		}
	}
	return open(ctx, path, o)
}

// Open opens the ledger at path and refuses one that does not exist: a mistyped
// path must never look like all-clear. Errors: *ledger.MissingError, *ledger.SchemaError,
// *DamagedError, *IOError, *Refusal. A copy of another ledger opens, to be looked at only.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	path, err := absolute(path)
	if err != nil {
		return nil, err
	}
	if err := replay(ctx, path); err != nil {
		return nil, err
	}
	return open(ctx, path, o)
}

func (s *handle) close() error {
	s.kept.end()
	defer s.letGo()
	if s.writer != nil {
		return errors.Join(s.writer.close(), s.notifier.close())
	}
	return errors.Join(s.disconnect(), s.notifier.close())
}
