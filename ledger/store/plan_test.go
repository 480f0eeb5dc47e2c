package store

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
)

// asking is a database that keeps what it was asked.
type asking struct {
	lasting
	said map[string][]any
}

type askingTx struct {
	Tx
	of *asking
}

func (a *asking) View(ctx context.Context, read func(Tx) error) error {
	return a.lasting.View(ctx, func(tx Tx) error { return read(askingTx{tx, a}) })
}

func (a *asking) Update(ctx context.Context, change func(Tx) error) error {
	return a.lasting.Update(ctx, func(tx Tx) error { return change(askingTx{tx, a}) })
}

func (t askingTx) Query(query string, args ...any) (Rows, error) {
	t.of.said[query] = args
	return t.Tx.Query(query, args...)
}

func (t askingTx) Exec(query string, args ...any) (int64, error) {
	t.of.said[query] = args
	return t.Tx.Exec(query, args...)
}

// plan says how a query would be answered, a line for each step.
func (a *asking) plan(query string, args []any) (steps []string, err error) {
	return Collect(a.lasting, func(rows Rows) (line string, err error) {
		var id, parent, unused int64
		return line, rows.Scan(&id, &parent, &unused, &line)
	}, "EXPLAIN QUERY PLAN "+query, args...)
}

// What reads a whole table or index, and what is sorted.
var (
	// Of few rows: who leads, holds, sums, and what a step before has found.
	small    = regexp.MustCompile(`^SCAN (CONSTANT ROW|meta|lead|hold|h|h USING .*|some|r|few|q|needs|\(?subquery.*|total)$`)
	flying   = regexp.MustCompile(`^SCAN o USING (COVERING )?INDEX op_pending$`)
	unclosed = regexp.MustCompile(`^SCAN o USING (COVERING )?INDEX op_(open|changed)$`)
	ended    = regexp.MustCompile(`^SCAN (e|ev)$`) // from its end, until there are enough
	oldest   = regexp.MustCompile(`^SCAN o$`)      // from its beginning, until there are enough
	events   = regexp.MustCompile(`^SCAN i( USING INDEX outage_by_last)?$`)
	sorted   = regexp.MustCompile(`^USE TEMP B-TREE `)
)

// No statement reads the whole ledger but where a list goes on from its beginning or end. What is
// sorted is what a statement has found, and never on the way of a page.
func TestStatementsAreAnsweredByIndexes(t *testing.T) {
	t.Parallel()
	db := &asking{inMemory(t), map[string][]any{}}
	s, ctx := New(db, digestkey.Named(""), ""), context.Background()
	billing, ann := ledger.Actor{Name: "billing", Machine: true}, ledger.Actor{Name: "ann"}
	serial := 0
	begin := func(key string, does ...func(*ledger.BeginRequest)) ledger.BeginResult {
		serial++
		id := fmt.Sprint("o-", serial)
		r := ledger.BeginRequest{ChangeID: "c-" + id, OperationID: id, AttemptID: "a-" + id, Kind: "k", Key: key, Token: "t" + id,
			Gate: fmt.Sprintf("%032d", serial), Target: "invoice 1", Deadline: time.Minute, TokenSent: true, Actor: billing}
		for _, f := range does {
			f(&r)
		}
		return need.Get(ledger.Begin(ctx, s, r))(t)
	}
	settle := func(attempt string, outcome ledger.Outcome, receipt string) ledger.Applied {
		return need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: attempt, Outcome: outcome,
			Receipt: receipt, ErrorClass: ledger.ClassTimeout, Error: "no answer", TokenSent: true, Actor: billing}))(t)
	}
	doubt := begin("doubt").Operation.ID
	settle("a-"+doubt, ledger.OutcomeUncertain, "")
	burst := func(string) ledger.Burst { return ledger.Burst{Errors: 1, Within: time.Minute, Gap: time.Minute} }
	need.OK(t, s.Fold(ctx, []string{doubt}, nil, false, burst))
	outages := need.Get(s.Outages(ctx, time.Now(), 5))(t)
	need.Must(t, len(outages) == 1, "%d outages", len(outages))
	page := func(tab ledger.Tab, order ledger.Order, filter string) {
		q := ledger.Query{Tab: tab, Order: order, Filter: need.Get(ledger.ParseFilter(filter))(t), Limit: 1}
		need.Get(s.Page(ctx, q))(t)
		q.Now = time.Now()
		if q = plain(askingTx{db.lasting, db}, q); q.After == "" {
			q.After = append(cursor{}, []any{1, -4.5, 3}[:len(sortingOf(q).columns)]...).text(q)
		}
		need.Get(s.Page(ctx, q))(t)
	}
	type paths struct {
		do  func()
		may []*regexp.Regexp
	}
	of := map[string]paths{
		"begin":  {func() { begin("one"); begin("one") }, nil},
		"settle": {func() { settle("a-"+begin("two").Operation.ID, ledger.OutcomeCommitted, "ch_1") }, nil},
		"late": {func() {
			id := begin("three").Operation.ID
			settle("a-"+id, ledger.OutcomeUncertain, "")
			settle("a-"+id, ledger.OutcomeCommitted, "ch_2")
		}, nil},
		"check": {func() {
			rec := need.Get(s.Records(ctx, []string{doubt}))(t)[0]
			for _, verdict := range []ledger.Verdict{ledger.CannotTell, ledger.Landed} {
				need.Get(ledger.Observe(ctx, s, ledger.Observation{ChangeID: ledger.NewID(), Version: rec.Operation.Version, Settles: true,
					Actor: billing, Read: ledger.Read{ID: ledger.NewID(), OperationID: doubt, BeganAt: time.Now(), EndedAt: time.Now(),
						Verdict: verdict, Reason: "it is there", Found: 1, Receipts: []string{"ch_3"}},
					Pricing: &ledger.Pricing{OperationID: doubt, Digest: "p"}}))(t)
			}
			need.Get(s.Siblings(ctx, ledger.SiblingQuery{Kind: "k", Tokens: []string{"a", "b"}, Limit: 5}))(t)
			need.Get(s.Siblings(ctx, ledger.SiblingQuery{Kind: "k", Before: time.Now(), Limit: 5}))(t)
			need.Get(s.Due(ctx, "", time.Now(), 5))(t)
			need.Get(s.Beside(ctx, []string{doubt}))(t)
			need.OK(t, s.Price(ctx, []ledger.Pricing{{OperationID: doubt, Digest: "p", Title: "a"}}))
		}, []*regexp.Regexp{sorted}},
		"awaited": {func() { _, _ = s.Read(ctx, ledger.Locator{Awaits: "there", Skip: ledger.AllParts}) }, []*regexp.Regexp{flying}},
		"upkeep":  {func() { need.Get(s.Unpriced(ctx, "q", 5))(t); need.Get(s.Expire(ctx, 5))(t) }, []*regexp.Regexp{flying, unclosed}},
		"found":   {func() { need.Get(s.Keyed(ctx, "one", 5))(t); need.Get(s.FieldNames(ctx))(t) }, []*regexp.Regexp{sorted}},
		"needs": {func() {
			page(ledger.TabNeedsYou, ledger.OrderLoss, "")
			page(ledger.TabChecking, ledger.OrderLoss, "kind:k cost>3")
		}, []*regexp.Regexp{unclosed, flying}},
		"newest": {func() { page(ledger.TabAll, "", ""); page(ledger.TabSettled, "", "kind:k age>1h lane:resolved") }, []*regexp.Regexp{ended}},
		"oldest": {func() {
			page(ledger.TabAll, ledger.OrderOldest, "")
			page(ledger.TabSettled, ledger.OrderOldest, "by:ann")
		}, []*regexp.Regexp{oldest}},
		"open": {func() {
			page(ledger.TabNeedsYou, ledger.OrderNewest, "")
			page(ledger.TabParked, ledger.OrderOldest, "word")
		}, []*regexp.Regexp{unclosed, flying, sorted}},
		"in outages": {func() { page(ledger.TabNeedsYou, ledger.OrderLoss, "outage:any") }, []*regexp.Regexp{unclosed, flying}},
		"history": {func() {
			need.Get(s.History(ctx, ledger.HistoryQuery{Operation: doubt, Since: "1", Limit: 3}))(t)
			need.Get(s.History(ctx, ledger.HistoryQuery{Since: "1", Newest: true, Limit: 3}))(t)
		}, []*regexp.Regexp{sorted}},
		"counts": {func() {
			need.Get(s.Counts(ctx, time.Now()))(t)
			need.Get(s.StateCounts(ctx, time.Now()))(t)
			need.Get(s.DoubtCounts(ctx))(t)
			need.Get(s.Needing(ctx, need.Get(ledger.ParseFilter("kind:k"))(t), time.Now()))(t)
		}, []*regexp.Regexp{unclosed, flying}},
		"outages": {func() {
			need.Get(s.Outages(ctx, time.Now(), 5))(t)
			need.OK(t, s.Sums(ctx, outages, time.Now()))
			need.Get(s.Outage(ctx, outages[0].ID, time.Now()))(t)
			need.OK(t, s.Fold(ctx, nil, nil, true, burst))
			need.Get(s.ChangeOutage(ctx, ledger.OutageChange{ChangeID: "take", ID: outages[0].ID, Verb: ledger.OutageTaken,
				Until: time.Now().Add(time.Hour), Actor: ann}))(t)
		}, nil},
	}
	for _, name := range []string{"key:one", "id:o-1", "receipt:ch_ kind:k", "token:to-1 -id:b",
		"01990000-0000-7000-8000-000000000000"} {
		for _, tab := range []ledger.Tab{ledger.TabAll, ledger.TabNeedsYou} {
			of[fmt.Sprint(name, " in ", tab)] = paths{func() { page(tab, ledger.OrderNewest, name) }, []*regexp.Regexp{sorted}}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		clear(db.said)
		of[name].do()
		need.That(t, len(db.said) > 0, "%s asks nothing", name)
		for _, query := range slices.Sorted(maps.Keys(db.said)) {
			steps, err := db.plan(query, db.said[query])
			need.OK(t, err)
			for i, step := range steps {
				sorts := sorted.MatchString(step) && strings.Contains(query, " AS k0") && !slices.ContainsFunc(steps[:i], flying.MatchString)
				bad := strings.HasPrefix(step, "SCAN ") || sorts
				if bad && !slices.ContainsFunc(append(of[name].may, small, events), func(may *regexp.Regexp) bool { return may.MatchString(step) }) {
					t.Errorf("%s: %s\n%s\n%s", name, step, strings.Join(steps, "\n"), query)
				}
			}
		}
	}
}

// Marks are given from where they have come to, so that no one reads the same operations again.
func TestMarksGoOnWhereTheyStopped(t *testing.T) {
	t.Parallel()
	db := &asking{inMemory(t), map[string][]any{}}
	s, ctx := New(db, digestkey.Named(""), ""), context.Background()
	begin := func(id string) {
		need.Get(ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: "c" + id, OperationID: id, AttemptID: "a" + id, Kind: "k", Key: id, Token: id,
			Deadline: time.Minute, Actor: ledger.Actor{Name: "billing", Machine: true}}))(t)
	}
	read := 0
	mark := func(limit int) bool {
		return need.Get(s.Mark(ctx, func(string) string { return "rules" }, func(o ledger.Operation) ledger.Marks {
			read++
			return ledger.Marks{Values: []string{"mark-" + o.ID}}
		}, limit))(t)
	}
	for _, id := range []string{"one", "two", "three"} {
		begin(id)
	}
	need.That(t, mark(2) && !mark(2) && read == 3, "%d were read", read)
	begin("four")
	for range 2 {
		need.That(t, !mark(9) && read == 4, "%d were read", read)
	}
	for _, id := range []string{"one", "four"} {
		found := need.Get(s.Marked(ctx, "mark-"+id, 5))(t)
		need.That(t, len(found) == 1 && found[0] == id, "%s: %q", id, found)
	}
	clear(db.said)
	mark(9)
	for query, args := range db.said {
		if strings.Contains(query, "mark_rules") {
			need.Equal(t, args[0], any(7), "the first that is looked at comes after the newest birth")
		}
	}
}
