package reconcile

import (
	"context"
	"fmt"

	"indoubt/ledger"
)

// asOf is the record as the clocks stand at the moment. What is computed from a
// record goes by its clocks, and the wall clock may have been set since it was read.
func asOf(rec ledger.Record, at ledger.Moment) ledger.Record {
	rec.Now, rec.Steady = at.Wall, at.Steady
	return rec
}

// checkClock notices that the wall clock was set. Only the first engine to do so
// writes it down.
func (e *Engine) checkClock(ctx context.Context) error {
	now := e.moment()
	step := now.Step(e.clock)
	switch {
	case step != 0:
		first, err := e.o.Store.Stepped(ctx, step)
		if err != nil {
			return fmt.Errorf("tell of the clock: %w", err)
		}
		if first {
			e.logf("%s", ledger.StepEvent(step).Reason)
		}
	case e.clock.Steady.Boot != "":
		return nil
	}
	e.clock = now
	return nil
}
