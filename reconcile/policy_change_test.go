package reconcile

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// editedWhile has the policy edited while the next check is made.
func (w *world) editedWhile(old, new string) {
	w.Helper()
	text := fmt.Sprintf(payPolicy, w.side.URL)
	need.Contains(w, text, old)
	w.side.mu.Lock()
	defer w.side.mu.Unlock()
	w.side.onList = func(*side, http.ResponseWriter, *http.Request) bool {
		w.policy(strings.Replace(text, old, new, 1))
		return false
	}
}

// A check that was begun under a policy settles nothing once another one is in force: how
// long a write may still take was perhaps what was wrong about it.
func TestI6_ACheckUnderAPolicyThatWasChangedMeanwhileProvesNothing(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	o := w.doubt("pay", 420)
	w.pass(pastProof)
	w.editedWhile("lands_within: 20s", "lands_within: 20h")
	res := w.read(o.ID)
	need.Contains(t, res.Read.Reason, "not settled: the policy has changed meanwhile")
	need.Equal(t, w.get(o.ID).Operation.State, ledger.Uncertain)
}

// What was allowed before the policy changed is sent only if that is allowed still.
func TestI5_I7_APolicyThatChangesDuringTheCheckBeforeSending(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		sent     int
	}{
		"another request": {"headers: {", "headers: { X-Key: 2,", 0},
		"another limit":   {"retry: { max: 3, ", "retry: { max: 0, ", 1},
		"something else":  {"title: pay", "title: charge", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, payPolicy)
			o := w.proven("pay")
			q := w.shown(w.engine, RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof, Actor: maya})
			w.editedWhile(c.old, c.new)
			_, err := w.engine.Retry(w.ctx, q)
			need.Equal(t, w.side.posted(), c.sent)
			need.That(t, (err == nil) == (c.sent == 1), "%v", err)
			var refused *ledger.RefusedError
			var changed *ChangedError
			need.That(t, err == nil || errors.As(err, &refused) || errors.As(err, &changed), "%v", err)
		})
	}
}
