package sqlite

import (
	"encoding/binary"
	"os"
	"sync"
)

// A log is of one state of the file beside it, and holds whole pages of later ones. Over
// another state it makes a mixture of two, which SQLite takes for a ledger as long as it does
// not meet a page that fits nowhere. Page 1 has a number that goes up by one at most where it
// is written to the log (https://sqlite.org/fileformat.html#file_change_counter), and each log
// begins with it, see stamp: a file with a lower one is older than its log.

// raw are files of ledgers that are read without SQLite. Closing one gives up the locks that
// this process has on it, so it stays open until no handle of the process is.
var raw struct {
	sync.Mutex
	of map[file]*rawFile
}

type rawFile struct {
	*os.File
	id    file
	users int
}

// openRaw opens a file, or takes the one that is open.
func openRaw(path string) (*rawFile, error) {
	raw.Lock()
	defer raw.Unlock()
	at, err := fileAt(path)
	if err != nil {
		return nil, err
	}
	id := file{device: at.device, inode: at.inode, born: at.born}
	r := raw.of[id]
	if r == nil {
		r = &rawFile{id: id}
		if r.File, err = os.Open(path); err != nil {
			return nil, err
		}
		if raw.of == nil {
			raw.of = map[file]*rawFile{}
		}
		raw.of[id] = r
	}
	r.users++
	return r, nil
}

// letGo comes after the connections are closed.
func (r *rawFile) letGo() {
	if r == nil {
		return
	}
	raw.Lock()
	defer raw.Unlock()
	if r.users--; r.users == 0 {
		delete(raw.of, r.id)
		r.Close()
	}
}

// changeCounter is that of the file itself, without its log.
func (s *handle) changeCounter() (n uint32, err error) {
	s.mu.Lock()
	if s.header == nil {
		s.header, err = openRaw(s.path)
	}
	header := s.header
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	var number [4]byte
	_, err = header.ReadAt(number[:], 24)
	return binary.BigEndian.Uint32(number[:]), err
}

// letGo lets go of what is read without SQLite. It comes after the connections are closed.
func (s *handle) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header.letGo()
	s.log.close()
	s.header, s.log = nil, nil
}

// behind refuses a file that is older than the log beside it. The log is read first: both
// go up meanwhile.
func (s *handle) behind() error {
	log, err := os.Open(s.path + "-wal")
	if err != nil {
		return nil //nolint:nilerr // SQLite says what is wrong with it
	}
	defer log.Close()
	return s.behindLog(log)
}

// behindLog is behind for a log that may not be beside the file any more.
func (s *handle) behindLog(log *os.File) error {
	first, err := firstCounter(log)
	if err != nil || first == 0 {
		return nil //nolint:nilerr // SQLite says what is wrong with it
	}
	if has, err := s.changeCounter(); err == nil && has < first-1 {
		return &DamagedError{s.path, "it is an older state than its log is of (a backup was put under the -wal of a newer one)"}
	}
	return nil
}

// firstCounter is the number of the first page 1 in a log, 0 where there is none
// (https://sqlite.org/fileformat.html#walformat).
func firstCounter(f *os.File) (uint32, error) {
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
