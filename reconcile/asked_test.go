package reconcile

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Another side that searched yesterday and repeats the question today must not
// vouch for itself: where nothing but the search tells whose an effect is, the
// control is asked anew for each check.
func TestI6_AnEchoThatBeginsAfterTheControlSettlesNothing(t *testing.T) {
	w := newWorld(t, strings.Replace(askingOne(""), "mark: it.ref", "mark: asked", 1))
	echoes, sent := false, map[string]bool{}
	w.side.onList = func(_ *side, rw http.ResponseWriter, r *http.Request) bool {
		if ref := r.URL.Query().Get("ref"); echoes || sent[ref] {
			fmt.Fprintf(rw, `{"object":"list","data":[{"id":"ch_%s","amount":1}],"more":false,"next":1}`, ref)
		} else {
			fmt.Fprint(rw, emptyList)
		}
		return true
	}
	found := w.doubt("pay", 1)
	sent[found.Token] = true
	s, err := w.engine.Once(w.ctx, nil)
	need.Must(t, err == nil && s.Read[ledger.Landed] == 1, "%+v %v", s, err)
	lost := w.doubt("pay", 2)
	echoes = true
	s, err = w.engine.Once(w.ctx, nil)
	need.That(t, err == nil && s.Read[ledger.Landed] == 0 && s.Read[ledger.Different] == 0, "%+v %v", s, err)
	if rec, err := w.store.Read(w.ctx, ledger.Locator{ID: lost.ID}); err != nil || rec.State() != ledger.Uncertain || rec.Operation.Verdict != "" {
		t.Errorf("%s %q %v", rec.State(), rec.Operation.Verdict, err)
	}
}
