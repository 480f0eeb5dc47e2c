package console

import (
	"errors"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ui/console/feed"

	tea "charm.land/bubbletea/v2"
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
	need.Must(t, len(engine.retried) == sent, "Enter alone sent it again")
}

// What is typed for a dialog that is being worked out, or has just gone, is not for
// the list.
func TestWhatIsTypedNeverFallsIntoTheList(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2)
	b.wait(time.Second)
	_, cmd := b.m.Update(keyMsg("R")) // its answer is on the way
	b.fast("q", "X", "j").shows("being worked out")
	need.Must(t, !b.quit && b.m.dialogs.Top() == nil && b.m.table.Chosen().ID == id(2), "a key went to the list")
	b.do(cmd)
	b.shows("RETRY WITHOUT PROOF").keys("esc")
	_, cmd = b.m.Update(keyMsg("R"))
	b.fast("esc")
	b.do(cmd)
	b.hides("RETRY WITHOUT PROOF")

	// A terminal that knows no paste types a text with its line breaks.
	b.wait(time.Second).keys("N").wait(time.Second).fast("o", "k", "enter", "q", "X", "enter")
	need.Must(t, !b.quit && b.m.dialogs.Top() == nil && b.m.screen == onList, "the rest of a text went to the list")
	b.wait(time.Second).keys("X").shows("It did not land?")
}

func TestAFilterIsOnlyTried(t *testing.T) {
	o := nightOptions()
	b := newBench(t, 80, 24, o).judged(nightFacts)
	b.keys("/").text("sms").keys("esc").shows("payout") // only tried
	o.Trouble = errors.New("config.yaml is not taken: line 1")
	newBench(t, 80, 24, o).shows("config.yaml is not taken")
}

// In every dialog that asks for a text: a refusal brings back all that was typed, and what
// is typed on after the answer falls into nothing.
func TestEveryDialogKeepsWhatWasTyped(t *testing.T) {
	list := func(n int) func(*testing.T) *bench {
		return func(t *testing.T) *bench { return nightBench(t, 100, 40).cursorOn(n) }
	}
	outage := func(keys ...string) func(*testing.T) *bench {
		return func(t *testing.T) *bench { return outageBench(t, 100, 40, "downstream:stripe").keys(keys...) }
	}
	for name, c := range map[string]struct {
		at    func(*testing.T) *bench
		keys  []string // open the dialog
		texts []string // of its fields, from the one that it opens at
	}{
		"confirm":        {list(2), []string{"C"}, []string{"ch_1", "their list"}},
		"deny":           {list(2), []string{"X"}, []string{"their list"}},
		"risk":           {list(2), []string{"R"}, []string{"they wait", "24000"}},
		"abandon":        {list(2), []string{"A"}, []string{"too old"}},
		"settle":         {list(1), []string{"D", "1"}, []string{"refund 7", "took one back"}},
		"park":           {list(2), []string{"P"}, []string{"", "their support"}},
		"hold":           {list(2), []string{"H", "tab"}, []string{"stripe is down"}},
		"note":           {list(2), []string{"N"}, []string{"ticket 7"}},
		"undo":           {func(t *testing.T) *bench { return nightBench(t, 100, 40).keys("4").cursorOn(9) }, []string{"U"}, []string{"wrong one"}},
		"bulk":           {list(2), []string{"space", "space", "A"}, []string{"too old", "2"}},
		"outage note":    {outage(), []string{"N"}, []string{"ticket 7"}},
		"outage park":    {outage(), []string{"P"}, []string{"", "12"}},
		"outage give up": {outage(), []string{"A"}, []string{"12"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := c.at(t).wait(time.Second).keys(c.keys...).wait(time.Second)
			d := b.m.dialogs.Top()
			if d == nil || len(d.Fields) == 0 {
				t.Fatalf("no field is asked for:\n%s", b.screen())
			}
			for i, text := range c.texts {
				if i > 0 {
					b.keys("tab")
				}
				b.text(text)
			}
			var typed []string
			for _, f := range d.Fields {
				typed = append(typed, f.Value())
			}
			screen, list := b.m.screen, here(b.m).row
			for range 4 { // to the button
				if strings.Contains(b.screen(), "▌["+d.Do+"]") {
					break
				}
				b.keys("tab")
			}
			b.store.lose(errors.New("disk I/O error"))
			b.engine().err = errors.New("connection refused")
			b.fast("enter", "q", "X", "j", "enter").wait(time.Second)
			if b.m.dialogs.Len() != 2 || b.quit || b.m.screen != screen || here(b.m).row != list {
				t.Fatalf("%d dialogs, quit %v:\n%s", b.m.dialogs.Len(), b.quit, b.screen())
			}
			b.shows("Not done").keys("enter")
			for i, f := range b.m.dialogs.Top().Fields {
				if f.Value() != typed[i] {
					t.Errorf("%s came back as %q, not as %q", f.Label, f.Value(), typed[i])
				}
			}
		})
	}
}

// What cannot be read is not decided: a terminal may be made smaller while a dialog is open.
func TestADialogThatDoesNotFitIsNotAnswered(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2)
	b.keys("X").text("seen").keys("tab")
	for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 4}, {Width: 20, Height: 5}, {Width: 8, Height: 24}} {
		b.send(size)
		b.keys("enter")
		need.Must(t, b.op(id(2)).State == ledger.Uncertain && b.m.dialogs.Len() == 1, "at %d by %d it was answered unseen", size.Width, size.Height)
	}
	b.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	b.shows("too small", "seen").keys("enter").hides("It did not land?")
	need.Equal(t, b.op(id(2)).State, ledger.Failed)
}
