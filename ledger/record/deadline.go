package record

import (
	"context"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/wire/transmit"
)

// SendDeadline is how long a sender may go on (I3). It counts from before the
// ledger was asked, by the monotonic clock, so that it never ends later than the
// ledger's own deadline. The wall clock counts too, because a machine that slept
// has not counted that time. The zero value is no deadline.
type SendDeadline struct {
	length time.Duration // of one extension
	until  time.Time     // monotonic
	wall   time.Time     // the ledger's deadline
	clock  ledger.Clock
}

func deadlineOf(a ledger.Attempt, asked time.Time, clock ledger.Clock) SendDeadline {
	length := a.DeadlineAt.Sub(a.StartedAt)
	return SendDeadline{length: length, until: asked.Add(length), wall: a.DeadlineAt, clock: clock}
}

// Left is what remains, zero or less when the sender must have stopped.
func (d SendDeadline) Left() time.Duration {
	now := d.clock()
	return min(d.until.Sub(now), d.wall.Sub(now.Round(0)))
}

// Length is the time that one heartbeat adds.
func (d SendDeadline) Length() time.Duration { return d.length }

// Now is the time by the clock of the deadline.
func (d SendDeadline) Now() time.Time { return d.clock() }

// Extend moves the deadline after a heartbeat that began at asked.
func (d *SendDeadline) Extend(asked, wall time.Time) {
	d.until, d.wall = asked.Add(d.length), wall
}

// Every is the time between heartbeats: two may be missed.
func (d SendDeadline) Every() time.Duration { return d.length / 3 }

// Margin is how long before the deadline a command is told to end when no
// heartbeat came through, so that it is gone by then.
func (d SendDeadline) Margin(grace time.Duration) time.Duration { return min(grace, d.length/5) }

// context ends when the deadline has passed. A timer alone would stand still
// while a machine sleeps.
func (d SendDeadline) context(ctx context.Context) (context.Context, context.CancelFunc) {
	left := d.Left()
	ctx, cancel := context.WithTimeoutCause(ctx, left, transmit.ErrPastDeadline)
	if left <= time.Second {
		return ctx, cancel
	}
	go func() {
		for ticker := time.NewTicker(time.Second); ; {
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
				if d.Left() <= 0 {
					cancel()
				}
			}
		}
	}()
	return ctx, cancel
}
