package store

import (
	"context"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
)

// unguarded is a ledger in memory that takes everything, and still writes its history.
func unguarded(t need.T) *Store {
	m := inMemory(t)
	_, guards := SQLiteSchema()
	for _, name := range regexp.MustCompile(`CREATE TRIGGER (\w+_refuse_\w+)`).FindAllStringSubmatch(guards, -1) {
		_, err := m.Exec(`DROP TRIGGER ` + name[1])
		need.OK(t, err)
	}
	return New(m, digestkey.Named(""), "")
}

// draw fills a value with anything that it can hold.
func draw(rt *rapid.T, v reflect.Value) {
	one := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "of") }
	texts := []string{"", "a", "ü 'x' \"y\" \\ \n <&> ☃", "null", "{}", "[redacted]", "2026-01-01T00:00:00Z"}
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf([]time.Time{{}, at(1_790_000_000_000), at(1_790_000_000_001), ledger.Never}[one(4)]))
		return
	case time.Duration:
		v.SetInt(int64(one(3)) * int64(time.Minute))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf([]json.RawMessage{nil, json.RawMessage(`{"a": 1.50, "b" :[null, "<&>"]}`), json.RawMessage(`null`),
			json.RawMessage(" [1]\n"), json.RawMessage(`9007199254740993`)}[one(5)]))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[one(len(texts))])
	case reflect.Bool:
		v.SetBool(one(2) == 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(one(4)) - 1)
	case reflect.Uint8:
		v.SetUint(uint64(one(256)))
	case reflect.Struct:
		for i := range v.NumField() {
			draw(rt, v.Field(i))
		}
	case reflect.Pointer:
		if v.SetZero(); one(2) == 1 {
			v.Set(reflect.New(v.Type().Elem()))
			draw(rt, v.Elem())
		}
	case reflect.Slice:
		v.SetZero()
		for range one(3) {
			e := reflect.New(v.Type().Elem()).Elem()
			draw(rt, e)
			v.Set(reflect.Append(v, e))
		}
	case reflect.Map:
		v.SetZero()
		for range one(2) {
			v.Set(reflect.MakeMap(v.Type()))
			key, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			draw(rt, key)
			draw(rt, e)
			v.SetMapIndex(key, e)
		}
	default:
		rt.Fatalf("no values for %s", v.Type())
	}
}

func drawn[T any](rt *rapid.T) (v T) {
	draw(rt, reflect.ValueOf(&v).Elem())
	return v
}

// drawState is anything that an operation and what belongs to it can be, where it is a change of
// what was: what never changes is the same, and nothing is taken away.
func drawState(rt *rapid.T, was state) state {
	o := drawn[ledger.Operation](rt)
	s := state{op: &o, attempts: slices.Clone(was.attempts), reads: slices.Clone(was.reads),
		allowed: slices.Clone(was.allowed)}
	o.ID, o.Kind, o.Key, o.Actor, o.CreatedAt = "o-1", "k", "key", "ann", at(1_790_000_000_000)
	o.State = rapid.SampledFrom([]ledger.State{ledger.Pending, ledger.Committed, ledger.Failed, ledger.Uncertain,
		ledger.Abandoned}).Draw(rt, "state")
	if o.Fact = ""; o.State == ledger.Abandoned {
		o.Fact = rapid.SampledFrom([]ledger.State{ledger.Failed, ledger.Uncertain, ""}).Draw(rt, "fact")
	}
	o.Verdict = rapid.SampledFrom([]ledger.Verdict{"", ledger.Landed, ledger.Twice, ledger.Different, ledger.NotThere}).Draw(rt, "verdict")
	o.Conflict = rapid.SampledFrom([]ledger.Conflict{"", ledger.ConflictTwice, ledger.ConflictMaybeTwice, ledger.ConflictDifferent,
		ledger.ConflictDisputed}).Draw(rt, "conflict")
	o.Version, o.UpdatedAt, o.KeyLive, o.Gate = was.op.Version+1, at(1_790_000_001_000+was.op.Version), true, ""
	o.Moved = "" // a prune says it, no change
	for i := range s.attempts {
		id := s.attempts[i].ID
		s.attempts[i] = drawn[ledger.Attempt](rt)
		s.attempts[i].ID = id
	}
	for i := range s.allowed {
		id := s.allowed[i].ID
		s.allowed[i] = drawn[ledger.Allowed](rt)
		s.allowed[i].ID = id
	}
	if len(s.attempts) == 0 || rapid.Bool().Draw(rt, "attempt") {
		s.attempts = append(s.attempts, drawn[ledger.Attempt](rt))
		s.attempts[len(s.attempts)-1].ID = "a-" + decimal(len(s.attempts))
	}
	if rapid.Bool().Draw(rt, "allow") {
		s.allowed = append(s.allowed, drawn[ledger.Allowed](rt))
		s.allowed[len(s.allowed)-1].ID = "g-" + decimal(len(s.allowed))
	}
	if rapid.Bool().Draw(rt, "read") {
		s.reads = append(s.reads, drawn[ledger.Read](rt))
		s.reads[len(s.reads)-1].ID = "r-" + decimal(len(s.reads))
	}
	o.AttemptCount, o.LiveAttempt = len(s.attempts), ""
	for i := range s.attempts {
		a := &s.attempts[i]
		a.N, a.OperationID = i+1, o.ID
		if o.State == ledger.Pending && a.N == o.AttemptCount {
			o.LiveAttempt, a.DeadlineAt = a.ID, o.DeadlineAt
		}
	}
	for i := range s.reads {
		s.reads[i].OperationID = o.ID
	}
	for i := range s.allowed {
		s.allowed[i].OperationID = o.ID
	}
	return s
}

// TestARecordIsReadAsItWasWritten saves records of anything, one over the other, and reads each back.
func TestARecordIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	need.FixSeed()
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		s := unguarded(rt)
		defer s.Close()
		was := none().state
		for i := range rapid.IntRange(1, 4).Draw(rt, "changes") {
			want := drawState(rt, was)
			if i > 0 { // what never changes of an operation
				for _, name := range []string{"Scope", "SentKey", "Fingerprint", "Token", "TTL"} {
					reflect.ValueOf(want.op).Elem().FieldByName(name).Set(reflect.ValueOf(was.op).Elem().FieldByName(name))
				}
			}
			id := "c-" + decimal(i)
			e := ledger.Event{ID: id, Verb: "change", Actor: ledger.Actor{Name: want.op.Actor, OSUser: "u"}, Reason: want.op.Reason,
				Detail: drawn[json.RawMessage](rt)}
			if _, err := s.Change(ctx, ledger.Locator{ID: want.op.ID}, id, func(*ledger.Record) (ledger.Change, error) {
				c := ledger.Change{Operation: want.op, Insert: i == 0, Attempts: want.attempts, Allowed: want.allowed, Event: &e}
				if len(want.reads) > len(was.reads) {
					c.Read = &want.reads[len(want.reads)-1]
				}
				return c, nil
			}); err != nil {
				rt.Fatalf("change %d: %v", i, err)
			}
			rec := need.Get(s.Read(ctx, ledger.Locator{ID: want.op.ID}))(rt)
			slices.Reverse(rec.Allowed)
			slices.Reverse(rec.Reads)
			is := state{&rec.Operation, rec.Attempts, rec.Reads, rec.Allowed}
			if diff := cmp.Diff(want, is, cmp.AllowUnexported(state{}), cmpopts.EquateEmpty()); diff != "" {
				rt.Fatalf("after change %d (-written +read):\n%s", i, diff)
			}
			events := need.Get(s.History(ctx, ledger.HistoryQuery{Limit: 10}))(rt)
			if got := events[len(events)-1]; len(events) != i+1 || got.ID != id || got.Actor != e.Actor || got.Reason != e.Reason {
				rt.Fatalf("the history says %+v", got)
			}
			was = want
		}
	})
}
