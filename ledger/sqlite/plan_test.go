package sqlite

import (
	"database/sql"
	"regexp"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
)

// plan says how SQLite would answer a query, a line for each step.
func plan(t *testing.T, s *Store, query string, args ...any) []string {
	t.Helper()
	steps, err := collect(outside{ctx, s}, func(rows *sql.Rows) (detail string, err error) {
		var id, parent, unused int
		return detail, rows.Scan(&id, &parent, &unused, &detail)
	}, "EXPLAIN QUERY PLAN "+query, args...)
	must(t, err)
	return steps
}

// Without statistics SQLite takes two indexes with one known column each for
// equally good. An index on the kind, chosen for same-input operations, reads the whole ledger
// for every row of a page.
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
			query := pageSQL(b, ledger.Query{Tab: tab, Order: order}, nil, 50, 0)
			check(string(tab)+" "+string(order), plan(t, s, query, b.args...))
		}
	}
	check("one operation", plan(t, s, relatedQuery, "id"))
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
