//go:build soak

package cli_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// filed records operations about a person and archives them: of one the ledger keeps a stub, of
// another one nothing.
func (s *site) filed(store ledger.Store, dir, who string) (stub, forgotten string) {
	s.Helper()
	send := func(key, to string, ttl time.Duration) string {
		id := ledger.NewID()
		req := ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: id, AttemptID: ledger.NewID(), Kind: "mail.send", Key: key, Title: "mail to " + to,
			Input: json.RawMessage(`{"to":"` + to + `"}`), Deadline: time.Minute, TTL: ttl, Actor: ledger.Actor{Name: "mailer"}}
		need.Get(ledger.Begin(s.Context(), store, req))(s)
		need.Get(ledger.Settle(s.Context(), store, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: req.AttemptID, Outcome: ledger.OutcomeCommitted, Receipt: "sent to " + to, Actor: req.Actor}))(s)
		return id
	}
	stub, forgotten = send("k1", who, 0), send("k2", who, time.Millisecond)
	send("k3", "omar", 0)
	settledOnes(s, store, "key-", 3000) // which takes a while to write anew
	s.must(0, "archive", "--settled-for", "0s", "--to", dir)
	return stub, forgotten
}

// texts are the lines of all archives in a directory, and of what is beside them.
func texts(t testing.TB, dir string) (all string) {
	t.Helper()
	for _, e := range need.Get(os.ReadDir(dir))(t) {
		if text := need.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t); len(text) > 0 {
			gz := need.Get(gzip.NewReader(bytes.NewReader(text)))(t)
			all += string(need.Get(io.ReadAll(gz))(t))
		}
	}
	return all
}

// What was redacted is in no archive, wherever the command was killed before it was run again.
func TestI10_E2E_KilledRedactionOfAnArchive(t *testing.T) {
	s, store := settledSite(t)
	dir := filepath.Join(s.dir, "archive")
	const jane = "jane.doe@example.com"
	stub, forgotten := s.filed(store, dir, jane)
	for id, exit := range map[string]int{stub: 5, forgotten: 3} {
		need.Contains(t, s.must(exit, "redact", id+"@2", "--reason", "request 7", "--yes").Err, "--archive DIR")
	}
	before := texts(t, dir)
	args := []string{"redact", stub + "@2", forgotten + "@2", "--archive", dir}
	if r := s.must(0, append(args, "--dry-run", "--json")...); strings.Count(r.Out, `"field":"input"`) != 2 || texts(t, dir) != before {
		t.Errorf("a dry run: %s", r.Out)
	}
	if r := s.must(4, "redact", forgotten+"@1", "--archive", dir, "--reason", "request 7", "--yes"); texts(t, dir) != before {
		t.Errorf("another version: %s%s", r.Out, r.Err)
	}
	args = append(args, "--reason", "request 7", "--yes", "--json")
	for kills := range 7 {
		p := s.start(args...)
		after := time.Duration(80*kills+rand.IntN(150)) * time.Millisecond
		time.Sleep(after)
		_ = p.cmd.Process.Kill()
		p.finish()
		found := s.do("archive", "list", "--from", dir)
		t.Logf("killed after %s: %d times in the files; %s", after, strings.Count(texts(t, dir), jane), found.Out[strings.LastIndex(strings.TrimSpace(found.Out), " ")+1:])
		need.Must(t, !strings.Contains(found.Out, "damaged") && !strings.Contains(found.Out, "missing"),
			"a file is lost: %s", found.Out)
	}
	s.must(0, args...)
	after := texts(t, dir)
	if strings.Contains(after, jane) || strings.Count(after, "\n") != strings.Count(before, "\n") || strings.Count(after, "omar") != strings.Count(before, "omar") {
		t.Errorf("%d lines have it; %d lines, before %d", strings.Count(after, jane), strings.Count(after, "\n"), strings.Count(before, "\n"))
	}
	need.Contains(t, s.must(0, "archive", "list", "--from", dir).Out, "ok")
	told := s.must(0, "log", "--verb", "redact").Out
	need.That(t, !strings.Contains(told, jane) && strings.Count(told, "request 7, in indoubt-") == 2,
		"the history is %s", told)
	if r := s.must(0, args...); !strings.Contains(r.Out, `"effect":"noop"`) || !strings.Contains(r.Err, "packed") || texts(t, dir) != after || s.must(0, "log", "--verb", "redact").Out != told {
		t.Errorf("once more it did %s", r.Out)
	}
	for _, id := range []string{stub, forgotten} {
		if r := s.must(0, "show", id, "--archive", dir); strings.Contains(r.Out, "jane") || !strings.Contains(r.Out, "redacted by") {
			t.Errorf("%s is shown as %s", id, r.Out)
		}
	}
	need.Lacks(t, s.must(0, "runs", "--all", "--json").Out, "jane")
}

// meddled has an operation change after it was written to an archive.
type meddled struct {
	ledger.Store
	id string
}

func (m meddled) Archive(ctx context.Context, id string, ops []ledger.Whole) (int, time.Duration, error) {
	if _, err := ledger.Decide(ctx, m.Store, ledger.Decision{ChangeID: ledger.NewID(), ID: m.id, Verb: ledger.VerbNote, Reason: "looked at", Actor: ledger.Actor{Name: "maya"}}); err != nil {
		return 0, 0, err
	}
	return m.Store.Archive(ctx, id, ops)
}

// What changed while it was archived is in the ledger and in a file: a redaction that was not
// given the file names it.
func TestI10_E2E_RedactNamesTheArchiveOfWhatStayed(t *testing.T) {
	s, store := settledSite(t)
	dir := filepath.Join(s.dir, "archive")
	ids := settledOnes(t, store, "key-", 4)
	settledOnes(t, store, "newest-", 1) // which is never archived
	done := need.Get(archiveInto(t, meddled{store, ids[0]}, dir))(t)
	need.That(t, done.Moved == 1 && done.Removed > 0, "%d stayed, and %d left", done.Moved, done.Removed)
	need.Contains(t, s.must(0, "redact", ids[0]+"@2", "--dry-run").Out, done.File)
	if r := s.must(0, "redact", ids[0]+"@2", "--reason", "request 7", "--yes", "--json"); !strings.Contains(r.Out, `"unread":["`+done.File) {
		t.Errorf("it says %s", r.Out)
	}
	if r := s.must(0, "redact", ids[0]+"@3", "--reason", "request 7", "--yes", "--archive", dir); !strings.Contains(r.Out, "and in "+done.File) || strings.Contains(r.Out, "not looked in") {
		t.Errorf("with its file it says %s", r.Out)
	}
	need.That(t, !strings.Contains(texts(t, dir), `{"n":0}`), "the file has it still")
	settledOnes(t, store, "later-", 4)
	need.Get(archiveInto(t, store, dir))(t)
	after := settledOnes(t, store, "last-", 1)
	if r := s.must(0, "redact", after[0]+"@2", "--reason", "request 8", "--yes", "--json"); strings.Count(r.Out, "jsonl.gz") != 1 {
		t.Errorf("a file whose operations have all left is named, too: %s", r.Out)
	}
}

// cutOff ends an archiver when its file has its name, before the ledger knows its digest.
type cutOff struct{ ledger.Store }

func (c cutOff) ChangeArchive(ctx context.Context, a ledger.Archive) error {
	if a.Digest != "" {
		return context.Canceled
	}
	a.Until = time.Now() // no one waits for it
	return c.Store.ChangeArchive(ctx, a)
}

// A whole file that the ledger did not hear of is found by the next run, and said.
func TestI10_E2E_AnArchiveThatTheLedgerDidNotHearOf(t *testing.T) {
	s, store := settledSite(t)
	dir := filepath.Join(s.dir, "archive")
	settledOnes(t, store, "key-", 4)
	done, err := archiveInto(t, cutOff{store}, dir)
	need.That(t, err != nil && done.File != "", "%+v, %v", done, err)
	need.Contains(t, s.must(0, "archive", "--settled-for", "0s", "--to", dir).Out, done.File+" was left by a run that was cut off")
	need.That(t, strings.Count(s.must(0, "archive", "list", "--from", dir).Out, "ok") == 2, "%s", s.do("archive", "list", "--from", dir).Out)
}

// early has an operation redacted when it was read for an archive whose file is not sealed yet.
type early struct {
	ledger.Store
	redact func(more ...string) string
	said   *[]string
}

func (e early) ChangeArchive(ctx context.Context, a ledger.Archive) error {
	if a.Digest != "" && len(*e.said) == 0 {
		*e.said = []string{e.redact(), e.redact("--archive", ".")}
	}
	return e.Store.ChangeArchive(ctx, a)
}

// A redaction does not end while a file that has the text is being made without naming it.
func TestE2E_RedactNamesTheArchiveThatIsBeingMade(t *testing.T) {
	s, store := settledSite(t)
	dir, said := filepath.Join(s.dir, "archive"), []string{}
	ids := settledOnes(t, store, "key-", 4)
	settledOnes(t, store, "newest-", 1)
	redact := func(more ...string) string {
		version := need.Get(store.Read(t.Context(), ledger.Locator{ID: ids[0]}))(t).Operation.Version
		return s.must(0, append([]string{"redact", fmt.Sprint(ids[0], "@", version), "--reason", "request 7", "--yes", "--json"}, more...)...).Out
	}
	done := need.Get(archiveInto(t, early{store, redact, &said}, dir))(t)
	need.That(t, done.Moved == 1 && strings.Contains(texts(t, dir), `{"n":0}`), "it left, or is not in the file: %+v", done)
	for _, out := range said {
		need.That(t, strings.Contains(out, `"unread":["`+done.File), "it says %s", out)
	}
	need.That(t, !strings.Contains(redact("--archive", dir), "unread") && !strings.Contains(texts(t, dir), `{"n":0}`), "the file has it still")
}
