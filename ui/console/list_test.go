package console

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/reconcile"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"
)

// The wheel is left to the terminal unless the configuration takes it.
func TestTheMouseIsLeftToTheTerminal(t *testing.T) {
	o := nightOptions()
	for _, o.Mouse = range []bool{false, true} {
		if mode := newBench(t, 80, 24, o).m.View().MouseMode; (mode == tea.MouseModeNone) == o.Mouse {
			t.Errorf("with Mouse %v the mode is %v", o.Mouse, mode)
		}
	}
}

func (b *bench) order() []string {
	var out []string
	for _, s := range b.m.table.Items {
		out = append(out, s.ID)
	}
	return out
}

func TestTheCursorStaysOnItsOperation(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(4)
	for n := 20; n < 30; n++ {
		b.store.put(doubt(n, "x.post", "dearer", "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(1e6), amount(1e6)))
	}
	b.send(feed.Changed{})
	if got := b.m.table.Chosen().ID; got != id(4) {
		t.Fatalf("the cursor is on %s", got)
	}
	b.shows("↑10 new").hides("dearer")
	b.keys(".")
	if got := b.m.table.Chosen().ID; got != id(4) {
		t.Fatalf("after sorting the cursor is on %s", got)
	}
	b.hides("↑10 new").keys("g").shows("dearer")
}

func TestTheOrderStandsStillUntilTheHandsAre(t *testing.T) {
	b := nightBench(t, 80, 24)
	b.keys("j")
	before := strings.Join(b.order(), " ")
	b.store.put(doubt(20, "x.post", "dearer", "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(1e6), amount(1e6)))
	b.send(feed.Changed{})
	for range 5 {
		b.tickOver(10 * time.Second)
		need.Must(t, strings.Join(b.order(), " ") == before, "the order moved within a minute of the last key")
	}
	b.shows("↑1 new")
	b.tickOver(11 * time.Second)
	b.hides("↑1 new").shows("dearer")
	if got := b.m.table.Chosen().ID; got != id(2) {
		t.Fatalf("the cursor moved to %s", got)
	}
}

func TestWithoutAKeyNewsAppearAtOnce(t *testing.T) {
	b := nightBench(t, 80, 24)
	b.store.put(doubt(20, "x.post", "dearer", "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(1e6), amount(1e6)))
	b.send(feed.Changed{})
	b.shows("dearer", "7 NEED YOU")
}

func TestWithoutAKeyTheWorstStaysOnTop(t *testing.T) {
	b := nightBench(t, 80, 24)
	for n := 100; n < 160; n++ {
		b.store.put(doubt(n, "x.post", fmt.Sprintf("dearer %d", n), "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(1e6), amount(float64(n)*1e4)))
		b.send(feed.Changed{})
	}
	b.shows("dearer 159").hides("above")
	if got := b.m.table.Chosen().ID; got != id(1) { // a conflict comes first
		t.Errorf("the cursor is on %s", got)
	}
	b.store.put(doubt(20, "x.post", "worst", "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(1e6), amount(1e9)))
	b.sam(1, ledger.VerbAck, "r")
	b.send(feed.Changed{})
	if b.fast("X").shows("another row has just come under the cursor"); b.m.dialogs.Len() > 0 {
		t.Fatal("a key that was meant for the row before opened a dialog")
	}
	b.wait(3 * time.Second).keys("X").shows("did not land?").keys("esc")
	// Somebody looked at a row: it stays under the cursor, and what stands above is told.
	b.cursorOn(2).shows("above")
	for n := 200; n < 230; n++ {
		b.store.put(doubt(n, "x.post", fmt.Sprintf("dearest %d", n), "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(1e6), amount(float64(n)*1e5)))
	}
	b.send(feed.Changed{})
	b.tickOver(2 * time.Minute)
	need.Equal(t, b.m.table.Chosen().ID, id(2), "the cursor moved to")
	b.shows(fmt.Sprintf("↑%d above", b.m.table.Top)).hides("dearest")
}

func TestARowSettledElsewhereStaysDimmedUntilLeft(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2)
	b.sam(2, ledger.VerbConfirm, "r")
	b.send(feed.Changed{})
	b.shows("charge cus_1QX", "landed 03:06, by sam")
	// Also when the order may move again: it is under the cursor.
	b.tickOver(70 * time.Second)
	b.shows("landed 03:06, by sam")
	b.keys("j").hides("landed 03:06, by sam")
	if got := b.m.table.Chosen().ID; got != id(3) {
		t.Fatalf("leaving it went to %s", got)
	}
}

func TestMarksHoldIdsAndVersions(t *testing.T) {
	b := nightBench(t, 80, 24).cursorOn(2).keys("space")
	if v := b.m.table.Marks[id(2)].Row.Version; v != 2 {
		t.Fatalf("marks %v", b.m.table.Marks)
	}
	b.sam(2, ledger.VerbDeny, "r")
	b.send(feed.Changed{})
	b.keys("N").shows("nothing fits", "moved since it was marked:", "did not land, by sam")
}

func TestPagesFollowTheCursor(t *testing.T) {
	s := newMemory(night)
	for n := 100; n < 1300; n++ {
		s.put(doubt(n, "x.post", fmt.Sprintf("post %d", n), "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(1), amount(float64(n))))
	}
	o := nightOptions()
	o.Store = s
	b := newBench(t, 80, 24, o).judged(nightFacts)
	if n := len(b.m.table.Items); n != 200 {
		t.Fatalf("%d rows at first", n)
	}
	b.keys("j").shows("── 1,200, 200 loaded ↓ ──").keys("ctrl+d").m.table.MoveTo(199)
	b.m.dirty = true
	b.shows("↑190 above  1,200, 200 loaded ↓")
	b.keys("G").shows("post 100", "↑1,190 above ──").hides("loaded", "below ↓")
	if n := len(b.m.table.Items); n != 1200 {
		t.Fatalf("%d rows at the end", n)
	}
	b.wait(3*time.Second).keys("X").shows("It did not land?", "post 100").keys("esc")
	s.put(doubt(5000, "x.post", "post new", "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(1), amount(1e5)))
	b.send(feed.Changed{})
	b.shows("↑1 new")
}

func TestALostLedgerKeepsTheScreenAndComesBack(t *testing.T) {
	o := nightOptions()
	s := o.Store.(*memory)
	opened := 0
	fresh := nightStore()
	o.Reopen = func(func(ledger.Store) error) (ledger.Store, error) {
		if opened++; opened < 2 {
			return nil, errors.New("no such file")
		}
		return fresh, nil
	}
	b := newBench(t, 80, 24, o).judged(nightFacts)
	s.lose(errors.New("disk I/O error"))
	b.send(feed.Changed{})
	b.shows("STALE", "charge cus_1QX").keys("j", "C").shows("the ledger is lost")
	b.send(tea.WindowSizeMsg{Width: 20, Height: 5})
	b.shows("STALE").send(tea.WindowSizeMsg{Width: 80, Height: 24})
	b.tickOver(2 * time.Second)
	b.shows("STALE")
	b.tickOver(5 * time.Second)
	b.hides("STALE").shows("the ledger is back")
	need.Must(t, b.m.feed.Store == ledger.Store(fresh), "the new store is not used")
}

// What is wrong with the ledger's storage is said in the header, in short where
// there is no room.
func TestAStrainedLedgerIsSaid(t *testing.T) {
	o := nightOptions()
	s := o.Store.(*memory)
	s.info.Strained = "DISK SHORT: 12 KiB free of 40 MiB"
	newBench(t, 200, 24, o).judged(nightFacts).shows("DISK SHORT: 12 KiB free of 40 MiB")
	newBench(t, 80, 24, o).judged(nightFacts).shows("DISK SHORT")
}

// A database that failed over is said, with what may be missing.
func TestAFailoverIsSaid(t *testing.T) {
	o := nightOptions()
	o.Store.(*memory).info.Failover = ledger.Failover{At: time.Date(2026, 7, 14, 3, 12, 0, 0, cest), Missing: 3200 * time.Millisecond}
	newBench(t, 200, 24, o).judged(nightFacts).shows("FAILOVER 03:12: up to 4s may be missing")
	newBench(t, 80, 24, o).judged(nightFacts).shows("FAILOVER 03:12")
	quiet := newMemory(night)
	quiet.info.Failover, o.Store = o.Store.(*memory).info.Failover, quiet
	newBench(t, 200, 24, o).judged(nightFacts).shows("0 need you", "FAILOVER 03:12").hides("nothing needs you")
}

// A ledger that opens and cannot be read is not back, and how old the screen is
// counts from when it was lost, whatever the failure says meanwhile.
func TestALostLedgerIsBackWhenItCanBeRead(t *testing.T) {
	o := nightOptions()
	s := &breaking{Store: o.Store}
	o.Store = s
	opened := 0
	o.Reopen = func(reads func(ledger.Store) error) (ledger.Store, error) {
		opened++
		return s, reads(s)
	}
	b := newBench(t, 120, 24, o).judged(nightFacts)
	for n, face := range []string{"disk I/O error", "no such file", "it is locked"} {
		s.fail(errors.New(face))
		b.send(feed.Changed{})
		for range 5 {
			b.tickOver(4 * time.Second)
			b.hides("is back")
		}
		b.shows("STALE " + ticket.Span(time.Duration(n+1)*20*time.Second))
	}
	need.That(t, opened >= 5, "opened %d times in a minute", opened)
	s.fail(nil)
	b.tickOver(4 * time.Second)
	b.hides("STALE").shows("the ledger is back")
}

func TestAnotherLedgerInItsPlaceIsShownAsItIs(t *testing.T) {
	o := nightOptions()
	s := o.Store.(*memory)
	other := newMemory(night)
	other.info.ID = "L2"
	o.Reopen = func(func(ledger.Store) error) (ledger.Store, error) { return other, nil }
	over := &fakeEngine{}
	o.EngineOver = func(s ledger.Store) Engine {
		need.That(t, s == other, "an engine over another store")
		return over
	}
	b := newBench(t, 80, 24, o).judged(nightFacts).cursorOn(3).keys("space")
	s.lose(errors.New("gone"))
	b.send(feed.Changed{})
	b.shows("STALE").hides("no checks", "checks: this console")
	b.tickOver(3 * time.Second)
	b.tickOver(3 * time.Second)
	b.hides("STALE", "deploy web", "marked").shows("Nothing was ever recorded here", "another ledger stands here now")
	need.That(t, b.engine() == over && b.m.feed.Engine == over, "the engine of the ledger before is asked")
	other.put(nightStore().record(2))
	b.send(feed.Changed{})
	b.tickOver(70 * time.Second).shows("charge cus_1QX").hides("STALE")
}

func TestACopyIsNotSaidToBeChecked(t *testing.T) {
	o := nightOptions()
	o.Store.(*memory).info.Copied = "other host"
	newBench(t, 80, 24, o).judged(nightFacts).shows("COPY").hides("checks: this console").
		keys("R").shows("`indoubt adopt` makes it your own")
}

func TestWhatIsSaidIsNotCutWhereThereIsRoom(t *testing.T) {
	b := nightBench(t, 60, 20)
	b.m.warn("not sent: an attempt is in flight until 03:08:30, and what it will say is not known before")
	b.send(tea.ResumeMsg{})
	b.shows("it will say is not known before")
}

func TestWhatAClockMovedIsNobodysDoing(t *testing.T) {
	o := nightOptions()
	s := o.Store.(*memory)
	soon := doubt(20, "stripe.charge", "charge cus_2 1.00", "billing", "03:05:50", "03:06:20", ledger.ClassTimeout, 0.5, amount(2), amount(1))
	soon.Pricing.DecideAt = at("03:07:40")
	s.put(soon)
	b := newBench(t, 80, 24, o).judged(nightFacts).keys("2").shows("charge cus_9f2", "charge cus_2")
	b.wait(70 * time.Second).keys("j")
	b.tickOver(6 * time.Second)
	b.shows("needs you 03:07").hides("needs you 03:07, by", "needs you 03:06")
	// When the order may move again nothing but the row under the cursor stays.
	b.sam(7, ledger.VerbConfirm, "r")
	b.send(feed.Changed{})
	if len(b.order()) != 2 {
		t.Fatalf("the list has %v", b.order())
	}
	b.tickOver(70 * time.Second)
	b.tickOver(6 * time.Second)
	if got := b.order(); len(got) != 1 || got[0] != b.m.table.Chosen().ID {
		t.Errorf("rows that left stay for ever: %v", got)
	}
}

func TestFirstStartStates(t *testing.T) {
	o := nightOptions()
	s := newMemory(night)
	o.Store = s
	b := newBench(t, 80, 24, o).shows("Nothing was ever recorded here (created 3m ago). Not an all-clear.", "indoubt run --kind post")
	s.put(nightStore().record(2))
	b.send(feed.Changed{})
	b.shows("charge cus_1QX")

	o = nightOptions()
	s = newMemory(night, nightStore().record(9))
	s.info.LastWrite, s.info.LastBy = night.Add(-12*time.Second), "billing-7"
	o.Store = s
	newBench(t, 80, 24, o).shows("Nothing needs you. 1 settled. Last write 12s ago, billing-7.")
}

func TestFilterTabsAndCommands(t *testing.T) {
	b := nightBench(t, 80, 24)
	b.keys("/").text("kin").keys("tab").text("leg").keys("tab", "enter")
	if b.m.table.Filter.Text != "kind:legacy.charge" || len(b.m.table.Items) != 1 {
		t.Fatalf("filter %q shows %d rows\n%s", b.m.table.Filter.Text, len(b.m.table.Items), b.screen())
	}
	b.keys("esc")
	need.Must(t, b.m.table.Filter.Text == "", "esc leaves the filter")
	b.keys("/").text("nosuch:1").shows(`there is no filter field "nosuch"`).keys("enter").shows("no filter field").keys("esc")
	b.keys("s", "s")
	if b.m.table.Order() != ledger.OrderOldest {
		t.Fatalf("sorted by %s", b.m.table.Order())
	}
	b.keys(":").text("theme none").keys("enter")
	need.Must(t, b.m.Theme.Name == "none", "theme")
	b.keys(":").text("theme pink").keys("enter").shows(`no theme "pink"`).keys("esc")
	b.keys("4").shows("charge cus_77a")
	b.keys(":").text("open "+id(2)).keys("enter").shows("MEANT", "charge cus_1QX")
	b.keys("esc", "2").shows("charge cus_9f2").keys("tab").shows("charge cus_4Tz").keys("shift+tab").shows("charge cus_9f2")
}

var styles = regexp.MustCompile(`\x1b\[[0-9;:]*m`)

// unseen names what in a frame is more than text and styles.
func unseen(frame string) string {
	if !utf8.ValidString(frame) {
		return "a byte that is no UTF-8"
	}
	for _, r := range styles.ReplaceAllString(frame, "") {
		if r != '\n' && !unicode.IsPrint(r) {
			return fmt.Sprintf("%U", r)
		}
	}
	return ""
}

func TestI11_HostileTextReachesNoScreen(t *testing.T) {
	payloads := []string{"\x9b31m\xff\x9d0;", "\u009d\b\x7f\u2066\ufeff\U000e0041\nFORGED", "\x1b]52;c;ZXZpbA==\x07", "\x1b[2J\x1b[H", "\x1b]0;owned", "a\rOVERWRITTEN", "pay \u202e0001$", "x\u009b31m", "z\u200bero", "\x1b]8;;http://evil\x1b\\link"}
	for _, size := range [][2]int{{80, 24}, {120, 40}, {160, 48}} {
		for _, p := range payloads {
			r := doubt(2, "k"+p, "t"+p, "s"+p, "02:15:02", "02:15:32", ledger.ErrorClass(p), 0.5, ledger.Cost{Value: 5, Word: p}, amount(12))
			r.Operation.Key, r.Operation.Token, r.Operation.Target, r.Operation.Reason, r.Operation.Actor = p, p, p, p, p
			r.Operation.Receipts, r.Operation.ConflictNote, r.Operation.Conflict = []string{p}, p, ledger.ConflictDifferent
			r.Operation.Input = ledger.EncodeJSON(map[string]string{"a": p})
			r.Attempts[0].Error, r.Attempts[0].Actor, r.Attempts[0].Sender = p, p, p
			r.Reads = []ledger.Read{{ID: p, Verdict: ledger.CannotTell, Reason: p, Receipts: []string{p}, Evidence: ledger.EncodeJSON(map[string]string{"id": p, "status": p})}}
			r.Related = []ledger.Relation{{ID: p, Title: p, Source: ledger.Source{Pipeline: p}}}
			s := newMemory(night, r)
			s.Put(ledgertest.Contents{Events: []ledger.Event{{OperationID: id(2), At: night, Verb: "note", Actor: ledger.Actor{Name: p}, Reason: p}},
				Holds: []ledger.Hold{{Scope: "all", Reason: p, Actor: ledger.Actor{Name: p}}}})
			s.info.LastBy, s.info.Path = p, p
			o := nightOptions()
			o.Store, o.Actor.Name, o.Banner, o.LedgerPath = s, p, p, ""
			b := newBench(t, size[0], size[1], o)
			keys := []string{"down", "enter", "enter", "esc"}
			for _, bound := range b.m.keys {
				for _, k := range bound.keys {
					if k != "q" && k != "ctrl+c" && k != "ctrl+z" && k != "o" { // o starts a browser where there is one
						keys = append(keys, k, "esc")
					}
				}
			}
			keys = append(keys, "0", "/", "k", "i", "n", "d", ":", "tab", "esc") // which offers the kinds that were seen
			for _, k := range keys {
				b.keys(k)
				raw := b.m.View().Content
				if bad := unseen(raw); bad != "" {
					t.Fatalf("%s of payload %q is in the frame after %q:\n%q", bad, p, k, raw)
				}
				if bad := unseen(b.m.View().WindowTitle); bad != "" {
					t.Fatalf("%s is in the window's title", bad)
				}
				for i, line := range strings.Split(raw, "\n") {
					if w := ansi.StringWidth(line); w > size[0] {
						t.Fatalf("line %d is %d wide after %q with payload %q", i, w, k, p)
					}
				}
			}
		}
	}
}

func TestEverySizeIsDrawn(t *testing.T) {
	for _, size := range [][2]int{{0, 0}, {1, 1}, {2, 1}, {1, 40}, {3, 3}, {10, 5}, {20, 5}, {40, 6}, {20, 8}, {39, 9}, {40, 12}, {56, 18}, {79, 23}, {81, 25}, {149, 34}, {150, 18}, {300, 100}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			b := nightBench(t, size[0], size[1])
			if size[0] > 1 && size[1] > 4 { // what the keys act on is on it
				need.Contains(t, strings.Join(strings.Split(b.screen(), "\n")[4:], "\n"), "▌")
			}
			for _, k := range []string{"j", "enter", "esc", "R", "esc", "a", "pgdown", "esc", "?", "esc", "/", "x", "esc", ":", "esc", "G", "enter", "2", "0"} {
				b.keys(k)
				lines := strings.Split(b.m.View().Content, "\n")
				need.Must(t, size[1] <= 0 || len(lines) == size[1] || size[0] <= 0, "%d lines after %s", len(lines), k)
				for _, l := range lines {
					if w := ansi.StringWidth(l); w > size[0] {
						t.Fatalf("%d wide after %s: %q", w, k, ansi.Strip(l))
					}
				}
			}
		})
	}
}

func TestAgesTickAndAnIdleScreenIsNotDrawn(t *testing.T) {
	b := nightBench(t, 80, 24).shows("last write 2s")
	b.tickOver(time.Second).shows("last write 3s")
	b.m.dirty = false
	_, changed := b.m.take(tickMsg{b.m.tickGen - 1})
	need.Must(t, !changed, "an old clock draws")
}

func TestNoColourTellsTheCursorByAMark(t *testing.T) {
	t.Setenv("NO_COLOR", "yes")
	o := nightOptions()
	o.Theme = "auto"
	m := need.Get(newRoot(t.Context(), o))(t)
	need.Must(t, m.Name == "none", "NO_COLOR=yes is not honoured")
	nightBench(t, 80, 24).shows("▌!", "▌1 Needs you")
}

func TestI7_AnotherLedgerClosesWhatWasAskedOfTheOld(t *testing.T) {
	o := nightOptions()
	s := o.Store.(*memory)
	o.Reopen = func(func(ledger.Store) error) (ledger.Store, error) { return nightStore(), nil }
	b := newBench(t, 80, 24, o).judged(nightFacts).cursorOn(3).keys("X").shows("It did not land?")
	s.lose(errors.New("gone"))
	b.send(feed.Changed{})
	b.tickOver(3 * time.Second)
	b.tickOver(3 * time.Second)
	b.hides("STALE", "It did not land?").keys("X").shows("It did not land?")
}

func TestOneOperationIsOpenedByItsID(t *testing.T) {
	s := newMemory(night, nightStore().record(10))
	for n := 100; n < 500; n++ {
		r := doubt(n, "x.post", fmt.Sprintf("post %d", n), "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(1), amount(float64(n)))
		r.Operation.State, r.Operation.Receipts = ledger.Committed, []string{"p"}
		s.put(r)
	}
	o := nightOptions()
	o.Store = s
	b := newBench(t, 80, 24, o).judged(nightFacts)
	b.do(find(t.Context(), b.store, id(10), nil)) // as Init does for Options.OpenID
	if got := b.m.table.Chosen().ID; got != id(10) || b.m.table.Tab != ledger.TabSettled {
		t.Fatalf("%s in %s is open", got, b.m.table.Tab)
	}
	b.shows("Settled › mail Receipt → bo@example.com", "abandoned by sam")
	b.send(feed.Changed{})
	b.shows("Settled › mail Receipt → bo@example.com")
	b.keys(":").text("open zzzzzz").keys("enter").shows("no such operation")
}

func TestALinkWithoutABrowserIsShown(t *testing.T) {
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	b := nightBench(t, 80, 24).cursorOn(2).keys("o")
	b.shows("there is no browser", "https://pay.legacy.example/search?q=indoubt-7E02")
	need.Must(t, len(b.copy) == 1, "copied %q", b.copy)
}

// What needs a person and falls outside a filter is told in the header, with what
// it is worth; another list hides nothing.
func TestAFilterHidesNothingThatMatters(t *testing.T) {
	b := nightBench(t, 120, 40)
	b.hides("hidden").keys("/", "s", "i", "g", "n", "enter")
	b.shows("6 NEED YOU", "4 hidden: USD 6,420, 1 TWICE")
	b.keys("2").shows("4 hidden")
	b.keys("1", "/", "ctrl+u").keys("enter").hides("hidden")
}

// What is parked stands in a list of its own, which is there when something is parked.
func TestWhatIsParkedHasAList(t *testing.T) {
	b := nightBench(t, 80, 24)
	b.hides("5 Parked")
	rec := b.store.record(5)
	rec.Operation.ParkedUntil = night.Add(2 * time.Hour)
	b.store.put(rec)
	b.send(feed.Changed{})
	b.shows("5 Parked 1", "5 NEED YOU").keys("5").shows("▌5 Parked 1", "park 2h00m").hides("payout")
	b.keys("tab").shows("▌0 All")
}

func TestAWiderScreenShowsNoLess(t *testing.T) {
	rows := func(w int) string {
		lines := strings.Split(nightBench(t, w, 40).screen(), "\n")
		return strings.Join(lines[4:11], "\n")
	}
	for _, w := range []int{140, 160, 199, 200, 240} {
		shown := rows(w)
		for _, word := range strings.Fields(rows(120)) {
			need.That(t, strings.Contains(shown, word), "at %d columns the list lacks %q, which it has at 120:\n%s", w, word, shown)
		}
	}
}

// The row under the cursor keeps the colour of what is grave, on a background and
// with a foreground of its own.
func TestTheCursorKeepsWhatIsGrave(t *testing.T) {
	b := nightBench(t, 80, 24)
	for _, few := range []colorprofile.Profile{colorprofile.TrueColor, colorprofile.ANSI} {
		b.send(tea.ColorProfileMsg{Profile: few})
		for _, cell := range []string{"!", draw.Left(" TWICE", 9)} {
			if want := b.m.Cursor.Bad.Render(cell); want == b.m.Bad.Render(cell) || !strings.Contains(b.m.View().Content, want) {
				t.Errorf("the row under the cursor lacks %q", want)
			}
		}
	}
}

// Who marks rows and looks elsewhere acts on rows that cannot be seen: every dialog,
// the foot, the detail and the menu say what a key is about.
func TestMarksAreNamedWhereverTheyAreActedOn(t *testing.T) {
	b := nightBench(t, 80, 24)
	b.keys("j", "space", "space", "space").shows("3 marked", "3 marked: C confirm", "keys act on 3 marked: 3 kinds, 3 pipelines ")
	b.keys("a").shows("What can I do with the 3 marked?", "each of the 3 marked", "one at a time", "once about each of the 3 marked").keys("c").shows("checked 3 · 3 cannot tell")
	need.Equal(t, b.engine().reads, 3)
	b.keys("/").text("sms").keys("enter").shows("3 marked, 3 unseen", "keys act on 3 marked: 3 kinds, 3 pipelines; 3 hidden by the filter")
	b.keys("P").shows("COVERS", "3 hidden by the filter").keys("esc")
	b.keys("y").shows("NOT THE MARKS", "3 hidden by the filter").keys("esc")
	b.keys("H").shows("NOT THE MARKS").keys("esc")
	b.keys("enter").shows("keys act on 3 marked").keys("esc")
	b.keys("esc").hides("marked")

	small := nightBench(t, 80, 12).keys("space")
	for range 5 {
		small.keys("j")
	}
	small.keys("N").shows("1 not on the screen")
}

func TestTheWheelScrolls(t *testing.T) {
	b := nightBench(t, 80, 24)
	down, up := tea.MouseWheelMsg{Button: tea.MouseWheelDown}, tea.MouseWheelMsg{Button: tea.MouseWheelUp}
	b.send(down)
	if got := b.m.table.At; got != 3 {
		t.Fatalf("the cursor is on row %d", got)
	}
	b.send(up)
	b.keys("?").send(down)
	b.hides("Small letters look").send(up)
	b.shows("Small letters look").keys("esc", "a").shows("check now").send(down)
	if got := b.m.table.At; got != 0 {
		t.Fatalf("under a dialog the cursor went to row %d", got)
	}
}

func TestAMissingSecretIsNamed(t *testing.T) {
	o := nightOptions()
	o.Engine.(*fakeEngine).health = []reconcile.Health{{Downstream: "stripe", State: reconcile.StateNoKey, Since: at("03:06:30"), Why: "INDOUBT_STRIPE_KEY"}}
	newBench(t, 120, 40, o).judged(nightFacts).shows("stripe no key: INDOUBT_STRIPE_KEY").hides("DOWN")
	newBench(t, 80, 24, o).judged(nightFacts).shows("no key: INDOUBT_STRIPE_KEY")
}

// Where there is no row, and in the help, Enter opens nothing.
func TestEnterOpensOnlyWhatIsThere(t *testing.T) {
	b := nightBench(t, 80, 24)
	b.text("/nothing").keys("enter").shows("Nothing in this list").hides("↵ open", "enter open")
	b.keys("enter").shows("Nothing in this list", "is off: there is no row").hides("reading…")
	b.keys("W").shows("W is off: there is no row")
	b.keys("esc", "esc", "?", "enter").shows("── help", "esc leaves the help first").keys("esc").shows("Needs you", "payout 420.00")
}

// Why the ledger is lost stands there for as long as it is.
func TestALostLedgerSaysWhyUntilItIsBack(t *testing.T) {
	b := nightBench(t, 80, 24)
	b.store.lose(errors.New("/srv/payments.db is not there; bring it back"))
	b.send(feed.Changed{})
	b.tickOver(time.Minute).shows("STALE", "/srv/payments.db is not there; bring it back")
	b.store.lose(context.DeadlineExceeded)
	b.tickOver(4*time.Second).tickOver(time.Minute).shows("STALE", "it has not answered for 8s").hides("deadline exceeded")
	b.store.lose(errors.New("/srv/payments.db is not there; bring it back"))
	b.tickOver(4 * time.Second)
	b.keys("C").shows("C is off: the ledger is lost").tickOver(time.Minute).shows("bring it back")
	b.store.lose(nil)
	b.tickOver(4*time.Second).tickOver(time.Minute).hides("STALE", "bring it back")
}
