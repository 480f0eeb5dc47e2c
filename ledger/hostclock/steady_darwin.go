package hostclock

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot reads the only clock of this system that includes sleep.
func sinceBoot() (time.Duration, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &now)
	return time.Duration(now.Nano()), err
}
