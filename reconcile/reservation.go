package reconcile

import (
	"context"
	"fmt"
	"math"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// tardy is how late a reserved read may still begin.
const tardy = 50 * time.Millisecond

// every is the time between two reads of a downstream; 0 where it has no rate. It
// is so much longer than the rate says that no second, or no longer stretch for
// which the rate allows one request, sees more than that when some come late.
func every(rule policy.Downstream) time.Duration {
	if rule.RatePerSecond <= 0 {
		return 0
	}
	between := float64(time.Second) / rule.RatePerSecond
	return time.Duration(math.Min(math.Ceil(between+float64(tardy)*min(1, 1/rule.RatePerSecond)), float64(365*24*time.Hour)))
}

// admit waits for a free slot and, where there is a rate, for a time that the ledger
// reserves, so that all its engines keep to the rate together. What others wait for
// comes first. A caller that is late, because the program or its clock stood still,
// reserves again: requests that waited must not leave all at once. A time that is too
// far ahead gives a *waitError.
func (d *downstream) admit(ctx context.Context, first bool) (done func(), err error) {
	handed := d.handed
	if !first {
		handed = nil
	}
	select {
	case d.slots <- struct{}{}:
	case <-handed:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for late := tardy; ; late *= 2 { // longer each time, else a slow machine would never do anything
		at, err := d.reserve(ctx)
		if err != nil {
			d.free()
			return nil, err
		}
		select {
		case d.all <- struct{}{}:
		case <-ctx.Done():
			d.free()
			return nil, ctx.Err()
		}
		if at.IsZero() || d.wall().Sub(at) <= late {
			return func() { <-d.all; d.free() }, nil
		}
		<-d.all
	}
}

// free hands a slot to a caller that comes first, or gives it up.
func (d *downstream) free() {
	select {
	case d.handed <- struct{}{}:
	default:
		<-d.slots
	}
}

// reserve reserves a time in the ledger and waits for it; the zero time where
// there is no rate.
func (d *downstream) reserve(ctx context.Context) (time.Time, error) {
	if d.every == 0 {
		return time.Time{}, nil
	}
	at, mine, err := d.rates.ReserveRead(ctx, d.name, d.wall(), d.every, ledger.MaxPatience(d.every))
	switch {
	case err != nil:
		return at, fmt.Errorf("the ledger reserves no read of %s: %w", d.name, err)
	case !mine:
		wait := at.Sub(d.wall())
		return at, &waitError{d.now().Add(wait), fmt.Sprintf("the rate of %s is used up for %s", d.name, policy.Brief(wait))}
	}
	return at, sleep(ctx, at.Sub(d.wall()))
}
