package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// contested are operations in conflict, each with what raised it.
var contested = []struct {
	name  string
	make  func(b *bench, attempt string)
	again func(b *bench) // what the check that raised it says, once more
}{
	{"denied and found", func(b *bench, _ string) { _ = b.decide(VerbDeny); b.observe(Landed, 1, "r1") }, func(b *bench) { b.observe(Landed, 1, "r1") }},
	{"denied and found without a receipt", func(b *bench, _ string) { _ = b.decide(VerbDeny); b.observe(Landed, 1) }, func(b *bench) { b.observe(Landed, 1) }},
	{"denied and found twice", func(b *bench, _ string) { _ = b.decide(VerbDeny); b.observe(Twice, 2, "r1", "r2") }, func(b *bench) { b.observe(Twice, 2, "r1", "r2") }},
	{"denied and found different", func(b *bench, _ string) { _ = b.decide(VerbDeny); b.observe(Different, 1, "r1") }, func(b *bench) { b.observe(Different, 1, "r1") }},
	{"abandoned and found", func(b *bench, _ string) { _ = b.decide(VerbAbandon); b.observe(Landed, 1, "r1") }, func(b *bench) { b.observe(Landed, 1, "r1") }},
	{"confirmed and not found", func(b *bench, _ string) { _ = b.decide(VerbConfirm); b.observe(NotThere, 0) }, func(b *bench) { b.observe(NotThere, 0) }},
	{"confirmed with another receipt", func(b *bench, _ string) { _ = b.confirm("r0"); b.observe(Landed, 1, "r1") }, func(b *bench) { b.observe(Landed, 1, "r1") }},
	{"confirmed twice", func(b *bench, _ string) { _ = b.confirm("r0", "r1") }, func(b *bench) { b.observe(Landed, 1, "r1") }},
	{"found twice", func(b *bench, _ string) { b.observe(Twice, 2, "r1", "r2") }, func(b *bench) { b.observe(Twice, 2, "r1", "r2") }},
	{"found twice without receipts", func(b *bench, _ string) { b.observe(Twice, 2) }, func(b *bench) { b.observe(Twice, 2) }},
	{"found different", func(b *bench, _ string) { b.observe(Different, 1, "r1") }, func(b *bench) { b.observe(Different, 1, "r1") }},
	{"undone and found twice", func(b *bench, _ string) {
		_ = b.decide(VerbConfirm)
		_ = b.decide(VerbUndo)
		b.observe(Twice, 2, "r1", "r2")
	},
		func(b *bench) { b.observe(Twice, 2, "r1", "r2") }},
	{"denied and answered late", func(b *bench, a string) { _ = b.decide(VerbDeny); b.settle(a, OutcomeCommitted, receipt("r1")) }, func(b *bench) { b.observe(Landed, 1, "r1") }},
	{"answered beside a doubt", func(b *bench, _ string) {
		a, _ := b.allow(BasisRiskAccepted)
		b.settle(a, OutcomeCommitted, receipt("r1"))
	},
		func(b *bench) { b.observe(Twice, 1, "r1") }},
}

// Whatever is said of a conflict settles it for good: the check that raised it finds
// nothing new, and a check before a retry does not stand against a retry that is open.
func TestAConflictThatWasDealtWithStaysDealtWith(t *testing.T) {
	for _, from := range contested {
		for _, truth := range Truths {
			t.Run(fmt.Sprintf("%s/%s", from.name, truth), func(t *testing.T) {
				b, a := doubt(t)
				from.make(b, a)
				before := b.rec.Operation
				need.Must(t, before.Conflict != NoConflict, "no conflict to deal with")
				why, receipts := b.rec.Untrue(truth), []string(nil)
				if truth == LandedOnce && len(before.Receipts) > 1 {
					err := b.say(truth)
					need.Must(t, errors.Is(err, ErrRefused), "one of %v, and not which: %v", before.Receipts, err)
					receipts = before.Receipts[1:2]
				}
				err := b.say(truth, receipts...)
				if why != "" {
					need.Must(t, errors.Is(err, ErrRefused) && b.rec.Operation.Conflict == before.Conflict, "%s, and still: %v", why, err)
					return
				}
				need.OK(t, err)
				o := b.rec.Operation
				need.Must(t, o.State != Uncertain && o.State != Pending && o.PersonOnly && o.Conflict == NoConflict,
					"it is %s, person only %t, conflict %q", o.State, o.PersonOnly, o.Conflict)
				wants := map[Truth]State{BothWanted: Committed, LandedOnce: Committed, NotLanded: Failed}[truth]
				need.Must(t, (wants == "" || o.State == wants) && (truth != TakenBack || o.State != Failed), "%s, after %s", o.State, truth)
				need.Must(t, truth != LandedOnce || o.Effects == 1 && len(o.Receipts) <= 1, "landed once: %d effects, %v", o.Effects, o.Receipts)
				from.again(b)
				if now := b.rec.Operation; now.State != o.State || now.Conflict != NoConflict {
					t.Fatalf("the same check again makes it %s, %q: %s", now.State, now.Conflict, now.ConflictNote)
				}
				if truth == NotLanded && len(before.Receipts) > 0 && b.rec.Reads[0].finds() {
					t.Fatalf("it may be sent again, and the check before that says %s: it would never be", b.rec.Reads[0].Verdict)
				}
				b.observe(Twice, 2, "r8", "r9") // what was not seen then is not covered
				now := b.rec.Operation
				need.Must(t, now.Conflict == ConflictTwice, "two more effects: conflict %q", now.Conflict)
			})
		}
	}
}

func (b *bench) confirm(receipts ...string) error {
	return b.decide(VerbConfirm, func(d *Decision) { d.Receipts = receipts })
}

// A person who was wrong says so with a reason, and what is true.
func TestAWrongDecisionIsOneAct(t *testing.T) {
	for _, verb := range []Verb{VerbDeny, VerbAbandon} {
		b, _ := doubt(t)
		need.OK(t, b.decide(verb))
		b.observe(Landed, 1, "r1")
		err := b.decide(VerbAck, func(d *Decision) { d.Truth, d.Reason = LandedOnce, "" })
		need.That(t, errors.Is(err, ErrRefused), "%s: settled without a reason: %v", verb, err)
		need.OK(t, b.say(LandedOnce))
		b.want(Committed, 1, NoConflict)
		o := b.rec.Operation
		need.Must(t, o.Receipt() == "r1" && o.Reason != "" && o.Actor == "maya", "%q by %s: %s", o.Receipts, o.Actor, o.Reason)
	}
}

// An undo takes back what the decision alone had said, and nothing that was shown.
func TestAnUndoLeavesNothingOfItsDecision(t *testing.T) {
	for _, c := range []struct {
		name     string
		make     func(b *bench, a string)
		effects  int
		receipts string
		conflict Conflict
	}{
		{"a slip of two receipts", func(b *bench, _ string) { _ = b.confirm("r1", "via dashboard") }, 0, "", NoConflict},
		{"one of them was found too", func(b *bench, _ string) { _ = b.confirm("r1", "r2"); b.observe(Landed, 1, "r2") }, 1, "r2", NoConflict},
		{"both were found", func(b *bench, _ string) { _ = b.confirm("r1"); b.observe(Twice, 2, "r1", "r2") }, 2, "r1 r2", ConflictTwice},
		{"the other one was found", func(b *bench, _ string) { _ = b.confirm("r1"); b.observe(Landed, 1, "r2") }, 1, "r2", NoConflict},
		{"confirmed, and not there", func(b *bench, _ string) { _ = b.confirm("r1"); b.observe(NotThere, 0) }, 0, "", NoConflict},
		{"denied, and found", func(b *bench, _ string) { _ = b.decide(VerbDeny); b.observe(Landed, 1, "r1") }, 1, "r1", NoConflict},
		{"denied, and answered late", func(b *bench, a string) { _ = b.decide(VerbDeny); b.settle(a, OutcomeCommitted, receipt("r1")) }, 1, "r1", ConflictDisputed},
		{"two that were dealt with", func(b *bench, _ string) { b.observe(Twice, 2, "r1", "r2"); _ = b.say(BothWanted) }, 2, "r1 r2", ConflictTwice},
		{"one that was disowned", func(b *bench, _ string) {
			_ = b.decide(VerbDeny)
			b.observe(Landed, 1, "r1")
			_ = b.say(NotLanded)
		}, 1, "r1", NoConflict},
	} {
		b, a := doubt(t)
		c.make(b, a)
		need.OK(t, b.decide(VerbUndo), c.name)
		o := b.rec.Operation
		slices.Sort(o.Receipts)
		if o.State != Uncertain || o.Effects != c.effects || strings.Join(o.Receipts, " ") != c.receipts || o.Conflict != c.conflict || !o.PersonOnly || o.ErrorClass != ClassTimeout {
			t.Errorf("%s: %s (%s), %d effects %v, conflict %q (%s), person only %t", c.name, o.State, o.ErrorClass, o.Effects, o.Receipts, o.Conflict, o.ConflictNote, o.PersonOnly)
		}
	}
}

// An age counts from the first doubt, through a retry that was lost again and an undo.
func TestTheFirstDoubtIsKept(t *testing.T) {
	b, _ := doubt(t)
	first := b.rec.Operation.DoubtedAt
	again := need.Get(b.allow(BasisRiskAccepted))(t)
	b.settle(again, OutcomeUncertain)
	_ = b.decide(VerbDeny)
	_ = b.decide(VerbUndo)
	if o := b.rec.Operation; first.IsZero() || o.State != Uncertain || !o.DoubtedAt.Equal(first) || !o.EndedAt.After(first) {
		t.Fatalf("%s, in doubt since %s, at first %s, its last attempt ended %s", o.State, o.DoubtedAt, first, o.EndedAt)
	}
}
