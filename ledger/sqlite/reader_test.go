package sqlite

import (
	"context"
	"path/filepath"
	"runtime"
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

// A read that another one overlaps waits for its connection, as long as one would take
// to open, and not longer.
func TestReadsThatOverlapShareAConnection(t *testing.T) {
	s := need.Get(Create(ctx, filepath.Join(t.TempDir(), "ledger.db"), Options{}))(t)
	defer s.Close()
	first := need.Get(s.reader(ctx))(t)
	go func() {
		for len(s.readers) < 2 {
			runtime.Gosched()
		}
		first.giveBack()
	}()
	second := need.Get(s.reader(ctx))(t)
	need.That(t, second == first, "another connection was opened")
	third := need.Get(s.reader(ctx))(t)
	need.That(t, third != second, "one connection is read with twice")
	need.That(t, s.shared == 0, "it counts what was waited before that was opened")
	third.giveBack()
	second.giveBack()
}
