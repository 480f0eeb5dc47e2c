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
	"os"
	"path/filepath"
	"runtime"
	"time"

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
	if f.out == nil {
		return nil
	}
	f.out.Close()
	if !f.named {
		_ = os.Remove(f.path() + begunSuffix) // a rest of one does no harm
	}
	f.record.ClosedAt = time.Now()
	return s.ChangeArchive(context.WithoutCancel(ctx), f.record)
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
	if runtime.GOOS == "windows" { // a directory cannot be synced there
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

var errFound = errors.New("found")

// Find reads an operation from the file of its archive in a directory. Errors:
// ledger.ErrNotFound where the file does not have it.
func Find(dir, name, id string) (ledger.Whole, error) {
	var found ledger.Whole
	f, err := os.Open(filepath.Join(dir, filepath.Base(name)))
	if err != nil {
		return found, fmt.Errorf("open the archive: %w", err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return found, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	begins, err := encoded(map[string]any{"operation": map[string]string{"id": id}})
	if err != nil {
		return found, err
	}
	begins = bytes.TrimRight(begins, "}\n")
	err = eachLine(gz, func(line []byte) error {
		if !bytes.HasPrefix(line, begins) {
			return nil
		}
		found = ledger.Whole{}
		if err := json.Unmarshal(line, &found); err != nil {
			return err
		}
		return errFound
	})
	switch {
	case errors.Is(err, errFound):
		return found, nil
	case err != nil:
		return found, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return found, fmt.Errorf("%w: %s in %s", ledger.ErrNotFound, id, f.Name())
}
