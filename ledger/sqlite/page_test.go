package sqlite

import (
	"cmp"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/tables"
)

// board is a ledger that is scattered anew many times. The guards that would
// forbid the shortcut are dropped; the triggers that keep list and counts are not.
type board struct {
	s     *Store
	db    *sql.DB
	c     *clock
	stmts map[string]*sql.Stmt
}

func newBoard(t *testing.T) *board {
	s, c := openTest(t)
	b := &board{s: s, db: rawDB(t, s.path), c: c, stmts: map[string]*sql.Stmt{}}
	need.Get(b.db.Exec(`PRAGMA synchronous = OFF; DROP TRIGGER operations_guard_insert; DROP TRIGGER operations_guard_update;
		DROP TRIGGER operations_complete_update; DROP TRIGGER grants_guard_insert`))(t)
	for _, guard := range []string{"operations", "attempts", "events", "grants", "open"} {
		need.Get(b.db.Exec(`DROP TRIGGER ` + guard + `_guard_delete`))(t)
	}
	return b
}

func (b *board) exec(t *rapid.T, query string, args ...any) {
	st := b.stmts[query]
	if st == nil {
		var err error
		if st, err = b.db.Prepare(query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		b.stmts[query] = st
	}
	if _, err := st.Exec(args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// scatter fills the ledger with operations in every state a row can be in,
// around the clock's now, and prices some.
func (b *board) scatter(t *rapid.T) []string {
	s, c := b.s, b.c
	exec := func(query string, args ...any) { b.exec(t, query, args...) }
	for _, table := range []string{"open_operations", "grants", "attempts", "events", "operations", "total"} {
		exec(`DELETE FROM ` + table)
	}
	s.newest.Store(0)
	now := c.Now()
	near := func(label string) int64 { // a time near now, none, or never
		return rapid.SampledFrom([]int64{0, tables.Millis(now) - 900_000, tables.Millis(now) - 600_000, tables.Millis(now) - 1, tables.Millis(now), tables.Millis(now) + 1, tables.Millis(now) + 60_000, tables.Millis(ledger.Never)}).Draw(t, label)
	}
	soon := func(label string) int64 {
		return rapid.SampledFrom([]int64{tables.Millis(now) - 900_000, tables.Millis(now) - 1, tables.Millis(now), tables.Millis(now) + 1, tables.Millis(now) + 60_000}).Draw(t, label)
	}
	var ids []string
	for i := range rapid.IntRange(1, 40).Draw(t, "operations") {
		id := fmt.Sprintf("%s-%02d", rapid.SampledFrom([]string{"aa", "Ab", "zz"}).Draw(t, "prefix"), i)
		ids = append(ids, id)
		state := rapid.SampledFrom([]string{"pending", "pending", "committed", "failed", "uncertain", "uncertain", "uncertain", "abandoned"}).Draw(t, "state")
		created := tables.Millis(now) - rapid.Int64Range(0, 3).Draw(t, "age")*3_600_000
		exec(`INSERT INTO operations (id, kind, key, title, target, fingerprint, token, source, input, created_at, updated_at, deadline_at, actor)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, '{}', ?, ?, ?, 'billing')`,
			id, rapid.SampledFrom([]string{"stripe.charge", "mail.send", "Mail"}).Draw(t, "kind"), "k"+id,
			rapid.SampledFrom([]string{"", "100% off_now", "[a]*b?", "Ünïcode", "charge"}).Draw(t, "title"),
			rapid.SampledFrom([]string{"", "web", "api"}).Draw(t, "target"), rapid.SampledFrom([]string{"", "f1", "f2"}).Draw(t, "fingerprint"),
			"tok"+id, rapid.SampledFrom([]string{"billing", "Ägent"}).Draw(t, "source"),
			created-3_600_000, created, soon("deadline")+24*3_600_000)
		live, deadline := "", int64(0)
		if state == "pending" {
			live, deadline = id+".1", soon("deadline")
		}
		exec(`UPDATE operations SET state = ?, version = version + 1, live_attempt = ?, deadline_at = ?, conflict = ?, doubted = ?, hands_off = ?,
			parked_until = ?, recheck_at = ?, error_class = ?, change_id = ?, actor = 'ann', reason = 'x' WHERE id = ?`,
			state, live, max(deadline, created), rapid.SampledFrom([]string{"", "", "", "duplicate", "contradiction"}).Draw(t, "conflict"),
			rapid.IntRange(0, 1).Draw(t, "doubted"), rapid.IntRange(0, 1).Draw(t, "hands_off"),
			rapid.SampledFrom([]int64{0, 0, 0, tables.Millis(now) - 1, tables.Millis(now), tables.Millis(now) + 1}).Draw(t, "parked"),
			rapid.SampledFrom([]int64{0, 0, 0, tables.Millis(now) + 5}).Draw(t, "recheck"),
			rapid.SampledFrom([]string{"", "timeout"}).Draw(t, "error"), "c"+id, id)
		if rapid.IntRange(0, 3).Draw(t, "granted") == 0 {
			exec(`INSERT INTO grants (id, operation_id, version, basis, actor, created_at, expires_at) VALUES (?, ?, 3, 'proof', 'ann', ?, ?)`,
				"g"+id, id, rapid.SampledFrom([]int64{tables.Millis(now) - 600_001, tables.Millis(now) - 600_000, tables.Millis(now) - 599_999, tables.Millis(now)}).Draw(t, "granted_at"), soon("grant_until"))
		}
		if rapid.Bool().Draw(t, "priced") {
			cost := func(label string) ledger.Cost {
				c := ledger.Cost{Value: float64(rapid.IntRange(0, 3).Draw(t, label)) * 50.5}
				if rapid.Bool().Draw(t, label+" word") {
					c.Word = "high"
				}
				return c
			}
			// Priced at another time than now, as a clock that has moved since leaves it.
			c.Advance(time.Duration(rapid.Int64Range(-1, 1).Draw(t, "moved")) * time.Minute)
			if err := s.Price(ctx, []ledger.Pricing{{OperationID: id, Digest: "d", Downstream: rapid.SampledFrom([]string{"", "stripe"}).Draw(t, "downstream"),
				Duplicate: cost("duplicate"), Miss: cost("miss"), Odds: 0.5, Rank: float64(rapid.IntRange(0, 3).Draw(t, "rank")) * 10.25,
				DecideAt: tables.At(near("decide")), ReadAt: tables.At(near("read")), Reads: 2}}); err != nil {
				t.Fatal(err)
			}
			c.now.Store(tables.Millis(now))
		}
	}
	if rapid.Bool().Draw(t, "ripen") {
		exec(`UPDATE open_operations SET ripe = 1 WHERE class = 'reading' AND clock_at <= ?`, tables.Millis(now))
	}
	return ids
}

func less(order ledger.Order) func(a, b ledger.Row) int {
	arrival := func(r ledger.Row) string { return r.ID[len(r.ID)-2:] }
	calm := func(r ledger.Row) int {
		if r.Conflict == ledger.NoConflict {
			return 1
		}
		return 0
	}
	return func(a, b ledger.Row) int {
		switch order {
		case ledger.OrderLoss:
			return cmp.Or(calm(a)-calm(b), cmp.Compare(b.Pricing.Rank, a.Pricing.Rank), a.CreatedAt.Compare(b.CreatedAt), strings.Compare(arrival(a), arrival(b)))
		case ledger.OrderNewest:
			return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(arrival(b), arrival(a)))
		}
		return strings.Compare(arrival(a), arrival(b))
	}
}

// The lists, their order and their counts in SQL are those of ledger.Row in Go,
// whatever the clocks say.
func TestListsAgreeWithRows(t *testing.T) {
	t.Parallel()
	need.FixSeed()
	b, n, most := newBoard(t), 0, need.Steps(12, math.MaxInt)
	if ledgertest.Racing {
		most = min(most, 20)
	}
	s, c := b.s, b.c
	rapid.Check(t, func(t *rapid.T) {
		if n++; n > most {
			return
		}
		ids := b.scatter(t)
		now := c.Now()
		var all []ledger.Row
		for _, id := range ids {
			rec := need.Get(s.Read(ctx, ledger.Locator{ID: id}))(t)
			all = append(all, rec.Row())
		}
		text := rapid.SampledFrom([]string{"", "", "charge", "-mail", "[a]*", "b?", "*", "?", "ünï", "100%", "f_n", "state:uncertain", "-state:pending", "lane:decide", "-lane:resolved",
			"kind:mail*", "kind:mail.send", "id:aa", "id:ab", "downstream:stripe", "-downstream:stripe", "source:BILL", "source:ägent", "error:timeout",
			"key:kzz", "key:zz", "token:TOK", "token:tokaa", "receipt:x", "-id:aa", "web", "ap", "group:parked", "group:overdue", "group:elsewhere", "-group:elsewhere lane:not_landed", "group:said", "group:duplicate", "group:reading", "group:in_flight", "-group:in_flight", "group:landed", "group:never_sent",
			"needs:you", "-needs:you", "needs:you kind:mail*", "error:deadline", "-error:*", "downstream:mailer -state:failed", "downstream:mailer OR needs:you", "parked:yes", "-parked:yes", "parked:no", "since:1h30m", "-since:90m", "by:ANN", "age>2h", "age<1h30m", "cost>50", "-cost>50", "risk>10.25", "risk<10.25 state:uncertain"}).Draw(t, "filter")
		filter := need.Get(ledger.ParseFilter(text))(t)
		if rapid.Bool().Draw(t, "policy") {
			filter = filter.By(func(kind string) string { return map[string]string{"mail.send": "mailer", "Mail": "stripe"}[kind] })
		}
		for i := range all {
			if !strings.Contains(text, "group:") { // a list says it where its filter asks
				all[i].Group = ""
			}
		}
		want, matched := ledger.Counts{ByState: map[ledger.State]int{}}, ledger.Needing{}
		for _, r := range all {
			want.All++
			want.ByState[r.State]++
			want.Count(r, now)
			if filter.Match(r, now) {
				matched.Count(r, now)
			}
			switch r.TabAt(now) {
			case ledger.TabParked:
				want.Parked++
			case ledger.TabChecking:
				want.Checking++
			case ledger.TabInFlight:
				want.InFlight++
			case ledger.TabSettled:
				want.Settled++
			}
		}
		got := need.Get(s.Counts(ctx, now))(t)
		for k, v := range got.ByState {
			if v == 0 {
				delete(got.ByState, k)
			}
		}
		if d := diff(want, got); d != "" {
			t.Fatalf("counts (-want +got):\n%s", d)
		}
		if got, err := s.Needing(ctx, filter, now); err != nil || got != matched {
			t.Fatalf("filter %q: %+v need a person, want %+v (%v)", text, got, matched, err)
		}
		for _, tab := range []ledger.Tab{ledger.TabNeedsYou, ledger.TabChecking, ledger.TabInFlight, ledger.TabSettled, ledger.TabParked, ledger.TabAll} {
			orders := []ledger.Order{ledger.OrderLoss, ledger.OrderNewest, ledger.OrderOldest}
			if ledgertest.Racing { // slow, so that each round has one, and there are enough rounds
				orders = []ledger.Order{rapid.SampledFrom(orders).Draw(t, "order")}
			}
			for _, order := range orders {
				s.FirstStep = rapid.SampledFrom([]int{1, 3, 400}).Draw(t, "rows of a step")
				sorted := order
				if order == ledger.OrderLoss && (tab == ledger.TabAll || tab == ledger.TabSettled) {
					sorted = ledger.OrderNewest
				}
				var want []ledger.Row
				for _, r := range all {
					if (tab == ledger.TabAll || r.TabAt(now) == tab) && filter.Match(r, now) {
						want = append(want, r)
					}
				}
				slices.SortFunc(want, less(sorted))
				q := ledger.Query{Tab: tab, Order: order, Now: now, Limit: rapid.IntRange(1, 7).Draw(t, "limit"), Filter: filter,
					Within: rapid.SampledFrom([]time.Duration{0, 1}).Draw(t, "within")}
				var got []ledger.Row
				for {
					page := need.Get(s.Page(ctx, q))(t)
					need.Must(t, len(page.Rows) <= q.Limit, "%d rows for a limit of %d", len(page.Rows), q.Limit)
					got = append(got, page.Rows...)
					if q.After = page.Next; page.Next == "" {
						break
					}
				}
				if d := diff(want, got); d != "" {
					t.Fatalf("%s by %s, filter %q (-want +got):\n%s", tab, order, text, d)
				}
			}
		}
	})
}

// A search for a text goes on where it stopped, and says how far it came.
func TestASearchIsBoundedAndGoesOn(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	const many = 60
	for i := range many {
		b := begin(t, s, func(r *ledger.BeginRequest) { r.Key = fmt.Sprintf("k%02d", i) })
		settleAs(t, s, b.Attempt.ID, ledger.OutcomeCommitted)
		c.Advance(time.Second)
	}
	s.FirstStep = 5
	f := need.Get(ledger.ParseFilter("k00"))(t)
	for _, tab := range []ledger.Tab{ledger.TabSettled, ledger.TabAll} {
		q, pages, searched, found := ledger.Query{Tab: tab, Filter: f, Within: 1, Now: s.now()}, 0, 0, 0
		for {
			page := need.Get(s.Page(ctx, q))(t)
			pages, searched, found = pages+1, searched+page.Searched, found+len(page.Rows)
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		need.That(t, pages >= 3 && searched >= many-s.FirstStep && found == 1,
			"%s: %d found on %d pages, %d searched", tab, found, pages, searched)
		q.After, q.Within = "", 0
		if page, err := s.Page(ctx, q); err != nil || len(page.Rows) != 1 || page.Next != "" {
			t.Errorf("%s: %+v %v", tab, page, err)
		}
	}
}
