package hostclock

import (
	"fmt"
	"os"
	"testing"
	"time"

	"indoubt/ledger/boot"
	"indoubt/ledger/need"
)

// The kernel's uptime includes sleep, as Steady must.
func TestSteadyIsTheTimeSinceTheBoot(t *testing.T) {
	up, err := os.ReadFile("/proc/uptime")
	if err != nil || boot.ID() == "" {
		t.Skip("this system has no uptime")
	}
	var seconds float64
	need.Get(fmt.Sscan(string(up), &seconds))(t)
	now := Steady()
	if d := now.At - time.Duration(seconds*float64(time.Second)); now.Boot != boot.ID() || d.Abs() > 5*time.Second {
		t.Errorf("%s of boot %q, and it is up for %.0f s", now.At, now.Boot, seconds)
	}
}

func TestASteadyClockGoesWithItsWallClock(t *testing.T) {
	wall := time.Now()
	now := Of(func() time.Time { return wall }, With(func() time.Time { return wall }))
	before := now()
	wall = wall.Add(-time.Hour)
	if after := now(); after.Lead() != before.Lead() || after.Steady.At-before.Steady.At != -time.Hour {
		t.Errorf("%v, then %v", before, after)
	}
}
