//go:build soak

package cli_test

import (
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"indoubt/ledger/need"
)

// hand is a person at a terminal: it reads the screen, and counts the keys it presses.
type hand struct {
	*testing.T
	em    *vt.SafeEmulator
	tty   io.Writer
	keys  int
	spelt []string
	began time.Time // the first screen
}

// atTheDemo is a person before the demo's outage, who has pressed nothing yet.
func atTheDemo(t *testing.T, w, h int) *hand {
	t.Helper()
	s := newSite(t)
	p := s.hand(w, h, "demo", "--as", "vera", "--dir", filepath.Join(s.dir, "night"))
	p.until("the console is open", 2*patience, func(s string) bool { return strings.Contains(s, "stripe timeout") })
	p.began = time.Now()
	return p
}

// hand is a person before the program.
func (s *site) hand(w, h int, args ...string) *hand {
	s.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir = s.env, s.dir
	return handAt(s.T, w, h, cmd)
}

// handAt is a person before a program that is not started yet.
func handAt(t *testing.T, w, h int, cmd *exec.Cmd) *hand {
	t.Helper()
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	tty := need.Get(pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(h), Cols: uint16(w)}))(t)
	p := &hand{T: t, em: vt.NewSafeEmulator(w, h), tty: tty}
	go io.Copy(p.em, tty)
	go io.Copy(tty, p.em) // what a terminal answers
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		tty.Close()
		p.em.InputPipe().(io.Closer).Close()
	})
	return p
}

func (p *hand) screen() string { return ansi.Strip(p.em.Render()) }

// until waits for something to be on the screen, and for the moment in which a dialog
// that has just opened takes no keys.
func (p *hand) until(what string, long time.Duration, ok func(screen string) bool) string {
	p.Helper()
	p.await(what, long, ok)
	time.Sleep(550 * time.Millisecond)
	return p.screen()
}

func (p *hand) await(what string, long time.Duration, ok func(screen string) bool) {
	p.Helper()
	for limit := time.Now().Add(long); !ok(p.screen()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			p.Fatalf("after %v: never: %s\n%s", p.spelt, what, p.screen())
		}
	}
}

func (p *hand) sees(text string) string {
	p.Helper()
	return p.until(text, patience, func(s string) bool { return strings.Contains(s, text) })
}

var spelling = map[string]string{"enter": "\r", "tab": "\t", "esc": "\x1b", "down": "\x1b[B"}

// press presses keys one after the other, as quickly as a person does.
func (p *hand) press(keys ...string) {
	for _, k := range keys {
		text := spelling[k]
		if text == "" {
			text = k
		}
		io.WriteString(p.tty, text)
		p.keys++
		p.spelt = append(p.spelt, k)
		time.Sleep(200 * time.Millisecond)
	}
}

// within fails where it took more keys. How many seconds is for the log: a busy machine
// takes its time.
func (p *hand) within(keys int) {
	p.Helper()
	p.Logf("%d keys, %.0f s: %s", p.keys, time.Since(p.began).Seconds(), strings.Join(p.spelt, " "))
	need.That(p, p.keys <= keys, "%d keys, want %d", p.keys, keys)
}

// rows are those of the list on the screen; at is the one under the cursor.
func (p *hand) rows() (rows []string, at int) {
	p.Helper()
	in := false
	for _, line := range strings.Split(p.screen(), "\n") {
		switch {
		case strings.Contains(line, "AGE") && strings.Contains(line, "LANDED?"):
			in = true
		case !in:
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "─"):
			return rows, at
		default:
			if strings.HasPrefix(line, "▌") {
				at = len(rows)
			}
			rows = append(rows, line)
		}
	}
	p.Fatalf("no list:\n%s", p.screen())
	return nil, 0
}

// goTo moves to the row with a text.
func (p *hand) goTo(text string) {
	p.Helper()
	away := func() int {
		rows, at := p.rows()
		if i := slices.IndexFunc(rows, func(row string) bool { return strings.Contains(row, text) }); i >= 0 {
			return i - at
		}
		p.Fatalf("no row %q:\n%s", text, p.screen())
		return 0
	}
	for n := away(); n != 0; n = away() {
		p.step(map[bool]string{true: "j", false: "k"}[n > 0], away)
	}
}

// step presses a key that moves the cursor and waits until it has moved: a key that the
// program has not read yet would move it further under the next one.
func (p *hand) step(key string, place func() int) {
	p.Helper()
	before := place()
	p.press(key)
	p.await("the cursor has moved", patience, func(string) bool { return place() != before })
}

// outsideWork is what the console cannot do: someone has to look, to take something
// back, or to start a pipeline.
var outsideWork = regexp.MustCompile(`resolve|look|fetch|open|wait|(landed|parked|abandoned) \d\d:\d\d, by`)

// leavesOutsideWork: what still needs a person needs work outside of the console. A screen
// that is just being drawn has old cells beside new ones, so this waits for one that is whole.
func (p *hand) leavesOutsideWork(outage string) {
	p.Helper()
	p.await("five rows or more, each for work outside of the console", patience, func(string) bool {
		rows, _ := p.rows()
		return len(rows) >= 5 && !slices.ContainsFunc(rows, func(row string) bool {
			cells := strings.Split(strings.TrimSpace(row), "  ")
			return !outsideWork.MatchString(cells[len(cells)-1])
		})
	})
	need.That(p, !strings.Contains(outage, "send again"), "the outage is left to send:\n%s", outage)
}

// The outage of the demo by a person who knows the keys: the 68 are sent, and what is
// left needs work outside.
func TestE2E_TheOutageInThirtyKeys(t *testing.T) {
	p := atTheDemo(t, 120, 40)
	p.goTo("stripe timeout")
	p.press("enter")
	p.sees("OUTAGE stripe")
	p.press("R")
	p.sees("Type 68")
	p.press("6", "8", "tab", "enter")
	p.sees("G go on with 65")
	p.press("G")
	if s := p.sees(": done ──"); !strings.Contains(s, "68 = 67 landed + 1 unclear") {
		t.Errorf("the run does not add up:\n%s", s)
	}
	outage := p.sees("OUTAGE stripe")
	p.press("esc")
	p.sees("Needs you")
	p.goTo("mail Welcome")
	p.sees("KNOWN") // its details are read
	p.press("R")
	p.sees("y send once")
	p.press("y")
	p.sees("by vera")
	p.goTo("v2.3 is out")
	p.sees("KNOWN")
	p.press("T")
	p.sees("Park")
	p.press("enter", "enter")
	p.sees("parked until")
	p.goTo("deploy web 4.18.2")
	p.sees("ABANDON: overtaken")
	p.press("A")
	p.sees("Reason")
	p.press("o", "l", "d", "tab", "enter")
	p.sees("abandoned")
	p.within(30)
	p.leavesOutsideWork(outage)
}

// follow presses the key that the screen shows for some words: where they stand last, which
// is at its foot. A row may have them, too, as in `23h58m retry`.
func (p *hand) follow(words string) {
	p.Helper()
	found := regexp.MustCompile(`(?:^|\s)([^\s\d]\S*) \[?`+regexp.QuoteMeta(words)).FindAllStringSubmatch(p.screen(), -1)
	if found == nil {
		p.Fatalf("the screen shows no key for %q:\n%s", words, p.screen())
	}
	shown := found[len(found)-1][1]
	key := strings.ToLower(strings.TrimSuffix(shown, ":"))
	if len(key) == 1 {
		key = shown
	}
	if key == "↵" {
		key = "enter"
	}
	p.press(key)
}

// theOutage is what a newcomer does in the view of an outage.
func (p *hand) theOutage() {
	p.Helper()
	p.follow("open")
	p.sees("WHAT TO DO")
	p.follow("send the group")
	form := p.sees("Type ")
	n := regexp.MustCompile(`Type (\d+)`).FindStringSubmatch(form)[1]
	p.press(strings.Split(n, "")...)
	p.follow("Send 3")
	p.press("enter")
	p.sees("go on with")
	p.follow("go on with")
	p.until("the run is over", patience, func(s string) bool {
		return strings.Contains(s, ": done ──") && !strings.Contains(s, ": running")
	})
}

// The same by a newcomer, who presses only keys that the screen shows, and reads the
// help, the rows of a group and what can be done about a row.
func TestE2E_TheOutageByANewcomer(t *testing.T) {
	p := atTheDemo(t, 80, 24)
	p.follow("help")
	p.until("the help", patience, func(s string) bool { return !strings.Contains(s, "NEVER LANDED?") })
	p.follow("back")
	var outage string
	below := func() int {
		rows, at := p.rows()
		return len(rows) - at
	}
	for sent := false; ; p.step("down", below) {
		p.sees("LANDED?")
		rows, at := p.rows()
		advice := p.screen()
		switch {
		case strings.Contains(rows[at], "stripe timeout") && !sent:
			p.theOutage()
			outage, sent = p.sees("WHAT TO DO"), true
			p.press("down")
			p.follow("rows")
			p.sees("LANDED?")
			p.press("esc")
			p.sees("WHAT TO DO")
			p.press("esc")
		case strings.Contains(advice, "→ RETRY"):
			p.follow("retry")
			p.sees("send once")
			p.follow("send once")
			p.sees("by vera")
		case strings.Contains(advice, "→ LEAVE"):
			p.follow("park")
			p.sees("Enter: next field, then Park")
			p.press("enter", "enter")
			p.sees("parked until")
		case strings.Contains(advice, "→ ABANDON"):
			p.follow("abandon")
			p.sees("Reason")
			p.press("o", "l", "d")
			p.follow("Abandon")
			p.press("enter")
			p.sees("abandoned")
		case strings.Contains(rows[at], "1QX"):
			p.follow("what can I do")
			p.sees("C ")
			p.press("esc")
		}
		if at == len(rows)-1 {
			break
		}
	}
	p.within(60)
	p.leavesOutsideWork(outage)
}
