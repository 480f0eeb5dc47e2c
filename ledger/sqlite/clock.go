package sqlite

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"indoubt/ledger"
)

// longestLease is how long a lease may last on after the clock was set back.
const longestLease = 5 * time.Minute

// Stepped compares the clocks with how they stood the last time.
func (s *Store) Stepped(ctx context.Context) (time.Duration, error) {
	meta, err := s.meta(ctx)
	if err != nil {
		return 0, err
	}
	if now := s.moment().Lead(); now.Boot == leadFrom(meta).Boot && now.Step(leadFrom(meta)) == 0 {
		return 0, nil
	}
	var step time.Duration
	err = s.write(ctx, func(tx *tx) error {
		meta, err := readMeta(tx)
		if err != nil {
			return err
		}
		m := s.moment()
		now := m.Lead()
		step = now.Step(leadFrom(meta))
		if now.Boot == meta["clock.boot"] && step == 0 { // another process was first
			return nil
		}
		for name, value := range map[string]string{"clock.boot": now.Boot, "clock.lead_ms": fmt.Sprint(now.By.Milliseconds())} {
			if err := tx.setMeta(name, value); err != nil {
				return err
			}
		}
		if step == 0 {
			return nil
		}
		for name, value := range map[string]string{"clock.step_ms": fmt.Sprint(step.Milliseconds()), "clock.stepped_at": fmt.Sprint(ms(m.Wall))} {
			if err := tx.setMeta(name, value); err != nil {
				return err
			}
		}
		if step < 0 {
			if err := tx.setBack(ms(m.Wall), step.Milliseconds()); err != nil {
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
func (tx *tx) setBack(now, step int64) error {
	err := tx.exec(`UPDATE open_operations SET read_at = max(read_at + ?, ?) WHERE read_at > ? AND read_at < ?`, step, now, now, ms(ledger.Never))
	if err != nil {
		return err
	}
	until := now + longestLease.Milliseconds()
	return tx.exec(`UPDATE leases SET expires_at = ? WHERE expires_at > ?`, until, until)
}

func leadFrom(meta map[string]string) ledger.Lead {
	return ledger.Lead{Boot: meta["clock.boot"], By: millis(meta["clock.lead_ms"])}
}

// millis is a number of milliseconds from the ledger; what is not one is none.
func millis(text string) time.Duration {
	n, _ := strconv.ParseInt(text, 10, 64)
	return time.Duration(n) * time.Millisecond
}
