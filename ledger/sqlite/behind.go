package sqlite

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"sync"
)

// A log is of one state of the file beside it, and holds whole pages of later ones. Over
// another state it makes a mixture of two, which SQLite takes for a ledger as long as it does
// not meet a page that fits nowhere. Page 1 has a number that goes up by one at most where it
// is written to the log (https://sqlite.org/fileformat.html#file_change_counter), and each log
// begins with it, see stamp: a file with a lower one is older than its log.

// headers are ledgers that are read without SQLite. Closing one gives up the locks that this
// process has on it, so it stays open until no handle of the process is.
var headers struct {
	sync.Mutex
	of map[file]*rawFile
}

type rawFile struct {
	*os.File
	id    file
	users int
}

// changeCounter is that of the file itself, without its log.
func (s *handle) changeCounter() (n uint32, err error) {
	headers.Lock()
	defer headers.Unlock()
	if s.header == nil {
		at, err := fileAt(s.path)
		if err != nil {
			return 0, err
		}
		id := file{device: at.device, inode: at.inode, born: at.born}
		h := headers.of[id]
		if h == nil {
			h = &rawFile{id: id}
			if h.File, err = os.Open(s.path); err != nil {
				return 0, err
			}
			if headers.of == nil {
				headers.of = map[file]*rawFile{}
			}
			headers.of[id] = h
		}
		h.users++
		s.header = h
	}
	var number [4]byte
	_, err = s.header.ReadAt(number[:], 24)
	return binary.BigEndian.Uint32(number[:]), err
}

// letGo comes after the connections are closed.
func (s *handle) letGo() {
	headers.Lock()
	defer headers.Unlock()
	h := s.header
	if h == nil {
		return
	}
	s.header = nil
	if h.users--; h.users == 0 {
		delete(headers.of, h.id)
		h.Close()
	}
}

// behind refuses a file that is older than the log beside it. The log is read first: both
// go up meanwhile.
func (s *handle) behind() error {
	if runtime.GOOS == "windows" { // a file that is open cannot be replaced
		return nil
	}
	log, err := firstCounter(s.path + "-wal")
	if err != nil || log == 0 {
		return nil //nolint:nilerr // SQLite says what is wrong with it
	}
	if has, err := s.changeCounter(); err == nil && has < log-1 {
		return &DamagedError{s.path, "it is an older state than its log is of (a backup was put under the -wal of a newer one)"}
	}
	return nil
}

// firstCounter is the number of the first page 1 in a log, 0 where there is none
// (https://sqlite.org/fileformat.html#walformat).
func firstCounter(log string) (uint32, error) {
	f, err := os.Open(log)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var header [32]byte
	if _, err := f.ReadAt(header[:], 0); err != nil {
		return 0, err
	}
	page := int64(binary.BigEndian.Uint32(header[8:]))
	var frame [24 + 28]byte
	for at := int64(len(header)); ; at += 24 + page {
		if _, err := f.ReadAt(frame[:], at); err != nil || string(frame[8:16]) != string(header[16:24]) { // the end, or of a former log
			return 0, err
		}
		if binary.BigEndian.Uint32(frame[:]) == 1 {
			return binary.BigEndian.Uint32(frame[24+24:]), nil
		}
	}
}
