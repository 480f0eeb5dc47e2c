package reconcile

import (
	"context"
	"fmt"
	"math"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// tardy is how late a turn may still be taken.
const tardy = 50 * time.Millisecond

// every is the time between two turns at a downstream; 0 where it has no rate. It
// is so much longer than the rate says that no second, or no longer stretch for
// which the rate allows one request, sees more than that when some come late.
func every(rule policy.Downstream) time.Duration {
	if rule.RatePerSecond <= 0 {
		return 0
	}
	between := float64(time.Second) / rule.RatePerSecond
	return time.Duration(math.Min(math.Ceil(between+float64(tardy)*min(1, 1/rule.RatePerSecond)), float64(365*24*time.Hour)))
}

// turn waits for a free slot and, where there is a rate, for a turn that the
// ledger gives, so that all its engines keep to the rate together. Whoever comes
// late for a turn, because the program or its clock stood still, takes another
// one: what waited must not leave at once. A turn that is too far ahead gives a
// *waitError.
func (d *downstream) turn(ctx context.Context) (done func(), err error) {
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for late := tardy; ; late *= 2 { // longer each time, else a slow machine would never do anything
		turn, err := d.reserve(ctx)
		if err != nil {
			<-d.slots
			return nil, err
		}
		select {
		case d.all <- struct{}{}:
		case <-ctx.Done():
			<-d.slots
			return nil, ctx.Err()
		}
		if turn.IsZero() || d.wall().Sub(turn) <= late {
			return func() { <-d.all; <-d.slots }, nil
		}
		<-d.all
	}
}

// reserve gets a turn from the ledger and waits for it; the zero time where
// there is no rate.
func (d *downstream) reserve(ctx context.Context) (time.Time, error) {
	if d.every == 0 {
		return time.Time{}, nil
	}
	turn, mine, err := d.turns.Pace(ctx, d.name, d.wall(), d.every, ledger.MaxPatience(d.every))
	switch {
	case err != nil:
		return turn, fmt.Errorf("the ledger gives no turn to ask %s: %w", d.name, err)
	case !mine:
		wait := turn.Sub(d.wall())
		return turn, &waitError{d.now().Add(wait), fmt.Sprintf("the rate of %s is used up for %s", d.name, policy.Brief(wait))}
	}
	return turn, sleep(ctx, turn.Sub(d.wall()))
}
