package tables

import (
	"context"
	"errors"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
)

// KeyCheck names in meta what the key of a ledger's digests is checked by.
const KeyCheck = "digests.check"

// DigestKey reads the key that the ledger knows the check value of. Where it knows none
// yet, it is made if that is asked for, and else nil. known is what was read of the
// ledger before, if anything.
func DigestKey(ctx context.Context, db Database, known map[string]string, at digestkey.Place, make bool) (key []byte, err error) {
	check := known[KeyCheck]
	if check == "" {
		err = db.Brief(ctx, func(q Querier) error {
			m, err := Meta(q)
			check = m[KeyCheck]
			return err
		})
	}
	switch {
	case err != nil:
		return nil, err
	case check != "":
		return digestkey.Checked(at, check)
	case !make:
		return nil, nil
	}
	err = db.Update(ctx, func(tx Tx) error {
		if err := tx.Lock(KeyCheck); err != nil {
			return err
		}
		m, err := Meta(tx)
		if err != nil {
			return err
		}
		if check := m[KeyCheck]; check != "" { // another process was first
			key, err = digestkey.Checked(at, check)
			return err
		}
		if key, err = at.Make(); err != nil {
			return err
		}
		return SetMeta(tx, KeyCheck, digestkey.Check(key))
	})
	return key, err
}

// KeyFinding is what an examination says of a key that was read, or not: who only looks
// needs none.
func KeyFinding(err error) ledger.Finding {
	f := ledger.Finding{Check: "digest key", Level: ledger.LevelFail, Err: err}
	var no *digestkey.Error
	switch {
	case err == nil:
		f.Level, f.Found = ledger.LevelOK, "it is the ledger's"
	case errors.As(err, &no) && no.Absent:
		f.Level = ledger.LevelWarn
	}
	return f
}
