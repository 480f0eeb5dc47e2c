package store

import (
	"cmp"
	"context"
	"sync/atomic"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
)

// masks reads the key of the ledger's digests, by which redacted texts are found.
type masks struct {
	db   Database
	at   digestkey.Place
	read atomic.Pointer[ledger.Mask]
}

// get is nil where this process was given no key, and while the ledger has none.
// Errors: *digestkey.Error where the key is not the ledger's.
func (m *masks) get(ctx context.Context) (ledger.Mask, error) {
	if mask := m.read.Load(); mask != nil {
		return *mask, nil
	}
	if m.at.Path() == "" {
		return nil, nil
	}
	key, err := Key(ctx, m.db, m.at, false)
	if err != nil || key == nil {
		return nil, err
	}
	mask := ledger.Mask(key)
	m.read.Store(&mask)
	return mask, nil
}

const checkQuery = `SELECT coalesce((SELECT value FROM meta WHERE name = '` + metaKey + `'), '')`

// lacks says why this process, which has no key, cannot tell whether a name was redacted.
func (m *masks) lacks(tx Tx) error {
	var check string
	if err := One(tx, []any{&check}, checkQuery); err != nil || check == "" {
		return err
	}
	_, err := digestkey.Checked(m.at, check)
	return cmp.Or(err, ledger.ErrBusy) // it was made since
}

// give gives it to the record of what was redacted.
func (m *masks) give(ctx context.Context, rec *ledger.Record) {
	if !rec.Operation.RedactedAt.IsZero() {
		rec.Mask, _ = m.get(ctx)
	}
}
