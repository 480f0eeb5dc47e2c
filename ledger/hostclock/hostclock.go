// Package hostclock reads the clocks of the host: the wall clock, and the steady
// clock, which is never set.
package hostclock

import (
	"crypto/rand"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/boot"
)

// Of returns a function that reads both clocks; nil stands for the host's own.
func Of(wall ledger.Clock, steady ledger.SteadyClock) func() ledger.Moment {
	if wall == nil {
		wall = time.Now
	}
	if steady == nil {
		steady = Steady
	}
	return func() ledger.Moment {
		for {
			before := steady()
			now := ledger.Moment{Wall: wall().UTC().Truncate(time.Millisecond), Steady: steady()}
			if now.Steady.At-before.At < 100*time.Millisecond { // else the process was stopped between the two readings
				now.Steady.At = now.Steady.At.Truncate(time.Millisecond)
				return now
			}
		}
	}
}

// With returns a steady clock that follows a wall clock other than the host's. The
// wall clock must not be set.
func With(wall ledger.Clock) ledger.SteadyClock {
	return func() ledger.Steady {
		return ledger.Steady{Boot: Steady().Boot, At: time.Duration(wall().UnixMilli())*time.Millisecond - lead()}
	}
}

// lead is the difference of the host's clocks at the first call.
var lead = sync.OnceValue(func() time.Duration {
	now := Of(nil, nil)()
	return time.Duration(now.Wall.UnixMilli())*time.Millisecond - now.Steady.At
})

// Steady returns the time since the boot, sleep included. Where the system does not
// know it, or has no boot id, it returns the time since this process began, which
// other processes cannot compare.
func Steady() ledger.Steady {
	if at, err := sinceBoot(); err == nil && boot.ID() != "" {
		return ledger.Steady{Boot: boot.ID(), At: at}
	}
	return ledger.Steady{Boot: process(), At: time.Since(began)}
}

var (
	began   = time.Now()
	process = sync.OnceValue(func() string { return "process-" + rand.Text() })
)
