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
	fold := func() { need.OK(t, s.Fold(ctx, nil, true, func(string) ledger.Burst { return ledger.Burst{} })) }
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
