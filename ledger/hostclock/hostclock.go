// Package hostclock reads the clocks of the host: the wall's, and the steady one
// that nobody sets.
package hostclock

import (
	"crypto/rand"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/boot"
)

// Of tells the time by the clocks given; nil is the host's own.
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
			if now.Steady.At-before.At < 100*time.Millisecond { // else the process stood still between the two
				now.Steady.At = now.Steady.At.Truncate(time.Millisecond)
				return now
			}
		}
	}
}

// With is a steady clock for a wall clock that is not the host's and that nobody
// sets: it goes along.
func With(wall ledger.Clock) ledger.SteadyClock {
	return func() ledger.Steady {
		return ledger.Steady{Boot: Steady().Boot, At: time.Duration(wall().UnixMilli())*time.Millisecond - lead()}
	}
}

// lead is how the host's clocks stood to each other when that was first asked.
var lead = sync.OnceValue(func() time.Duration { return Of(nil, nil)().Lead().By })

// Steady is the time since the host was booted, sleep included. Where the system
// does not tell it, or not the boots apart, it is the time since this process
// began, which no other process can compare with.
func Steady() ledger.Steady {
	if at, err := sinceBoot(); err == nil && boot.ID() != "" {
		return ledger.Steady{Boot: boot.ID(), At: at}
	}
	return ledger.Steady{Boot: process, At: time.Since(began)}
}

var (
	began   = time.Now()
	process = ledger.PrivateBoot + rand.Text()
)
