//go:build soak

package postgres

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Who leads sums up what nothing can come before any more: an event has its number before its
// transaction ends.
func TestSumsMissNothingThatEndsLate(t *testing.T) {
	url := made(t)
	s := opened(t, url, Options{})
	long := need.Get(s.pool.Load().Acquire(ctx))(t)
	defer long.Release()
	say := func(sql string) { t.Helper(); need.Get(long.Exec(ctx, sql))(t) }
	say(`BEGIN`)
	say(`INSERT INTO indoubt.intent (id, kind, key, actor) VALUES ('late', 'charge', 'late', 'x')`)
	for range 120 {
		need.Get(ledger.Begin(ctx, s, begun(ledger.NewID())))(t)
	}
	fold := func() { need.OK(t, s.Fold(ctx, nil, nil, true, func(string) ledger.Burst { return ledger.Burst{} })) }
	fold()
	say(`COMMIT`)
	need.Equal(t, need.Get(s.Counts(ctx, time.Now()))(t).All, 121)
	for range 120 {
		need.Get(ledger.Begin(ctx, s, begun(ledger.NewID())))(t)
	}
	fold()
	need.Equal(t, need.Get(s.Counts(ctx, time.Now()))(t).All, 241)
	need.That(t, scalar(t, s, `SELECT n FROM total WHERE what = '["seq","",""]'`) > 0, "nothing is summed up")
}

// What ends late is given marks by new rules like any other.
func TestMarksMissNothingThatEndsLate(t *testing.T) {
	url := made(t)
	s := opened(t, url, Options{})
	long := need.Get(s.pool.Load().Acquire(ctx))(t)
	defer long.Release()
	say := func(sql string) { t.Helper(); need.Get(long.Exec(ctx, sql))(t) }
	begin := func(id string) string {
		return `INSERT INTO indoubt.intent (id, kind, key, actor) VALUES ('` + id + `', 'charge', '` + id + `', 'x')`
	}
	say(`BEGIN`)
	say(begin("late"))
	psql(t, url, begin("early"))
	mark := func() {
		need.Get(s.Mark(ctx, func(string) string { return "rules" }, func(o ledger.Operation) ledger.Marks { return ledger.Marks{Values: []string{"of-" + o.ID}} }, 9))(t)
	}
	mark()
	say(`COMMIT`)
	mark()
	for _, id := range []string{"late", "early"} {
		found := need.Get(s.Marked(ctx, "of-"+id, 9))(t)
		need.That(t, len(found) == 1 && found[0] == id, "%s: %q", id, found)
	}
}
