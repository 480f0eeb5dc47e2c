package reconcile

import (
	"net/http"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// What has never answered is not said to be up.
func TestWhatHasNotAnsweredIsNotUp(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.doubt("pay", 420, 420)
	health := func() Health {
		t.Helper()
		all := w.engine.Health()
		need.Must(t, len(all) == 1, "%+v", all)
		return all[0]
	}
	on := func(f func(*side, http.ResponseWriter, *http.Request) bool) {
		w.side.mu.Lock()
		defer w.side.mu.Unlock()
		w.side.onList = f
	}
	on(func(_ *side, rw http.ResponseWriter, _ *http.Request) bool { hangUp(rw); return true })
	w.read(o.ID)
	h := health()
	need.That(t, h.State == StateNew && strings.Contains(h.Why, "no answer"), "after no answer: %+v", h)
	on(nil)
	w.read(o.ID)
	h = health()
	need.That(t, h.State == StateUp && h.Why == "", "after an answer: %+v", h)
}
