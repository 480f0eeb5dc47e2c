package sqlite

import (
	"testing"

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
