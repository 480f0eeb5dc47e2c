package ledgertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// shelve archives what may be, in windows of a size, and says which operations those were.
func shelve(s ledger.Store, a ledger.Archive, now time.Time, window int) (string, error) {
	a.File, a.Until = a.ID+".jsonl.gz", now.Add(time.Minute)
	if err := s.ChangeArchive(ctx, a); err != nil {
		return "", err
	}
	var ops []ledger.Whole
	for place := int64(0); ; {
		some, next, err := s.Archivable(ctx, a.Before, place, window)
		if err != nil {
			return "", err
		}
		ops, place = append(ops, some...), next
		if place == 0 {
			break
		}
	}
	a.Digest, a.Size, a.Operations = "d1", 1, len(ops)
	if err := s.ChangeArchive(ctx, a); err != nil {
		return "", err
	}
	removed, _, err := s.Archive(ctx, a.ID, ops)
	if err != nil {
		return "", err
	}
	a.ClosedAt = now
	var ids []string
	for _, w := range ops {
		ids = append(ids, w.Operation.ID)
	}
	return fmt.Sprintf("%d of %s", removed, strings.Join(ids, " ")), s.ChangeArchive(ctx, a)
}

// shelve archives all that is settled, and returns the ids of what went.
func (d *desk) shelve() []string {
	d.Helper()
	d.clock.Advance(time.Minute)
	said := need.Get(shelve(d.s, ledger.Archive{ID: d.id("archive"), Actor: maya, Before: d.clock.Now().Add(-time.Second)}, d.clock.Now(), 100))(d)
	d.clock.Advance(time.Second)
	_, ids, _ := strings.Cut(said, " of ")
	return strings.Fields(ids)
}

// done is an operation that its own answer settled.
func (d *desk) done(key string, mod ...func(*ledger.BeginRequest)) ledger.Operation {
	return d.settle(d.begun(key, mod...).Attempt.ID, ledger.OutcomeCommitted, withReceipt("r-"+key))
}

func archives(t *testing.T, open Open) {
	t.Run("Whole", func(t *testing.T) { archiveWhole(t, open) })
	t.Run("Stubs", func(t *testing.T) { archiveStubs(t, open) })
	t.Run("Forgotten", func(t *testing.T) { archiveForgotten(t, open) })
	t.Run("Again", func(t *testing.T) { archiveAgain(t, open) })
	t.Run("I9_LateTruth", func(t *testing.T) { archiveLate(t, open) })
	t.Run("Kept", func(t *testing.T) { archiveKept(t, open) })
	t.Run("Moved", func(t *testing.T) { archiveMoved(t, open) })
	t.Run("Resealed", func(t *testing.T) { archiveResealed(t, open) })
	t.Run("OneAtATime", func(t *testing.T) { archiveOne(t, open) })
	t.Run("Incidents", func(t *testing.T) { archiveIncidents(t, open) })
	t.Run("Targets", func(t *testing.T) { archiveTargets(t, open) })
}

// What goes to a file has all that there was.
func archiveWhole(t *testing.T, open Open) {
	d := newDesk(t, open)
	o := d.observe(d.doubt("a", func(r *ledger.BeginRequest) {
		r.Input, r.Marks = json.RawMessage(`{"n": 1}`), ledger.Marks{Rules: "m1", Values: []string{"inv-1"}}
	}), ledger.Landed, "pi_1")
	d.done("last")
	rec, events := d.read(o.ID), d.events(o.ID)
	ops, place, err := d.s.Archivable(ctx, d.clock.Now(), 0, 100)
	d.ok(err)
	need.Must(t, len(ops) == 1 && place == 0, "%d operations, place %d; the newest operation stays", len(ops), place)
	w := ops[0]
	if w.Operation.ID != o.ID || len(w.Events) != len(events) || len(w.Attempts) != 1 || len(w.Reads) != 1 || string(w.Reads[0].Evidence) != string(rec.Reads[0].Evidence) ||
		!slices.Equal(w.Marks, []string{"inv-1"}) || string(w.Operation.Input) != `{"n": 1}` {
		t.Errorf("%+v", w)
	}
	if ops, _, err := d.s.Archivable(ctx, d.clock.Now().Add(-time.Hour), 0, 100); err != nil || len(ops) != 0 {
		t.Errorf("%d operations settled before the first began: %v", len(ops), err)
	}
}

// A stub answers as its operation did: no key is sent again, and nothing is counted otherwise.
func archiveStubs(t *testing.T, open Open) {
	d := newDesk(t, open)
	landed := d.done("a", func(r *ledger.BeginRequest) { r.Marks = ledger.Marks{Rules: "m1", Values: []string{"inv-1"}} })
	refused := d.begun("b")
	d.settle(refused.Attempt.ID, ledger.OutcomeFailed, func(r *ledger.SettleRequest) { r.Proof = ledger.Refused })
	expired := d.done("c", func(r *ledger.BeginRequest) {
		r.TTL, r.Marks = time.Second, ledger.Marks{Rules: "m1", Values: []string{"inv-2"}}
	})
	left := d.decide(d.doubt("d"), ledger.VerbAbandon)
	d.done("last")
	counts := func() string {
		states := need.Get(d.s.StateCounts(ctx, d.clock.Now()))(d)
		doubts := need.Get(d.s.DoubtCounts(ctx))(d)
		return fmt.Sprint(sortStateCounts(states), sortDoubtCounts(doubts))
	}
	before := counts()
	if gone := d.shelve(); len(gone) != 4 {
		t.Fatalf("archived %v", gone)
	}
	if after := counts(); after != before {
		t.Errorf("counted %s, before %s", after, before)
	}
	page := need.Get(d.s.Page(ctx, ledger.Query{Tab: ledger.TabAll, Now: d.clock.Now(), Limit: 10}))(d)
	need.That(t, len(page.Rows) == 1, "the list has %d rows", len(page.Rows))
	rec := d.read(landed.ID)
	if o := rec.Operation; o.State != ledger.Committed || o.Receipt() != "r-a" || o.Archive == "" || o.Input != nil || o.Token == "" || len(rec.Attempts) != 1 || len(d.events(o.ID)) != 0 {
		t.Errorf("the stub is %+v", rec)
	}
	res := d.begin("a")
	if res.Answer != ledger.AnswerFinished || res.Operation.ID != landed.ID || res.Operation.Receipt() != "r-a" {
		t.Errorf("the same key again is %s of %s", res.Answer, res.Operation.ID)
	}
	need.Equal(t, d.begin("a", func(r *ledger.BeginRequest) { r.Fingerprint = "other" }).Answer, ledger.AnswerKeyReused, "I4: the same key with another input")
	need.Equal(t, d.begin("a", func(r *ledger.BeginRequest) { r.Kind, r.AnyKind = "renamed", true }).Answer, ledger.AnswerFinished, "the same key of a kind that was renamed")
	if res := d.begin("d"); res.Answer != ledger.AnswerRefused || res.Operation.ID != left.ID {
		t.Errorf("what a person abandoned is %s", res.Answer)
	}
	if res := d.begin("c"); res.Answer != ledger.AnswerBegun || res.Operation.ID == expired.ID {
		t.Errorf("a key that expired is %s", res.Answer)
	}
	if rec := d.read(expired.ID); rec.Operation.KeyLive {
		t.Errorf("it still holds the key")
	}
	for what, find := range map[string]func() ([]string, error){
		"key":  func() ([]string, error) { return d.s.Keyed(ctx, "a", 5) },
		"mark": func() ([]string, error) { return d.s.Marked(ctx, "inv-1", 5) },
	} {
		ids, err := find()
		recs, err2 := d.s.Records(ctx, ids)
		if err := errors.Join(err, err2); err != nil || len(recs) != 1 || recs[0].Operation.ID != landed.ID {
			t.Errorf("the %s finds %v: %v", what, ids, err)
		}
	}
}

// Of what gave its key up, and can have no late answer, nothing is left but that it counts.
func archiveForgotten(t *testing.T, open Open) {
	d := newDesk(t, open)
	short := func(r *ledger.BeginRequest) { r.TTL = time.Second }
	long := func(r *ledger.BeginRequest) { r.TTL = time.Hour }
	over, later := d.done("over", short), d.done("later", long)
	kept := []ledger.Operation{
		d.done("for ever"),
		d.done("marked", short, func(r *ledger.BeginRequest) { r.Marks = ledger.Marks{Rules: "m1", Values: []string{"inv-1"}} }),
		d.observe(d.doubt("doubted", short), ledger.Landed, "x"),
		d.settle(d.begun("refused", short).Attempt.ID, ledger.OutcomeFailed, func(r *ledger.SettleRequest) { r.Proof = ledger.Refused }),
	}
	attempt := d.read(later.ID).Attempts[0].ID
	d.done("last")
	counts := func() string {
		states := need.Get(d.s.StateCounts(ctx, d.clock.Now()))(d)
		files := need.Get(d.s.Archives(ctx))(d)
		removed := 0
		for _, f := range files {
			removed += f.Removed
		}
		return fmt.Sprint(sortStateCounts(states), removed)
	}
	there := func(o ledger.Operation) bool {
		_, err := d.s.Read(ctx, ledger.Locator{ID: o.ID})
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			d.ok(err)
		}
		return err == nil
	}
	if gone := d.shelve(); len(gone) != 6 {
		t.Fatalf("archived %v", gone)
	}
	before := counts()
	if there(over) || !there(later) {
		t.Errorf("there is a stub of what is over: %v, and of what is not: %v", there(over), there(later))
	}
	need.Equal(t, d.begin("later", long).Answer, ledger.AnswerFinished, "a key that is remembered")
	d.clock.Advance(2 * time.Hour)
	if gone := d.shelve(); len(gone) != 0 {
		t.Fatalf("archived %v", gone)
	}
	need.That(t, !there(later), "there is a stub of what is over by now")
	if after := counts(); after != before {
		t.Errorf("counted %s, before %s", after, before)
	}
	for _, o := range kept {
		need.That(t, there(o), "nothing is left of %s", o.Key)
	}
	if _, err := ledger.Settle(ctx, d.s, ledger.SettleRequest{ChangeID: d.id("c"), AttemptID: attempt, Outcome: ledger.OutcomeCommitted, Actor: billing}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("I9: what cannot be kept is refused, and not %v", err)
	}
	if res := d.begin("over", short); res.Answer != ledger.AnswerBegun || res.Operation.ID == over.ID {
		t.Errorf("a key that is given up is %s", res.Answer)
	}
}

// What was refused may begin again, as the same operation.
func archiveAgain(t *testing.T, open Open) {
	d := newDesk(t, open)
	refused := d.begun("b")
	d.settle(refused.Attempt.ID, ledger.OutcomeFailed, func(r *ledger.SettleRequest) { r.Proof = ledger.Refused })
	d.done("last")
	d.shelve()
	again := d.begin("b")
	if again.Answer != ledger.AnswerBegun || again.Operation.ID != refused.Operation.ID || again.Attempt.N != 2 || again.Operation.Token != refused.Operation.Token {
		t.Fatalf("what was refused begins again as %s of %s", again.Answer, again.Operation.ID)
	}
	d.settle(again.Attempt.ID, ledger.OutcomeCommitted)
	if o := d.read(refused.Operation.ID).Operation; o.State != ledger.Committed || o.Archive == "" || o.AttemptCount != 2 {
		t.Errorf("%+v", o)
	}
	verbs := ""
	for _, e := range d.events(refused.Operation.ID) {
		verbs += e.Verb + " "
	}
	need.That(t, verbs == "return begin settle ", "I8: its events are %s", verbs)
}

// Late truth is kept and raises what it would have raised.
func archiveLate(t *testing.T, open Open) {
	d := newDesk(t, open)
	denied := d.doubt("a")
	attempt := d.read(denied.ID).Attempts[0].ID
	d.decide(denied, ledger.VerbDeny)
	landed := d.done("b")
	twice := d.done("c")
	d.done("last")
	if gone := d.shelve(); len(gone) != 3 {
		t.Fatalf("archived %v", gone)
	}
	o := d.settle(attempt, ledger.OutcomeCommitted, withReceipt("pi_9"))
	need.That(t, o.ID == denied.ID && o.Conflict == ledger.Contradiction && o.HandsOff && o.Receipt() == "pi_9",
		"I9: the late answer left %+v", o)
	counts := need.Get(d.s.Counts(ctx, d.clock.Now()))(d)
	need.That(t, counts.Conflicts != 0, "no one is told of the contradiction: %+v", counts)
	if o := d.decide(o, ledger.VerbAck, saying(ledger.LandedOnce)); o.State != ledger.Committed || o.Conflict != ledger.NoConflict {
		t.Errorf("it is %s, %q after a person dealt with it", o.State, o.Conflict)
	}
	first := d.read(twice.ID).Attempts[0].ID
	if o := d.settle(first, ledger.OutcomeCommitted, withReceipt("r-c")); o.Conflict != ledger.NoConflict || d.read(o.ID).Operation.Archive == "" || len(d.events(o.ID)) != 0 {
		t.Errorf("the same answer again brought it back")
	}
	need.Equal(t, d.settle(first, ledger.OutcomeCommitted, withReceipt("other")).Conflict, ledger.Duplicate, "another receipt")
	need.Equal(t, d.decide(d.read(landed.ID).Operation, ledger.VerbUndo).State, ledger.Uncertain, "undone")
	if gone := d.shelve(); !slices.Contains(gone, denied.ID) || slices.Contains(gone, landed.ID) || slices.Contains(gone, twice.ID) {
		t.Errorf("archived again: %v", gone)
	}
}

// Nothing goes that anything waits for.
func archiveKept(t *testing.T, open Open) {
	d := newDesk(t, open)
	doubt := d.doubt("doubt")
	d.begun("pending", func(r *ledger.BeginRequest) { r.Deadline = time.Hour })
	conflict := d.observe(d.doubt("conflict"), ledger.Duplicated, "x", "y")
	granted := d.grant(d.decide(d.doubt("granted"), ledger.VerbDeny), ledger.BasisRiskAccepted)
	d.settle(d.begun("undelivered", func(r *ledger.BeginRequest) { r.AwaitsDelivery = true }).Attempt.ID, ledger.OutcomeCommitted)
	alike := d.done("alike", func(r *ledger.BeginRequest) { r.Fingerprint = doubt.Fingerprint })
	d.done("control", func(r *ledger.BeginRequest) { r.Kind, r.TokenSent = "mail", true })
	control := d.done("newest control", func(r *ledger.BeginRequest) { r.Kind, r.TokenSent = "mail", true })
	d.done("plain", func(r *ledger.BeginRequest) { r.Kind, r.TokenSent = "post", false })
	d.done("last")
	var keys []string
	for _, id := range d.shelve() {
		keys = append(keys, d.read(id).Operation.Key)
	}
	need.That(t, fmt.Sprint(keys) == "[control plain]", "archived %v; %s is in conflict, %s granted, %s wants what is in doubt", keys, conflict.ID, granted.ID, alike.ID)
	if rec, err := d.s.ControlCandidate(ctx, "mail", d.clock.Now()); err != nil || rec.Operation.ID != control.ID {
		t.Errorf("the control is %s: %v", rec.Operation.ID, err)
	}
}

// What moved after it was read stays.
func archiveMoved(t *testing.T, open Open) {
	d := newDesk(t, open)
	a, b, c := d.done("a"), d.done("b"), d.done("c")
	d.done("last")
	ops, _, err := d.s.Archivable(ctx, d.clock.Now(), 0, 100)
	d.ok(err)
	need.Must(t, len(ops) == 3, "%d operations", len(ops))
	d.decide(a, ledger.VerbNote)
	d.decide(b, ledger.VerbUndo)
	file := ledger.Archive{ID: d.id("archive"), File: "f", Actor: maya, Before: d.clock.Now(), Until: d.clock.Now().Add(time.Minute)}
	d.ok(d.s.ChangeArchive(ctx, file))
	if n, _, err := d.s.Archive(ctx, file.ID, ops); err == nil {
		t.Errorf("%d went with a file that no one has read back", n)
	}
	file.Digest, file.Operations = "d", 3
	d.ok(d.s.ChangeArchive(ctx, file))
	if n, _, err := d.s.Archive(ctx, file.ID, ops); n != 1 || err != nil || d.read(c.ID).Operation.Archive != "f" {
		t.Errorf("%d went: %v", n, err)
	}
	if n, _, err := d.s.Archive(ctx, file.ID, ops); n != 0 || err != nil {
		t.Errorf("%d went a second time: %v", n, err)
	}
	files := need.Get(d.s.Archives(ctx))(d)
	need.That(t, len(files) == 1 && files[0].Removed == 1 && files[0].Operations == 3, "%+v", files)
	events := need.Get(d.s.History(ctx, ledger.HistoryQuery{Limit: 1, Newest: true}))(d)
	need.That(t, len(events) == 1 && events[0].Verb == "archive", "I8: the newest event is %+v", events)
}

// A file that is redacted has another digest, and an event says so.
func archiveResealed(t *testing.T, open Open) {
	d := newDesk(t, open)
	a := d.done("a")
	d.done("last")
	d.shelve()
	file := func() ledger.Archive {
		t.Helper()
		all := need.Get(d.s.Archives(ctx))(d)
		need.Must(t, len(all) == 1, "%+v", all)
		return all[0]
	}
	was := file()
	r := ledger.Resealing{ID: was.ID, Was: was.Digest, Digest: "d2", Size: 7, Operations: []string{a.ID}, Actor: maya, Reason: "request 7"}
	unexplained, machine, other, nothing := r, r, r, r
	unexplained.Reason, machine.Actor.Machine, other.Was, nothing.ID = " ", true, "x", "x"
	for what, r := range map[string]ledger.Resealing{"no reason": unexplained, "a machine": machine, "another file": other} {
		if err := d.s.Reseal(ctx, r); !errors.Is(err, ledger.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := d.s.Reseal(ctx, nothing); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("no archive: %v", err)
	}
	d.clock.Advance(time.Second)
	d.ok(d.s.Reseal(ctx, r))
	d.ok(d.s.Reseal(ctx, r)) // once more
	want := was
	want.Digest, want.Size = "d2", 7
	if is := file(); fmt.Sprint(is) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", is, want)
	}
	events := need.Get(d.s.History(ctx, ledger.HistoryQuery{Limit: 2, Newest: true}))(d)
	if e := events[0]; e.Verb != "redact" || e.Actor.Name != "maya" || e.Reason != "request 7, in "+was.File || !strings.Contains(string(e.Detail), a.ID) || events[1].Verb != "archive" {
		t.Errorf("I8: the newest events are %+v", events)
	}
	if rec := d.read(a.ID); rec.Operation.Archive != was.File {
		t.Errorf("%+v", rec.Operation)
	}
}

func archiveOne(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.done("a")
	mine := ledger.Archive{ID: "archive-1", File: "f", Actor: maya, Before: d.clock.Now(), Until: d.clock.Now().Add(time.Minute)}
	other := mine
	other.ID, other.Actor.Name = "archive-2", "noor"
	d.ok(d.s.ChangeArchive(ctx, mine))
	var leased *ledger.LeasedError
	if err := d.s.ChangeArchive(ctx, other); !errors.As(err, &leased) || leased.Holder != "maya" {
		t.Errorf("a second archive at once: %v", err)
	}
	d.clock.Advance(2 * time.Minute)
	other.Until = d.clock.Now().Add(time.Minute)
	d.ok(d.s.ChangeArchive(ctx, other))
	mine.Until = other.Until
	if err := d.s.ChangeArchive(ctx, mine); !errors.As(err, &leased) || leased.Holder != "noor" {
		t.Errorf("one whose time is over goes on: %v", err)
	}
	other.ClosedAt = d.clock.Now()
	d.ok(d.s.ChangeArchive(ctx, other))
	d.ok(d.s.ChangeArchive(ctx, mine))
}

// What an incident added up to stays.
func archiveIncidents(t *testing.T, open Open) {
	d := newDesk(t, open)
	var ops []ledger.Operation
	for _, key := range []string{"a", "b", "c"} {
		ops = append(ops, d.settle(d.begun(key).Attempt.ID, ledger.OutcomeUncertain, func(r *ledger.SettleRequest) { r.ErrorClass, r.Bursts = ledger.ClassTimeout, pairs }))
	}
	d.observe(d.read(ops[0].ID).Operation, ledger.Landed, "x")
	for _, o := range ops[1:] {
		d.decide(d.read(o.ID).Operation, ledger.VerbAbandon)
	}
	d.done("last")
	if gone := d.shelve(); len(gone) != 0 {
		t.Fatalf("archived %v of a growing incident", gone)
	}
	all := need.Get(d.s.Incidents(ctx, d.clock.Now(), 5))(d)
	need.Must(t, len(all) == 1, "%d incidents", len(all))
	d.clock.Advance(2 * time.Hour)
	sums := func() string {
		a := need.Get(d.s.Incident(ctx, all[0].ID, d.clock.Now()))(d)
		return fmt.Sprint(a.Fates, a.Minutes, len(a.Events))
	}
	before := sums()
	if gone := d.shelve(); len(gone) != 3 {
		t.Fatalf("archived %v of a quiet incident", gone)
	}
	if after := sums(); after != before {
		t.Errorf("it adds up to %s, before %s", after, before)
	}
}

// The newest on a target that others have stays: it says that they were overtaken.
func archiveTargets(t *testing.T, open Open) {
	d := newDesk(t, open)
	on := func(target string) func(*ledger.BeginRequest) {
		return func(r *ledger.BeginRequest) { r.Target, r.Supersedes = target, true }
	}
	one, two := d.done("deploy v1", on("web")), d.done("deploy v2", on("web"))
	alone := d.done("invoice", on("INV-1"))
	d.done("last")
	if gone := d.shelve(); !slices.Equal(gone, []string{one.ID, alone.ID}) {
		t.Fatalf("archived %v, not %s", gone, two.ID)
	}
	if res := d.begin("deploy v1", on("web")); res.Answer != ledger.AnswerBegun || res.Operation.ID == one.ID {
		t.Errorf("going back to v1 is %s of %s", res.Answer, res.Operation.ID)
	}
	d.done("credit", on("INV-1"))
	d.done("last again")
	if gone := d.shelve(); slices.ContainsFunc(gone, func(id string) bool { return d.read(id).Operation.Key == "credit" }) {
		t.Errorf("archived %v, and with it that the invoice was overtaken", gone)
	}
	need.Equal(t, d.begin("invoice", on("INV-1")).Answer, ledger.AnswerBegun, "what was overtaken since")
}
