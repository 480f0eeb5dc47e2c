package reconcile

import (
	"context"
	"fmt"
	"math"
	"time"

	"indoubt/policy"
)

const (
	// tardy is how late a request may still leave after its time.
	tardy = 50 * time.Millisecond
	// leastPatience is how far ahead times are given away, where two requests are not further apart.
	leastPatience = 10 * time.Second
)

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

// admit waits for a free slot and, where there is a rate, for the next time of it. A caller
// that is late, because the program or its clock stood still, takes another time: requests
// that waited must not leave all at once. A time that is too far ahead gives a *waitError.
func (d *downstream) admit(ctx context.Context) (done func(), err error) {
	d.mu.Lock()
	slots := d.slots
	d.mu.Unlock()
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for late := tardy; ; late *= 2 { // longer each time, else a slow machine would never do anything
		at, err := d.reserve(ctx)
		if err != nil {
			<-slots
			return nil, err
		}
		if at.IsZero() || d.wall().Sub(at) <= late {
			return func() { <-slots }, nil
		}
	}
}

// reserve takes the next time of the rate and waits for it; the zero time where there is no
// rate. Times that pass unused are not saved up.
func (d *downstream) reserve(ctx context.Context) (at time.Time, err error) {
	d.mu.Lock()
	if d.every == 0 {
		d.mu.Unlock()
		return at, nil
	}
	now := d.wall()
	if at = now; d.next.After(now) {
		at = d.next
	}
	wait := at.Sub(now)
	if wait > max(leastPatience, 2*d.every) {
		d.mu.Unlock()
		return at, &waitError{d.now().Add(wait), fmt.Sprintf("the rate of %s is used up for %s", d.name, policy.Brief(wait))}
	}
	d.next = at.Add(d.every)
	d.mu.Unlock()
	return at, sleep(ctx, wait)
}
