package console

import (
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Esc goes back one level out of whatever a screen can be left for: a prompt, the words of
// the help, a list in a dialog, a second question, what the menu led to.
func TestEscIsOneLevel(t *testing.T) {
	night := func(t *testing.T) *bench { return nightBench(t, 100, 40).cursorOn(4) }
	page := func(t *testing.T) *bench { return outageBench(t, 100, 40, "downstream:stripe") }
	for name, c := range map[string]struct {
		world      func(*testing.T) *bench
		keys, back string
		shows      string // one level up
		hides      string
	}{
		"filter over a record":   {night, "enter / x", "esc", "MEANT", "/ x"},
		"filter rubbed out":      {night, "enter / backspace", "", "Needs you ›", "2 Checking"},
		"filter over an outage":  {page, "/ x", "esc", "OUTAGE stripe", "/ x"},
		"filter over a filter":   {night, "/ m a i l enter / x", "esc", "/mail", "/mail x"},
		"filter kept, and again": {night, "enter / m a i l enter / x", "esc", "/mail", "Needs you ›"},
		"command over a record":  {night, "enter : r", "esc", "MEANT", ":r"},
		"help over a record":     {night, "enter ?", "esc", "MEANT", "Move"},
		"words of the help":      {night, "? / s a i d enter", "esc", "Small letters look", "/said"},
		"words typed over words": {night, "? / s a i d enter / x", "esc", "/said", "/said x"},
		"list in a bulk dialog":  {func(t *testing.T) *bench { b, _ := sixProven(t); return b }, "g v G v R ctrl+b", "esc", "LEFT OUT", "^b, Esc: back"},
		"what is true of it": {func(t *testing.T) *bench { return foundSince(t, ledger.Landed, "pi_9") }, "D 1", "esc", "Dealt with: what is true?",
			"Settle it"},
		"what the menu led to":  {night, "a A", "esc", "What can I do?", "Abandon?"},
		"a retry from the menu": {night, "a R", "esc", "What can I do?", "WILL SEND"},
		"record of an outage":   {page, "enter enter", "esc", "charge cus_3", "Needs you ›"},
		"rows of an outage":     {page, "enter enter esc", "esc", "OUTAGE stripe", "Settled"},
		"note on an outage":     {page, "N", "esc", "OUTAGE stripe", "Leave note"},
		"run of the list": {func(t *testing.T) *bench { b, _ := sixProven(t); return b.sixGo().keys("esc") }, ": r u n s enter enter", "esc", "┌ Runs",
			"go on with"},
	} {
		t.Run(name, func(t *testing.T) {
			b := c.world(t).keys(strings.Fields(c.keys)...)
			b.keys(strings.Fields(c.back)...).shows(c.shows).hides(c.hides)
		})
	}
}

// Esc out of what the menu or a first question led to, and once more, is where it began.
func TestEscLeavesTheMenuToo(t *testing.T) {
	b := nightBench(t, 100, 40).cursorOn(4).keys("a", "R", "esc", "esc").hides("┌")
	need.Equal(t, b.m.dialogs.Len(), 0)
	b = foundSince(t, ledger.Landed, "pi_9").keys("a", "D", "1", "esc", "esc").shows("What can I do?").keys("esc").hides("┌")
	b.keys("D", "1").text("re_1").keys("tab", "tab", "enter").hides("┌").shows("dealt with")
}

// A form that is refused puts the cursor into the field that is wrong.
func TestARefusedFormShowsWhereItIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		keys  string
		fault string
		field string // in which the cursor is
	}{
		"deny without a reason":    {"X tab enter", "say how you know", "How do you know"},
		"risk without a reason":    {"R tab 2 4 0 0 0 tab enter", "say why this risk", "Reason"},
		"risk with another loss":   {"R w h y tab 2 4 tab enter", "type 24000", "Type 24000"},
		"two receipts in one":      {"C a space b tab tab enter", "a comma between", "Receipts"},
		"park until no time":       {"P x tab w h y tab enter", "until", "Until"},
		"hold until no time":       {"H tab w h y tab x tab enter", "until", "Until"},
		"hold without a reason":    {"H tab tab 1 h tab enter", "say why", "Reason"},
		"bulk with another count":  {"space space A w h y tab 7 tab enter", "type 2", "Type 2"},
		"bulk without a reason":    {"space space A tab 2 tab enter", "say why", "Reason"},
		"bulk park until no time":  {"space space P w h y tab x tab 2 tab enter", "until", "Until"},
		"confirm without any":      {"C tab tab enter", "one of the two", "Receipts"},
		"abandon without a reason": {"A tab enter", "say why", "Reason"},
	} {
		t.Run(name, func(t *testing.T) {
			b := nightBench(t, 100, 40).cursorOn(2).keys(strings.Fields(c.keys)...)
			if !strings.Contains(strings.ToLower(b.screen()), strings.ToLower(c.fault)) {
				t.Fatalf("no word of %q:\n%s", c.fault, b.screen())
			}
			if line := lineWith(b.screen(), c.field); !strings.Contains(strings.Split(line, c.field)[1], "▌") {
				t.Errorf("the cursor is not in %s:\n%s", c.field, b.screen())
			}
		})
	}
}

// A field that must be filled says so until it is.
func TestAFieldThatMustBeFilledSaysSo(t *testing.T) {
	b := nightBench(t, 100, 40).cursorOn(2).keys("X").shows("needed").text("seen").hides("needed").keys("esc")
	b.keys("C").shows("needed").text("ch_1").hides("needed").keys("esc")
	b.keys("H").shows("needed").keys("tab").text("down").hides("needed")
}

// The whole body is read before it is sent: lines are broken where the dialog ends, and it
// scrolls.
func TestTheBodyIsShownWhole(t *testing.T) {
	for _, size := range [][2]int{{40, 12}, {80, 24}, {200, 60}} {
		o := nightOptions()
		e := o.Engine.(*fakeEngine)
		p := e.plans[id(4)]
		body := "first line\n" + strings.Repeat("0123456789 ", 40) + "\n\n" + strings.Repeat("line\n", 30) + "the last line"
		p.Body = body
		e.plans[id(4)] = p
		b := newBench(t, size[0], size[1], o).judged(nightFacts).cursorOn(4).keys("R")
		seen := ""
		for range 60 {
			if seen += dialogText(b.screen()); strings.Contains(seen, "the last line") {
				break
			}
			b.keys("pgdown")
		}
		b.shows("the last line", "y send once")
		need.Lacks(t, seen, "…")
		for _, part := range []string{"first line", "the last line", "UNDO"} {
			need.Contains(t, seen, part)
		}
		digits := ""
		for _, line := range strings.Split(seen, "\n") {
			if strings.Trim(line, "0123456789 ") == "" {
				digits += strings.ReplaceAll(line, " ", "")
			}
		}
		if n := strings.Count(digits, "0123456789"); n != 40 || len(digits) != 400 {
			t.Errorf("at %d by %d %d of 40 parts are shown:\n%s", size[0], size[1], n, seen)
		}
		need.Equal(t, len(b.engine().retried), 0)
		b.keys("y")
		need.Equal(t, len(b.engine().retried), 1)
	}
}

// dialogText is what stands in the frame of a dialog.
func dialogText(screen string) string {
	var out strings.Builder
	for _, line := range strings.Split(screen, "\n") {
		if parts := strings.SplitN(line, "│ ", 2); len(parts) == 2 {
			text, _, _ := strings.Cut(parts[1], " │")
			out.WriteString(strings.TrimRight(text, " ") + "\n")
		}
	}
	return out.String()
}
