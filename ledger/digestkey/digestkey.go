// Package digestkey reads and makes the key of the digests that stand for secrets. A key
// belongs to a ledger, for all its recorders: under another one the same request would
// count as a new one. The ledger keeps a value to check it by.
package digestkey

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"indoubt/ledger"
)

// Variable names the file with the key. A ledger in a file has its key beside it where
// none is named.
const Variable = "INDOUBT_DIGEST_KEY_FILE"

// Error is why there is no key to record with.
type Error struct {
	Path, Why string // Why alone where no file is named
	Do        string
	Absent    bool // no file is named, or the ledger has no key yet: it can still be looked at
	None      bool // the ledger has no key yet
}

// Is makes errors.Is(err, ledger.ErrNoKey) true where the ledger has no key yet.
func (e *Error) Is(target error) bool { return e.None && target == ledger.ErrNoKey }

func (e *Error) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble says what another key would do.
func (e *Error) Trouble(name func(string) string) ledger.Trouble {
	t := ledger.Trouble{Code: "digest_key", Message: e.Why, Do: e.Do}
	if e.Path != "" {
		t.Message = "the key of the ledger's digests, " + name(e.Path) + ", " + e.Why
	}
	if t.Do == "" {
		t.Do = "bring back the one that belongs to this ledger; under another one the same request would count as a new one"
	}
	return t
}

// Place is where a key lies.
type Place interface {
	Read() ([]byte, error)
	// Make makes the key that is not there yet, and reads one that is.
	Make() ([]byte, error)
	Path() string
}

// Checked reads the key that a ledger knows the check value of.
func Checked(at Place, check string) ([]byte, error) {
	key, err := at.Read()
	if err == nil && Check(key) != check {
		return nil, &Error{Path: at.Path(), Why: "is another one"}
	}
	return key, err
}

// New makes a key.
func New() ([]byte, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// Check tells keys apart and nothing about them.
func Check(key []byte) string {
	return ledger.KeyedDigest(key, "indoubt: the key of a ledger's digests")
}

// Parse reads the text of a key's file.
func Parse(f *os.File) ([]byte, error) {
	const longest = 1024
	text, err := io.ReadAll(io.LimitReader(f, longest+1))
	if err != nil {
		return nil, fmt.Errorf("read the key of the ledger's digests: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	switch {
	case len(strings.TrimSpace(string(text))) == 0:
		return nil, &Error{Path: f.Name(), Why: "is empty"}
	case err != nil || len(text) > longest:
		return nil, &Error{Path: f.Name(), Why: "holds no key (64 hexadecimal digits)"}
	case len(key) < 16:
		return nil, &Error{Path: f.Name(), Why: "is too short (64 hexadecimal digits)"}
	}
	return key, nil
}

// Write makes a key and writes it to its file, durably.
func Write(f *os.File) ([]byte, error) {
	key, err := New()
	if err != nil {
		return nil, err
	}
	text := hex.EncodeToString(key) + "\n"
	if _, err = f.WriteAt([]byte(text), 0); err == nil {
		err = errors.Join(f.Truncate(int64(len(text))), f.Sync(), syncDir(filepath.Dir(f.Name())))
	}
	if err != nil {
		return nil, fmt.Errorf("write the key of the ledger's digests: %w", err)
	}
	return key, nil
}

// Named is a secret file that the environment names. A link to it is followed, as in the
// volumes of Kubernetes.
type Named string

// Path is its name.
func (n Named) Path() string { return string(n) }

// Read reads the key. Errors: *Error.
func (n Named) Read() ([]byte, error) {
	if n == "" {
		return nil, &Error{Absent: true, Why: "this ledger has a key for the digests that stand for secrets, and " +
			Variable + " names no file with it",
			Do: "name the file that the recorders have; who only looks needs none"}
	}
	f, err := os.OpenFile(string(n), os.O_RDONLY|nonblock, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{Path: string(n), Why: "is not there"}
	case errors.Is(err, fs.ErrPermission):
		return nil, &Error{Path: string(n), Why: "cannot be read by this account", Do: "give it to the account that records: chown, and chmod 600"}
	case err != nil:
		return nil, fmt.Errorf("open the key of the ledger's digests: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at the key of the ledger's digests: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{Path: string(n), Why: "is no regular file"}
	}
	if why, do := open(info); why != "" {
		return nil, &Error{Path: string(n), Why: why, Do: do + " " + string(n)}
	}
	return Parse(f)
}

// Make makes the file where there is none.
func (n Named) Make() ([]byte, error) {
	f, err := os.OpenFile(string(n), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return n.Read()
	}
	switch dir := filepath.Dir(string(n)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{Path: string(n), Why: "cannot be made: there is no directory " + dir, Do: "mkdir -p " + dir + ", and say it again"}
	case errors.Is(err, fs.ErrPermission):
		return nil, &Error{Path: string(n), Why: "cannot be made by this account", Do: "name a file where it may write in " + Variable}
	case err != nil:
		return nil, fmt.Errorf("make the key of the ledger's digests: %w", err)
	}
	key, err := Write(f)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(string(n)) // no recorder has read it: the ledger does not know it yet
		return nil, err
	}
	return key, nil
}
