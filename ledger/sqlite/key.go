package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"

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

// keyPlace is where the ledger's key lies.
func (s *handle) keyPlace() digestkey.Place {
	if s.opts.KeyFile != "" {
		return digestkey.Named(s.opts.KeyFile)
	}
	return beside(s.path)
}

// DigestKey is the key of the digests that stand for secrets. It lies in the file that
// the options name, which only `indoubt init` makes, else beside the ledger, where it is made on first need. Errors:
// *digestkey.Error, *Refusal.
func (s *Store) DigestKey(ctx context.Context) ([]byte, error) {
	at := s.keyPlace()
	key, err := store.Key(ctx, database{s.handle}, at, s.writer != nil && s.opts.KeyFile == "")
	switch {
	case key != nil || err != nil:
		return key, err
	case s.opts.KeyFile != "":
		return at.Read()
	}
	return digestkey.New() // nothing here was told by its digest yet
}

// KeyApart reports whether a recorder must bring the key.
func (s *Store) KeyApart() bool { return false }
