package ledgertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func (m *Memory) Attend(_ context.Context, p ledger.Presence) error {
	if p.Console == "" {
		return fmt.Errorf("a console without a name")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	m.present = slices.DeleteFunc(m.present, func(o ledger.Presence) bool { return o.Console == p.Console || !o.Until.After(now) })
	if p.Until.After(now) {
		m.present = append(m.present, p)
	}
	return nil
}

func (m *Memory) Attending(context.Context) ([]ledger.Presence, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	out := slices.DeleteFunc(slices.Clone(m.present), func(o ledger.Presence) bool { return !o.Until.After(now) })
	slices.SortFunc(out, func(a, b ledger.Presence) int { return cmp.Compare(a.Console, b.Console) })
	return out, nil
}

// attendance: who looks at what is known while they do, and costs neither a version
// nor an event.
func attendance(t *testing.T, open Open) {
	d := newDesk(t, open)
	o := d.doubt("k")
	events := len(d.events(""))
	attend := func(console, person, subject string, asks bool, ttl time.Duration) {
		d.ok(d.s.Attend(ctx, ledger.Presence{Console: console, Person: person, Subject: subject, Asks: asks, Until: d.clock.Now().Add(ttl)}))
	}
	want := func(want ...string) {
		t.Helper()
		all := need.Get(d.s.Attending(ctx))(d)
		var got []string
		for _, p := range all {
			got = append(got, fmt.Sprintf("%s %s %t %s", p.Person, p.Subject, p.Asks, p.Until.Sub(d.clock.Now())))
		}
		need.Must(t, slices.Equal(got, want), "present are %q, want %q", got, want)
	}
	want()
	attend("2", "sam", o.ID, false, time.Minute)
	attend("1", "vera", o.ID, false, 2*time.Minute)
	want("vera "+o.ID+" false 2m0s", "sam "+o.ID+" false 1m0s")
	d.clock.Advance(10 * time.Second)
	attend("2", "sam", "another", true, time.Minute)
	want("vera "+o.ID+" false 1m50s", "sam another true 1m0s")
	attend("2", "sam", "another", true, 0) // left
	want("vera " + o.ID + " false 1m50s")
	d.clock.Advance(110 * time.Second)
	want()
	if err := d.s.Attend(ctx, ledger.Presence{Until: d.clock.Now().Add(time.Minute)}); err == nil || strings.Contains(err.Error(), "presence") {
		t.Fatalf("a console without a name: %v", err)
	}
	if now := d.read(o.ID).Operation; now.Version != o.Version || len(d.events("")) != events {
		t.Fatalf("it cost version %d after %d, and %d events after %d", now.Version, o.Version, len(d.events("")), events)
	}
}
