package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/tables"
)

// plan says how SQLite would answer a query, a line for each step.
func plan(t *testing.T, s *Store, ask tables.Ask) []string {
	t.Helper()
	return texts(t, s, "EXPLAIN QUERY PLAN "+ask.Query, ask.Args...)
}

// Without statistics SQLite takes two indexes with one known column each for
// equally good. An index on the kind, chosen for others on the same target, reads the
// whole ledger for every row of a page.
func TestRelationsAreFoundByTheirOwnIndexes(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	own := regexp.MustCompile(`^SEARCH t USING (COVERING )?INDEX operations_by_target `)
	check := func(what string, steps []string) {
		t.Helper()
		seen := 0
		for _, step := range steps {
			if !strings.HasPrefix(step, "SEARCH t ") && !strings.HasPrefix(step, "SCAN t") {
				continue
			}
			if seen++; !own.MatchString(step) {
				t.Errorf("%s: %s", what, step)
			}
		}
		if seen == 0 {
			t.Errorf("%s looks for no relation:\n%s", what, strings.Join(steps, "\n"))
		}
	}
	for _, tab := range []ledger.Tab{ledger.TabNeedsYou, ledger.TabChecking, ledger.TabSettled, ledger.TabAll} {
		for _, order := range []ledger.Order{ledger.OrderLoss, ledger.OrderNewest, ledger.OrderOldest} {
			check(string(tab)+" "+string(order), plan(t, s, lastPage(t, s, ledger.Query{Tab: tab, Order: order})))
		}
	}
	on := func(r *ledger.BeginRequest) { r.Target = "customer 1" }
	one := begin(t, s, on).Operation.ID
	begin(t, s, on)
	related := 0
	for _, ask := range queries(s, func(on *tables.Store) { need.Get(on.Read(ctx, ledger.Locator{ID: one}))(t) }) {
		if strings.Contains(ask.Query, "overtook") {
			related++
			check("one operation", plan(t, s, ask))
		}
	}
	need.That(t, related != 0, "no relations of the operation are read")
	theirs := regexp.MustCompile(`^SEARCH ([oc] USING (COVERING )?INDEX operations_by_target |t USING INDEX sqlite_autoindex_operations)`)
	for _, ask := range queries(s, func(on *tables.Store) { need.Get(on.Beside(ctx, []string{one}))(t) }) {
		for _, step := range plan(t, s, ask) {
			if strings.HasPrefix(step, "S") && !theirs.MatchString(step) && !strings.Contains(step, "SCAN p VIRTUAL TABLE") {
				t.Errorf("beside an operation: %s", step)
			}
		}
	}
}

// What is open under a gate is found by the index that lets one be.
func TestWhatIsOpenIsFoundByItsGate(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	asked := 0
	for _, ask := range queries(s, func(on *tables.Store) {
		if _, err := on.Read(ctx, ledger.Locator{Key: "k", Gate: "print", Skip: ledger.AllParts}); !errors.Is(err, ledger.ErrNotFound) {
			t.Error(err)
		}
	}) {
		if slices.Contains(ask.Args, any("print")) {
			asked++
			steps := strings.Join(plan(t, s, ask), "\n")
			need.That(t, strings.HasPrefix(steps, "SEARCH operations USING INDEX operations_by_gate (gate>? AND gate<?)"), "%s", steps)
		}
	}
	need.That(t, asked == 1, "it is asked for %d times", asked)
}

// A bare LIMIT ? or GLOB ? has the statement prepared anew at every execution, which
// takes longer than to read a page.
func TestLimitsAndPatternsAreNoPartOfThePlan(t *testing.T) {
	t.Parallel()
	bare := regexp.MustCompile(`LIMIT \?\d*([^\d+]|$)|(GLOB|LIKE) \?`)
	check := func(what, text string) {
		t.Helper()
		if found := bare.FindString(text); found != "" {
			t.Errorf("%s: %q, want LIMIT ?+0 and GLOB +?", what, found)
		}
	}
	files := append(need.Get(filepath.Glob("*.go"))(t), need.Get(filepath.Glob("../tables/*.go"))(t)...)
	need.That(t, len(files) >= 40, "only %d files are looked at", len(files))
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			check(file, string(need.Get(os.ReadFile(file))(t)))
		}
	}
	s, _ := openTest(t)
	for _, text := range []string{"", "word source:billing by:ann kind:a*", "id:0199 word source:billing by:ann", "word (source:billing OR by:ann -id:0199)"} {
		f := need.Get(ledger.ParseFilter(text))(t)
		for _, ask := range queries(s, func(on *tables.Store) { need.Get(on.Page(ctx, ledger.Query{Filter: f}))(t) }) {
			check("page", ask.Query)
		}
	}
}

// A word is looked for in the classes that a tab may have, and in no other.
func TestAWordIsLookedForWhereItsTabIs(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	word := need.Get(ledger.ParseFilter("word"))(t)
	for tab, classes := range map[ledger.Tab]int{ledger.TabNeedsYou: 5, ledger.TabChecking: 2, ledger.TabSettled: 2} {
		steps := plan(t, s, lastPage(t, s, ledger.Query{Tab: tab, Order: ledger.OrderLoss, Filter: word}))
		read := 0
		for _, step := range steps {
			if strings.HasPrefix(step, "SEARCH h USING INDEX open_by_age (class=?)") {
				read++
			} else if strings.HasPrefix(step, "SCAN h") {
				t.Errorf("%s: %s", tab, step)
			}
		}
		if read != classes {
			t.Errorf("%s reads the texts of %d classes, want %d:\n%s", tab, read, classes, strings.Join(steps, "\n"))
		}
	}
}

// What is named by its id, key, token or receipt is found without reading the ledger.
func TestNamesAreFoundByTheirIndexes(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	for text, indexes := range map[string]int{"id:0199": 1, "key:k-1": 3, "token:indoubt-": 1, "receipt:ch_": 1, "id:0199 OR receipt:ch_": 2, "(key:k-1 source:a) OR token:t -kind:b": 4, "01990000-0000-7000-8000-000000000000": 6} {
		f := need.Get(ledger.ParseFilter(text))(t)
		for _, tab := range []ledger.Tab{ledger.TabNeedsYou, ledger.TabSettled, ledger.TabAll} {
			steps, named := plan(t, s, lastPage(t, s, ledger.Query{Tab: tab, Order: ledger.OrderNewest, Filter: f})), 0
			for _, step := range steps {
				if strings.HasPrefix(step, "SEARCH operations USING") && strings.Contains(step, ">? AND ") {
					named++
				} else if scan, whole := strings.CutPrefix(step, "SCAN "); whole && !regexp.MustCompile(`^(named|page|slice|few|\(subquery)|INDEX operations_pending`).MatchString(scan) {
					t.Errorf("%s in %s: %s", text, tab, step)
				}
			}
			if named != indexes {
				t.Errorf("%s in %s uses %d indexes:\n%s", text, tab, named, strings.Join(steps, "\n"))
			}
		}
	}
}

// What a check may find of others is found by their tokens, or by what landed of the kind.
func TestSiblingsAreFoundByTheirIndexes(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	for index, q := range map[string]ledger.SiblingQuery{"operations_by_token": {Tokens: []string{"a", "b"}}, "operations_by_answer": {}} {
		for _, ask := range queries(s, func(on *tables.Store) { need.Get(on.Siblings(ctx, q))(t) }) {
			steps := strings.Join(plan(t, s, ask), "\n")
			need.Contains(t, steps, "SEARCH o USING INDEX "+index, "SEARCH e USING INDEX events_by_operation")
			need.Lacks(t, steps, "SCAN o")
			need.Lacks(t, steps, "SCAN e")
		}
	}
}

// An attempt and the history of an operation are found without reading the ledger.
func TestAnOperationIsFoundByItsParts(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	for _, ask := range queries(s, func(on *tables.Store) {
		if _, err := on.Read(ctx, ledger.Locator{AttemptID: "a.1", Skip: ledger.AllParts}); !errors.Is(err, ledger.ErrNotFound) {
			t.Error(err)
		}
	}) {
		for _, step := range plan(t, s, ask) {
			need.That(t, !strings.HasPrefix(step, "SCAN "), "%v", step)
		}
	}
	for _, newest := range []bool{false, true} {
		query, args, err := historyQuery(ledger.HistoryQuery{Operation: "a", Since: "3", Before: 9, Newest: newest, Limit: 10})
		need.OK(t, err)
		if steps := plan(t, s, tables.Ask{Query: query, Args: args}); len(steps) != 1 || !strings.Contains(steps[0], "events_by_operation (operation_id=? AND seq>? AND seq<?)") {
			t.Error(steps)
		}
	}
	o := begin(t, s).Operation
	c.Advance(time.Second)
	need.Get(rawDB(t, s.path).Exec(`INSERT INTO events (id, operation_id, verb, actor) VALUES ('n', ?, 'note', 'ann')`, o.ID))(t)
	settleAs(t, s, o.LiveAttempt, ledger.OutcomeUncertain)
	for i, want := range []int{3, 2, 1, 0} {
		if events := need.Get(s.History(ctx, ledger.HistoryQuery{Operation: o.ID, Since: ledger.NumberCursor(int64(i)), Limit: 10}))(t); len(events) != want {
			t.Errorf("%d events of %s after %d, want %d", len(events), o.ID, i, want)
		}
	}
}

// Outages are listed, looked at and found over without reading the ledger.
func TestOutagesAreFoundByTheirIndexes(t *testing.T) {
	t.Parallel()
	s, _ := guarded(t)
	id := outage(t, s).ID
	asks := queries(s, func(on *tables.Store) {
		need.Get(on.Outages(ctx, s.now().Add(time.Hour), 5))(t)
		need.Get(on.Outage(ctx, id, s.now()))(t)
		need.OK(t, on.Fold(ctx, []string{"uncertain"}, false, func(string) ledger.Burst { return ledger.Burst{Errors: 2} }))
		need.OK(t, on.Fold(ctx, nil, true, func(string) ledger.Burst { return ledger.Burst{Errors: 2} }))
	})
	asks = append(asks, tables.Ask{Query: outagesSince, Args: []any{5, 5}})
	for _, index := range []string{"outages_by_last", "outages_growing", "attempts_lost"} {
		need.That(t, slices.ContainsFunc(asks, func(a tables.Ask) bool { return strings.Contains(a.Query, index) }),
			"nothing asks for %s", index)
	}
	for _, ask := range asks {
		listed := strings.Contains(ask.Query, "INDEXED BY outages_by_last")
		for _, step := range plan(t, s, ask) {
			need.That(t, !listed || !strings.HasPrefix(step, "USE TEMP B-TREE"), "%s is sorted: %s", ask.Query, step)
			if scan, whole := strings.CutPrefix(step, "SCAN "); whole && !regexp.MustCompile(`^(c|e|i|k|p|s|w|others|came|CONSTANT ROW|\(subquery.*|json_each.*|place|(outages|operations|events) USING INDEX (outages_\w+|operations_resolved|events_of_runs))\b`).MatchString(scan) {
				t.Errorf("%s: %s", ask.Query, step)
			}
		}
	}
}

// What is to be marked is found without reading the ledger.
func TestRulesOfKindsAreFoundByTheirIndex(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	asks := queries(s, func(on *tables.Store) { need.Get(on.Mark(ctx, func(string) string { return "" }, nil, 1))(t) })
	for _, step := range plan(t, s, asks[0]) {
		if strings.Contains(step, "operations") && !strings.Contains(step, "operations_by_mark_rules") || strings.HasPrefix(step, "USE TEMP B-TREE") {
			t.Error(step)
		}
	}
	// The plan does not say where the index is entered: behind the pair, or at the first
	// of the many operations that have it.
	rows := need.Get(s.rows(ctx, "EXPLAIN "+asks[0].Query))(t)
	defer rows.Close()
	var seeks []string
	for rows.Next() {
		var op string
		var fields, other any
		need.OK(t, rows.Scan(&other, &op, &other, &other, &other, &fields, &other, &other))
		if strings.HasPrefix(op, "SeekG") {
			seeks = append(seeks, fmt.Sprint(op, fields))
		}
	}
	need.OK(t, rows.Err())
	need.That(t, slices.Equal(seeks, []string{"SeekGT2", "SeekGT1"}), "%q", seeks)
}

// SQLite looks for the rows that refer to one that is deleted, whether a guard has done so or
// not. Without an index it reads all of them.
func TestWhatRefersIsFoundByAnIndex(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	refers := texts(t, s, `SELECT t.name || '.' || f."from" FROM sqlite_schema t, pragma_foreign_key_list(t.name) f WHERE t.type = 'table' AND f.seq = 0`)
	found := texts(t, s, `SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_index_list(t.name) i, pragma_index_info(i.name) c WHERE t.type = 'table' AND c.seqno = 0 AND NOT i.partial`)
	need.That(t, len(refers) >= 3, "%d columns refer to others", len(refers))
	for _, column := range refers {
		need.That(t, slices.Contains(found, column), "%s refers to another table, and has no index", column)
	}
}
