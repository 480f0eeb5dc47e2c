package console

import (
	"errors"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ui/console/feed"
)

func TestEnterSendsANoteAParkAndAName(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2)
	b.keys("N").text("ticket 7").keys("enter").shows("noted: charge cus_1QX")
	b.keys("P", "enter").text("their support").keys("enter").shows("parked until 05:0")
	o := nightOptions()
	o.AskName = true
	b = newBench(t, 80, 24, o).judged(nightFacts)
	b.keys("j", "N").text("vera").keys("enter").shows("Leave note").hides("Who are you?")
	// Where something is decided, Enter goes by way of Cancel.
	b = nightBench(t, 80, 24).cursorOn(2)
	b.keys("X").text("seen").keys("enter", "enter").hides("Did not land")
	if got := b.op(id(2)).State; got != ledger.Uncertain {
		t.Fatalf("Enter alone made it %s", got)
	}
}

// A refusal brings back the dialog with what was typed in it, from its first field:
// Enter pressed again sends nothing.
func TestARefusalKeepsWhatWasTyped(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2)
	b.keys("X").text("not in their list").keys("tab")
	b.sam(2, ledger.VerbConfirm, "support says so")
	b.keys("enter").shows("Not done: it moved", "support says so")
	b.wait(time.Second).keys("enter").shows("It did not land?", "not in their list")
	b.send(feed.Changed{})
	b.keys("tab", "enter").shows("it moved")

	b = nightBench(t, 80, 24).cursorOn(2)
	engine := b.engine()
	engine.err = errors.New("connection refused")
	b.keys("R").text("they wait").keys("tab").text("24000").keys("tab", "enter").shows("Not done", "connection refused")
	b.wait(time.Second).keys("enter").shows("RETRY WITHOUT PROOF", "they wait", "24000")
	sent := len(engine.retried)
	b.keys("enter", "enter", "enter").hides("RETRY WITHOUT PROOF")
	if len(engine.retried) != sent {
		t.Fatal("Enter alone sent it again")
	}
}

// What is typed for a dialog that is being worked out, or has just gone, is not for
// the list.
func TestWhatIsTypedNeverFallsIntoTheList(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2)
	b.wait(time.Second)
	_, cmd := b.m.Update(keyMsg("R")) // its answer is on the way
	b.fast("q", "X", "j").shows("being worked out")
	if b.quit || b.m.dialogs.Top() != nil || b.m.table.Chosen().ID != id(2) {
		t.Fatal("a key went to the list")
	}
	b.do(cmd)
	b.shows("RETRY WITHOUT PROOF").keys("esc")
	_, cmd = b.m.Update(keyMsg("R"))
	b.fast("esc")
	b.do(cmd)
	b.hides("RETRY WITHOUT PROOF")

	// A terminal that knows no paste types a text with its line breaks.
	b.wait(time.Second).keys("N").wait(time.Second).fast("o", "k", "enter", "q", "X", "enter")
	if b.quit || b.m.dialogs.Top() != nil || b.m.screen != onList {
		t.Fatal("the rest of a text went to the list")
	}
	b.wait(time.Second).keys("X").shows("It did not land?")
}

func TestFiltersComeBack(t *testing.T) {
	o := nightOptions()
	o.Past = []string{"kind:deploy", "source:news"}
	var kept []string
	o.Remember = func(past []string) error { kept = past; return nil }
	b := newBench(t, 80, 24, o).judged(nightFacts)
	b.keys("/", "up").shows("/source:news", "v2.3 is out").hides("payout").keys("up", "up").shows("/kind:deploy", "deploy web")
	b.keys("down", "down").shows("payout").keys("up", "up", "enter").hides("payout")
	if len(kept) != 2 || kept[1] != "kind:deploy" {
		t.Fatalf("%q", kept)
	}
	kept = nil
	b.keys("esc", "/").text("sms").keys("esc").shows("payout")
	if kept != nil {
		t.Fatal("a filter that was only tried is remembered")
	}
	o.Trouble = errors.New("config.yaml is not taken: line 1")
	newBench(t, 80, 24, o).shows("config.yaml is not taken")
}
