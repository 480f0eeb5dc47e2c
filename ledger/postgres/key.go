package postgres

import (
	"context"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/store"
)

// The key of the digests that stand for secrets is never in the database: it lies in a
// file that each recorder is given. The owner of the ledger makes it.

const makeKey = digestkey.Variable + "=FILE indoubt init"

// DigestKey is the ledger's key. Errors: *digestkey.Error.
func (s *Store) DigestKey(ctx context.Context) ([]byte, error) {
	key, err := store.Key(ctx, database{s.handle}, s.keyPlace(), false)
	if key == nil && err == nil {
		err = &digestkey.Error{Absent: true, None: true, Why: "this ledger has no key for the digests that stand for secrets", Do: "its owner makes one: " + makeKey}
	}
	return key, err
}

// HasKey reports whether the ledger had a key when it was opened.
func (s *Store) HasKey(context.Context) (bool, error) { return s.KeyApart(), nil }

// KeyApart reports whether a recorder must bring the key. Without one, what holds a
// secret is refused.
func (s *Store) KeyApart() bool { return store.HasKey(s.meta) }

// MakeKey gives the ledger its key, from the file that is named or in it.
func (s *Store) MakeKey(ctx context.Context) error {
	_, err := store.Key(ctx, database{s.handle}, digestkey.Named(s.opts.KeyFile), true)
	return err
}

// ExamineKey compares the key that this process was given with the ledger's.
func (s *Store) ExamineKey(ctx context.Context) []ledger.Finding {
	_, err := s.DigestKey(ctx)
	return []ledger.Finding{store.KeyFinding(err)}
}

func (s *Store) keyPlace() digestkey.Place {
	if s.opts.KeyFile == "" {
		return unnamed{}
	}
	return digestkey.Named(s.opts.KeyFile)
}

// unnamed is a key that this process was not given.
type unnamed struct{}

func (unnamed) Path() string { return "" }

func (unnamed) Read() ([]byte, error) {
	return nil, &digestkey.Error{Absent: true, Why: "this ledger has a key for the digests that stand for secrets, and " + digestkey.Variable + " names no file with it",
		Do: "give this recorder the file that the others have; who only looks needs none"}
}

func (u unnamed) Make() ([]byte, error) { return u.Read() }
