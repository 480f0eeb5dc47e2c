package reconcile

import (
	"context"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// forgetful is a ledger with a standby that no commit waits for.
type forgetful struct {
	ledger.Store
	asked *int
}

func (f forgetful) Standbys(context.Context) (ledger.Finding, error) {
	*f.asked++
	return ledger.Finding{Level: ledger.LevelFail, Found: "it forgets"}, nil
}

// I13: who leads the ledger asks for standbys that forget once an hour, and says so.
func TestI13_AStandbyThatForgetsIsAskedForHourly(t *testing.T) {
	w, asked, said := newWorld(t, payPolicy), 0, 0
	pass := func(e *Engine) {
		_, _, err := e.pass(w.ctx, w.now(), func(ReadResult, error) {})
		need.OK(t, err)
	}
	w.engine.o.Store = forgetful{w.store, &asked}
	w.engine.o.Log = func(line string) { said += strings.Count(line, "it forgets") }
	pass(w.engine)
	need.Equal(t, asked, 0, "asked by who does not lead")
	e := w.leading()
	for range 3 {
		pass(e)
	}
	need.That(t, asked == 1 && said == 1, "in an hour it is asked %d times, and said %d times", asked, said)
	e.standbys = e.standbys.Add(-standbysEvery)
	pass(e)
	need.That(t, asked == 2 && said == 2, "after an hour it is asked %d times, and said %d times", asked, said)
}
