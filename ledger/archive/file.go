package archive

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"

	"indoubt/ledger"
)

// file is an archive that is being made.
type file struct {
	dir      string
	dry      bool
	record   ledger.Archive
	lines    []ledger.Whole // what it has, without what only people read
	plain    int64
	written  hash.Hash // of the lines
	out      *os.File
	buffer   *bufio.Writer
	gz       *gzip.Writer
	extended time.Time
	begun    bool // the ledger knows of it
	told     bool // the ledger knows that it is sealed
	named    bool // it has its own name
}

// begunSuffix is that of a file that is not sealed.
const begunSuffix = ".part"

func (f *file) path() string { return filepath.Join(f.dir, f.record.File) }

func (f *file) create() (err error) {
	if f.out, err = os.OpenFile(f.path()+begunSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return fmt.Errorf("make the archive: %w", err)
	}
	f.buffer = bufio.NewWriterSize(f.out, 1<<20)
	f.gz, err = gzip.NewWriterLevel(f.buffer, gzip.BestSpeed)
	f.written = sha256.New()
	return err
}

// add writes an operation, and returns how many bytes that are.
func (f *file) add(w ledger.Whole) (int64, error) {
	line, err := encoded(w)
	if err != nil {
		return 0, fmt.Errorf("write %s as JSON: %w", w.Operation.ID, err)
	}
	if !f.dry {
		f.written.Write(line)
		if _, err := f.gz.Write(line); err != nil {
			return 0, fmt.Errorf("write %s: %w", f.path(), err)
		}
	}
	f.plain += int64(len(line))
	f.lines = append(f.lines, light(w))
	if at := w.Operation.CreatedAt; f.record.Oldest.IsZero() || at.Before(f.record.Oldest) {
		f.record.Oldest = at
	}
	if at := w.Operation.CreatedAt; at.After(f.record.Newest) {
		f.record.Newest = at
	}
	return int64(len(line)), nil
}

// encoded is one line.
func encoded(v any) ([]byte, error) {
	var line bytes.Buffer
	text := json.NewEncoder(&line)
	text.SetEscapeHTML(false)
	err := text.Encode(v)
	return line.Bytes(), err
}

// light is what is needed to take an operation from the ledger: the file has the rest.
func light(w ledger.Whole) ledger.Whole {
	slim := w.Slim("")
	slim.Reads, slim.Events = make([]ledger.Read, len(w.Reads)), make([]ledger.Event, len(w.Events))
	for i, e := range w.Events {
		slim.Events[i].Seq = e.Seq
	}
	slim.Marks = w.Marks
	return slim
}

// seal makes the file durable, reads it back, and gives it its name.
func (f *file) seal() error {
	if err := errors.Join(f.gz.Close(), f.buffer.Flush(), f.out.Sync()); err != nil {
		return err
	}
	if _, err := f.out.Seek(0, io.SeekStart); err != nil {
		return err
	}
	digest := sha256.New()
	size := &counting{}
	gz, err := gzip.NewReader(io.TeeReader(bufio.NewReaderSize(f.out, 1<<20), io.MultiWriter(digest, size)))
	if err != nil {
		return fmt.Errorf("read it back: %w", err)
	}
	lines, n := sha256.New(), 0
	err = eachLine(gz, func(line []byte) error {
		lines.Write(line)
		var w ledger.Whole
		if err := json.Unmarshal(line, &w); err != nil {
			return err
		}
		if n >= len(f.lines) || w.Operation.ID != f.lines[n].Operation.ID || w.Operation.Version != f.lines[n].Operation.Version {
			return fmt.Errorf("line %d is not what was written", n+1)
		}
		n++
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("read it back: %w", err)
	case n != len(f.lines) || !bytes.Equal(lines.Sum(nil), f.written.Sum(nil)):
		return fmt.Errorf("read it back: it is not what was written")
	}
	if err := os.Rename(f.path()+begunSuffix, f.path()); err != nil {
		return err
	}
	f.named = true
	f.record.Digest, f.record.Size, f.record.Operations = hex.EncodeToString(digest.Sum(nil)), size.n, n
	return syncDir(f.dir)
}

// drop closes the file, and removes it if it was not sealed. Others may archive then.
func (f *file) drop(ctx context.Context, s Store) error {
	if f.out != nil {
		f.out.Close()
	}
	if f.out != nil && !f.named {
		_ = os.Remove(f.path() + begunSuffix) // a rest of one does no harm
	}
	if !f.begun {
		return nil
	}
	f.record.ClosedAt = time.Now()
	return s.ChangeArchive(context.WithoutCancel(ctx), f.record)
}

// sweep removes what is left of files that were being written when their run ended. It seals
// those that were whole before the ledger heard of it, and returns them.
func (f *file) sweep(ctx context.Context, s Store) (found []string, err error) {
	all, err := s.Archives(ctx)
	for _, a := range all {
		if a.Digest != "" || a.ClosedAt.IsZero() && a.Until.After(time.Now()) {
			continue
		}
		_ = os.Remove(filepath.Join(f.dir, filepath.Base(a.File)+begunSuffix)) // it does no harm
		switch err := adopt(ctx, s, f.dir, a); {
		case err == nil:
			found = append(found, a.File)
		case !errors.Is(err, fs.ErrNotExist):
			return found, err
		case a.ClosedAt.IsZero(): // nothing came of it
			a.ClosedAt = time.Now()
			if err := s.ChangeArchive(ctx, a); err != nil {
				return found, err
			}
		}
	}
	return found, err
}

// adopt seals an archive by its file. What is in it is in the ledger, too; it may be that of
// another copy of this ledger, and is left as it is. Errors: fs.ErrNotExist, *Damaged.
func adopt(ctx context.Context, s Store, dir string, a ledger.Archive) (err error) {
	err = Each(dir, a.File, func(w ledger.Whole) bool {
		at := w.Operation.CreatedAt
		if a.Operations++; a.Oldest.IsZero() || at.Before(a.Oldest) {
			a.Oldest = at
		}
		if at.After(a.Newest) {
			a.Newest = at
		}
		return true
	})
	if err != nil {
		return err
	}
	if a.Digest, a.Size, err = digestOf(filepath.Join(dir, filepath.Base(a.File))); err != nil {
		return err
	}
	if a.ClosedAt.IsZero() {
		a.ClosedAt = time.Now()
	}
	return s.ChangeArchive(ctx, a)
}

// ready makes the directory, and sees that a file can be made there; dry, only that it may be.
func ready(dir string, dry bool) error {
	if dry {
		for at := dir; ; at = filepath.Dir(at) {
			info, err := os.Stat(at)
			if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
				continue
			}
			if errors.Is(err, syscall.ENOTDIR) || err == nil && !info.IsDir() {
				return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
			}
			return err
		}
	}
	if err := makeDir(dir); err != nil {
		return fmt.Errorf("make the directory of the archive: %w", err)
	}
	try, err := os.CreateTemp(dir, ".indoubt-*"+begunSuffix)
	if err != nil {
		return fmt.Errorf("make a file in the directory of the archive: %w", err)
	}
	return errors.Join(try.Close(), os.Remove(try.Name()))
}

// makeDir makes a directory that is there after a crash.
func makeDir(dir string) error {
	at, err := os.Stat(dir)
	switch {
	case err == nil && !at.IsDir():
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	case err == nil || filepath.Dir(dir) == dir:
		return err
	}
	if err := makeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700), syncDir(filepath.Dir(dir)))
}

type counting struct{ n int64 }

func (c *counting) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

// eachLine gives every line, with its end.
func eachLine(r io.Reader, each func([]byte) error) error {
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := each(line); err != nil {
			return err
		}
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Damaged is the error of a file that is not as it was written.
type Damaged struct {
	File  string
	Cause error
}

func (d *Damaged) Error() string { return d.File + " is damaged: " + d.Cause.Error() }
func (d *Damaged) Unwrap() error { return d.Cause }

// read gives every line of a file, until each returns false.
func read(dir, name string, each func(line []byte) (more bool, err error)) error {
	f, err := os.Open(filepath.Join(dir, filepath.Base(name)))
	if err != nil {
		return fmt.Errorf("open the archive: %w", err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err == nil {
		err = eachLine(gz, func(line []byte) error {
			more, err := each(line)
			if err == nil && !more {
				err = errEnough
			}
			return err
		})
	}
	if err != nil && !errors.Is(err, errEnough) {
		return &Damaged{f.Name(), err}
	}
	return nil
}

var errEnough = errors.New("enough")

// Each gives the operations of a file, until each returns false.
func Each(dir, name string, each func(ledger.Whole) bool) error {
	return read(dir, name, func(line []byte) (bool, error) {
		var w ledger.Whole
		err := json.Unmarshal(line, &w)
		if err == nil && (w.Operation.ID == "" || w.Operation.CreatedAt.IsZero()) {
			err = errors.New("a line is no operation")
		}
		return err == nil && each(w), err
	})
}

// Find reads an operation from the file of its archive in a directory. It reads to the end,
// where the file says whether it is as it was written. Errors: ledger.ErrNotFound where the
// file does not have it, *Damaged.
func Find(dir, name, id string) (found ledger.Whole, err error) {
	begins, err := beginning(id)
	if err != nil {
		return found, err
	}
	err = read(dir, name, func(line []byte) (bool, error) {
		if found.Operation.ID != "" || !bytes.HasPrefix(line, begins) {
			return true, nil
		}
		return true, json.Unmarshal(line, &found)
	})
	if err == nil && found.Operation.ID == "" {
		err = fmt.Errorf("%w: %s in %s", ledger.ErrNotFound, id, filepath.Join(dir, name))
	}
	return found, err
}

// May reports whether an archive may hold an operation that was begun at a time. Where that is
// not known, an id that has a time in it tells.
func May(a ledger.Archive, id string, begun time.Time) bool {
	if known, err := uuid.Parse(id); begun.IsZero() && err == nil && known.Version() == 7 {
		begun = time.Unix(known.Time().UnixTime())
	}
	return begun.IsZero() || a.Oldest.IsZero() || !begun.Before(a.Oldest.Add(-24*time.Hour)) && !begun.After(a.Newest.Add(24*time.Hour))
}

// Check compares a file with what the ledger has written down of it. Errors: *Damaged,
// ErrUnfinished, and fs.ErrNotExist.
func Check(dir string, a ledger.Archive) error {
	path := filepath.Join(dir, filepath.Base(a.File))
	got, _, err := digestOf(path)
	if err != nil || got == a.Digest {
		return err
	}
	if next, _, err := digestOf(path + redactedSuffix); err == nil && next == a.Digest {
		return fmt.Errorf("%w: %s", ErrUnfinished, path)
	}
	return &Damaged{path, fmt.Errorf("its SHA-256 is %s, and was %s", got, a.Digest)}
}
