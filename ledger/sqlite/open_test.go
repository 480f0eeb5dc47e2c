package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
	"indoubt/ledger/store"
)

func TestHostileFileNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a?b", "a#b", "a%41b", "a b", "a?mode=ro", "ä&b=c", "file:x", ";x"} {
		dir := filepath.Join(t.TempDir(), name+".d")
		path := filepath.Join(dir, name)
		s := need.Get(Create(ctx, path, Options{}))(t)
		begin(t, s)
		need.OK(t, s.Close())
		info := need.Get(os.Stat(path))(t)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%q is %v", name, info.Mode())
		}
		s = need.Get(Open(ctx, path, Options{ReadOnly: true}))(t)
		if c := need.Get(s.Counts(ctx, s.now()))(t); c.All != 1 {
			t.Errorf("%q: %+v", name, c)
		}
		need.OK(t, s.Close())
	}
}

// refused reports whether an error is a Refusal of this code.
func refused(err error, code string) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Code == code
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	_, err := Open(ctx, path("missing"), Options{})
	var missing *ledger.MissingError
	need.That(t, errors.As(err, &missing), "missing: %v", err)
	if _, err := os.Stat(path("missing")); err == nil {
		t.Error("looking for a ledger made one")
	}
	need.OK(t, os.WriteFile(path("text"), []byte("this is a text and long enough not to be taken for an empty database, is it not? It goes on until the header is full, and further."), 0o600))
	if _, err := Create(ctx, path("text"), Options{}); !refused(err, "not_a_ledger") {
		t.Errorf("text: %v", err)
	}
	db := need.Get(sql.Open("sqlite", path("foreign")))(t)
	need.Get(db.Exec(`CREATE TABLE t (x)`))(t)
	need.OK(t, db.Close())
	before := need.Get(os.ReadFile(path("foreign")))(t)
	if _, err := Create(ctx, path("foreign"), Options{}); !refused(err, "not_a_ledger") {
		t.Errorf("foreign: %v", err)
	}
	if after := need.Get(os.ReadFile(path("foreign")))(t); string(before) != string(after) {
		t.Error("a foreign database was changed")
	}
	var other *ledger.SchemaError
	for _, version := range []int{store.Schema + 1, store.Schema - 1} {
		at := path(fmt.Sprint("schema", version))
		s := need.Get(Create(ctx, at, Options{}))(t)
		need.OK(t, s.writer.exec(fmt.Sprint(`PRAGMA user_version = `, version)))
		need.OK(t, s.Close())
		for _, readOnly := range []bool{false, true} {
			_, err := Open(ctx, at, Options{ReadOnly: readOnly})
			need.That(t, errors.As(err, &other) && other.Has == version, "another schema: %v", err)
		}
	}
}

func TestReadOnlyRefusesWrites(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	res := begin(t, s)
	r := need.Get(Open(ctx, s.path, Options{ReadOnly: true, Clock: c.Now, Steady: hostclock.With(c.Now)}))(t)
	defer r.Close()
	if _, err := ledger.Settle(ctx, r, ledger.SettleRequest{ChangeID: "c", AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: billing}); !errors.Is(err, ledger.ErrReadOnly) {
		t.Fatal(err)
	}
	if _, err := r.Expire(ctx, 1); !errors.Is(err, ledger.ErrReadOnly) {
		t.Fatal(err)
	}
	if err := r.one(ctx, `UPDATE op SET title = 'x' RETURNING 1`, new(int64)); err == nil {
		t.Fatal("the reader's connection writes")
	}
}

func TestCopyIsLookedAtOnly(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	begin(t, s)
	id := s.id
	need.OK(t, s.Close())
	path := filepath.Join(t.TempDir(), "copy.db")
	need.OK(t, os.WriteFile(path, need.Get(os.ReadFile(s.path))(t), 0o600))
	r := need.Get(Open(ctx, path, Options{Clock: c.Now, Steady: hostclock.With(c.Now)}))(t)
	if _, err := ledger.Begin(ctx, r, request()); !errors.Is(err, ledger.ErrCopied) {
		t.Fatal(err)
	}
	if i := need.Get(r.Info(ctx))(t); i.Copied == "" || !i.ReadOnly || i.ID != id {
		t.Fatalf("%+v", i)
	}
	need.OK(t, r.Close())
	need.OK(t, Adopt(ctx, path, Options{Actor: ann}))
	release(t, path)
	r = need.Get(Open(ctx, path, Options{Clock: c.Now, Steady: hostclock.With(c.Now)}))(t)
	defer r.Close()
	begin(t, r)
	if i := need.Get(r.Info(ctx))(t); i.Copied != "" || i.ID == id {
		t.Fatalf("%+v", i)
	}
	events := need.Get(r.History(ctx, ledger.HistoryQuery{Since: "1", Limit: 10}))(t)
	need.Must(t, events[0].Verb == "adopt" && events[0].Actor == ann, "%+v", events)
}

func TestTwoMakersOneLedger(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deep", "er", "ledger.db")
	errs := make(chan error)
	for range 8 {
		go func() {
			s, err := Create(ctx, path, Options{})
			if err == nil {
				_, err = ledger.Begin(ctx, s, request())
				err = errors.Join(err, s.Close())
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	s := need.Get(Open(ctx, path, Options{}))(t)
	defer s.Close()
	if c := need.Get(s.Counts(ctx, s.now()))(t); c.All != 8 {
		t.Fatal(fmt.Sprint(c))
	}
}

// A reader that keeps its snapshot lets the log grow; when it has gone, the log
// becomes small again while writes go on.
func TestTheLogShrinks(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	size := func() int64 { return need.Get(os.Stat(s.path + "-wal"))(t).Size() }
	reader := need.Get(rawDB(t, s.path).Begin())(t)
	var n int
	need.OK(t, reader.QueryRow(`SELECT count(*) FROM op`).Scan(&n))
	input := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	for range 24 {
		begin(t, s, func(r *ledger.BeginRequest) { r.Input = input })
	}
	if size() < 24<<20 {
		t.Fatalf("the log has %d bytes under a reader", size())
	}
	need.OK(t, reader.Rollback())
	for range 5 {
		begin(t, s)
	}
	if size() > 16<<20 {
		t.Fatalf("the reader has gone, and the log has %d bytes", size())
	}
}

// A short command reads its one operation without a connection to read with, whose
// cost is the parsing of the schema. While something is being written, reads do not
// wait for it.
func TestBriefReadsNeedNoReader(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	id := begin(t, s).Operation.ID
	need.OK(t, s.Close())
	s = need.Get(Open(ctx, s.path, Options{}))(t)
	defer s.Close()
	need.Get(s.Read(ctx, ledger.Locator{ID: id}))(t)
	if _, n := s.hasOpen(); n != 0 {
		t.Errorf("%d connections to read with, want none", n)
	}
	need.Get(s.Change(ctx, ledger.Locator{ID: id}, "", func(*ledger.Record) (ledger.Change, error) {
		_, err := s.Read(ctx, ledger.Locator{ID: id})
		return ledger.Change{}, err
	}))(t)
	if _, n := s.hasOpen(); n == 0 {
		t.Error("a read beside a change went over the connection that writes")
	}
}

// Readers that follow upon one another share a connection, with what it has parsed, also
// those of one state of the ledger. One that may have been interrupted is closed.
func TestReadersShareAConnection(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	id := begin(t, s).Operation.ID
	r := need.Get(Open(ctx, s.path, Options{ReadOnly: true, Clock: c.Now, Steady: hostclock.With(c.Now)}))(t)
	defer r.Close()
	for range 2 {
		need.Get(r.Info(ctx))(t)
		need.Get(r.Records(ctx, []string{id}))(t)
		need.Get(r.Outages(ctx, c.Now(), 1))(t)
		if _, n := r.hasOpen(); n != 1 {
			t.Fatalf("%d connections, want one", n)
		}
	}
	over, cancel := context.WithCancel(ctx)
	err := database{r.handle}.View(over, func(store.Tx) error { cancel(); return over.Err() })
	need.That(t, errors.Is(err, context.Canceled) && len(r.read.idle) == 0, "an interrupted connection is kept: %v", err)
	need.Get(r.Records(ctx, []string{id}))(t)
}
