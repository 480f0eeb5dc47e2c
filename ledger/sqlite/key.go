package sqlite

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// keyFile is the ending of the file beside the ledger that holds its key.
const keyFile = ".key"

// KeyError: the key of the ledger's digests is not the one they were made with.
// Under another one the same secret would be told by another digest, and the same
// request would count as a new one.
type KeyError struct{ Path, Why string }

func (e *KeyError) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble says what another key would do.
func (e *KeyError) Trouble(name func(string) string) ledger.Trouble {
	return ledger.Trouble{Code: "digest_key", Message: "the key of the ledger's digests, " + name(e.Path) + ", " + e.Why,
		Do: "bring back the one that belongs to this ledger; under another one the same request would count as a new one"}
}

// DigestKey is the key of the digests that stand for secrets. It belongs to the
// ledger, for all its recorders, and lies beside it; the ledger keeps a value to
// check it by. It is made on first need. Errors: *KeyError, *SideFileError.
func (s *Store) DigestKey(ctx context.Context) ([]byte, error) {
	m, err := s.meta(ctx)
	if err != nil {
		return nil, err
	}
	if check := m["digests.check"]; check != "" {
		return checkedKey(s.path, check)
	}
	if s.writer == nil { // nothing here was told by its digest yet
		return newKey()
	}
	var key []byte
	err = s.write(ctx, func(tx *tx) error {
		m, err := tables.Meta(tx)
		if err != nil {
			return err
		}
		if check := m["digests.check"]; check != "" { // another process was first
			key, err = checkedKey(s.path, check)
			return err
		}
		if key, err = makeKey(s.path); err != nil {
			return err
		}
		return tables.SetMeta(tx, "digests.check", keyCheck(key))
	})
	return key, err
}

// checkedKey reads the key that the ledger knows the check value of.
func checkedKey(path, check string) ([]byte, error) {
	f, err := openSide(path, keyFile, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &KeyError{path + keyFile, "is not there"}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	key, err := readKey(f)
	switch {
	case err != nil:
		return nil, &KeyError{path + keyFile, "holds no key"}
	case keyCheck(key) != check:
		return nil, &KeyError{path + keyFile, "is another one"}
	}
	return key, nil
}

// makeKey makes the key's file, or takes one that was made by a process that died
// before the ledger knew of it.
func makeKey(path string) ([]byte, error) {
	f, err := openSide(path, keyFile, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if key, err := readKey(f); err == nil {
		return key, nil
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	text := hex.EncodeToString(key) + "\n"
	if _, err = f.WriteAt([]byte(text), 0); err == nil {
		err = errors.Join(f.Truncate(int64(len(text))), f.Sync(), syncDir(filepath.Dir(path)))
	}
	if err != nil {
		return nil, fmt.Errorf("write the key of the ledger's digests: %w", err)
	}
	return key, nil
}

func newKey() ([]byte, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

func readKey(f *os.File) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, 1024))
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err == nil && len(key) < 16 {
		err = errors.New("too short")
	}
	return key, err
}

// keyCheck tells keys apart and nothing about them.
func keyCheck(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("indoubt: the key of a ledger's digests"))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

var _ interface {
	DigestKey(context.Context) ([]byte, error)
	ledger.Store
} = (*Store)(nil)
