package ledgertest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

type pruner interface {
	Prune(context.Context, ledger.Prune) (ledger.Pruned, error)
	Forget(file string, ids []string) error
}

func prunes(t *testing.T, open Open) {
	t.Run("Moved", func(t *testing.T) { pruned(t, open) })
	t.Run("Stays", func(t *testing.T) { notPruned(t, open) })
	t.Run("I9_LateTruth", func(t *testing.T) { prunedLate(t, open) })
	t.Run("Killed", func(t *testing.T) { prunedInPart(t, open) })
	t.Run("Redacted", func(t *testing.T) { prunedAndRedacted(t, open) })
}

// prune moves what was settled before now.
func (d *desk) prune(to string) ledger.Pruned {
	d.Helper()
	d.clock.Advance(time.Minute)
	return need.Get(d.s.(pruner).Prune(ctx, ledger.Prune{Before: d.clock.Now(), To: to, Actor: maya}))(d)
}

// line is one of a file that a prune made.
type line struct {
	Op struct{ ID string }
	Ev []struct{ Verb, Reason string }
}

func (d *desk) lines(path string) (all []line) {
	d.Helper()
	file := need.Get(os.ReadFile(path))(d)
	text := bufio.NewScanner(need.Get(gzip.NewReader(bytes.NewReader(file)))(d))
	for text.Scan() {
		var l line
		d.ok(json.Unmarshal(text.Bytes(), &l))
		all = append(all, l)
	}
	d.ok(text.Err())
	return all
}

// What was moved is in the file, and its key is answered as before.
func pruned(t *testing.T, open Open) {
	d, to := newDesk(t, open), t.TempDir()
	o := d.done("k", func(r *ledger.BeginRequest) { r.Input, r.Title = json.RawMessage(`{"to": "anna"}`), "mail to anna" })
	failed := d.settle(d.begun("refused").Attempt.ID, ledger.OutcomeFailed, func(r *ledger.SettleRequest) {
		r.Proof, r.Result = ledger.Refused, json.RawMessage("{\n  \"error\": \"no such\\nuser\"\r\n}") // in several lines
	})
	counts := need.Get(d.s.StateCounts(ctx, d.clock.Now()))(d)
	only := need.Get(d.s.(pruner).Prune(ctx, ledger.Prune{Before: d.clock.Now().Add(time.Hour), To: to, Actor: maya, DryRun: true}))(d)
	done := d.prune(to)
	need.That(d, only == ledger.Pruned{Operations: 2} && done.Operations == 2 && done.Events == 2, "%+v, then %+v", only, done)
	lines := d.lines(done.File)
	need.That(d, len(lines) == 2 && lines[0].Op.ID == o.ID && len(lines[0].Ev) == 2 && lines[1].Op.ID == failed.ID, "%+v", lines)

	rec := d.read(o.ID)
	need.That(d, rec.Operation.Moved == filepath.Base(done.File) && rec.Operation.Receipt() == "r-k" && rec.Operation.Title == "mail to anna" &&
		rec.Operation.State == ledger.Committed && rec.Operation.Input == nil && len(d.events(o.ID)) == 1, "%+v", rec.Operation)
	res := d.begin("k", func(r *ledger.BeginRequest) { r.Input, r.Title = json.RawMessage(`{"to": "anna"}`), "mail to anna" })
	need.That(d, res.Answer == ledger.AnswerFinished && res.Operation.Receipt() == "r-k" && res.Operation.Moved != "", "%+v", res)
	settled := need.Get(d.s.Page(ctx, ledger.Query{Tab: ledger.TabSettled, Now: d.clock.Now()}))(d).Rows
	need.That(d, len(settled) == 2 && settled[1].ID == o.ID, "the list has %+v", settled)
	after := need.Get(d.s.StateCounts(ctx, d.clock.Now()))(d)
	need.That(d, slices.Equal(counts, after), "%+v, then %+v", counts, after)
	_, err := ledger.Decide(ctx, d.s, d.decision(rec.Operation, ledger.VerbUndo))
	need.That(d, errors.Is(err, ledger.ErrRefused), "undone: %v", err)
	need.That(d, d.prune(to) == ledger.Pruned{}, "moved twice")

	// What was refused is begun again, and settled.
	res = d.begin("refused")
	need.That(d, res.Answer == ledger.AnswerBegun && res.Attempt.N == 2, "%+v", res)
	again := d.settle(res.Attempt.ID, ledger.OutcomeCommitted, withReceipt("r-2"))
	need.That(d, again.State == ledger.Committed && again.Conflict == ledger.NoConflict, "%+v", again)
}

// What still has something to end stays.
func notPruned(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.begun("in flight")
	d.doubt("in doubt")
	d.decide(d.doubt("said no"), ledger.VerbDeny)
	d.decide(d.doubt("abandoned"), ledger.VerbAbandon)
	d.done("with a time", func(r *ledger.BeginRequest) { r.TTL = time.Hour })
	d.done("undelivered", func(r *ledger.BeginRequest) { r.AwaitsDelivery = true })
	twice := d.begun("twice")
	d.settle(twice.Attempt.ID, ledger.OutcomeCommitted, withReceipt("one"))
	d.settle(twice.Attempt.ID, ledger.OutcomeCommitted, withReceipt("two"))
	need.That(d, d.prune(t.TempDir()) == ledger.Pruned{}, "something was moved")
}

// An answer that comes late is kept, and a second receipt is a conflict (I9).
func prunedLate(t *testing.T, open Open) {
	d := newDesk(t, open)
	o := d.done("k")
	d.prune(t.TempDir())
	attempt := o.ID + ".1"
	same := d.settle(attempt, ledger.OutcomeCommitted, withReceipt("r-k"))
	need.That(d, same.Conflict == ledger.NoConflict && same.Version == o.Version, "%+v", same)
	d.settle(attempt, ledger.OutcomeFailed, func(r *ledger.SettleRequest) { r.Proof = ledger.Refused })
	if rec, events := d.read(o.ID), d.events(o.ID); rec.Operation.State != ledger.Committed || rec.Operation.Conflict != ledger.NoConflict || len(events) != 2 {
		d.Fatalf("%+v, %+v", rec.Operation, events)
	}
	other := d.settle(attempt, ledger.OutcomeCommitted, withReceipt("r-2"))
	need.That(d, other.Conflict != ledger.NoConflict && slices.Equal(other.Receipts, []string{"r-k", "r-2"}), "%+v", other)
}

// A prune that was killed is ended by the next one: its file keeps what has left the ledger, and no more.
func prunedInPart(t *testing.T, open Open) {
	d, to := newDesk(t, open), t.TempDir()
	first := d.done("first")
	done := d.prune(to)
	stays := d.done("stays")
	whole := need.Get(os.ReadFile(done.File))(d)
	var stale bytes.Buffer // written, and not moved
	zip := gzip.NewWriter(&stale)
	need.Get(zip.Write([]byte(`{"op":{"seq":2,"id":"` + stays.ID + `"},"ev":[]}` + "\n")))(d)
	d.ok(zip.Close())
	for name, more := range map[string][]byte{"not moved": stale.Bytes(), "cut off": stale.Bytes()[:12], "nothing": nil} {
		d.ok(os.WriteFile(done.File+".part", append(slices.Clone(whole), more...), 0o600))
		d.ok(os.Remove(done.File))
		none := need.Get(d.s.(pruner).Prune(ctx, ledger.Prune{Before: Noon, To: to, Actor: maya}))(d)
		lines := d.lines(done.File)
		if none != (ledger.Pruned{}) || len(lines) != 1 || lines[0].Op.ID != first.ID {
			d.Fatalf("%s: %+v, %+v", name, none, lines)
		}
		left := need.Get(os.ReadDir(to))(d)
		need.That(d, len(left) == 1, "%s: %v", name, left)
	}
	// A file that lacks what was moved to it is not taken for a whole one.
	d.ok(os.WriteFile(done.File+".part", whole[:len(whole)/2], 0o600))
	_, err := d.s.(pruner).Prune(ctx, ledger.Prune{Before: Noon, To: to, Actor: maya})
	need.That(d, err != nil && strings.Contains(err.Error(), "lacks 1 of the operations"), "%v", err)
	need.That(d, len(need.Get(os.ReadFile(done.File+".part"))(d)) == len(whole)/2, "the damaged file is gone")
}

// What was moved is redacted in the ledger and in its file, and what it is compared by stays.
func prunedAndRedacted(t *testing.T, open Open) {
	d := newDesk(t, open)
	o := d.done("k", func(r *ledger.BeginRequest) { r.Title = "mail to jane" })
	other := d.done("other")
	file := d.prune(t.TempDir()).File
	o = d.decide(d.read(o.ID).Operation, ledger.VerbRedact)
	need.That(d, o.Title == ledger.Marker && o.State == ledger.Committed, "%+v", o)
	d.ok(d.s.(pruner).Forget(file, []string{o.ID}))
	lines := d.lines(file)
	need.That(d, len(lines) == 2 && lines[0].Op.ID == o.ID && len(lines[0].Ev) == 0 && lines[1].Op.ID == other.ID && len(lines[1].Ev) == 2, "%+v", lines)
	same := d.settle(o.ID+".1", ledger.OutcomeCommitted, withReceipt("r-k"))
	need.That(d, same.Conflict == ledger.NoConflict && same.Version == o.Version, "%+v", same)
	need.Equal(d, d.begin("k", func(r *ledger.BeginRequest) { r.Title = "mail to jane" }).Answer, ledger.AnswerFinished)

	whole := need.Get(os.ReadFile(file))(d)
	d.ok(os.WriteFile(file, whole[:len(whole)-12], 0o600))
	need.That(d, d.s.(pruner).Forget(file, []string{o.ID}) != nil, "a damaged file was written anew")
	need.That(d, len(need.Get(os.ReadFile(file))(d)) == len(whole)-12, "it is another file")
}
