package archive

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// plain is the text of the only archive in a directory.
func plain(t *testing.T, dir string) string {
	t.Helper()
	names := need.Get(filepath.Glob(filepath.Join(dir, "*.gz")))(t)
	need.Must(t, len(names) == 1, "%v", names)
	gz := need.Get(gzip.NewReader(bytes.NewReader(need.Get(os.ReadFile(names[0]))(t))))(t)
	return string(need.Get(io.ReadAll(gz))(t))
}

// told counts the events that tell of a redacted file.
func told(t *testing.T, s ledger.Feed) (n int) {
	t.Helper()
	for _, e := range need.Get(s.History(t.Context(), ledger.HistoryQuery{Limit: 1000}))(t) {
		if e.Verb == "redact" && e.OperationID == "" {
			n++
		}
	}
	return n
}

// TestRedactTakesTheText: wherever it is ended, the ledger has the digest of a whole file, and
// the next one ends it; once more, it changes nothing.
func TestRedactTakesTheText(t *testing.T) {
	for _, ended := range []string{"", "half", "written", "sealed"} {
		t.Run("ended "+ended, func(t *testing.T) {
			s, o := filled(t, 20), options(t)
			need.Get(Run(t.Context(), s, o))(t)
			was := plain(t, o.Dir)
			stop := errors.New("ended")
			r := Redaction{Dir: o.Dir, ID: "<op>-007", Actor: maya, Reason: "request 7", Now: time.Now(), step: func(name string) error {
				if name == ended {
					return stop
				}
				return nil
			}}
			done, err := Redact(t.Context(), s, r)
			if ended != "" {
				a := need.Get(s.Archives(t.Context()))(t)[0]
				if err := Check(o.Dir, a); (ended == "sealed") != errors.Is(err, ErrUnfinished) || ended != "sealed" && err != nil {
					t.Errorf("ended %s: the file is %v", ended, err)
				}
				need.Must(t, errors.Is(err, stop) && plain(t, o.Dir) == was, "%v, %v", done, err)
				r.step = nil
				done, err = Redact(t.Context(), s, r)
			}
			need.Must(t, err == nil && len(done) == 1, "%v: %v", done, err)
			is := onlyRedacted(t, o.Dir, was, "<op>-007")
			need.That(t, !strings.Contains(is, `"r7"`) && strings.Contains(is, `"r8"`), "%s", is)
			w := need.Get(Find(o.Dir, done[0], "<op>-007"))(t)
			if !w.Operation.Redacted || w.Operation.RedactedBy != "maya" || w.Operation.Receipt() != ledger.Masked("r7") || w.Operation.Key != "k7" || len(w.Events) != 2 {
				t.Errorf("%+v", w)
			}
			need.OK(t, Check(o.Dir, need.Get(s.Archives(t.Context()))(t)[0]))
			r.Now = r.Now.Add(time.Hour)
			if done, err := Redact(t.Context(), s, r); len(done) != 0 || err != nil || told(t, s) != 1 || plain(t, o.Dir) != is {
				t.Errorf("once more: %v, %v; %d events tell of it", done, err, told(t, s))
			}
			r.Key = true
			if done, err := Redact(t.Context(), s, r); len(done) != 1 || err != nil || told(t, s) != 2 || strings.Contains(plain(t, o.Dir), `"k7"`) {
				t.Errorf("the key, too: %v, %v", done, err)
			}
			if left := need.Get(filepath.Glob(filepath.Join(o.Dir, "*"+redactedSuffix)))(t); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}

// onlyRedacted sees that the line of one operation changed, and no other one.
func onlyRedacted(t *testing.T, dir, was, id string) string {
	t.Helper()
	is := plain(t, dir)
	before, after := strings.Split(was, "\n"), strings.Split(is, "\n")
	need.Must(t, len(before) == len(after), "%d lines, before %d", len(after), len(before))
	for i := range before {
		if redacted := strings.Contains(before[i], `"id":"`+id+`"`); redacted == (before[i] == after[i]) {
			t.Errorf("line %d is %s, before %s", i, after[i], before[i])
		}
	}
	return is
}

// TestRedactIsSureOfTheFile: what is not the file that the ledger knows is not sealed.
func TestRedactIsSureOfTheFile(t *testing.T) {
	s, o := filled(t, 20), options(t)
	need.Get(Run(t.Context(), s, o))(t)
	r := Redaction{Dir: o.Dir, ID: "<op>-007", Actor: maya, Reason: "request 7", Now: time.Now()}
	unlock := need.Get(lockDir(o.Dir))(t)
	if _, err := Redact(t.Context(), s, r); !errors.Is(err, ErrBusyDir) {
		t.Errorf("beside another one: %v", err)
	}
	unlock()
	other := r
	other.ID = "<op>-0"
	if done, err := Redact(t.Context(), s, other); len(done) != 0 || err != nil {
		t.Errorf("part of an id: %v, %v", done, err)
	}
	other = r
	other.Reason = ""
	if _, err := Redact(t.Context(), s, other); !errors.Is(err, ledger.ErrRefused) {
		t.Errorf("without a reason: %v", err)
	}
	name := need.Get(filepath.Glob(filepath.Join(o.Dir, "*.gz")))(t)[0]
	whole := need.Get(os.ReadFile(name))(t)
	need.OK(t, os.WriteFile(name, append(whole, whole...), 0o600))
	var damaged *Damaged
	if _, err := Redact(t.Context(), s, r); !errors.As(err, &damaged) || told(t, s) != 0 {
		t.Errorf("a file that is not as it was written: %v", err)
	}
	need.OK(t, os.Remove(name))
	if _, err := Redact(t.Context(), s, r); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if done, err := Redact(t.Context(), ledgertest.NewMemory(time.Now, nil), Redaction{Dir: "/nowhere", ID: "x"}); len(done) != 0 || err != nil {
		t.Errorf("no archive: %v, %v", done, err)
	}
}

// An operation is looked for in every file that may have it: the id of one that was taken over,
// or recorded in plain SQL, does not tell when it was begun, and the clock of who made an id may be wrong.
func TestRedactFindsAnyID(t *testing.T) {
	for _, id := range []string{ledger.DeriveID("import plain", "row 1"), "5f0c1a52-3c2b-4b8e-9a63-2f4b6f1c7d10", "00000000-0001-7001-8001-000000000001"} {
		s, o := filled(t, 2), options(t)
		res := need.Get(ledger.Begin(t.Context(), s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: id, AttemptID: ledger.NewID(),
			Kind: "card.charge", Key: "k", Input: json.RawMessage(`{"to":"jane"}`), Deadline: time.Minute, Actor: maya}))(t)
		need.Get(ledger.Settle(t.Context(), s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: maya}))(t)
		need.Get(ledger.Begin(t.Context(), s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: "last", AttemptID: ledger.NewID(), Kind: "x", Key: "last", Deadline: time.Minute, Actor: maya}))(t)
		need.Get(Run(t.Context(), s, o))(t)
		need.That(t, strings.Contains(plain(t, o.Dir), "jane"), "it is not archived")
		done := need.Get(Redact(t.Context(), s, Redaction{Dir: o.Dir, ID: id, Begun: res.Operation.CreatedAt, Actor: maya, Reason: "request 7", Now: time.Now()}))(t)
		need.That(t, len(done) == 1 && !strings.Contains(plain(t, o.Dir), "jane"), "%s: %v", id, done)
	}
}

// Where a file lies elsewhere, and a link stands for it, the text goes from there.
func TestRedactFollowsLinks(t *testing.T) {
	s, o := filled(t, 5), options(t)
	p := need.Get(Run(t.Context(), s, o))(t)
	cold := filepath.Join(t.TempDir(), "cold.gz")
	need.OK(t, os.Rename(filepath.Join(o.Dir, p.File), cold))
	if err := os.Symlink(cold, filepath.Join(o.Dir, p.File)); err != nil {
		t.Skip(err)
	}
	done := need.Get(Redact(t.Context(), s, Redaction{Dir: o.Dir, ID: "<op>-001", Actor: maya, Reason: "request 7", Now: time.Now()}))(t)
	w := need.Get(Find(filepath.Dir(cold), "cold.gz", "<op>-001"))(t)
	need.That(t, len(done) == 1 && done[0] == p.File && w.Operation.Redacted, "%v: %+v", done, w.Operation)
	need.OK(t, Check(o.Dir, need.Get(s.Archives(t.Context()))(t)[0]))
}
