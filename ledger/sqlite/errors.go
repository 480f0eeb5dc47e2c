package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	sqlite3 "modernc.org/sqlite"

	"indoubt/ledger"
)

// ForeignError: the file is a database, but not a ledger.
type ForeignError struct {
	Path string
	Why  string
}

func (e *ForeignError) Error() string { return e.Trouble(ledger.InFull).Error() }

// pathOfLedger is what helps where the file is none of ours.
const pathOfLedger = "give the path of a ledger: --ledger PATH / INDOUBT_LEDGER"

// Trouble says that it is left alone.
func (e *ForeignError) Trouble(name func(string) string) ledger.Trouble {
	return ledger.Trouble{Code: "not_a_ledger", Message: fmt.Sprintf("%s is a database, but not a ledger (%s)", name(e.Path), e.Why), Do: pathOfLedger}
}

// NotDatabaseError: the file is something else.
type NotDatabaseError struct{ Path string }

func (e *NotDatabaseError) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble says that it is left alone.
func (e *NotDatabaseError) Trouble(name func(string) string) ledger.Trouble {
	return ledger.Trouble{Code: "not_a_ledger", Message: name(e.Path) + " is not a ledger", Do: pathOfLedger}
}

// NotLocalError: the file system is not known to keep locks and syncs as a
// local one does.
type NotLocalError struct{ Path, Type string }

func (e *NotLocalError) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble says where a ledger is kept.
func (e *NotLocalError) Trouble(name func(string) string) ledger.Trouble {
	return ledger.Trouble{Code: "not_local", Message: fmt.Sprintf("%s is on %s, which is not known to be a local disk", name(e.Path), e.Type),
		Do: "keep the ledger on a local disk (ext4, xfs, btrfs, zfs, …)"}
}

// ReadOnlyDirError: SQLite needs its -wal and -shm files beside the ledger and
// cannot make them.
type ReadOnlyDirError struct {
	Path    string
	Mounted bool // read-only, as a file system is after an error of its disk
}

// Is makes errors.Is(err, ledger.ErrReadOnly) true: it can be looked at, where no
// log is left beside it.
func (e *ReadOnlyDirError) Is(target error) bool { return target == ledger.ErrReadOnly }

func (e *ReadOnlyDirError) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble says what the directory is needed for.
func (e *ReadOnlyDirError) Trouble(name func(string) string) ledger.Trouble {
	if e.Mounted {
		return ledger.Trouble{Code: "permission", Message: "the file system of " + name(e.Path) + " is mounted read-only",
			Do: "see why (dmesg: an error of its disk does that), and mount it for writing, or look at the ledger with --read-only"}
	}
	return ledger.Trouble{Code: "permission", Message: "the directory of " + name(e.Path) + " cannot be written, and a ledger needs files beside it",
		Do: "let this user write there, or copy the ledger with its -wal file and look at the copy"}
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

func (e *FullDiskError) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble says what fills it.
func (e *FullDiskError) Trouble(name func(string) string) ledger.Trouble {
	return ledger.Trouble{Code: "disk_full", Message: "the disk under " + name(e.Path) + " is full: " + e.Found, Do: "make room; what cannot be recorded must not be sent"}
}

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
			return cmp.Or(logWhole(path), error(&NotDatabaseError{path}))
		}
		return passed(path, err)
	case codeCantOpen: // by one more connection; a first look finds out before
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return files{}.replaced(path, files{})
		}
		return cmp.Or(readable(path), writableBy(path), error(&IOError{path, err}))
	case codeReadOnly:
		if c == codeReadOnlyDir {
			return &ReadOnlyDirError{Path: path}
		}
		return fmt.Errorf("%w: %s cannot be written", ledger.ErrReadOnly, path)
	case codeConstraint:
		var e *sqlite3.Error
		errors.As(err, &e)
		return &ledger.GuardError{Message: guardText(e.Error()), Err: err}
	case codeCorrupt:
		return passed(path, err)
	default:
		return cmp.Or(logWhole(path), error(&IOError{path, err}))
	}
	return err
}

// guardText is a refusal's own words without the driver's frame.
func guardText(s string) string {
	s = strings.TrimPrefix(s, "constraint failed: ")
	if i := strings.LastIndex(s, " ("); i > 0 && strings.HasSuffix(s, ")") {
		s = s[:i]
	}
	return s
}
