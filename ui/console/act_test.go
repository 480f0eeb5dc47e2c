package console

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/reconcile"
	"indoubt/ui/act"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
)

func nightBench(t testing.TB, w, h int) *bench {
	return newBench(t, w, h, nightOptions()).judged(nightFacts)
}

func (b *bench) engine() *fakeEngine { return b.m.o.Engine.(*fakeEngine) }

func (b *bench) shows(want ...string) *bench {
	b.t.Helper()
	for _, w := range want {
		if !strings.Contains(b.screen(), w) {
			b.t.Fatalf("the screen does not show %q:\n%s", w, b.screen())
		}
	}
	return b
}

func (b *bench) hides(not ...string) *bench {
	b.t.Helper()
	for _, w := range not {
		if strings.Contains(b.screen(), w) {
			b.t.Fatalf("the screen shows %q:\n%s", w, b.screen())
		}
	}
	return b
}

// cursorOn moves to the row of an operation.
func (b *bench) cursorOn(n int) *bench {
	b.t.Helper()
	for range b.m.table.Items {
		if b.m.table.Chosen().ID == id(n) {
			return b
		}
		b.keys("j")
	}
	b.keys("g")
	for range b.m.table.Items {
		if b.m.table.Chosen().ID == id(n) {
			return b
		}
		b.keys("j")
	}
	b.t.Fatalf("operation %d is not in the list:\n%s", n, b.screen())
	return b
}

func TestConfirmTakesAReceipt(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2)
	b.keys("C").shows("It landed?", "Receipts")
	b.text("ch_1").keys("enter", "enter") // next field, then Cancel
	need.Must(t, b.op(id(2)).State == ledger.Uncertain, "Enter confirmed by itself")
	b.keys("tab", "enter")
	if o := b.op(id(2)); o.State != ledger.Committed || o.Receipt() != "ch_1" || o.Actor != "maya" {
		t.Fatalf("%+v", o)
	}
	b.shows("recorded as landed: charge cus_1QX")
}

func TestConfirmWithTwoReceiptsIsTwice(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2).keys("C")
	b.send(tea.PasteMsg{Content: "ch_1,\nch_2\n"})
	b.keys("tab", "tab", "enter")
	if o := b.op(id(2)); o.Conflict != ledger.ConflictTwice || len(o.Receipts) != 2 {
		t.Fatalf("%+v", o)
	}
	b.shows("recorded as landed 2 times")
}

// A space does not make two of one receipt: which it is has to be said.
func TestAReceiptMayHaveASpace(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2).keys("C").text("ticket 2").keys("tab", "tab", "enter")
	b.shows("a comma between several")
	if b.op(id(2)).State != ledger.Uncertain {
		t.Fatal("confirmed with receipts nobody named")
	}
	b.keys(slices.Repeat([]string{"backspace"}, 8)...).text(`"ticket 2"`).keys("tab", "tab", "enter")
	if o := b.op(id(2)); o.State != ledger.Committed || o.Conflict != ledger.NoConflict || o.Receipt() != "ticket 2" {
		t.Fatalf("%+v", o)
	}
}

func TestConfirmNeedsOneOfReceiptAndReason(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2).keys("C", "tab", "tab", "enter")
	b.shows("a receipt, or how you know")
	need.Must(t, b.op(id(2)).State == ledger.Uncertain, "confirmed with nothing said")
}

func TestDenyAsksHowYouKnow(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2).keys("X", "tab", "enter").shows("say how you know")
	b.text("their support says none").keys("tab", "enter")
	if o := b.op(id(2)); o.State != ledger.Failed || o.Reason != "their support says none" {
		t.Fatalf("%+v", o)
	}
}

func TestI9_APersonsWordIsCheckedLater(t *testing.T) {
	o := nightOptions()
	judged := func(rec ledger.Record, now time.Time) ticket.Facts {
		f := nightFacts(rec, now)
		if rec.Operation.Kind == "legacy.charge" {
			f.Looks = ledger.Looks{Check: true}
		}
		return f
	}
	b := newBench(t, 80, 24, o).judged(judged).cursorOn(2).keys("X").text("their support says none").keys("tab", "enter")
	if at := b.store.record(2).Pricing.ReadAt; at.Sub(b.m.o.Clock()).Round(time.Minute) != time.Minute {
		t.Fatalf("the next check is at %v", at)
	}
	b.cursorOn(5).keys("A").text("given up").keys("tab", "enter")
	if at := b.store.record(5).Pricing.ReadAt; !at.Equal(ledger.Never) {
		t.Fatalf("a kind without a check is to be checked at %v", at)
	}
}

func TestAbandonDealtWithParkNoteUndoHold(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2)
	b.keys("A").text("customer gone").keys("tab", "enter")
	if o := b.op(id(2)); o.State != ledger.Abandoned {
		t.Fatalf("%+v", o)
	}
	b.cursorOn(1).keys("D").shows("what is true").keys("1").text("ref 9").keys("tab").text("cancelled second").keys("tab", "enter")
	if o := b.op(id(1)); o.Conflict != ledger.NoConflict || len(o.AckedReceipts) != 2 {
		t.Fatalf("%+v", o)
	}
	b.cursorOn(3).keys("P", "4", "0", "m").shows("Until           ▌40m__").keys("left", "backspace", "5").shows("Until           ▌45m__").keys("tab", "tab", "enter")
	if o := b.op(id(3)); !o.ParkedUntil.After(b.now.Add(44*time.Minute)) || o.ParkedUntil.After(b.now.Add(45*time.Minute)) {
		t.Fatalf("%+v", o)
	}
	b.cursorOn(5).keys("N").text("asked news").keys("tab", "enter")
	if e := b.newest(); e.Verb != "note" || e.Reason != "asked news" {
		t.Fatalf("%+v", e)
	}
	b.cursorOn(4).keys("U").text("not sure").keys("tab", "enter")
	if o := b.op(id(4)); o.State != ledger.Uncertain || !o.PersonOnly {
		t.Fatalf("%+v", o)
	}
	b.cursorOn(5).keys("a").shows("choose: kind x.post, everything").keys("esc")
	b.keys("H").shows("by hand").keys("esc", "H", "tab").text("stop").keys("tab", "tab", "enter")
	if holds := b.m.feed.Holds; len(holds) != 1 || holds[0].Scope != "kind:x.post" || holds[0].Actor.Name != "maya" {
		t.Fatalf("%+v\n%s", holds, b.screen())
	}
	b.shows("HOLD").keys("R").shows("R is off: held by maya")
	b.keys("H").shows("Release hold?").text("over").keys("tab", "enter")
	need.Must(t, len(b.m.feed.Holds) == 0, "not released")
}

func TestRetryWithProofIsOneY(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(4).keys("R").shows("Retry?", "ALLOWED BECAUSE", "it did not land: a check that began", "POST https://api.mail.example/send", "same key k-004", "attempt 2", "impossible once sent")
	b.shows("BODY", `"to": "ana@example.com"`).keys("enter")
	need.Must(t, len(b.engine().retried) == 0, "Enter sent it")
	b.keys("R", "y")
	q := b.engine().retried
	if len(q) != 1 || q[0].ID != id(4) || q[0].Version != 2 || q[0].Basis != ledger.BasisProof || q[0].Actor.Name != "maya" || !q[0].Actor.Terminal || q[0].ChangeID == "" {
		t.Fatalf("%+v", q)
	}
	b.shows("sent, it landed, receipt m_1")
}

func TestRetryAtOwnRiskNeedsAReasonAndTheLossTyped(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2).keys("R").shows("RETRY WITHOUT PROOF", "NOBODY KNOWS", "6,000 WORSE", "Type 24000", "SAM")
	b.keys("y", "backspace", "tab", "tab", "enter").shows("say why this risk is taken")
	b.text("they asked for it").keys("tab")
	b.send(tea.PasteMsg{Content: "24000"})
	b.shows("typed by hand, not pasted")
	b.keys("tab", "enter").shows("type 24000: what it costs")
	need.Must(t, len(b.engine().retried) == 0, "sent without the loss typed")
	b.text("24,000").keys("enter") // lands on Cancel
	b.keys("tab", "enter")
	q := b.engine().retried
	if len(q) != 1 || q[0].Basis != ledger.BasisRiskAccepted || q[0].Reason != "they asked for it" || !q[0].LossTyped {
		t.Fatalf("%+v\n%s", q, b.screen())
	}
}

// Proof of one says nothing of a later one on its target: the loss is typed there too.
func TestARetryOfWhatWasOvertakenIsAtOwnRisk(t *testing.T) {
	o := nightOptions()
	e, s := o.Engine.(*fakeEngine), o.Store.(*memory)
	rec, _ := s.Read(t.Context(), ledger.Locator{ID: id(4)})
	rec.Related = []ledger.Relation{{ID: id(30), Title: "mail Welcome", State: ledger.Committed, CreatedAt: at("02:55:00"), MayHaveLanded: true, Overtook: true}}
	s.put(rec)
	p := e.plans[id(4)]
	p.Basis, p.Why, p.Loss = ledger.BasisRiskAccepted, "overtaken: a later operation on the same target landed (mail Welcome)", amount(40)
	p.Showing = reconcile.Showing{Digest: "d1", Text: "POST https://api.mail.example/send", Related: []string{id(30)}}
	e.plans[id(4)] = p
	b := newBench(t, 80, 24, o).judged(nightFacts).cursorOn(4).keys("R")
	b.shows("RETRY WITHOUT PROOF", "NOT ALONE", "overtaken: a later operation", "it may happen twice", "OVERTAKEN BY", "Type 40").hides("ALLOWED BECAUSE", "NOBODY KNOWS")
	b.keys("y", "backspace").text("both are wanted").keys("tab", "tab", "enter").shows("type 40")
	need.Must(t, len(e.retried) == 0, "sent without the loss typed")
	b.text("40").keys("tab", "enter")
	if len(e.retried) != 1 || e.retried[0].Basis != ledger.BasisRiskAccepted || !reflect.DeepEqual(e.retried[0].Showing, p.Showing) {
		t.Fatalf("%+v\n%s", e.retried, b.screen())
	}
}

// What was agreed to goes to the engine as it was shown, and what has changed
// since is shown line by line.
func TestI7_ADialogHandsOverWhatItShowed(t *testing.T) {
	o := nightOptions()
	e := o.Engine.(*fakeEngine)
	p := e.plans[id(4)]
	p.Showing = reconcile.Showing{Digest: "d1", Text: "POST https://api.mail.example/send\n\nto ana"}
	e.plans[id(4)] = p
	e.err = &reconcile.ChangedError{ID: id(4), Was: p.Showing.Text, Is: "POST https://api.mail.example/other\n\nto \x1b[2Jana"}
	b := newBench(t, 80, 24, o).judged(nightFacts).cursorOn(4).keys("R", "y")
	need.Must(t, len(e.retried) == 1 && reflect.DeepEqual(e.retried[0].Showing, p.Showing), "%+v", e.retried)
	b.shows("Not sent: it has changed", "SHOWN", "https://api.mail.example/send", "NOW", "https://api.mail.example/other", `to \x1b[2Jana`, "R shows it as it is now")
}

func TestRetryThatIsRefusedSaysWhy(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(4)
	b.engine().err = errors.Join(errors.New("no answer"), errors.New("and no key"))
	b.keys("R", "y").shows("Not done", "WHY              no answer ", "                 and no key ").hides(`\n`)
	nightBench(t, 80, 24).cursorOn(5).keys("R").shows("Not done", "another operation came later", "look again")
}

func TestAKeyHeldDownDoesNotTypeIntoTheReason(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2)
	for range 30 {
		b.fast("A")
		b.wait(33 * time.Millisecond)
	}
	if d := b.m.dialogs.Top(); d.Fields[0].Value() != "" {
		t.Fatalf("a held key typed %q", d.Fields[0].Value())
	}
	b.keys("A")
	if d := b.m.dialogs.Top(); d.Fields[0].Value() != "A" {
		t.Fatalf("after it was let go the key types: %q", d.Fields[0].Value())
	}
}

func TestPastePressesNothing(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(4)
	b.send(tea.PasteMsg{Content: "Ry\n"})
	b.shows("a paste presses nothing")
	b.keys("R")
	b.wait(time.Second)
	b.send(tea.PasteMsg{Content: "y"})
	need.Must(t, len(b.engine().retried) == 0, "a paste sent it")
}

func TestI7_AStaleDecisionIsRefusedAndTheDifferenceShown(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2).keys("X").text("none there")
	// Sam confirms while the dialog is open here.
	b.sam(2, ledger.VerbConfirm, "support says so")
	b.keys("tab", "enter").shows("Not done: it moved", "landed since", "sam: support says so", "YOU SAW", "version 2; it is at version 3 now")
	if o := b.op(id(2)); o.State != ledger.Committed || o.Actor != "sam" {
		t.Fatalf("%+v", o)
	}
}

func TestADialogSaysThatItsOperationMoved(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2).keys("X").text("none there")
	b.sam(2, ledger.VerbConfirm, "r")
	b.send(feed.Changed{})
	b.shows("IT MOVED: now landed").keys("tab", "enter").shows("it moved")
	need.Must(t, b.op(id(2)).State == ledger.Committed, "written over")
}

func TestEveryActSaysWhyItIsOff(t *testing.T) {
	b := nightBench(t, 80, 40)
	b.cursorOn(2)
	for key, want := range map[string]string{
		"D": "no conflict", "U": "it is in doubt", "c": "no check",
	} {
		b.keys(key).shows(key + " is off: ").shows(want)
	}
	b.cursorOn(1)
	for key, want := range map[string]string{"C": "settled", "R": "it landed: sending again would do it twice", "A": "it landed", "o": "no link"} {
		b.keys(key).shows(key+" is off: ", want)
	}
	b.keys("3")
	for key, want := range map[string]string{"C": "in flight until", "R": "in flight until", "U": "in flight until", "P": "in flight"} {
		b.keys(key).shows(key+" is off: ", want)
	}
}

func TestTheMenuListsEachAct(t *testing.T) {
	b := nightBench(t, 120, 40).cursorOn(2).keys("a")
	b.shows("What can I do?", "C  confirm", "at own risk", "off: no conflict", "U  undo", "off: nothing to undo")
	b.keys("X").shows("It did not land?")
	need.Must(t, b.m.dialogs.Len() == 1, "the menu stayed open under the dialog")
}

func TestAdviceOpensTheAdvisedDialog(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(4).keys("T").shows("Retry?")
	b.keys("esc").cursorOn(5).keys("T").shows("Park")
	b.keys("esc").cursorOn(1).keys("T").shows("what is true?")
}

func TestSharedAccountAsksWhoYouAre(t *testing.T) {
	o := nightOptions()
	o.AskName, o.Actor.Name, o.Actor.OSUser = true, "oncall", "oncall"
	b := newBench(t, 80, 24, o).judged(nightFacts).cursorOn(2)
	b.keys("A").shows("Who are you?").text("ana").keys("tab", "enter").shows("Abandon?")
	b.text("over").keys("tab", "enter")
	if op := b.op(id(2)); op.Actor != "ana" {
		t.Fatalf("decided by %q", op.Actor)
	}
	b.cursorOn(5).keys("A").shows("Abandon?")
}

func TestReadOnlyAndCopyOnlyLook(t *testing.T) {
	o := nightOptions()
	o.ReadOnly = true
	b := newBench(t, 80, 24, o).judged(nightFacts).shows("READ-ONLY").cursorOn(2)
	for _, k := range []string{"C", "X", "R", "A", "D", "P", "H", "N", "U", "T"} {
		b.keys(k).shows("off: read-only")
	}
	b.keys("c").shows("read-only")
	need.Must(t, b.m.dialogs.Len() == 0, "a dialog opened")
	o = nightOptions()
	o.Store.(*memory).info.Copied = "copied from /x"
	newBench(t, 80, 24, o).judged(nightFacts).shows("COPY").keys("C").shows("this ledger is a copy")
	o = nightOptions()
	o.Store.(*memory).info.ReadOnly = true // this account may only look
	newBench(t, 120, 30, o).shows("READ-ONLY").keys("C").shows("off: read-only")
	o = nightOptions()
	b = newBench(t, 120, 30, o).hides("READ-ONLY", "MOVED")
	o.Store.(*memory).info.MovedTo, o.Store.(*memory).info.ReadOnly = "/srv/new.db", true // while it is open
	b.send(feed.Changed{})
	b.shows("MOVED to /srv/new.db: look only").keys("C").shows("has moved to /srv/new.db: decide there")
}

func TestQuitWaitsForWritesInFlight(t *testing.T) {
	b := nightBench(t, 80, 24)
	e := b.engine()
	e.busy = 1
	b.keys("ctrl+z").shows("^z is off: 1 write in flight")
	b.m.Update(keyMsg("q"))
	b.shows("Waiting for 1 write in flight")
	e.mu.Lock()
	e.busy = 0
	e.mu.Unlock()
	if b.send(waitMsg{}); !b.quit {
		t.Fatal("never left")
	}
}

func TestQuitFromOutsideIsHeld(t *testing.T) {
	b := nightBench(t, 80, 24)
	b.engine().busy = 1
	if _, ok := holdQuit(b.m, tea.QuitMsg{}).(leaveMsg); !ok {
		t.Fatal("a quit from outside passes")
	}
	b.m.leaving.ready = true
	if _, ok := holdQuit(b.m, tea.QuitMsg{}).(tea.QuitMsg); !ok {
		t.Fatal("its own quit does not pass")
	}
}

func TestBulkFreezesASetAndSkipsWhatMoved(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2)
	b.keys("v", "j", "j", "j") // an act ends the range that is shown as marked
	b.keys("A").shows("Abandon 4", "Abandon 4", "Type 4")
	// Sam settles one of them first.
	b.sam(3, ledger.VerbConfirm, "r")
	b.text("outage").keys("tab").text("4").keys("tab", "enter")
	b.wait(time.Second)
	b.shows("Abandon 4: done", "4 = 3 abandoned + 1 skipped (sam)", "skipped, moved by sam: deploy web")
	need.Must(t, b.op(id(3)).State == ledger.Committed && b.op(id(2)).State == ledger.Abandoned,
		"wrong ones were written")
	runs, err := b.store.Runs(t.Context(), ledger.RunQuery{Limit: 9})
	if err != nil || len(runs) != 1 || runs[0].State != ledger.RunDone || runs[0].Tally[ledger.CameDecided] != 3 || runs[0].Terms.Reason != "outage" {
		t.Fatalf("the run was not written down: %+v %v", runs, err)
	}
}

// sixProven is the night with six mails that are proven not to have landed.
func sixProven(t *testing.T) (*bench, *fakeEngine) {
	t.Helper()
	pace := act.Pace
	t.Cleanup(func() { act.Pace = pace })
	act.Pace = 0
	o := nightOptions()
	e := o.Engine.(*fakeEngine)
	for n := 20; n < 25; n++ {
		r := doubt(n, "mail.send", "mail "+id(n), "signup", "02:47:10", "02:47:40", ledger.ClassReset, 0, amount(10), amount(10))
		r.Operation.State = ledger.Failed
		o.Store.(*memory).put(r)
		e.plans[id(n)] = reconcile.Plan{Basis: ledger.BasisProof, Sender: "http", Showing: reconcile.Showing{Digest: "shown"}}
		if n == 24 {
			e.plans[id(n)] = reconcile.Plan{Basis: ledger.BasisNotSeen, Sender: "http", Showing: reconcile.Showing{Digest: "shown"}}
		}
	}
	return newBench(t, 80, 40, o).judged(nightFacts), e
}

func TestBulkRetryTakesWhatIsProvenOrNotSeenAndPausesAfterThree(t *testing.T) {
	b, e := sixProven(t)
	b.keys("g", "v", "G", "v", "R")
	b.shows("Retry 6", "LEFT OUT", "Send 3", "without proof: by itself only")
	b.text("outage").keys("tab").text("6").keys("tab", "enter")
	if n := len(e.retried); n != 3 {
		t.Fatalf("%d sent before the pause", n)
	}
	for n := 20; n < 25; n++ { // what the policy says meanwhile is not what was agreed to
		e.plans[id(n)] = reconcile.Plan{Basis: ledger.BasisProof, Sender: "http", Showing: reconcile.Showing{Digest: "other"}}
	}
	b.shows("Retry 6: waits for a person", "3 sent", "6 = 3 landed + 3 to go", "G go on with 3").keys("G")
	if n := len(e.retried); n != 6 {
		t.Fatalf("%d sent in the end", n)
	}
	for _, q := range e.retried {
		need.That(t, q.ID == id(4) || q.Showing.Digest == "shown", "%s was sent as %+v", q.ID, q.Showing)
	}
	b.shows("Retry 6: done", "6 = 6 landed")
}

// sixGo freezes the six, and sends the first.
func (b *bench) sixGo() *bench {
	b.keys("/").text("kind:mail.send").keys("enter", "v", "G", "v", "R")
	return b.text("outage").keys("tab").text("6").keys("tab", "enter")
}

// An outage that is not over turns what was known back into doubt: an unclear answer
// stops a run as a failure does. It goes on only by a new decision.
func TestBulkRetryStopsAndGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		outage func(*fakeEngine)
		shows  []string
	}{
		"unclear": {func(e *fakeEngine) { e.result.Operation = ledger.Operation{State: ledger.Uncertain} },
			[]string{"6 = 1 unclear", "5 to go", "sent, no clear answer: mail ", ": no answer was"}},
		"refused": {func(e *fakeEngine) { e.result.Did, e.err = "", errors.New("connection refused") }, []string{"6 = 1 not done + 5 to go", "NOT DONE: mail ", ": connection refused"}},
	} {
		b, e := sixProven(t)
		c.outage(e)
		b.sixGo().shows("stopped at 1 of the first 3 failed or unclear", "G go on with 5").shows(c.shows...)
		need.Must(t, len(e.retried) == 1, "%s: %d sent", name, len(e.retried))
		e.result.Did, e.result.Operation, e.err = reconcile.DidSend, ledger.Operation{State: ledger.Committed}, nil
		b.keys("G").shows("G go on with").keys("G").shows("Retry 6: done")
		need.Must(t, len(e.retried) == 6 && b.m.run == nil, "%s: %d sent in the end", name, len(e.retried))
		b.shows("↵ opens the row").keys("enter")
		if got := b.m.table.Chosen().ID; b.m.screen != onDetail || got != e.retried[0].ID {
			t.Errorf("%s: Enter opened %s, not what went wrong: %s", name, got, e.retried[0].ID)
		}
	}
}

// A run is the ledger's, not the console's: another person sees it and goes on with it.
func TestAnotherConsoleGoesOnWithARun(t *testing.T) {
	b, e := sixProven(t)
	b.sixGo().shows("G go on with 3").keys("esc").shows("███", "3/6", "3 landed", "p look")
	o := nightOptions()
	o.Store, o.Engine, o.Actor = b.store, e, ledger.Actor{Name: "sam"}
	other := newBench(t, 80, 40, o).judged(nightFacts).shows("3/6", "p look").keys("p")
	other.shows("Retry 6: waits for a person", "3 sent", "BY", "maya", "outage", "E ends it: 3 rows stay untouched")
	other.keys("G").shows("Retry 6: done")
	if last := e.retried[5]; len(e.retried) != 6 || last.Actor.Name != "sam" || last.Reason != "outage" {
		t.Fatalf("%d sent, the last by %+v", len(e.retried), last)
	}
	other.keys("esc").hides("p look").keys("p").shows("no bulk run is open; P parks")
	b.send(feed.Changed{})
	b.hides("p look")
}

func TestARunIsPausedAndEnded(t *testing.T) {
	b, e := sixProven(t)
	b.sixGo().shows("E ends it").keys("E").shows("Retry 6: ended")
	runs, err := b.store.Runs(t.Context(), ledger.RunQuery{Limit: 1})
	if err != nil || runs[0].State != ledger.RunStopped || runs[0].Open() || runs[0].Why != "stopped by maya" || len(e.retried) != 3 {
		t.Fatalf("%+v, %d sent", runs[0], len(e.retried))
	}
	b.hides("p look").keys(":").text("runs").keys("enter", "enter").shows("Retry 6: stopped", "3 rows stay as they are. To go on", "stopped by maya").hides("G go on", "E ends it")
	b.keys("G", "E").shows("Retry 6: stopped")
	need.Must(t, len(e.retried) == 3, "%d sent", len(e.retried))
	b.keys("esc", "esc").hides("┌").keys("/").text("kind:mail.send").keys("enter", "g", "v", "G", "v", "R", "esc")
	b, e = sixProven(t)
	e.during = func(n int) {
		if n == 4 {
			openOrPause(b.m)()
		}
	}
	b.sixGo().keys("G").shows("Retry 6: paused", "paused by maya", "6 = 4 landed + 2 to go")
	need.Must(t, len(e.retried) == 4, "%d sent", len(e.retried))
}

// A key that is held down, or pressed twice, sends nothing: not where the reason
// stands there already, and not in a sheet that opens by itself.
func TestABounceDoesNotAnswerABulkDialog(t *testing.T) {
	b, e := sixProven(t)
	b.keys("/").text("kind:mail.send").keys("enter", "v", "G", "v")
	in := ledger.Outage{Scope: "downstream:stripe", Classes: []string{"timeout"}, FirstAt: at("02:13:00"), LastAt: at("02:19:00")}
	b.do(b.m.freeze(ticket.Retry, marked(b.m), &ticket.Outage{OutageAccount: ledger.OutageAccount{Outage: in}, Now: night, Zone: cest}, nil))
	b.shows("stripe timeout 02:13–02:19", "Type 6          ▌")
	for range 20 {
		b.fast("6")
		b.wait(33 * time.Millisecond)
	}
	b.wait(time.Second)
	b.keys("ctrl+u").text("6").keys("tab", "enter").shows("G go on with 3")
	for range 9 {
		b.fast("G")
		b.wait(33 * time.Millisecond)
	}
	need.Must(t, len(e.retried) == 3, "%d sent by a bounce", len(e.retried))
}

func TestCheckNow(t *testing.T) {
	b := nightBench(t, 80, 24)
	b.engine().read = ledger.Read{Verdict: ledger.CannotTell, Reason: "list truncated at 100\x1b[2J"}
	b.cursorOn(4).keys("c").shows(`check: cannot tell: list truncated at 100\x1b[2J`)
}

func TestCopyGoesThroughTheTerminal(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2).keys("y", "t")
	need.Must(t, len(b.copy) == 1 && b.copy[0] == "indoubt-7E02", "copied %q", b.copy)
}

// A hold on another kind is not what a person at a row that is not held asks to lift.
func TestHoldIsAboutWhatIsUnderTheCursor(t *testing.T) {
	b := nightBench(t, 80, 24)
	b.cursorOn(5).keys("H", "tab").text("stop").keys("tab", "tab", "enter")
	b.cursorOn(2).keys("H").shows("(•) kind legacy.charge", "HELD ALREADY", "x.post, by maya", ":release lifts it").hides("Release hold?").keys("esc")
	b.keys(":").text("hold").keys("enter").shows("(•) kind legacy.charge").keys("esc")
	b.keys(":").text("release").keys("enter").shows("Release hold?", "hold x.post").text("over").keys("tab", "enter")
	need.Must(t, len(b.m.feed.Holds) == 0, "not released")
	b.keys(":").text("release").keys("enter").shows("nothing is held").hides("Hold")
}

// An outage is held by what it is an outage of, wherever the cursor of the list stands.
func TestAnOutageIsHeldByItsScope(t *testing.T) {
	b := outageBench(t, 80, 24, "")
	b.cursorOn(2)
	openOutage(b.m, &b.m.feed.Outages[0])
	b.keys("H").shows("(•) stripe", "( ) everything").hides("legacy.charge").keys("tab").text("stop").keys("tab", "tab", "enter")
	holds := b.m.feed.Holds
	need.Must(t, len(holds) == 1 && holds[0].Scope == "downstream:stripe" && slices.Contains(holds[0].Kinds, "stripe.charge"), "held %+v", holds)
	b.keys("H").shows("Release hold?", "hold stripe").keys("esc")
}

// A bulk dialog says what it does to each, as that of one row does.
func TestABulkDialogSaysWhatItDoes(t *testing.T) {
	o := nightOptions()
	r := o.Store.(*memory).record(4)
	r.Allowed = []ledger.Allowed{{ID: "g", OperationID: id(4), Version: 2, Actor: "maya", Basis: ledger.BasisProof, CreatedAt: night.Add(-15 * time.Minute), ExpiresAt: night.Add(time.Hour)}}
	o.Store.(*memory).put(r)
	b := newBench(t, 80, 30, o).judged(nightFacts).cursorOn(4)
	b.keys("a").shows("leaves a remark; changes nothing else").keys("esc")
	b.keys("N").shows("else changes").keys("esc")
	b.cursorOn(4).keys("space").cursorOn(5).keys("space")
	b.keys("N").shows("Note 2", "leave the same remark on each").keys("esc")
	b.keys("A").shows("Abandon 2", "leave each as it is for good", "same again is refused", "U undoes one at a time", "MONEY            2 priced in words").hides("never 0").keys("esc")
}
