package console

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ui/console/dialog"
)

// words are what people type into the wrong window. Names and the beginnings of sentences
// have a capital.
var words = strings.Fields(`
	abandon again agree allow any anyway apply ask away bay buy by can cancel city confirm copy cry cycle day deny done dry dye end every fly go
	great happy hey hold it key kill landed my no now okay only park pay please proxy query quit ready rely reply retry say send ship sorry stop
	sync they try type undo very way why yes you yy
	Abandon Any Apply By Confirm Copy Cyan Cycle Day Deny Dry Dye End Every Go Going Good Great Guy Happy Hey Hold My Park Pause Pay Please Ready
	Reply Retry Ray Ryan Stop They Try Type Undo Why Yes You Xylophone RETRY PAY YES GO RYAN DYE TRY`)

// places are the screens, and the dialogs that ask for one key, with rows that a key would
// send or settle; keys lead there from the list.
var places = map[string]struct {
	world func(t *testing.T) *bench
	keys  string
}{
	"list":        {sendable, ""},
	"marks":       {sendable, "g v G v"},
	"record":      {sendable, "enter"},
	"help":        {sendable, "?"},
	"menu":        {sendable, "a"},
	"copy":        {sendable, "y"},
	"retry":       {sendable, "R"},
	"risk":        {func(t *testing.T) *bench { return nightBench(t, 80, 24).cursorOn(2) }, "R"},
	"bulk":        {sendable, "g v G v R"},
	"below":       {waitingRun, ""},
	"waiting":     {waitingRun, "p"},
	"runs":        {waitingRun, ": r u n s enter"},
	"conflict":    {conflictOfOne, ""},
	"dealt with":  {conflictOfOne, "D"},
	"outage":      {outageAbove, "enter"},
	"outage rows": {outageAbove, "enter enter"},
	"running": {func(t *testing.T) *bench {
		return outageRun(t, outageBench(t, 100, 34, "downstream:stripe"), landed, landed).keys("esc")
	}, "p"},
}

func sendable(t *testing.T) *bench      { b, _ := sixProven(t); return b.cursorOn(4) }
func waitingRun(t *testing.T) *bench    { b, _ := sixProven(t); return b.sixGo().keys("esc") }
func conflictOfOne(t *testing.T) *bench { return foundSince(t, ledger.Landed, "pi_9") }
func outageAbove(t *testing.T) *bench {
	return outageBench(t, 100, 34, "downstream:stripe").keys("esc")
}

// decided is how much people have decided and sent; who is on an outage decides nothing.
func (b *bench) decided() (n int) {
	b.t.Helper()
	events := need.Get(b.store.History(context.Background(), ledger.HistoryQuery{Limit: 5000}))(b.t)
	for _, e := range events {
		if !e.Actor.Machine && e.Verb != ledger.OutageTaken {
			n++
		}
	}
	return n + len(b.engine().retried)
}

// No word sends or decides, wherever it is typed and however quick the hand is, as long as
// its keys follow one another; nor do two small letters, however slow they come.
func TestNoWordSends(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := words
	for range 40 {
		word := make([]byte, 2+random.IntN(6))
		for i := range word {
			word[i] = byte('a' + random.IntN(26))
		}
		all = append(all[:len(all):len(all)], string(word))
	}
	delays := []time.Duration{0, 90 * time.Millisecond, 180 * time.Millisecond, 320 * time.Millisecond, dialog.Typing - time.Millisecond}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			b := place.world(t)
			b.blind = true
			home := here(b.m)
			before := b.decided()
			try := func(word string, delay time.Duration) {
				t.Helper()
				b.wait(3 * time.Second).keys(strings.Fields(place.keys)...).wait(3 * time.Second)
				for _, r := range word {
					b.send(keyMsg(string(r)))
					b.wait(delay)
				}
				b.wait(time.Second)
				if b.decided() != before {
					b.blind = false
					t.Fatalf("%q, a key each %s, did something:\n%s", word, delay, b.screen())
				}
				b.m.dialogs.Clear()
				b.m.prompt, b.m.trail, b.m.spot, b.m.table.Marks, b.m.table.Anchor, b.m.leaving.asked = nil, nil, home.spot, nil, "", false
				b.m.table.Return(home.tab, home.filter, home.row)
				b.do(b.m.feed.Restart())
			}
			b.keys(strings.Fields(place.keys)...)
			asks := b.m.dialogs.Top() != nil
			b.m.dialogs.Clear()
			for _, word := range all {
				try(word, delays[random.IntN(len(delays))])
				if small := strings.ToLower(word) == word; small && (!asks || word[0] != 'y') { // y alone may be the answer
					try(word, 2*dialog.Typing)
				}
			}
		})
	}
}

func TestTheKeyThatOpenedADialogNeverConfirmsIt(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(4)
	// Held down: the same key again and again, and everything within the guard.
	b.fast("R", "R", "r", "y", "enter")
	if len(b.engine().retried) != 0 || b.m.dialogs.Len() != 1 {
		t.Fatalf("a key within the guard did something: %d dialogs", b.m.dialogs.Len())
	}
	b.wait(dialog.Guard).fast("y")
	b.wait(time.Second).shows("closed: `y` came too soon after another key")
	need.Must(t, len(b.engine().retried) == 0 && b.m.dialogs.Len() == 0, "a key that came too soon did something")
	b.keys("R").wait(dialog.Typing).fast("y")
	b.wait(dialog.Typing - time.Millisecond)
	need.Must(t, len(b.engine().retried) == 0, "sent before it was quiet")
	b.wait(time.Millisecond)
	need.Must(t, len(b.engine().retried) == 1, "y did nothing")
	// A dialog that was opened with y is not confirmed with y or Y.
	var s dialog.Stack
	for _, key := range []string{"y", "Y"} {
		s.Open(&dialog.Dialog{Yes: "y do it", Submit: func(time.Time) (dialog.Action, dialog.Fault) { t.Fatal("confirmed"); return nil, dialog.Fault{} }}, "y", b.now.Add(-time.Minute), b.now.Add(-time.Minute))
		if _, closed := s.Press(keyMsg(key), b.now).(dialog.Unanswered); !closed || s.Len() != 0 {
			t.Errorf("%s did not close it", key)
		}
	}
}
