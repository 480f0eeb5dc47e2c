package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/ui/cli/base"
	"indoubt/ui/console"
	"indoubt/ui/ticket"
)

// unlike is a charge of its own customer.
func unlike(n int) string {
	return strings.NewReplacer("1042", fmt.Sprint(2000+n), "cus_9", fmt.Sprintf("cus_%d_", n)).Replace(charge)
}

// everyState is a ledger with an operation in each state and conflict.
func everyState(t *testing.T) (b *bench, many int) {
	b = scene(t)
	b.now = b.now.Add(-10 * time.Second)
	one := func(n int) { b.doubt(n, "stripe.charge", unlike(n)) }
	for n := 7; n <= 13; n++ {
		one(n)
	}
	b.want(0, "abandon", b.at(7), "--reason", "customer gone")
	b.begin(14, "legacy.charge", `{"customer":"cus_14","amount":1400}`)
	b.settle(14, ledger.SettleRequest{Outcome: ledger.OutcomeFailed, Proof: ledger.Refused, Status: 422, Error: "no such customer"})
	b.want(0, "park", b.at(8), "--until", "2h", "--reason", "their office opens at 9")
	b.now = b.now.Add(5 * time.Minute) // from here on absence can be proven
	b.read(9, ledger.Read{Verdict: ledger.NotThere, Reason: "none found"})
	b.want(0, "deny", b.at(10), "--reason", "not in the dashboard")
	b.read(10, ledger.Read{Verdict: ledger.Landed, Found: 1, Receipts: []string{"pi_10"}, Reason: "1 matched"})
	b.read(11, ledger.Read{Verdict: ledger.Different, Found: 1, Receipts: []string{"pi_11"}, Reason: "another amount"})
	b.read(12, ledger.Read{Verdict: ledger.Landed, Found: 1, Receipts: []string{"pi_12"}, Reason: "1 matched"})
	b.want(0, "confirm", b.at(13), "--reason", "their support says so")
	b.want(0, "undo", b.at(13), "--reason", "of another customer")
	one(16)
	b.doubt(17, "stripe.charge", strings.Replace(unlike(17), "2017", "2016", 1)) // of the same invoice
	b.begin(15, "stripe.charge", unlike(15))                                     // in flight
	for n := range 17 {
		b.price(n + 1)
	}
	b.now = b.now.Add(10 * time.Second)
	return b, 17
}

// screen is what the console shows: a key is pressed once it shows a first text, and
// it is done when then says so of what it shows.
func (b *bench) screen(w, h int, o console.Options, first, key string, then func(string) bool) string {
	b.Helper()
	text := need.Get(policy.Parse(b.policy, []byte(benchPolicy)))(b)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o.Store, o.Clock, o.Location, o.Theme, o.Actor = b.open(), b.clock, time.UTC, "none", ledger.Actor{Name: "maya"}
	past := reconcile.NewHistory(b.open())
	o.Policy, o.PolicyProblem = func() *policy.Policy { return past.Policy(ctx, text) }, func() error { return nil }
	em := vt.NewSafeEmulator(w, h)
	in, typed := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- console.Run(ctx, o, tea.WithInput(in), tea.WithOutput(lines{em}), tea.WithWindowSize(w, h), tea.WithoutSignals(),
			tea.WithColorProfile(colorprofile.Ascii), tea.WithEnvironment([]string{"TERM=xterm-256color"}))
	}()
	go func() { _, _ = io.Copy(io.Discard, em) }() // what a terminal answers
	until := func(shows func(string) bool) (seen string) {
		for ctx.Err() == nil {
			if seen = ansi.Strip(em.Render()); shows(seen) {
				return seen
			}
			time.Sleep(5 * time.Millisecond)
		}
		b.Errorf("the console never shows it:\n%s", seen)
		return seen
	}
	until(having(first))
	_, _ = io.WriteString(typed, key)
	out := until(then)
	cancel()
	<-done
	typed.Close()
	if c, ok := em.InputPipe().(io.Closer); ok {
		c.Close()
	}
	return out
}

func having(text string) func(string) bool {
	return func(screen string) bool { return strings.Contains(screen, text) }
}

// lines gives a terminal in raw mode the line feeds that it needs.
type lines struct{ to io.Writer }

func (l lines) Write(p []byte) (int, error) {
	_, err := l.to.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n")))
	return len(p), err
}

// cellsUnder takes the rows below a line of heads apart, by what stands under WHAT.
// A column reaches from its head, or from the end of the head before where it is
// aligned to the right.
func cellsUnder(t *testing.T, screen string, heads ...string) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	var at []int
	for _, line := range strings.Split(screen, "\n") {
		if strings.Contains(line, "WHAT") && strings.Contains(line, "LANDED?") {
			at = nil
			for _, h := range heads {
				at = append(at, ansi.StringWidth(line[:strings.Index(line, h)]))
			}
			continue
		}
		if at == nil || ansi.StringWidth(line) < at[len(at)-1] {
			continue
		}
		row := map[string]string{}
		for i, h := range heads {
			from, to := at[i], ansi.StringWidth(line)
			if i+1 < len(at) {
				to = at[i+1]
			}
			if h == "AGE" || h == "TWICE" || h == "NEVER" { // to the right
				from, to = at[i]-2, at[i]+len(h)
			} else if i+1 < len(at) && (heads[i+1] == "TWICE" || heads[i+1] == "NEVER") {
				to -= 2
			}
			row[h] = strings.TrimSpace(ansi.Cut(line, from, to))
			if fields := strings.Fields(row[h]); to == at[i]+len(h) && len(fields) > 0 {
				row[h] = fields[len(fields)-1]
			}
		}
		if row["WHAT"] != "" {
			out[row["WHAT"]] = row
		}
	}
	return out
}

// The console and the command line say the same of every operation: cell by cell in
// the list, and line by line in the detail.
func TestConsoleAndCommandLineAgree(t *testing.T) {
	b, many := everyState(t)
	heads := []string{"AGE", "KIND", "WHAT", "PIPELINE", "TWICE", "NEVER", "LANDED?", "CLOCK", "DO"}
	listed := cellsUnder(t, b.table(250), heads...)
	shown := cellsUnder(t, b.screen(149, 70, console.Options{}, "Needs you", "0", func(screen string) bool {
		rows := cellsUnder(t, screen, heads...)
		for _, row := range rows { // until all details are read
			if row["TWICE"] == "…" || row["DO"] == "…" {
				return false
			}
		}
		return strings.Contains(screen, "▌0 All") && len(rows) >= many
	}), heads...)
	landed := map[string]bool{}
	for n := 1; n <= many; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var o struct {
				Title, State, Key string
				Lane              ledger.Lane
				Receipt           *string
				Cost              base.CostJSON
				Odds              *base.OddsJSON
				Advice            *base.AdviceJSON
			}
			need.OK(t, json.Unmarshal(b.json(0, "show", id(n)).Data, &o))
			row, cells := listed[o.Title], shown[o.Title]
			need.Must(t, row != nil && cells != nil, "%q is not in both lists", o.Title)
			for _, h := range heads {
				if row[h] != cells[h] {
					t.Errorf("%s is %q in list and %q in the console", h, row[h], cells[h])
				}
			}
			landed[row["LANDED?"]] = true
			if want := b.rec(n).Row().LaneAt(b.now); o.Lane != want || (row["CLOCK"] == "overtaken") != (n == 16) || n == 16 && want != ledger.LaneDecide {
				t.Errorf("it is in %s, and in JSON in %s; its clock says %s", want, o.Lane, row["CLOCK"])
			}
			if o.Odds != nil && strings.Contains(row["LANDED?"], "%") && row["LANDED?"] != ticket.Percent(o.Odds.P) {
				t.Errorf("LANDED? is %q with the odds %+v", row["LANDED?"], *o.Odds)
			}
			if want := ticket.Money(o.Cost.Duplicate); strings.TrimPrefix(row["TWICE"], "~") != want {
				t.Errorf("TWICE is %q, and in JSON %v", row["TWICE"], o.Cost.Duplicate)
			}
			whole := b.screen(200, 90, console.Options{OpenID: id(n)}, "› "+o.Title, "\r", having(id(n)))
			flat := strings.Join(strings.Fields(whole), " ")
			for _, fact := range told(b.want(0, "show", id(n))) {
				need.That(t, strings.Contains(flat, fact), "show says %q, and the console does not:\n%s", fact, whole)
			}
			for _, fact := range []string{o.Title, o.Key, deref(o.Receipt)} {
				need.That(t, strings.Contains(flat, fact), "the JSON says %q, and the console does not", fact)
			}
			if o.Advice != nil && o.State == "uncertain" && !strings.Contains(flat, "→ "+strings.ToUpper(o.Advice.Verb)) {
				t.Errorf("the JSON advises %q, and the console does not:\n%s", o.Advice.Verb, whole)
			}
		})
	}
	for _, word := range []string{"?", "yes", "no", "said no", "TWICE", "OTHER", "DISPUTED"} {
		need.That(t, landed[word], "no operation says %q: %v", word, landed)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// told are the lines of `show`: the console has the same.
func told(show string) (facts []string) {
	for line := range strings.Lines(show) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			facts = append(facts, line)
		}
	}
	return facts
}
