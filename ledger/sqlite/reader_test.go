package sqlite

import (
	"context"
	"testing"
	"time"

	"indoubt/ledger/need"
	"indoubt/ledger/tables"
)

// A reader whose caller goes away while its transaction begins leaves none open on a
// connection that others get.
func TestAReaderThatIsGivenUpLeavesNoTransaction(t *testing.T) {
	s := need.Get(Create(t.Context(), t.TempDir()+"/ledger.db", Options{}))(t)
	defer s.Close()
	look := func(ctx context.Context) error {
		return database{s.handle}.View(ctx, func(q tables.Querier) error {
			rows, err := q.Query(`SELECT 1`) //nolint:rowserrcheck // it is closed, as in one that gives up
			if err == nil {
				err = rows.Close()
			}
			return err
		})
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_ = look(ctx)
		for range wide {
			need.OK(t, look(t.Context()))
		}
	}
}
