package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
)

// The index of the log says which commits are in the log (https://sqlite.org/walformat.html).
// SQLite believes it: where the log was cut, it goes on writing behind the end, and what lies
// between is lost for everyone who comes later. So the end of the log is looked at before and
// after each commit.

// logEnd is the newest commit that the index of a log tells of. The zero logEnd is that of an
// empty log.
type logEnd struct {
	frames uint32
	page   int64    // bytes
	stamp  [16]byte // how the header of its last frame ends: salts and checksum
}

// indexSize is that of the two copies of the header of an index.
const indexSize, frameHeader, walHeader = 96, 24, 32

// endOf reads the header of an index, which is in the byte order of the host. known is false
// where another process writes it just now.
func endOf(header [indexSize]byte) (end logEnd, known bool) {
	half := header[:indexSize/2]
	if !bytes.Equal(half, header[indexSize/2:]) {
		return end, false
	}
	native := binary.NativeEndian
	end.frames = native.Uint32(half[16:])
	if half[12] == 0 || end.frames == 0 {
		return logEnd{}, true
	}
	page := native.Uint16(half[14:])
	end.page = int64(page&0xfe00) + int64(page&1)<<16
	copy(end.stamp[:], half[32:40])
	binary.BigEndian.PutUint32(end.stamp[8:], native.Uint32(half[24:]))
	binary.BigEndian.PutUint32(end.stamp[12:], native.Uint32(half[28:]))
	return end, true
}

// offset is where its last frame begins.
func (e logEnd) offset() int64 { return walHeader + int64(e.frames-1)*(frameHeader+e.page) }

// sameLog reports whether both are of one log that was not begun anew between them.
func (e logEnd) sameLog(than logEnd) bool { return bytes.Equal(e.stamp[:8], than.stamp[:8]) }

// missing says what is wrong with the log where the commit is not in it, "" where it is.
func (l *openLog) missing(e logEnd) (string, error) {
	if e.frames == 0 {
		return "", nil
	}
	l.frame = slices.Grow(l.frame[:0], int(frameHeader+e.page))[:frameHeader+e.page]
	_, err := l.log.ReadAt(l.frame, e.offset())
	switch {
	case errors.Is(err, io.EOF):
		return "its log was cut", nil
	case err != nil:
		return "", err
	case !bytes.Equal(l.frame[8:frameHeader], e.stamp[:]):
		return "its log was cut or written over", nil
	}
	return "", nil
}

// openLog are the log and its index, as this process has them open.
type openLog struct {
	log   *os.File
	index *rawFile
	seen  logEnd // when it was looked at last
	frame []byte // the one that is looked at
}

// openLogOf opens them; nil where a ledger has no log, and where a file has no number by
// which the one that is open is known.
func openLogOf(path string) *openLog {
	log, err := os.Open(path + "-wal")
	if err != nil {
		return nil
	}
	index, err := openRaw(path + "-shm")
	if err != nil {
		log.Close()
		return nil
	}
	return &openLog{log: log, index: index}
}

func (l *openLog) close() {
	if l != nil {
		l.log.Close()
		l.index.letGo()
	}
}

// whole refuses a log that does not have what its index tells of. Others may write to both
// meanwhile, so what is missing is looked for again until the index stands still.
// Errors: *DamagedError.
func (l *openLog) whole(path string) error {
	if l == nil {
		return nil
	}
	var was [indexSize]byte
	for range 100 {
		var now [indexSize]byte
		if _, err := l.index.ReadAt(now[:], 0); errors.Is(err, io.EOF) {
			return nil // SQLite makes it anew, from the log
		} else if err != nil {
			return &IOError{path + "-shm", err}
		}
		end, known := endOf(now)
		if !known {
			continue
		}
		why, err := l.missing(end)
		if before := l.seen; why == "" && err == nil && end.sameLog(before) && end != before {
			why, err = l.missing(before)
		}
		switch {
		case err != nil:
			return &IOError{path + "-wal", err}
		case why == "":
			l.seen = end
			return nil
		case now == was:
			return &DamagedError{path, why}
		}
		was = now
	}
	return nil
}

// logWhole looks at the log of a ledger that was not whole to SQLite just now.
func logWhole(path string) error {
	l := openLogOf(path)
	defer l.close()
	return l.whole(path)
}

// logWhole refuses a log that was cut while it is in use. Errors: *DamagedError.
func (s *handle) logWhole() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.whole(s.path)
}
