package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Storage is what a ledger takes on its disk, and who keeps it from taking less.
type Storage struct {
	Files       []FileSize
	Free, Total int64    // of the file system, for this account; -1 where the system does not tell
	Readers     []string // processes that keep a read open, so that the log cannot be emptied
	Writers     []string // processes that hold the write lock
}

// FileSize is one file of a ledger.
type FileSize struct {
	Name string // ledger.db, ledger.db-wal, …
	Size int64
}

// aWhile is how long a read or a write is open at least that is taken for one that
// stays: others come and go in a few milliseconds.
const aWhile = 30 * time.Millisecond

// StorageAt looks at the ledger's files, their disk, and who has locks on them now.
func StorageAt(path string) (Storage, error) {
	path, err := absolute(path)
	if err != nil {
		return Storage{}, err
	}
	st := sizes(path)
	readers, writers := Readers(path), Holders(path)
	if len(readers)+len(writers) > 0 {
		time.Sleep(aWhile)
		st.Readers, st.Writers = both(readers, Readers(path)), both(writers, Holders(path))
	}
	return st, nil
}

func sizes(path string) Storage {
	st := Storage{Free: -1, Total: -1}
	for _, side := range []string{"", "-wal", "-shm", reserveFile} {
		if f, err := os.Stat(path + side); err == nil {
			st.Files = append(st.Files, FileSize{filepath.Base(path) + side, f.Size()})
		}
	}
	if free, total, err := diskAt(filepath.Dir(path)); err == nil {
		st.Free, st.Total = free, total
	}
	return st
}

func both(a, b []string) []string {
	return slices.DeleteFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

// Log is the size of the write-ahead log.
func (st Storage) Log() int64 {
	for _, f := range st.Files {
		if strings.HasSuffix(f.Name, "-wal") {
			return f.Size
		}
	}
	return 0
}

// Others is what everything else takes on the file system, or is kept from this
// account; -1 where the system does not tell.
func (st Storage) Others() int64 {
	if st.Free < 0 {
		return -1
	}
	rest := st.Total - st.Free
	for _, f := range st.Files {
		rest -= f.Size
	}
	return max(rest, 0)
}

// muchLog is a log that a checkpoint should have emptied long ago.
const muchLog = 64 << 20

// Short reports whether there is too little room to begin anything.
func (st Storage) Short() bool { return st.Free >= 0 && tooLittle(st.Free, st.Log()) }

// Grown reports whether the log is longer than it should ever be.
func (st Storage) Grown() bool { return st.Log() > muchLog }

// Room says how much room there is, and what takes the rest.
func (st Storage) Room() string {
	var parts []string
	for _, f := range st.Files {
		parts = append(parts, f.Name+" "+Bytes(f.Size))
	}
	text := strings.Join(parts, ", ")
	if st.Free >= 0 {
		text = fmt.Sprintf("%s free of %s: %s, everything else %s", Bytes(st.Free), Bytes(st.Total), text, Bytes(st.Others()))
	}
	return text
}

// Kept says who keeps the log from being emptied, "" where no one is seen to.
func (st Storage) Kept() string {
	if len(st.Readers) == 0 {
		return ""
	}
	return strings.Join(st.Readers, ", ") + " keeps a read open, so the log cannot be emptied"
}

// Bytes is a size as people write it.
func Bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
}

// strain keeps what was last found out about the storage of an open ledger.
type strain struct {
	mu      sync.Mutex
	at      time.Time // by the process's own clock
	seq     int64     // the newest event then
	said    string
	holders []string
	looks   int // in a row that found the same holder
}

// strainEvery is how often it is looked for at most; a lock that was seen to be held
// at so many looks in a row is not one of a writer at work.
const (
	strainEvery = time.Second
	strainLooks = 3
)

// strained says what a person must do about the ledger's storage: "" while nothing.
// It begins with one or two words in capitals and a colon.
// seq is the newest event.
func (s *handle) strained(seq int64) string {
	s.strain.mu.Lock()
	defer s.strain.mu.Unlock()
	if time.Since(s.strain.at) < strainEvery {
		return s.strain.said
	}
	st := sizes(s.path)
	var held []string
	if seq == s.strain.seq && !s.strain.at.IsZero() { // who records is not kept from it, and the system takes up to 10 ms to list its locks
		held = Holders(s.path)
	}
	s.strain.seq = seq
	if s.strain.holders = both(s.strain.holders, held); len(s.strain.holders) > 0 {
		s.strain.looks++
	} else {
		s.strain.holders, s.strain.looks = held, 0
	}
	if st.Short() || st.Grown() || s.strain.looks >= strainLooks {
		if whole, err := StorageAt(s.path); err == nil {
			st = whole
		}
	}
	s.strain.said = ""
	switch {
	case st.Short():
		s.strain.said = "DISK SHORT: " + joined(st.Room(), st.Kept())
	case st.Grown():
		s.strain.said = "LOG " + Bytes(st.Log()) + ": " + joined(st.Kept(), st.Room())
	case s.strain.looks >= strainLooks && len(st.Writers) > 0:
		s.strain.said = "LOCKED: " + strings.Join(st.Writers, ", ") + " holds the write lock, and nothing can be recorded"
	}
	s.strain.at = time.Now()
	return s.strain.said
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}
