package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// file is what a path leads to; the zero file is none.
type file struct {
	device, inode uint64
	names         uint64
	size          int64
	born          int64 // Unix nanoseconds; 0 where the file system does not tell
	changed       int64 // Unix nanoseconds; told of the ledger alone
	mounted       bool  // the file itself is a mount point
	dir           bool
}

func (f file) there() bool      { return f != file{} }
func (f file) is(was file) bool { return f.device == was.device && f.inode == was.inode }

// files are the ledger and the log of SQLite beside it, which is where a commit
// is until a checkpoint.
type files struct{ db, wal, shm file }

func filesAt(path string) (at files, err error) {
	for n, into := range [...]*file{&at.db, &at.wal, &at.shm} {
		look := fileAt
		if n == 0 {
			look = fileWhen
		}
		if *into, err = look(path + [...]string{"", "-wal", "-shm"}[n]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return at, fmt.Errorf("look for the ledger: %w", err)
		}
	}
	return at, nil
}

// displaced says that the files behind the path are not those of the ledger, so that what is
// written may never be seen. It is over as soon as the files are put right.
func displaced(path, why, do string) error {
	return &Refusal{Code: "damaged", Path: path, After: " " + why, Do: do}
}

// gone says that of the ledger itself. It matches ledger.ErrGone.
func gone(path, why, do string) error {
	return &Refusal{Code: "gone", Before: ledger.ErrGone.Error() + ": ", Path: path, After: " " + why, Do: do, is: ledger.ErrGone}
}

// usable refuses a file that goes by two names: SQLite keeps a log beside each
// name, and what is written under one overwrites what is written under the other.
func (f file) usable(path string) error {
	switch {
	case f.names > 1:
		return displaced(path, fmt.Sprintf("is one file with %d names (hard links), and each name would have a log of its own", f.names),
			"remove the other names; `indoubt backup` makes a copy")
	case f.mounted:
		return displaced(path, "is mounted alone, without the log beside it", "mount its directory instead")
	}
	return nil
}

// replaced says that the path leads to another file than the one in use, or to one of which
// a part is gone. A process that holds a removed file open goes on writing to it without an
// error, and so does one whose memory has the pages that were cut off.
func (was files) replaced(path string, now files) error {
	switch {
	case !now.db.there():
		return gone(path, "is not there", "bring it back, its -wal file with it")
	case !now.db.is(was.db):
		return gone(path, "is another file now", "bring the old one back, or start again with the one that is there now")
	case now.db.size < was.db.size && cutOff(path) != "": // else it was vacuumed
		return displaced(path, "was cut off while it was open",
			"stop what writes to it, keep its -wal, and put a backup in its place (Backups in ledger/README.md)")
	}
	return nil
}

// sameLog reports whether the log beside the ledger is the one in use.
func (was files) sameLog(now files) bool { return now.wal.is(was.wal) && now.shm.is(was.shm) }

func lostLog(path string) error {
	return displaced(path, "had its log (-wal, -shm) removed or replaced while it was open",
		"end those that have it open, as they end they write down what is in the old one: fuser "+path)
}

// anchored reports whether everything that is written is where the next one looks
// for it. Every write transaction asks before it and, before it is acknowledged,
// after it. Errors: *Refusal, *DamagedError.
func (s *handle) anchored() error {
	now, err := filesAt(s.path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	was := s.files
	s.mu.Unlock()
	if err := was.replaced(s.path, now); err != nil {
		return err
	}
	if err := now.db.usable(s.path); err != nil {
		return err
	}
	if !was.sameLog(now) {
		return lostLog(s.path)
	}
	return s.logWhole()
}

// anchor takes the files that are there now for those in use. A connection that
// writes has made the log by now.
func (s *handle) anchor() error {
	now, err := filesAt(s.path)
	if err == nil && s.writer != nil && (!now.wal.there() || !now.shm.there()) {
		err = lostLog(s.path)
	}
	log := openLogOf(s.path) // before the former one is closed: with the last one go the locks
	s.mu.Lock()
	former := s.log
	s.files, s.log = now, log
	s.mu.Unlock()
	former.close()
	if err != nil {
		return err
	}
	return s.logWhole()
}

// settled waits until the log of a ledger that others have open is there. Without
// it, a program that opens the ledger sees an older one. One that opens or closes it is
// done in a moment; what stays was removed. The header is empty where there is a log,
// which may hold another one.
func settled(path string) (header, error) {
	for end := time.Now().Add(time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := fileAt(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
			return header{}, err
		}
		h, open, err := inUse(path)
		if err != nil || !open {
			return h, err
		}
		if time.Now().After(end) {
			return header{}, lostLog(path)
		}
	}
}

// header is how a database file begins: https://sqlite.org/fileformat.html.
type header [72]byte

// logs reports whether it is a database that is written by way of a log.
func (h header) logs() bool { return h[18] == 2 }

// current reports whether it is a ledger with the schema of this program.
func (h header) current() bool {
	number := func(at int) int { return int(binary.BigEndian.Uint32(h[at:])) }
	return string(h[:16]) == "SQLite format 3\x00" && h.logs() && number(60) == store.Schema && number(68) == applicationID
}
