package sqlite

import (
	"context"
	"errors"
	"time"

	"indoubt/ledger"
)

// Leases implements ledger.Store.
func (s *Store) Leases(ctx context.Context, ids []string, holder, digest string, ttl time.Duration) ([]ledger.Lease, error) {
	var out []ledger.Lease
	for _, id := range ids {
		l, err := s.Lease(ctx, id, holder, digest, ttl)
		switch {
		case err == nil:
			out = append(out, l)
		case !errors.As(err, new(*ledger.LeasedError)):
			return out, err
		}
	}
	return out, nil
}

// Tallies implements ledger.Store.
func (s *Store) Tallies(context.Context) ([]ledger.Tally, error) { return nil, nil }

// Census implements ledger.Store.
func (s *Store) Census(context.Context, time.Time) ([]ledger.Census, error) { return nil, nil }

// Accuracy implements ledger.Store.
func (s *Store) Accuracy(context.Context, time.Time) ([]ledger.Accuracy, error) { return nil, nil }
