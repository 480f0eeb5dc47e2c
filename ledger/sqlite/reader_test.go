package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
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

// Each connection parses the whole schema. Where reads come first, the one that writes
// is opened by the first change, which the others see as ever.
func TestReadsFirstOpenNothingToWriteWith(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	other := need.Get(Create(ctx, path, Options{}))(t)
	for range 2 { // another one has the log, and then it is to be made
		s := need.Get(Open(ctx, path, Options{Reads: true}))(t)
		need.That(t, s.writer.conn == nil && !s.unread(), "a connection that writes was opened, or none that reads")
		need.Get(s.Info(ctx))(t)
		begin(t, s)
		need.That(t, s.writer.conn != nil, "it was written by nothing")
		if other != nil {
			need.OK(t, other.Close())
			other = nil
		}
		need.OK(t, s.Close())
	}
	_, err := os.Stat(path + "-wal")
	need.That(t, errors.Is(err, fs.ErrNotExist), "a log is left: %v", err)
}

func TestI1_AGoneLedgerAllowsNoSendToWhatOnlyRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	need.OK(t, need.Get(Create(ctx, path, Options{}))(t).Close())
	s := need.Get(Open(ctx, path, Options{Reads: true}))(t)
	defer s.Close()
	need.OK(t, os.Remove(path))
	_, err := ledger.Begin(ctx, s, request())
	need.That(t, errors.Is(err, ledger.ErrGone), "begun: %v", err)
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
