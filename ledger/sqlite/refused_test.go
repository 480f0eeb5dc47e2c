package sqlite

import (
	"os"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// foreign is a connection to a ledger as another program has it.
func foreign(t *testing.T, s *Store) ledgertest.Foreign {
	db := rawDB(t, s.path)
	need.Get(db.Exec(`PRAGMA synchronous = OFF`))(t)
	return ledgertest.Foreign{
		Exec: func(statement string) error {
			_, err := db.Exec(statement)
			return err
		},
		Close: func() { need.OK(t, db.Close()) },
		Rows: func(query string) (out []map[string]any) {
			rows := need.Get(db.Query(query))(t)
			defer rows.Close()
			columns := need.Get(rows.Columns())(t)
			values, dest := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				dest[i] = &values[i]
			}
			for rows.Next() {
				need.OK(t, rows.Scan(dest...))
				row := make(map[string]any, len(columns))
				for i, c := range columns {
					row[c] = values[i]
				}
				out = append(out, row)
			}
			need.OK(t, rows.Err())
			return out
		},
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{}))(t)
	defer s.Close()
	ledgertest.Refused(t, foreign(t, s))
}

// INDOUBT_SQL_WITHOUT takes the rule away whose words have that in them: the test must fail then.
func TestInvariantsUnderRandomSQL(t *testing.T) {
	t.Parallel()
	ledgertest.RandomSQL(t, need.Steps(1_200, 20_000), func(t *testing.T, clock ledger.Clock) (ledgertest.Audited, ledgertest.Foreign) {
		s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{Clock: clock, Steady: hostclock.With(clock)}))(t)
		db := foreign(t, s)
		if words := os.Getenv("INDOUBT_SQL_WITHOUT"); words != "" {
			guard := db.Rows(`SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND instr(sql, '` + words + `') > 0`)[0]
			rules := strings.Split(guard["sql"].(string), "  SELECT RAISE(")
			for i, rule := range rules[1:] {
				if strings.Contains(rule, words) {
					_, after, _ := strings.Cut(rule, "IS NOT FALSE;\n")
					rules[i+1] = "SELECT 1;\n" + after
				} else {
					rules[i+1] = "SELECT RAISE(" + rule
				}
			}
			need.OK(t, db.Exec(`DROP TRIGGER `+guard["name"].(string)+`; `+strings.Join(rules, "  ")))
		}
		return s, db
	})
}
