package sqlite

import (
	"context"
	"time"

	"indoubt/ledger"
)

// Tallies implements ledger.Store.
func (s *Store) Tallies(context.Context) ([]ledger.Tally, error) { return nil, nil }

// Census implements ledger.Store.
func (s *Store) Census(context.Context, time.Time) ([]ledger.Census, error) { return nil, nil }

// Accuracy implements ledger.Store.
func (s *Store) Accuracy(context.Context, time.Time) ([]ledger.Accuracy, error) { return nil, nil }
