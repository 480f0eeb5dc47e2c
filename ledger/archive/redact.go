package archive

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"indoubt/ledger"
)

// Redaction says which operation is redacted in the files of a directory.
type Redaction struct {
	Dir    string
	File   string // only this one; "": all that may have it
	ID     string
	Begun  time.Time // when it was begun, where that is known
	Key    bool      // the key, too
	Actor  ledger.Actor
	Reason string
	Now    time.Time

	step func(name string) error // of a test
}

// redactedSuffix is that of a file which is going to take the place of another one.
const redactedSuffix = ".redacted"

// Redact takes the text of an operation out of the archives that may have it, and returns
// the files that were written anew. Each is written beside the old one, synced and read
// back; then the ledger has its digest, with an event; then it takes the place of the old
// one. Where that was ended between two steps, the next call goes on. Errors:
// *Damaged, ErrBusyDir, fs.ErrNotExist where a file that may have it is missing.
func Redact(ctx context.Context, s ledger.Archiver, r Redaction) (done []string, err error) {
	if r.step == nil {
		r.step = func(string) error { return nil }
	}
	all, err := s.Archives(ctx)
	if err != nil || !slices.ContainsFunc(all, r.concerns) {
		return nil, err
	}
	unlock, err := lockDir(r.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if all, err = s.Archives(ctx); err != nil { // as another redaction left them
		return nil, err
	}
	for _, a := range all {
		if !r.concerns(a) {
			continue
		}
		changed, failed := r.file(ctx, s, a)
		if changed {
			done = append(done, a.File)
		}
		err = errors.Join(err, failed)
	}
	return done, err
}

// concerns reports whether an archive may have the operation.
func (r Redaction) concerns(a ledger.Archive) bool {
	return a.Digest != "" && (r.File == "" || a.File == r.File) && May(a, r.ID, r.Begun)
}

// file redacts the operation in a file.
func (r Redaction) file(ctx context.Context, s ledger.Archiver, a ledger.Archive) (changed bool, err error) {
	real, err := filepath.EvalSymlinks(filepath.Join(r.Dir, filepath.Base(a.File)))
	if err != nil {
		return false, fmt.Errorf("open the archive: %w", err)
	}
	r.Dir, a.File = filepath.Split(real) // what a link names is written anew, not the link
	resumed, err := resume(r.Dir, a)
	if err != nil {
		return false, err
	}
	w, err := Find(r.Dir, a.File, r.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		return resumed, nil
	}
	if err != nil {
		return resumed, err
	}
	was, err := encoded(w)
	if err != nil {
		return resumed, err
	}
	is, err := encoded(w.Without(r.Key, r.Now, r.Actor.Name))
	if err != nil || bytes.Equal(was, is) {
		return resumed, err
	}
	place := filepath.Join(r.Dir, filepath.Base(a.File))
	seal, err := r.write(place, is)
	if err == nil {
		err = r.step("written")
	}
	if err != nil {
		return resumed, fmt.Errorf("write %s: %w", place+redactedSuffix, err)
	}
	seal.ID, seal.Was = a.ID, a.Digest
	if err := s.Reseal(ctx, seal); err != nil {
		return resumed, err
	}
	if err := r.step("sealed"); err != nil {
		return resumed, err
	}
	return true, replace(r.Dir, place)
}

// write writes the file with another line for the operation, and reads it back.
func (r Redaction) write(place string, line []byte) (seal ledger.Resealing, err error) {
	out, err := os.OpenFile(place+redactedSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return seal, err
	}
	defer out.Close()
	buffer := bufio.NewWriterSize(out, 1<<20)
	gz, err := gzip.NewWriterLevel(buffer, gzip.BestSpeed)
	if err != nil {
		return seal, err
	}
	begins, err := beginning(r.ID)
	if err != nil {
		return seal, err
	}
	written := sha256.New()
	err = read(r.Dir, filepath.Base(place), func(was []byte) (bool, error) {
		if bytes.HasPrefix(was, begins) {
			was = line
		}
		written.Write(was)
		_, err := gz.Write(was)
		return true, err
	})
	if err = errors.Join(err, r.step("half"), gz.Close(), buffer.Flush(), out.Sync()); err != nil {
		return seal, err
	}
	back := sha256.New()
	err = read(r.Dir, filepath.Base(place)+redactedSuffix, func(line []byte) (bool, error) {
		back.Write(line)
		return true, nil
	})
	if err == nil && !bytes.Equal(back.Sum(nil), written.Sum(nil)) {
		err = errors.New("read it back: it is not what was written")
	}
	if err != nil {
		return seal, err
	}
	digest, size, err := digestOf(place + redactedSuffix)
	return ledger.Resealing{Digest: digest, Size: size, Operations: []string{r.ID}, Actor: r.Actor, Reason: r.Reason}, errors.Join(err, syncDir(r.Dir))
}

// resume ends what an earlier redaction of the file began: what the ledger has the digest
// of takes its place, and what it does not is removed.
func resume(dir string, a ledger.Archive) (resumed bool, err error) {
	err = Check(dir, a)
	place := filepath.Join(dir, filepath.Base(a.File))
	if err == nil {
		if err := os.Remove(place + redactedSuffix); !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		return false, nil
	}
	if errors.Is(err, ErrUnfinished) {
		return true, replace(dir, place)
	}
	return false, err
}

// replace has the redacted file take the place of the other one.
func replace(dir, place string) error {
	if err := os.Rename(place+redactedSuffix, place); err != nil {
		return fmt.Errorf("replace %s: %w", place, err)
	}
	return syncDir(dir)
}

func digestOf(path string) (digest string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	sum := sha256.New()
	size, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), size, err
}

// ErrUnfinished: a file was redacted, and has not taken its place yet.
var ErrUnfinished = errors.New("the redaction of a file was ended before the new one took its place")

// ErrBusyDir: another redaction is at work on the files of a directory.
var ErrBusyDir = errors.New("the files are being redacted by another process")

// beginning is that of the line of an operation.
func beginning(id string) ([]byte, error) {
	begins, err := encoded(map[string]any{"operation": map[string]string{"id": id}})
	return bytes.TrimRight(begins, "}\n"), err
}

// Held finds an operation in the files of a directory that may have it, the newest first.
// Errors: ledger.ErrNotFound, *Damaged, fs.ErrNotExist.
func Held(dir, file string, all []ledger.Archive, id string) (ledger.Whole, error) {
	for _, a := range slices.Backward(all) {
		if !(Redaction{File: file, ID: id}).concerns(a) {
			continue
		}
		w, err := Find(dir, a.File, id)
		if err == nil {
			w.Operation.Archive = a.File
		}
		if !errors.Is(err, ledger.ErrNotFound) {
			return w, err
		}
	}
	return ledger.Whole{}, fmt.Errorf("%w: %s", ledger.ErrNotFound, id)
}
