package ledgertest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// reservations at one downstream are far enough apart, over all callers.
func reservations(t *testing.T, open Open) {
	const every = 20 * time.Millisecond
	d := newDesk(t, open)
	reserve := func(name string, every, patience time.Duration) (after time.Duration, mine bool) {
		t.Helper()
		at, mine, err := d.s.ReserveRead(ctx, name, d.clock.Now(), every, patience)
		d.ok(err)
		return at.Sub(d.clock.Now()), mine
	}
	want := func(name string, patience, after time.Duration, mine bool) {
		t.Helper()
		if got, is := reserve(name, every, patience); got != after || is != mine {
			t.Fatalf("%s with patience %s: after %s, mine %t; want after %s, %t", name, patience, got, is, after, mine)
		}
	}
	want("pay", 0, 0, true)
	want("pay", time.Second, every, true)
	want("pay", 2*every-1, 2*every, false) // and nothing is reserved
	want("pay", 2*every, 2*every, true)
	want("mail", 0, 0, true) // another downstream's own

	// Unused times are not saved up.
	d.clock.Advance(time.Hour)
	want("pay", 0, 0, true)
	want("pay", every, every, true)

	// However many ask at once, each time is given once.
	d.clock.Advance(time.Hour)
	const many = 40
	var all sync.WaitGroup
	reserved := make([]time.Duration, many)
	for i := range reserved {
		all.Go(func() {
			at, mine, err := d.s.ReserveRead(ctx, "pay", d.clock.Now(), every, time.Minute)
			need.That(d, err == nil && mine, "%t %v", mine, err)
			reserved[i] = at.Sub(d.clock.Now())
		})
	}
	all.Wait()
	slices.Sort(reserved)
	for i, after := range reserved {
		need.Must(t, after == time.Duration(i)*every, "reservation %d after %s", i, after)
	}

	// No caller is put off for long, however far ahead the reserved times are: neither
	// by a clock that was set back,
	d.clock.Advance(-time.Hour)
	if after, mine := reserve("pay", every, 0); mine || after <= 0 || after > time.Minute {
		t.Fatalf("after the clock was set back: after %s, %t", after, mine)
	}
	d.clock.Advance(time.Minute)
	want("pay", 0, 0, true)
	// nor by a rate that was raised,
	if _, mine := reserve("pay", time.Hour, time.Hour); !mine {
		t.Fatal("one an hour")
	}
	if after, mine := reserve("pay", every, 0); mine || after > time.Minute {
		t.Fatalf("after the rate was raised: after %s, %t", after, mine)
	}
	d.clock.Advance(time.Minute)
	want("pay", 0, 0, true)
	// nor by patience without end.
	for range 10_000 {
		if _, mine := reserve("slow", time.Second, time.Hour); !mine {
			break
		}
	}
	if after, _ := reserve("slow", time.Second, 0); after > time.Minute {
		t.Fatalf("the next reservation after %s", after)
	}

	for _, bad := range []struct {
		name  string
		every time.Duration
	}{{"", every}, {"pay", 0}, {"pay", -every}} {
		if at, mine, err := d.s.ReserveRead(ctx, bad.name, d.clock.Now(), bad.every, 0); err == nil || mine {
			t.Errorf("a reservation at %q every %s: %s", bad.name, bad.every, at)
		}
	}
}
