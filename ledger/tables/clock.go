package tables

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"indoubt/ledger"
)

// MetaGap is the name of ledger.Record.Gap in meta.
const MetaGap = "clock.gap_at"

// Stepped writes down that the wall clock was set.
func (s *Store) Stepped(ctx context.Context, step time.Duration) (first bool, err error) {
	err = s.update(ctx, func(tx *tx) error {
		if err := tx.Lock("meta:clock"); err != nil {
			return err
		}
		meta, err := Meta(tx.Tx)
		if err != nil {
			return err
		}
		now := tx.now()
		first = !ledger.SameStep(Duration(meta["clock.step_ms"]), step, At(Duration(meta["clock.stepped_at"]).Milliseconds()), now)
		if !first {
			return nil
		}
		for name, value := range map[string]int64{"clock.step_ms": step.Milliseconds(), "clock.stepped_at": Millis(now)} {
			if err := SetMeta(tx.Tx, name, fmt.Sprint(value)); err != nil {
				return err
			}
		}
		if step < 0 {
			err = tx.setBack(now, step.Milliseconds())
		} else { // what must have passed has not
			err = tx.Later(`INSERT INTO meta (name, value) SELECT ?, CAST(at + ? AS text) FROM gap WHERE at > 0
				ON CONFLICT (name) DO UPDATE SET value = excluded.value`, MetaGap, step.Milliseconds())
		}
		if err != nil {
			return err
		}
		e := ledger.StepEvent(step)
		e.At = now
		return tx.event(e)
	})
	return first, err
}

// setBack moves what is to happen with the clock.
func (tx *tx) setBack(now time.Time, step int64) error {
	return tx.Later(`UPDATE open_operations SET read_at = CASE WHEN read_at + ?1 > ?2 THEN read_at + ?1 ELSE ?2 END WHERE read_at > ?2 AND read_at < ?3`,
		step, Millis(now), Millis(ledger.Never))
}

// Duration is a number of milliseconds from the ledger; what is not one is none.
func Duration(text string) time.Duration {
	n, _ := strconv.ParseInt(text, 10, 64)
	return time.Duration(n) * time.Millisecond
}

// Meta is what the ledger knows of itself.
func Meta(q Querier) (map[string]string, error) {
	m := map[string]string{}
	_, err := Collect(q, func(rows Rows) (none struct{}, err error) {
		var name, value string
		err = rows.Scan(&name, &value)
		m[name] = value
		return none, err
	}, `SELECT name, value FROM meta`)
	return m, err
}

// SetMeta writes down something of it.
func SetMeta(tx Tx, name, value string) error {
	return tx.Later(`INSERT INTO meta (name, value) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
}
