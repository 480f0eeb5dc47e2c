package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

var maya = ledger.Actor{Name: "maya"}

// filled is a ledger with settled operations.
func filled(t *testing.T, n int) *ledgertest.Memory {
	t.Helper()
	s := ledgertest.NewMemory(time.Now, nil)
	for i := range n {
		res := need.Get(ledger.Begin(t.Context(), s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: fmt.Sprintf("<op>-%03d", i), AttemptID: ledger.NewID(),
			Kind: "card.charge", Key: fmt.Sprint("k", i), Input: json.RawMessage(`{"to":"a<b"}`), Deadline: time.Minute, Actor: maya}))(t)
		need.Get(ledger.Settle(t.Context(), s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: maya,
			Receipt: fmt.Sprint("r", i), Result: json.RawMessage(`{"ok":true}`)}))(t)
	}
	return s
}

func options(t *testing.T) Options {
	return Options{Dir: filepath.Join(t.TempDir(), "archive"), Before: time.Now().Add(time.Second), Actor: maya}
}

// TestRunMovesWhatIsSettled: what is in the file is what the ledger had, and the ledger
// knows where it is.
func TestRunMovesWhatIsSettled(t *testing.T) {
	s, o := filled(t, 60), options(t)
	was := need.Get(s.Read(t.Context(), ledger.Locator{ID: "<op>-007"}))(t)
	events := need.Get(s.History(t.Context(), ledger.HistoryQuery{Operation: "<op>-007", Limit: 10}))(t)
	dry := o
	dry.DryRun = true
	if p := need.Get(Run(t.Context(), s, dry))(t); p.Operations != 59 || p.Plain == 0 || p.Files != 0 {
		t.Errorf("a dry run: %+v", p)
	}
	if _, err := os.Stat(o.Dir); err == nil {
		t.Error("a dry run made the directory")
	}
	p := need.Get(Run(t.Context(), s, o))(t)
	need.Must(t, p.Removed == 59 && p.Moved == 0 && p.Files == 1 && p.Packed != 0 && p.Packed < p.Plain, "%+v", p)
	stub := need.Get(s.Read(t.Context(), ledger.Locator{ID: "<op>-007"}))(t)
	need.That(t, stub.Operation.Archive == p.File && stub.Operation.Input == nil, "%+v", stub.Operation)
	w := need.Get(Find(o.Dir, stub.Operation.Archive, "<op>-007"))(t)
	if string(w.Operation.Input) != string(was.Operation.Input) || string(w.Operation.Result) != `{"ok":true}` || len(w.Events) != len(events) || w.Events[1].Seq != events[1].Seq || !w.Operation.SettledAt.Equal(was.Operation.SettledAt) {
		t.Errorf("the file has %+v", w)
	}
	if _, err := Find(o.Dir, stub.Operation.Archive, "<op>-0"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("part of an id: %v", err)
	}
	files := need.Get(s.Archives(t.Context()))(t)
	info := need.Get(os.Stat(filepath.Join(o.Dir, p.File)))(t)
	if len(files) != 1 || files[0].Size != info.Size() || files[0].ClosedAt.IsZero() || info.Mode().Perm() != 0o600 {
		t.Errorf("%+v, mode %v", files, info.Mode())
	}
	if p := need.Get(Run(t.Context(), s, o))(t); p.Files != 0 {
		t.Errorf("again: %+v", p)
	}
}

// unwell fails or is ended where a test wants it.
type unwell struct {
	*ledgertest.Memory
	archive func(n int) error
	n       int
}

func (u *unwell) Archive(ctx context.Context, id string, ops []ledger.Whole) (int, time.Duration, error) {
	u.n++
	if err := u.archive(u.n); err != nil {
		return 0, 0, err
	}
	return u.Memory.Archive(ctx, id, ops)
}

// TestRunLosesNothing: nothing leaves the ledger that is in no file, and what was cut off
// goes on.
func TestRunLosesNothing(t *testing.T) {
	s, o := filled(t, 100), options(t)
	ctx, stop := context.WithCancel(t.Context())
	p, err := Run(ctx, &unwell{Memory: s, archive: func(n int) error {
		if n == 2 {
			stop()
		}
		return nil
	}}, o)
	need.Must(t, errors.Is(err, context.Canceled) && p.Removed != 0 && p.Removed != 99, "%+v: %v", p, err)
	if p := need.Get(Run(t.Context(), s, o))(t); p.Removed == 0 {
		t.Errorf("the next run: %+v", p)
	}
	for i := range 100 {
		rec := need.Get(s.Read(t.Context(), ledger.Locator{ID: fmt.Sprintf("<op>-%03d", i)}))(t)
		if rec.Operation.Archive == "" {
			continue
		}
		need.Get(Find(o.Dir, rec.Operation.Archive, rec.Operation.ID))(t)
	}
}

// waited is a ledger whose lock is waited for much longer than it is held, and that others
// write to, or no one does.
type waited struct {
	*ledgertest.Memory
	held   time.Duration
	others bool
	looks  int64
}

func (w *waited) Archive(ctx context.Context, id string, ops []ledger.Whole) (int, time.Duration, error) {
	n, _, err := w.Memory.Archive(ctx, id, ops)
	time.Sleep(2 * w.held)
	return n, w.held, err
}

func (w *waited) Info(ctx context.Context) (ledger.Info, error) {
	i, err := w.Memory.Info(ctx)
	if w.looks++; w.others {
		i.LastSeq += w.looks
	}
	return i, err
}

// TestTheRestIsForOthers: what a step waited for is no work, and where no one writes there is
// no rest.
func TestTheRestIsForOthers(t *testing.T) {
	for _, others := range []bool{true, false} {
		s, o := &waited{Memory: filled(t, 60), held: 3 * time.Millisecond, others: others}, options(t)
		var rests []time.Duration
		o.pace = &pace{newest: need.Get(s.Memory.Info(t.Context()))(t).LastSeq, nap: func(_ context.Context, d time.Duration) error {
			rests = append(rests, d)
			return nil
		}}
		need.Get(Run(t.Context(), s, o))(t)
		if want := 2; others && (len(rests) != want || rests[0] != restFor*s.held || rests[1] != restFor*s.held) || !others && len(rests) != 0 {
			t.Errorf("while others write (%v) it rested %v, after steps of %s", others, rests, s.held)
		}
	}
}

// TestRunNeedsTheFile: where it cannot be written or is not what was written, nothing leaves.
func TestRunNeedsTheFile(t *testing.T) {
	s, o := filled(t, 10), options(t)
	need.OK(t, os.WriteFile(o.Dir, nil, 0o600))
	if p, err := Run(t.Context(), s, o); err == nil || p.Removed != 0 {
		t.Errorf("the directory is a file: %+v, %v", p, err)
	}
	dry, below := o, o
	dry.DryRun, below.Dir = true, filepath.Join(o.Dir, "below")
	for what, o := range map[string]Options{"told": o, "dry": dry, "below it": below} {
		if _, err := Run(t.Context(), ledgertest.NewMemory(time.Now, nil), o); !errors.Is(err, syscall.ENOTDIR) && what != "below it" || err == nil {
			t.Errorf("%s, with nothing to archive: %v", what, err)
		}
	}
	need.OK(t, os.Remove(o.Dir))
	need.OK(t, makeDir(o.Dir))
	f := &file{dir: o.Dir}
	need.OK(t, f.begin(t.Context(), s, o, &Progress{}))
	ops, _, err := s.Archivable(t.Context(), o.Before, 0, 100)
	need.OK(t, err)
	for _, w := range ops {
		need.Get(f.add(w))(t)
	}
	f.lines[3].Operation.Version++
	if err := f.seal(); err == nil || f.record.Digest != "" {
		t.Errorf("a file that has something else is sealed: %v", err)
	}
	need.OK(t, f.drop(t.Context(), s))
	if left := need.Get(os.ReadDir(o.Dir))(t); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	if _, err := Run(t.Context(), s, o); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// killed is a ledger whose archiver ends when its file has its name, before the ledger knows
// its digest. No one is held up by what it left.
type killed struct{ *ledgertest.Memory }

var errKilled = errors.New("killed")

func (k killed) ChangeArchive(ctx context.Context, a ledger.Archive) error {
	if a.Digest != "" {
		return errKilled
	}
	a.Until = time.Now()
	return k.Memory.ChangeArchive(ctx, a)
}

// TestAFileThatTheLedgerDidNotHearOf: it is whole, and has what people said: the next run
// seals it, so that it is listed, compared and redacted. One that is not whole is named.
func TestAFileThatTheLedgerDidNotHearOf(t *testing.T) {
	s, o := filled(t, 30), options(t)
	_, err := Run(t.Context(), killed{s}, o)
	need.That(t, errors.Is(err, errKilled), "it ended with %v", err)
	left := need.Get(s.Archives(t.Context()))(t)
	path := filepath.Join(o.Dir, left[0].File)
	need.That(t, len(left) == 1 && left[0].Digest == "", "%+v", left)
	whole := need.Get(os.ReadFile(path))(t)

	var damaged *Damaged
	need.OK(t, os.WriteFile(path, whole[:len(whole)-9], 0o600))
	if p, err := Run(t.Context(), s, o); !errors.As(err, &damaged) || damaged.File != path || p.Removed != 0 {
		t.Errorf("a part of it: %+v, %v", p, err)
	}
	need.OK(t, os.WriteFile(path, whole, 0o600))
	p := need.Get(Run(t.Context(), s, o))(t)
	need.That(t, len(p.Found) == 1 && p.Found[0] == left[0].File && p.Files == 1 && p.Removed == 29, "the next run: %+v", p)
	all := need.Get(s.Archives(t.Context()))(t)
	need.OK(t, Check(o.Dir, all[0]))
	if a := all[0]; a.Digest == "" || a.Operations != 29 || a.Removed != 0 || a.Size != int64(len(whole)) || a.Oldest.IsZero() || a.Newest.IsZero() || a.ClosedAt.IsZero() {
		t.Errorf("it is sealed as %+v", a)
	}
	need.Equal(t, len(need.Get(Run(t.Context(), s, o))(t).Found), 0)
}

// An archive of which nothing came is closed by the next run: no one takes it for one that
// is being made.
func TestRunClosesWhatWasCutOff(t *testing.T) {
	s, o := filled(t, 5), options(t)
	need.OK(t, s.ChangeArchive(t.Context(), ledger.Archive{ID: "cut", File: "cut.jsonl.gz", Actor: maya, Until: time.Now()}))
	need.Get(Run(t.Context(), s, o))(t)
	for _, a := range need.Get(s.Archives(t.Context()))(t) {
		need.That(t, !a.ClosedAt.IsZero() && (a.Digest == "") == (a.ID == "cut"), "%+v", a)
	}
}

// What is not what was written is damaged, and not read as something else.
func TestADamagedFileIsNotRead(t *testing.T) {
	s, o := filled(t, 5), options(t)
	p := need.Get(Run(t.Context(), s, o))(t)
	path := filepath.Join(o.Dir, p.File)
	whole := need.Get(os.ReadFile(path))(t)
	want := need.Get(Find(o.Dir, p.File, "<op>-002"))(t)
	damaged := func(what string, err error) {
		t.Helper()
		need.That(t, errors.As(err, new(*Damaged)), "%s: %v", what, err)
	}
	for i := range whole {
		bad := slices.Clone(whole)
		bad[i] ^= 0x10
		need.OK(t, os.WriteFile(path, bad, 0o600))
		if got, err := Find(o.Dir, p.File, "<op>-002"); err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("with byte %d changed it is %+v", i, got)
		}
	}
	for _, line := range []string{"{}", "null", `{"operation":{"id":"x"}}`, "[]", "x"} {
		var text bytes.Buffer
		gz := gzip.NewWriter(&text)
		_, err := gz.Write([]byte(line + "\n"))
		need.OK(t, errors.Join(err, gz.Close(), os.WriteFile(path, text.Bytes(), 0o600)))
		damaged(line, Each(o.Dir, p.File, func(ledger.Whole) bool { return true }))
	}
}
