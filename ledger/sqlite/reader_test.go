package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/store"
)

// A reader whose caller goes away while its transaction begins leaves none open on a
// connection that others get.
func TestAReaderThatIsGivenUpLeavesNoTransaction(t *testing.T) {
	t.Parallel()
	s := need.Get(Create(t.Context(), t.TempDir()+"/ledger.db", Options{}))(t)
	defer s.Close()
	look := func(ctx context.Context) error {
		return database{s.handle}.View(ctx, func(q store.Tx) error {
			rows, err := q.Query(`SELECT 1`) //nolint:rowserrcheck // it is closed, as in one that gives up
			if err == nil {
				err = rows.Close()
			}
			return err
		})
	}
	for range need.Steps(100, 2_000) {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_ = look(ctx)
		for range wide {
			need.OK(t, look(t.Context()))
		}
	}
}

// What a command reads beside its change goes over the connection that it writes with.
func TestBriefReadsOpenNoConnection(t *testing.T) {
	t.Parallel()
	s := need.Get(Create(ctx, filepath.Join(t.TempDir(), "ledger.db"), Options{}))(t)
	defer s.Close()
	o := begin(t, s).Operation
	need.Get(s.Read(ctx, ledger.Locator{ID: o.ID}))(t)
	need.Get(s.Info(ctx))(t)
	need.Get(s.Holds(ctx, s.now()))(t)
	need.Get(s.DoubtCounts(ctx))(t)
	need.That(t, s.unread(), "a second connection has parsed the schema")
}
