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
	"indoubt/ledger/store"
)

// Refusal is why a file cannot be used as a ledger, or for what was asked of it.
type Refusal struct {
	Code                string // of ledger.Trouble
	Before, Path, After string // the message: a file, and what is said of it
	Do                  string
	is                  error // of package ledger, that it matches; nil: none
}

func (e *Refusal) Error() string { return e.Trouble(ledger.InFull).Error() }

// Is makes errors.Is true for ledger.ErrReadOnly, ErrFull and ErrGone, where it stands for one.
func (e *Refusal) Is(target error) bool { return e.is != nil && target == e.is }

// Trouble puts it in words.
func (e *Refusal) Trouble(name func(string) string) ledger.Trouble {
	return ledger.Trouble{Code: e.Code, Message: e.Before + name(e.Path) + e.After, Do: e.Do}
}

func notALedger(path, is string) error {
	return &Refusal{Code: "not_a_ledger", Path: path, After: " is " + is, Do: "give the path of a ledger: --ledger PATH / INDOUBT_LEDGER"}
}

// notOurs refuses a database that is none of ours.
func notOurs(path, why string) error {
	return notALedger(path, "a database, but not a ledger ("+why+")")
}

// shut refuses a directory that cannot be written: SQLite needs its -wal and -shm files beside the
// ledger. It can be looked at, where no log is left there.
func shut(path string) error {
	return &Refusal{Code: "permission", Before: "the directory of ", Path: path, After: " cannot be written, and a ledger needs files beside it",
		Do: "let this user write there, or copy the ledger with its -wal file and look at the copy", is: ledger.ErrReadOnly}
}

// full says that nothing was written.
func full(path string) error {
	return &Refusal{Code: "disk_full", Before: "the disk under ", Path: path, After: " is full",
		Do: "make room; what cannot be recorded must not be sent", is: ledger.ErrFull}
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
			return cmp.Or(logWhole(path), notALedger(path, "no database"))
		}
		return passed(path, err)
	case codeCantOpen: // by one more connection; a first look finds out before
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return files{}.replaced(path, files{})
		}
		return cmp.Or(readable(path), writableBy(path), error(&IOError{path, err}))
	case codeReadOnly:
		if c == codeReadOnlyDir {
			return shut(path)
		}
		return fmt.Errorf("%w: %s cannot be written", ledger.ErrReadOnly, path)
	case codeConstraint:
		var e *sqlite3.Error
		errors.As(err, &e)
		text := store.GuardText(e.Error())
		return &ledger.GuardError{Message: text, Moving: strings.HasPrefix(text, store.Moved), Err: err}
	case codeCorrupt:
		return passed(path, err)
	default:
		return cmp.Or(logWhole(path), error(&IOError{path, err}))
	}
	return err
}
