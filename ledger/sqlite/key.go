package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/store"
)

// keyFile is the ending of the file beside the ledger that holds its key.
const keyFile = ".key"

// beside is the place of the key beside the ledger, which all who may write to it share.
type beside string

func (b beside) Path() string { return string(b) + keyFile }

func (b beside) Read() ([]byte, error) {
	f, err := openSide(string(b), keyFile, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &digestkey.Error{Path: b.Path(), Why: "is not there"}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return digestkey.Parse(f)
}

// Make makes the key's file, or takes one that was made by a process that died
// before the ledger knew of it.
func (b beside) Make() ([]byte, error) {
	f, err := openSide(string(b), keyFile, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if key, err := digestkey.Parse(f); err == nil {
		return key, nil
	}
	return digestkey.Write(f)
}

// given is a named file, which only `indoubt init` makes.
type given struct{ digestkey.Named }

func (g given) Make() ([]byte, error) { return g.Read() }

func (s *Store) keyPlace() digestkey.Place {
	if s.opts.KeyFile != "" {
		return given{digestkey.Named(s.opts.KeyFile)}
	}
	return beside(s.path)
}

// DigestKey is the key of the digests that stand for secrets. It lies in the file that
// the options name, else beside the ledger, where it is made on first need. Errors:
// *digestkey.Error, *Refusal.
func (s *Store) DigestKey(ctx context.Context) ([]byte, error) {
	key, err := store.Key(ctx, database{s.handle}, s.keyPlace(), s.writer != nil)
	switch {
	case key != nil || err != nil:
		return key, err
	case s.opts.KeyFile != "":
		return s.keyPlace().Read()
	}
	return digestkey.New() // nothing here was told by its digest yet
}

// HasKey reports whether the ledger has a key yet.
func (s *Store) HasKey(ctx context.Context) (bool, error) {
	m, err := s.meta(ctx)
	return store.HasKey(m), err
}

// KeyApart reports whether a recorder must bring the key.
func (s *Store) KeyApart() bool { return false }

// MakeKey is DigestKey, and makes a file that is named and not there.
func (s *Store) MakeKey(ctx context.Context) error {
	_, err := store.Key(ctx, database{s.handle}, digestkey.Named(s.opts.KeyFile), true)
	return err
}

// ExamineKey compares the key that is there with the ledger's, if it has one yet.
func (s *Store) ExamineKey(ctx context.Context) []ledger.Finding {
	key, err := store.Key(ctx, database{s.handle}, s.keyPlace(), false)
	if key == nil && err == nil {
		return nil
	}
	return []ledger.Finding{store.KeyFinding(err)}
}
