package ledgertest

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// pace gives turns at a downstream that are far enough apart, whoever asks.
func pace(t *testing.T, open Open) {
	const every = 20 * time.Millisecond
	d := newDesk(t, open)
	turn := func(name string, every, patience time.Duration) (after time.Duration, mine bool) {
		t.Helper()
		at, mine, err := d.s.Pace(ctx, name, every, patience)
		d.ok(err)
		return at.Sub(d.clock.Now()), mine
	}
	want := func(name string, patience, after time.Duration, mine bool) {
		t.Helper()
		if got, is := turn(name, every, patience); got != after || is != mine {
			t.Fatalf("%s with patience %s: after %s, mine %t; want after %s, %t", name, patience, got, is, after, mine)
		}
	}
	want("pay", 0, 0, true)
	want("pay", time.Second, every, true)
	want("pay", 2*every-1, 2*every, false) // and nothing is reserved
	want("pay", 2*every, 2*every, true)
	want("mail", 0, 0, true) // another downstream's own

	// What nobody used is not saved up.
	d.clock.Advance(time.Hour)
	want("pay", 0, 0, true)
	want("pay", every, every, true)

	// However many ask at once, each turn is given once.
	d.clock.Advance(time.Hour)
	const many = 40
	var all sync.WaitGroup
	turns := make([]time.Duration, many)
	for i := range turns {
		all.Go(func() {
			at, mine, err := d.s.Pace(ctx, "pay", every, time.Minute)
			if err != nil || !mine {
				d.Errorf("%t %v", mine, err)
			}
			turns[i] = at.Sub(d.clock.Now())
		})
	}
	all.Wait()
	slices.Sort(turns)
	for i, after := range turns {
		if after != time.Duration(i)*every {
			t.Fatalf("turn %d after %s", i, after)
		}
	}

	// Nobody is put off for long, however far ahead the turns are: neither
	// by a clock that was set back,
	d.clock.Advance(-time.Hour)
	if after, mine := turn("pay", every, 0); mine || after <= 0 || after > time.Minute {
		t.Fatalf("after the clock was set back: after %s, %t", after, mine)
	}
	d.clock.Advance(time.Minute)
	want("pay", 0, 0, true)
	// nor by a rate that was raised,
	if _, mine := turn("pay", time.Hour, time.Hour); !mine {
		t.Fatal("one an hour")
	}
	if after, mine := turn("pay", every, 0); mine || after > time.Minute {
		t.Fatalf("after the rate was raised: after %s, %t", after, mine)
	}
	d.clock.Advance(time.Minute)
	want("pay", 0, 0, true)
	// nor by patience without end.
	for range 10_000 {
		if _, mine := turn("slow", time.Second, time.Hour); !mine {
			break
		}
	}
	if after, _ := turn("slow", time.Second, 0); after > time.Minute {
		t.Fatalf("the next turn after %s", after)
	}

	for _, bad := range []struct {
		name  string
		every time.Duration
	}{{"", every}, {"pay", 0}, {"pay", -every}} {
		if at, mine, err := d.s.Pace(ctx, bad.name, bad.every, 0); err == nil || mine {
			t.Errorf("a pace of %q every %s: %s", bad.name, bad.every, at)
		}
	}
}
