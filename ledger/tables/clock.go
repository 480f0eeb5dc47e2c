package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"indoubt/ledger"
)

// MetaGap is the name of ledger.Record.Gap in meta.
const MetaGap = "clock.gap_at"

// metaSeen is the name of what ledger.ClockLead.Look keeps.
const metaSeen = "clock.seen"

// Stepped compares the clocks with how they stood the last time.
func (s *Store) Stepped(ctx context.Context) (time.Duration, error) {
	var meta map[string]string
	var m ledger.Moment
	if err := s.db.Brief(ctx, func(q Querier) (err error) {
		meta, err = Meta(q)
		m = q.Moment()
		return err
	}); err != nil {
		return 0, err
	}
	if _, keep := m.ClockLead().Look(seenBefore(meta)); keep == nil {
		return 0, nil
	}
	var step time.Duration
	err := s.update(ctx, func(tx *tx) error {
		if err := tx.Lock("meta:clock"); err != nil {
			return err
		}
		meta, err := Meta(tx.Tx)
		if err != nil {
			return err
		}
		m := tx.Moment()
		var keep []ledger.Seen
		if step, keep = m.ClockLead().Look(seenBefore(meta)); keep == nil { // another process of this host was first
			return nil
		}
		if err := SetMeta(tx.Tx, metaSeen, string(ledger.EncodeJSON(keep))); err != nil {
			return err
		}
		if step == 0 {
			return nil
		}
		for name, value := range map[string]string{"clock.step_ms": fmt.Sprint(step.Milliseconds()), "clock.stepped_at": fmt.Sprint(Millis(m.Wall))} {
			if err := SetMeta(tx.Tx, name, value); err != nil {
				return err
			}
		}
		if step > 0 { // what must have passed has not
			if err := tx.Later(`INSERT INTO meta (name, value) SELECT ?, CAST(at + ? AS text) FROM gap WHERE at > 0
				ON CONFLICT (name) DO UPDATE SET value = excluded.value`, MetaGap, step.Milliseconds()); err != nil {
				return err
			}
		}
		if step < 0 {
			if err := tx.setBack(m.Wall, step.Milliseconds()); err != nil {
				return err
			}
		}
		e := ledger.StepEvent(step)
		e.At = m.Wall
		return tx.event(e)
	})
	return step, err
}

// setBack moves what is to happen with the clock.
func (tx *tx) setBack(now time.Time, step int64) error {
	return tx.Later(`UPDATE open_operations SET read_at = CASE WHEN read_at + ?1 > ?2 THEN read_at + ?1 ELSE ?2 END WHERE read_at > ?2 AND read_at < ?3`,
		step, Millis(now), Millis(ledger.Never))
}

// seenBefore is how each boot last saw the clocks; what cannot be read was not seen.
func seenBefore(meta map[string]string) (seen []ledger.Seen) {
	if json.Unmarshal([]byte(meta[metaSeen]), &seen) != nil {
		return nil
	}
	return seen
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
