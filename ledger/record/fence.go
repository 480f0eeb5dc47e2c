package record

import (
	"time"

	"indoubt/ledger"
)

// fence is how long a sender may go on (I3). It counts from before the ledger
// was asked, by the monotonic clock, so that it never ends later than the
// ledger's own deadline; the wall clock is looked at too, because a machine that
// slept has not counted that time.
type fence struct {
	length time.Duration // of one extension
	until  time.Time     // monotonic
	wall   time.Time     // the ledger's deadline
	clock  ledger.Clock
}

// left is what remains, zero or less when the sender must have stopped.
func (f fence) left() time.Duration {
	now := f.clock()
	return min(f.until.Sub(now), f.wall.Sub(now.Round(0)))
}

// extended moves the fence after a heartbeat that began at asked.
func (f *fence) extended(asked, wall time.Time) {
	f.until, f.wall = asked.Add(f.length), wall
}

// every is the time between heartbeats: two may be missed.
func (f fence) every() time.Duration { return f.length / 3 }

// margin is how long before the fence a command is told to end when no
// heartbeat came through, so that it is gone by then.
func (f fence) margin(grace time.Duration) time.Duration { return min(grace, f.length/5) }
