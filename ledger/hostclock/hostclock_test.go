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
	before := Steady()
	up, err := os.ReadFile("/proc/uptime")
	after := Steady()
	if err != nil || boot.ID() == "" {
		t.Skip("this system has no uptime")
	}
	var seconds float64
	need.Get(fmt.Sscan(string(up), &seconds))(t)
	const told = 20 * time.Millisecond // it is given in hundredths
	at := time.Duration(seconds * float64(time.Second))
	need.That(t, after.Boot == boot.ID() && at > before.At-told && at < after.At+told, "%s to %s of boot %q, and it is up for %s", before.At, after.At, after.Boot, at)
}

func TestASteadyClockGoesWithItsWallClock(t *testing.T) {
	wall := time.Now()
	now := Of(func() time.Time { return wall }, With(func() time.Time { return wall }))
	before := now()
	wall = wall.Add(-time.Hour)
	if after := now(); after.Step(before) != 0 || after.Steady.At-before.Steady.At != -time.Hour {
		t.Errorf("%v, then %v", before, after)
	}
}
