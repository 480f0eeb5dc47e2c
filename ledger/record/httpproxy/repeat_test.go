package httpproxy

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/transmit"
)

// remembering is an upstream that remembers keys: the first request under a key has an
// effect, and each one after it gets the same answer. Its first lost answers are cut.
func remembering(lost int) func(*upstream, net.Conn) {
	n := 0
	return func(u *upstream, c net.Conn) {
		req, body := u.take(c)
		if req == nil {
			return
		}
		u.mu.Lock()
		if n++; n > 1 { // it is the same request: no further effect
			u.effects[body]--
		}
		cut := n <= lost
		u.mu.Unlock()
		if cut {
			resets(c)
			return
		}
		_, _ = io.WriteString(c, whole("201 Created", "Content-Type: application/json\r\n", `{"id":"ch_1"}`))
	}
}

// repeats is a kind whose downstream replays a key for an hour.
func repeats(max int) record.KindRule {
	return record.KindRule{KeyHeader: "Idempotency-Key", Remembers: time.Hour,
		Retry:       outcome.Retry{Max: max, BackoffMin: time.Microsecond, BackoffMax: time.Microsecond},
		RepeatUntil: func(rec ledger.Record) time.Time { return rec.Now.Add(time.Hour) }}
}

// A client that cannot repeat by itself gets its answer in the same call, and nothing is
// in doubt afterwards.
func TestI4_ALostAnswerIsRepeatedUnderItsKey(t *testing.T) {
	for _, key := range []string{"k-1", ""} {
		up := newUpstream(t, remembering(2))
		w := newWorld(t, up, setup{rule: repeats(2)})
		if a := w.post(key, `{"n":1}`); a.status != 201 || a.body != `{"id":"ch_1"}` {
			t.Fatalf("key %q: %+v", key, a)
		}
		rec := w.operation("")
		need.That(t, rec.Operation.State == ledger.Committed && rec.Operation.Conflict == ledger.NoConflict && len(rec.Attempts) == 3,
			"key %q: %d attempts, %+v", key, len(rec.Attempts), rec.Operation)
		need.Equal(t, up.total(), 1, "effects")
		for _, r := range up.seen {
			need.Equal(t, r.Header.Get("Idempotency-Key"), rec.Operation.KeyToSend(), "key of every attempt")
		}
		for _, a := range rec.Attempts[1:] {
			need.Equal(t, a.Basis, ledger.BasisKeySafe, "why attempt was allowed")
		}
	}
}

// A repeat is made only where all of its conditions hold.
func TestI5_NoRepeatWithoutARememberedKey(t *testing.T) {
	silent, forgotten, keyless := repeats(2), repeats(2), repeats(2)
	silent.RepeatUntil = nil
	forgotten.RepeatUntil = func(rec ledger.Record) time.Time { return rec.Now }
	keyless.KeyHeader = ""
	for _, rule := range []*record.KindRule{&silent, &forgotten, &keyless} {
		rule.Retry.BackoffMin, rule.Retry.BackoffMax = time.Hour, time.Hour // its caller does not wait for what does not follow
	}
	for name, tc := range map[string]struct {
		rule record.KindRule
		lost int
		hold bool
		sent int
	}{
		"the policy does not say that answers are replayed": {rule: silent, lost: 9, sent: 1},
		"the key is forgotten":                              {rule: forgotten, lost: 9, sent: 1},
		"the key is not sent":                               {rule: keyless, lost: 9, sent: 1},
		"the kind allows none":                              {rule: repeats(0), lost: 9, sent: 1},
		"all that the kind allows are used":                 {rule: repeats(2), lost: 9, sent: 3},
		"a person holds it":                                 {rule: repeats(2), lost: 9, hold: true, sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, remembering(tc.lost))
			w := newWorld(t, up, setup{rule: tc.rule})
			if tc.hold {
				need.OK(t, w.store.Hold(t.Context(), ledger.Hold{Scope: "all", Actor: ledger.Actor{Name: "maya"}, Reason: "their support says stop", ChangeID: ledger.NewID()}))
			}
			a := w.post("k-1", `{"n":1}`)
			rec := w.operation("")
			need.That(t, a.status == 502 && a.problem(t).Code == "outcome_unknown" && rec.Operation.State == ledger.Uncertain && len(rec.Attempts) == tc.sent && up.total() == 1,
				"%+v: %d attempts, %d effects, %s", a, len(rec.Attempts), up.total(), rec.Operation.State)
		})
	}
}

// What the ledger lets a further attempt do under a remembered key is the recorder's own to use,
// inside the call whose answer was lost: a client that asks again, in a new call, is held.
func TestI5_ATryAfterTheRecordersRepeatsIsHeld(t *testing.T) {
	for _, most := range []int{0, 2} {
		up := newUpstream(t, remembering(9))
		w := newWorld(t, up, setup{rule: repeats(most)})
		need.Equal(t, w.post("k-1", `{"n":1}`).problem(t).Code, "outcome_unknown")
		for _, key := range []string{"k-1", "k-2", ""} {
			a := w.post(key, `{"n":1}`)
			need.That(t, a.status == 409 && a.problem(t).Code == "in_doubt", "%d repeats, key %q: %+v", most, key, a)
		}
		need.Equal(t, len(w.operation("").Attempts), most+1, "attempts")
	}
}

// An answer, however bad, is an answer: only its caller repeats it.
func TestI5_NoRepeatOfAnAnswer(t *testing.T) {
	for _, answer := range []string{"500 Internal Server Error", "503 Service Unavailable", "429 Too Many Requests", "409 Conflict"} {
		up := newUpstream(t, says(whole(answer, "Retry-After: 0\r\nContent-Type: application/json\r\n", `{}`)))
		w := newWorld(t, up, setup{rule: repeats(2)})
		w.post("k-1", `{}`)
		need.Equal(t, len(w.operation("").Attempts), 1, "attempts after "+answer)
	}
}

// What is never sent for a reason that may pass is begun again, and not under a hold.
func TestKnownFailuresAreTriedAgain(t *testing.T) {
	for name, held := range map[string]bool{"": false, "held": true} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, created)
			w := newWorld(t, up, setup{rule: repeats(2)})
			if held {
				need.OK(t, w.store.Hold(t.Context(), ledger.Hold{Scope: "all", Actor: ledger.Actor{Name: "maya"}, Reason: "stop", ChangeID: ledger.NewID()}))
			}
			dials := 0
			w.proxy.transport.Sender = transmit.Sender{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials++; dials == 1 {
					return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: address}}
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			}}
			a := w.post("k-1", `{}`)
			rec := w.operation("")
			if held {
				need.That(t, a.status == 503 && a.problem(t).Code == "never_sent" && len(rec.Attempts) == 1 && up.total() == 0, "%+v: %d attempts", a, len(rec.Attempts))
				return
			}
			need.That(t, a.status == 201 && len(rec.Attempts) == 2 && rec.Operation.State == ledger.Committed && up.total() == 1, "%+v: %d attempts", a, len(rec.Attempts))
		})
	}
}

// TestBeginsAreHeld: while begins are held a client is told to come again, nothing goes out, and nothing is recorded.
func TestBeginsAreHeld(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	hold := ledger.Hold{Scope: "all", Begins: true, Actor: ledger.Actor{Name: "maya"}, Reason: "restore", ChangeID: ledger.NewID()}
	need.OK(t, w.store.Hold(t.Context(), hold))
	a := w.post("k-1", `{}`)
	p := a.problem(t)
	need.That(t, a.status == 503 && p.Code == "held" && p.Operation == "" && strings.Contains(p.Detail, "held by maya (restore)") &&
		a.header.Get("Retry-After") == "60", "%d %v %s", a.status, a.header, a.body)
	hold.ChangeID, hold.Until = ledger.NewID(), time.Now().Add(10*time.Second)
	need.OK(t, w.store.Hold(t.Context(), hold))
	seconds := need.Get(strconv.Atoi(w.post("k-1", `{}`).header.Get("Retry-After")))(t)
	need.That(t, 1 <= seconds && seconds <= 10, "it may come again after %d s", seconds)
	counts := need.Get(w.store.Counts(t.Context(), time.Now()))(t)
	need.That(t, up.total() == 0 && counts.All == 0, "%d went out, %d are recorded", up.total(), counts.All)
	need.OK(t, w.store.LiftHold(t.Context(), ledger.Lift{Scope: "all", Actor: hold.Actor, Reason: "over", ChangeID: ledger.NewID()}))
	need.Equal(t, w.post("k-1", `{}`).status, 201)
}
