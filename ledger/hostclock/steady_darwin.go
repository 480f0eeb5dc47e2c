package hostclock

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot asks the one clock of this system that goes on in its sleep.
func sinceBoot() (time.Duration, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &now)
	return time.Duration(now.Nano()), err
}
