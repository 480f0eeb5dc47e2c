package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"indoubt/ledger"
)

const (
	// spare is the room that new operations leave for the outcomes of those in
	// flight. As much lies in a file of its own, against those who fill the disk.
	spare       = 4 << 20
	reserveFile = ".reserve"
)

// tooLittle reports whether there is too little room to begin anything: a checkpoint
// may let the ledger grow by all that is in its log, and what cannot be folded into it
// stays in the log for good.
func tooLittle(free, log int64) bool { return free < log+spare }

// Where there is more than plenty left, the disk is asked again after a while only:
// no one fills so much in that time.
const (
	plenty = 1 << 30
	awhile = 100 * time.Millisecond
)

// short is asked by every batch. Where the system does not tell, SQLite says when the
// disk is full.
func (w *writer) short() bool {
	if time.Since(w.roomy) < awhile {
		return false
	}
	free, _, err := w.room(filepath.Dir(w.store.path))
	if err != nil {
		return false
	}
	log, err := fileAt(w.store.path + "-wal")
	if err == nil && !tooLittle(free, log.size+plenty) {
		w.roomy = time.Now()
	}
	return err == nil && tooLittle(free, log.size)
}

// checkpoint folds the log into the ledger as far as those who read let it.
func (w *writer) checkpoint() {
	_ = w.conn.Script(context.Background(), `PRAGMA wal_checkpoint(TRUNCATE)`)
}

// makeRoom gives up the reserve, and empties the log.
func (w *writer) makeRoom() {
	_ = os.Truncate(w.store.path+reserveFile, 0)
	w.checkpoint()
}

// roomless tells the errors that room may help against: a full disk, and a file
// that a limit keeps from growing.
func roomless(err error) bool {
	return code(err)&0xff == codeFull || code(err) == codeIOWrite || errors.Is(err, ledger.ErrFull)
}

// strained says what a person must do about the room of a ledger: "" while nothing. It begins with
// words in capitals and a colon.
func strained(path string) string {
	free, total, err := diskAt(filepath.Dir(path))
	log, _ := fileAt(path + "-wal")
	if err != nil || !tooLittle(free, log.size) {
		return ""
	}
	return fmt.Sprintf("DISK SHORT: %d MiB free of %d MiB", free>>20, total>>20)
}

// reserve takes room for bad days, where there is plenty.
func reserve(path string) {
	at, err := fileAt(path + reserveFile)
	if err == nil && at.size >= spare {
		return
	}
	if free, _, err := diskAt(filepath.Dir(path)); err != nil || free < 8*spare {
		return
	}
	f, err := openSide(path, reserveFile, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return // it is only a help
	}
	defer f.Close()
	if allocate(f, spare) != nil {
		_ = f.Truncate(0)
	}
}
