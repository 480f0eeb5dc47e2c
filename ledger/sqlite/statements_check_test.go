package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// check looks for what is broken.
func (f *fuzzed) check() {
	f.t.Helper()
	for table, of := range frozen {
		rows := need.Get(f.db.Query(fmt.Sprintf(`SELECT %s, %s, json_array(%s) FROM %s`, of.row, of.fixed, of.grows, table)))(f.t)
		now := map[string]string{}
		for rows.Next() {
			var id, fixed, grows string
			need.OK(f.t, rows.Scan(&id, &fixed, &grows))
			now[id] = fixed + "\x00" + grows
		}
		need.OK(f.t, errors.Join(rows.Err(), rows.Close()))
		for id, was := range f.kept[table] {
			is, there := now[id]
			if !there {
				f.fatalf("%s %s is gone", table, id)
			}
			if !goesOnFrom(was, is) {
				f.fatalf("%s %s was\n%s\nand is\n%s", table, id, was, is)
			}
		}
		f.kept[table] = now
	}
	for name, query := range broken {
		rows := need.Get(f.db.Query(query))(f.t)
		if rows.Next() {
			var id string
			need.OK(f.t, rows.Scan(&id))
			rows.Close()
			f.fatalf("%s: not of %s", name, id)
		}
		need.OK(f.t, errors.Join(rows.Err(), rows.Close()))
	}
	if found := need.Get(f.s.Deviations(ctx))(f.t); len(found) > 0 {
		f.fatalf("what is derived deviates: %+v", found)
	}
	f.said = f.said[:0]
}

// goesOnFrom compares what is fixed, where ” may become something once, and what
// may only grow.
func goesOnFrom(was, is string) bool {
	fixedWas, growsWas, _ := strings.Cut(was, "\x00")
	fixedIs, growsIs, _ := strings.Cut(is, "\x00")
	if fixedWas != fixedIs {
		a, b := jsonItems(fixedWas), jsonItems(fixedIs)
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if a[i] != b[i] && a[i] != `""` {
				return false
			}
		}
	}
	a, b := jsonItems(growsWas), jsonItems(growsIs)
	for i := range a {
		x, _ := strconv.ParseInt(a[i], 10, 64)
		y, _ := strconv.ParseInt(b[i], 10, 64)
		if y < x {
			return false
		}
	}
	return true
}

// goesOn tries that nothing is stuck: every deadline passes, every doubt can be
// decided, and a new operation can begin.
func (f *fuzzed) goesOn() {
	for _, scope := range []ledger.HoldScope{"all", "kind:k"} {
		need.OK(f.t, f.s.LiftHold(ctx, scope, ann, "over", f.id()))
	}
	f.seen["outages"] += len(need.Get(f.s.Outages(ctx, f.s.now(), 100))(f.t))
	f.ahead.Store(int64(400 * 24 * time.Hour))
	for need.Get(f.s.Expire(ctx, 1000))(f.t) > 0 {
	}
	ids := texts(f.t, f.s, `SELECT id FROM operations`)
	for _, id := range ids {
		rec := need.Get(f.s.Read(ctx, ledger.Locator{ID: id}))(f.t)
		if rec.Operation.State == ledger.Pending {
			f.fatalf("%s is in flight for ever: %+v", id, rec)
		}
		if rec.Operation.State != ledger.Uncertain {
			continue
		}
		if _, err := ledger.Decide(ctx, f.s, ledger.Decision{ChangeID: f.id(), ID: id, Version: rec.Operation.Version, Actor: ann, Reason: "asked", Verb: ledger.VerbConfirm}); err != nil {
			f.fatalf("%s cannot be decided: %v", id, err)
		}
	}
	last := need.Get(f.s.Info(ctx))(f.t).LastSeq
	begin(f.t, f.s, func(r *ledger.BeginRequest) { r.Key = f.id() })
	if now := need.Get(f.s.Info(ctx))(f.t).LastSeq; now != last+1 {
		f.fatalf("event %d after %d", now, last)
	}
	f.check()
}

// jsonItems are the items of a JSON array, as written.
func jsonItems(s string) []string {
	if !strings.HasPrefix(s, "[") {
		return []string{s}
	}
	return slices.Collect(func(yield func(string) bool) {
		depth, quoted, from := 0, false, 1
		for i := 1; i < len(s); i++ {
			switch c := s[i]; {
			case c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case quoted:
			case c == '[' || c == '{':
				depth++
			case (c == ',' || c == ']') && depth == 0:
				if !yield(s[from:i]) {
					return
				}
				from = i + 1
			case c == ']' || c == '}':
				depth--
			}
		}
	})
}
