package postgres

import (
	"context"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// note has the ledger know that it is in another database than before. What would have
// noted it was refused, and has left nothing.
func (s *handle) note() { s.aside(`SELECT indoubt.adopted()`) }

// Adopt says that a person has looked at what may be missing since the database failed
// over or was restored: the ledger is at home there from now on. It does nothing where
// that is so already. Errors: *Error for one who is not an operator.
func (s *Store) Adopt(ctx context.Context, actor ledger.Actor) error {
	change := ledger.NewID()
	return s.Update(ctx, func(t tables.Tx) error {
		t.Known(change)
		for _, name := range timeouts {
			if err := t.Quietly(`SELECT set_config('` + name + `', '0', true)`); err != nil {
				return err
			}
		}
		rows, err := t.Query(`SELECT at, missing_ms FROM indoubt.adopt()`)
		if err != nil {
			return err
		}
		defer rows.Close()
		if !rows.Next() {
			return rows.Err()
		}
		var at string
		var missing int64
		if err := rows.Scan(&at, &missing); err != nil {
			return err
		}
		over := ledger.Failover{At: timeOf(at), Missing: time.Duration(missing) * time.Millisecond}
		return tables.AddEvent(t, dialect, ledger.Event{ID: change, Verb: "adopt", Actor: actor, Reason: "adopted here: " + over.String()})
	})
}

// OnlyPrimary refuses an address where several hosts take writes: to adopt the ledger on
// one of them leaves the others as they are.
func (s *Store) OnlyPrimary(ctx context.Context) error {
	if all := s.address.primaries(ctx); len(all) > 1 {
		return &Error{Rivals, s.address.shown, toldOf(all), "", nil}
	}
	return nil
}
