package sqlite

import (
	"context"
	"fmt"

	"indoubt/ledger"
)

// step brings a ledger from the schema before it to its own: SQL that runs in
// one transaction with the new version number.
type step struct {
	version int
	sql     string
}

// steps lead from an empty file to the newest schema. A published step never
// changes; what comes after it is a new step.
var steps = []step{
	{1, schema},
}

// migrate runs the steps that a ledger lacks, all in one transaction: a ledger
// is never between two schemas.
func migrate(ctx context.Context, s *Store, steps []step, create bool) error {
	newest := steps[len(steps)-1].version
	return s.writer.do(ctx, func(tx *tx) error {
		var app, has int
		if err := tx.scan(`SELECT application_id, user_version FROM pragma_application_id, pragma_user_version`, nil, &app, &has); err != nil {
			return err
		}
		switch {
		case app == applicationID && has == newest:
			return nil
		case has > newest: // migrated since it was looked at
			return &NewerError{s.path, has, newest}
		case has == 0 && !create:
			return &ForeignError{s.path, "it is empty"}
		}
		for _, st := range steps {
			if st.version <= has {
				continue
			}
			if err := tx.script(st.sql); err != nil {
				return fmt.Errorf("bring the ledger from schema %d to %d: %w", has, st.version, translate(s.path, err))
			}
		}
		if has == 0 {
			if err := s.foundIn(tx); err != nil {
				return err
			}
		}
		return tx.script(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, newest))
	})
}

// foundIn writes down when and where the ledger was made.
func (s *Store) foundIn(tx *tx) error {
	h, err := homeOf(s.path)
	if err != nil {
		return fmt.Errorf("look at the ledger's file: %w", err)
	}
	if err := tx.setMeta("id", ledger.NewID()); err != nil {
		return err
	}
	if err := tx.setMeta("created_at", fmt.Sprint(ms(s.now()))); err != nil {
		return err
	}
	return tx.setHome(h)
}
