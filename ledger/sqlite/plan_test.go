package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// plan says how SQLite would answer a query, a line for each step.
func plan(t *testing.T, s *Store, query string, args ...any) []string {
	t.Helper()
	steps, err := collect(outside{ctx, s.handle}, func(rows *sql.Rows) (detail string, err error) {
		var id, parent, unused int
		return detail, rows.Scan(&id, &parent, &unused, &detail)
	}, "EXPLAIN QUERY PLAN "+query, args...)
	need.OK(t, err)
	return steps
}

// Without statistics SQLite takes two indexes with one known column each for
// equally good. An index on the kind, chosen for same-input operations, reads the
// whole ledger for every row of a page.
func TestRelationsAreFoundByTheirOwnIndexes(t *testing.T) {
	s, _ := openTest(t)
	own := regexp.MustCompile(`^SEARCH t USING (COVERING )?INDEX operations_by_(fingerprint|key_fields|target) `)
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
		for order := range sortings {
			b := &binder{args: []any{ms(time.Now())}}
			query := pageSQL(b, ledger.Query{Tab: tab, Order: order, Limit: 50}, nil, nil, false, "")
			check(string(tab)+" "+string(order), plan(t, s, query, b.args...))
		}
	}
	check("one operation", plan(t, s, relatedQuery, "id"))
}

// A bare LIMIT ? or GLOB ? has the statement prepared anew at every execution, which
// takes longer than to read a page.
func TestLimitsAndPatternsAreNoPartOfThePlan(t *testing.T) {
	bare := regexp.MustCompile(`LIMIT \?\d*([^\d+]|$)|(GLOB|LIKE) \?`)
	check := func(what, text string) {
		t.Helper()
		if found := bare.FindString(text); found != "" {
			t.Errorf("%s: %q, want LIMIT ?+0 and GLOB +?", what, found)
		}
	}
	files := need.Get(filepath.Glob("*.go"))(t)
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			check(file, string(need.Get(os.ReadFile(file))(t)))
		}
	}
	for _, named := range []bool{false, true} {
		for _, text := range []string{"", "id:0199 word source:billing by:ann"} {
			check("page", pageSQL(&binder{args: []any{0}}, ledger.Query{Tab: ledger.TabAll, Order: ledger.OrderLoss, Filter: need.Get(ledger.ParseFilter(text))(t)}, nil, nil, named, ""))
		}
	}
}

// A word is looked for in the classes that a tab may have, and in no other.
func TestAWordIsLookedForWhereItsTabIs(t *testing.T) {
	s, _ := openTest(t)
	word := need.Get(ledger.ParseFilter("word"))(t)
	for tab, classes := range map[ledger.Tab]int{ledger.TabNeedsYou: 5, ledger.TabChecking: 2, ledger.TabSettled: 2} {
		b := &binder{args: []any{ms(time.Now())}}
		steps := plan(t, s, pageSQL(b, ledger.Query{Tab: tab, Order: ledger.OrderLoss, Filter: word, Limit: 50}, nil, nil, false, ""), b.args...)
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
	s, _ := openTest(t)
	for text, indexes := range map[string]int{"id:0199": 1, "key:k-1": 2, "token:indoubt-": 1, "receipt:ch_": 1, "01990000-0000-7000-8000-000000000000": 5} {
		f := need.Get(ledger.ParseFilter(text))(t)
		for _, tab := range []ledger.Tab{ledger.TabNeedsYou, ledger.TabSettled, ledger.TabAll} {
			b := &binder{args: []any{ms(time.Now())}}
			query := pageSQL(b, ledger.Query{Tab: tab, Order: ledger.OrderNewest, Filter: f, Limit: 50}, nil, nil, true, "")
			named := 0
			for _, step := range plan(t, s, query, b.args...) {
				if strings.HasPrefix(step, "SEARCH operations USING") && strings.Contains(step, ">? AND ") {
					named++
				} else if whole := strings.HasPrefix(step, "SCAN "); whole && !strings.HasPrefix(step, "SCAN named") && !strings.HasPrefix(step, "SCAN page") && !strings.HasPrefix(step, "SCAN (subquery") && !strings.Contains(step, "INDEX operations_pending") {
					t.Errorf("%s in %s: %s", text, tab, step)
				}
			}
			if named != indexes {
				t.Errorf("%s in %s uses %d indexes:\n%s", text, tab, named, strings.Join(plan(t, s, query, b.args...), "\n"))
			}
		}
	}
}

// An attempt and the history of an operation are found without reading the ledger.
func TestAnOperationIsFoundByItsParts(t *testing.T) {
	s, c := openTest(t)
	where, args, err := locate(ledger.Locator{AttemptID: "a.1"})
	need.OK(t, err)
	for _, step := range plan(t, s, recordShape{where: where, skip: ledger.AllParts}.query(), args...) {
		if strings.HasPrefix(step, "SCAN ") {
			t.Error(step)
		}
	}
	for _, newest := range []bool{false, true} {
		query, args, err := historyQuery(ledger.HistoryQuery{Operation: "a", Since: "3", Before: 9, Newest: newest, Limit: 10})
		need.OK(t, err)
		if steps := plan(t, s, query, args...); len(steps) != 1 || !strings.Contains(steps[0], "events_by_operation (operation_id=? AND seq>? AND seq<?)") {
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

// Incidents are listed, looked at and found over without reading the ledger.
func TestIncidentsAreFoundByTheirIndexes(t *testing.T) {
	s, _ := openTest(t)
	for name, query := range map[string]string{"open": openIncidents, "closed": closedIncidents, "answers": answers, "one": oneIncident, "groups": incidentGroups, "over": growing, "lapsed": lapsed, "sent again": sentAgain, "since": incidentsSince} {
		for _, step := range plan(t, s, query, ms(time.Now()), 5, "x") {
			if (name == "open" || name == "closed") && strings.HasPrefix(step, "USE TEMP B-TREE") {
				t.Errorf("%s is sorted: %s", name, step)
			}
			if scan, whole := strings.CutPrefix(step, "SCAN "); whole && !regexp.MustCompile(`^(c|e|i|k|s|\(subquery.*|json_each.*|(incidents|operations|d) USING INDEX (incidents_\w+|operations_resolved|decisions_open))\b`).MatchString(scan) {
				t.Errorf("%s: %s", name, step)
			}
		}
	}
}

// A list of one incident comes in its order from an index: no list is searched or sorted
// for it, however many rows it has.
func TestAnIncidentsRowsComeInOrder(t *testing.T) {
	s, _ := openTest(t)
	f := need.Get(ledger.ParseFilter("incident:x"))(t)
	for _, c := range []struct {
		tab   ledger.Tab
		order ledger.Order
		index string
	}{
		{ledger.TabNeedsYou, ledger.OrderLoss, "SEARCH h USING INDEX open_by_incident (incident=?)"},
		{ledger.TabSettled, ledger.OrderNewest, "SEARCH o USING INDEX operations_by_incident (incident=? AND resolved=?)"},
	} {
		b := &binder{args: []any{ms(time.Now())}}
		steps := plan(t, s, pageSQL(b, ledger.Query{Tab: c.tab, Order: c.order, Filter: f, Limit: 50}, nil, nil, false, "x"), b.args...)
		found := slices.Index(steps, c.index)
		if found < 0 || slices.Contains(steps[found:found+4], "USE TEMP B-TREE FOR ORDER BY") {
			t.Errorf("%s is not in the order of its index:\n%s", c.tab, strings.Join(steps, "\n"))
		}
		for _, step := range steps {
			if whole := strings.HasPrefix(step, "SCAN h") || strings.HasPrefix(step, "SCAN o"); whole {
				t.Errorf("%s: %s", c.tab, step)
			}
		}
	}
}

// What is to be marked is found without reading the ledger.
func TestRulesOfKindsAreFoundByTheirIndex(t *testing.T) {
	s, _ := openTest(t)
	for _, step := range plan(t, s, kindRules) {
		if strings.Contains(step, "operations") && !strings.Contains(step, "operations_by_mark_rules") || strings.HasPrefix(step, "USE TEMP B-TREE") {
			t.Error(step)
		}
	}
}
