package record_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
)

// failedOver is a store whose database is replaced by one that lacks its newest writes, and
// that takes nothing at first.
type failedOver struct {
	ledger.Store
	away error
}

func (s *failedOver) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	if s.away != nil {
		return ledger.Applied{}, s.away
	}
	return s.Store.Change(ctx, at, id, rule)
}

// I9: what became of an attempt that a ledger has lost is recorded as soon as the ledger
// takes it, with all that was begun, by whatever recorder began it.
func TestI9_TheOutcomeOfALostAttemptIsRecorded(t *testing.T) {
	made := func(name string) ledger.Store {
		s := need.Get(open.Create(t.Context(), filepath.Join(t.TempDir(), name), open.Options{}))(t)
		t.Cleanup(func() { s.Close() })
		return s
	}
	for _, why := range []error{ledger.ErrLost, ledger.ErrFull} {
		s := &failedOver{Store: made("before.db")}
		r := record.New(s, nil, record.Options{})
		begun := need.Get(r.Begin(t.Context(), record.Request{Kind: "k", Key: "1"}))(t)
		s.Store, s.away = made("after.db"), why
		settle := ledger.SettleRequest{AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeCommitted, Receipt: "r", Status: 201}
		_, err := r.Settle(t.Context(), settle)
		need.That(t, errors.Is(err, why), "it is told %v", err)
		s.away = nil
		need.Equal(t, need.Get(r.SettleSurely(t.Context(), settle))(t).After.State, ledger.Committed)
		rec := need.Get(s.Read(t.Context(), ledger.Locator{ID: begun.Operation.ID}))(t)
		need.That(t, rec.Operation.State == ledger.Committed && rec.Operation.Key == "1" && len(rec.Attempts) == 1, "%+v", rec)
		settle.AttemptID = "another"
		_, err = r.Settle(t.Context(), settle)
		need.That(t, errors.Is(err, ledger.ErrNotFound), "what was not begun here is recorded: %v", err)
	}
}

// I13: a ledger that has lost what was done under a key looks for it with the token that it had.
func TestI13_TheSameKeyHasTheSameTokenInALedgerThatLostTheRow(t *testing.T) {
	dir, n := t.TempDir(), 0
	rule := record.KindRule{KeyFrom: []string{"order"}, TTL: time.Millisecond, Title: func(o ledger.Operation) string { return "with " + o.Token },
		Marks: func(o ledger.Operation) ledger.Marks { return ledger.Marks{Values: []string{o.Token, o.KeyToSend()}} }}
	rules := func(kind string) record.KindRule { return map[string]record.KindRule{"fields": rule}[kind] }
	sent := func(r *record.Recorder, w record.Request) (call record.Call, o ledger.Operation) {
		t.Helper()
		res := need.Get(record.Do(t.Context(), r, w, func(_ context.Context, c record.Call) (record.Result, error) {
			call = c
			return record.Result{}, nil
		}))(t)
		need.Equal(t, [3]string{res.Operation.Token, res.Operation.KeyToSend(), res.Operation.ID}, [3]string{call.Token, call.Key, call.OperationID}, "what is recorded")
		return call, res.Operation
	}
	ledgers := func(key string) *record.Recorder {
		n++
		path, o := filepath.Join(dir, fmt.Sprint(n, ".db")), open.Options{KeyFile: filepath.Join(dir, key)}
		s := need.Get(open.Create(t.Context(), path, o))(t)
		t.Cleanup(func() { s.Close() })
		need.OK(t, open.GiveKey(t.Context(), need.Get(open.At(path))(t), o))
		return record.New(s, rules, record.Options{})
	}
	need.OK(t, os.WriteFile(filepath.Join(dir, "a.key"), []byte(strings.Repeat("0a", 32)), 0o600))
	need.OK(t, os.WriteFile(filepath.Join(dir, "b.key"), []byte(strings.Repeat("0b", 32)), 0o600))
	before, after, other := ledgers("a.key"), ledgers("a.key"), ledgers("b.key")
	for what, w := range map[string]record.Request{
		"a key without an input": {Kind: "k", Key: "evt_1"},
		"a key":                  {Kind: "k", Key: "evt_2", Input: []byte(`{"a":1}`)},
		"fields":                 {Kind: "fields", Input: []byte(`{"order":7}`)},
	} {
		a, o := sent(before, w)
		b, _ := sent(after, w)
		c, _ := sent(other, w)
		need.That(t, a.Token == b.Token && a.Key == b.Key && a.Token != c.Token && (w.Key != "" || a.Key != c.Key), "%s: %+v, %+v, and under another ledger's key %+v", what, a, b, c)
		if w.Key == "" {
			need.Equal(t, o.Title, "with "+a.Token)
			for _, mark := range []string{a.Token, a.Key} {
				need.Equal(t, len(need.Get(before.Store().(interface {
					Marked(context.Context, string, int) ([]string, error)
				}).Marked(t.Context(), mark, 5))(t)), 1, "under the mark "+mark)
			}
			time.Sleep(10 * time.Millisecond)
			again, _ := sent(before, w) // its name is over
			need.That(t, again.Token != a.Token && again.Key != a.Key, "another time: %+v", again)
			lost, _ := sent(after, w)
			need.Equal(t, [2]string{lost.Token, lost.Key}, [2]string{again.Token, again.Key}, "the second time")
		}
	}
	w := record.Request{Kind: "k", Input: []byte(`{"a":1}`)}
	a, _ := sent(before, w)
	b, _ := sent(after, w)
	need.That(t, a.Token != b.Token && a.Key != b.Key, "no one named it: %+v, %+v", a, b)
	given := record.Request{Kind: "k", Key: "evt_3", Token: "theirs"}
	call, _ := sent(before, given)
	need.Equal(t, call.Token, "theirs")
}
