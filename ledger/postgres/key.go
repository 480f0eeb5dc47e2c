package postgres

import (
	"context"

	"indoubt/ledger/digestkey"
	"indoubt/ledger/store"
)

// The key of the digests that stand for secrets is never in the database: it lies in a
// file that each recorder is given. The owner of the ledger makes it.

// DigestKey is the ledger's key. Errors: *digestkey.Error.
func (s *Store) DigestKey(ctx context.Context) ([]byte, error) {
	key, err := store.Key(ctx, database{s.handle}, digestkey.Named(s.opts.KeyFile), false)
	if key == nil && err == nil {
		err = &digestkey.Error{Absent: true, None: true, Why: "this ledger has no key for the digests that stand for secrets",
			Do: "its owner makes one: " + digestkey.Variable + "=FILE indoubt init"}
	}
	return key, err
}

// KeyApart reports whether a recorder must bring the key. Without one, what holds a
// secret is refused.
func (s *Store) KeyApart() bool { return store.HasKey(s.meta) }
