package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	sqlite3 "modernc.org/sqlite"

	"indoubt/ledger"
)

// MissingError: there is no ledger at the path.
type MissingError struct{ Path string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("there is no ledger at %s; check --ledger and INDOUBT_LEDGER, or make one with `indoubt init`", e.Path)
}

// ForeignError: the file is a database, but not a ledger.
type ForeignError struct {
	Path string
	Why  string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s is a database but not a ledger of indoubt (%s); give the path of a ledger with --ledger", e.Path, e.Why)
}

// NewerError: a newer indoubt made the ledger or has migrated it.
type NewerError struct {
	Path       string
	Has, Knows int
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s has schema %d and this indoubt knows schemas up to %d; use the newer indoubt that wrote it", e.Path, e.Has, e.Knows)
}

// OlderError: the ledger must be migrated, which a reader must not do.
type OlderError struct {
	Path       string
	Has, Needs int
}

func (e *OlderError) Error() string {
	return fmt.Sprintf("%s has schema %d and is read with schema %d; open it once without --read-only to migrate it", e.Path, e.Has, e.Needs)
}

// NotDatabaseError: the file is something else.
type NotDatabaseError struct{ Path string }

func (e *NotDatabaseError) Error() string {
	return fmt.Sprintf("%s is not a database; give the path of a ledger with --ledger", e.Path)
}

// NotLocalError: the file system is not known to keep locks and syncs as a
// local one does.
type NotLocalError struct{ Path, Type string }

func (e *NotLocalError) Error() string {
	return fmt.Sprintf("%s is on %s, which is not known to be a local file system; keep the ledger on a local disk (ext4, xfs, btrfs, zfs, …)", e.Path, e.Type)
}

// ReadOnlyDirError: SQLite needs its -wal and -shm files beside the ledger and
// cannot make them.
type ReadOnlyDirError struct{ Path string }

// Is makes errors.Is(err, ledger.ErrReadOnly) true: it can be looked at, where no
// log is left beside it.
func (e *ReadOnlyDirError) Is(target error) bool { return target == ledger.ErrReadOnly }

func (e *ReadOnlyDirError) Error() string {
	return fmt.Sprintf("%s cannot be opened because its directory cannot be written; let this user write there, or copy the ledger with its -wal file somewhere else", e.Path)
}

// FullDiskError: nothing was written.
type FullDiskError struct{ Path, Found string }

// full says what fills the disk, and who keeps the log from being emptied.
func full(path string) *FullDiskError {
	e := &FullDiskError{Path: path}
	if st, err := StorageAt(path); err == nil {
		e.Found = joined(st.Room(), st.Kept())
	}
	return e
}

// Is makes errors.Is(err, ledger.ErrFull) true.
func (e *FullDiskError) Is(target error) bool { return target == ledger.ErrFull }

func (e *FullDiskError) Error() string {
	return fmt.Sprintf("the disk under %s is full (%s), and what cannot be recorded must not be sent; free some space and try again", e.Path, e.Found)
}

// GuardError: the database refused a write that would have broken its rules.
type GuardError struct {
	Message string
	err     error
}

func (e *GuardError) Error() string { return "the ledger refuses: " + e.Message }

// Is makes errors.Is(err, ledger.ErrGuard) true.
func (e *GuardError) Is(target error) bool { return target == ledger.ErrGuard }

// Unwrap gives the driver's error.
func (e *GuardError) Unwrap() error { return e.err }

// errRaced: the operation changed between load and write.
var errRaced = errors.New("the operation changed while it was being changed")

// SQLite result codes (https://sqlite.org/rescode.html).
const (
	codeBusy        = 5
	codeProtocol    = 15
	codeReadOnly    = 8
	codeIO          = 10
	codeCorrupt     = 11
	codeFull        = 13
	codeCantOpen    = 14
	codeConstraint  = 19
	codeNotADB      = 26
	codeReadOnlyDir = 1544
	codeIOWrite     = 778
	codeIOShort     = 522
)

// code is the extended result code of err, or 0.
func code(err error) int {
	var e *sqlite3.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// busy reports whether another connection holds the lock.
func busy(err error) bool { return code(err)&0xff == codeBusy }

// translate turns the driver's codes into errors that say what to do.
func translate(path string, err error) error {
	if err == nil || errors.Is(err, sql.ErrNoRows) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	c := code(err)
	switch c & 0xff {
	case 0: // not the driver's
	case codeBusy, codeProtocol:
		return locked(path)
	case codeFull:
		return full(path)
	case codeNotADB:
		if cutOff(path) == "" {
			return &NotDatabaseError{path}
		}
		return passed(path, err)
	case codeCantOpen: // by one more connection; a first look finds out before
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return files{}.replaced(path, files{})
		}
		return cmp.Or(readable(path), writableBy(path), error(&IOError{path, err}))
	case codeReadOnly:
		if c == codeReadOnlyDir {
			return &ReadOnlyDirError{path}
		}
		return fmt.Errorf("%w: %s cannot be written", ledger.ErrReadOnly, path)
	case codeConstraint:
		var e *sqlite3.Error
		errors.As(err, &e)
		return &GuardError{guardText(e.Error()), err}
	case codeCorrupt:
		return passed(path, err)
	default:
		return &IOError{path, err}
	}
	return err
}
