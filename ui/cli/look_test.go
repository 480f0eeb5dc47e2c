package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
	"indoubt/ui/cli/base"
)

// table runs `list` on a terminal that many columns wide.
func (b *bench) table(width int, args ...string) string {
	b.Helper()
	var out, errOut bytes.Buffer
	a := base.NewApp(strings.NewReader(""), &out, &errOut)
	a.Clock, a.Steady, a.Width = b.clock, hostclock.With(b.clock), func() int { return width }
	a.Env = func(name string) string {
		return map[string]string{"INDOUBT_LEDGER": b.ledger, "INDOUBT_POLICY": b.policy}[name]
	}
	if exit := run(context.Background(), a, append([]string{"list"}, args...)); exit != 0 {
		b.Fatalf("list: exit %d\n%s%s", exit, out.String(), errOut.String())
	}
	return out.String()
}

func TestListFitsTheTerminal(t *testing.T) {
	b := scene(t)
	for _, width := range []int{60, 80, 120, 200} {
		out := b.table(width)
		for _, line := range strings.Split(out, "\n") {
			if w := ansi.StringWidth(line); w > width {
				t.Errorf("%d columns: a line of %d: %q", width, w, line)
			}
		}
		golden(t, fmt.Sprintf("list_%d.txt", width), []byte(out))
	}
	golden(t, "list_piped.txt", []byte(b.table(0)))
}

// A deadline that passes while the lists are read, one after the other, takes no row
// out of all of them.
func TestListLosesNoneToADeadline(t *testing.T) {
	b := scene(t)
	for after := range 8 {
		calls, start := 0, b.now
		moving := func() time.Time {
			if calls++; calls > after {
				return start.Add(time.Minute)
			}
			return start
		}
		var out, errOut bytes.Buffer
		a := base.NewApp(strings.NewReader(""), &out, &errOut)
		a.Clock, a.Steady, a.Width = moving, hostclock.With(moving), func() int { return 0 }
		a.Env = func(name string) string {
			return map[string]string{"INDOUBT_LEDGER": b.ledger, "INDOUBT_POLICY": b.policy}[name]
		}
		if exit := run(context.Background(), a, []string{"list"}); exit != 0 {
			t.Fatalf("exit %d\n%s%s", exit, out.String(), errOut.String())
		}
		if n := strings.Count(out.String(), "charge cus_6 "); n != 1 {
			t.Errorf("the deadline passed at call %d of the clock: listed %d times\n%s", after, n, out.String())
		}
	}
}

func TestListSaysWhatAnEmptyListMeans(t *testing.T) {
	b := newBench(t)
	b.open()
	b.now = b.now.Add(3 * time.Minute)
	need.Contains(t, b.want(0, "list"), "Nothing was ever recorded here (created 3m ago). Not an all-clear.")
	b.doubt(1, "stripe.charge", charge)
	b.want(0, "confirm", b.at(1), "--reason", "r")
	b.now = b.now.Add(12 * time.Second)
	for _, args := range [][]string{{"list"}, {}} { // without a terminal, no command means list
		need.Contains(t, b.want(0, args...), "Nothing needs you. 1 settled. Last write 12s ago, billing.")
	}
	need.Contains(t, b.want(0, "list", "kind:none"), "0 operations")
}

func TestShowReadsLikeATicket(t *testing.T) {
	b := scene(t)
	b.want(0, "note", id(1), "--reason", "asking their support, ticket 4411")
	for n, name := range map[int]string{1: "in_doubt", 5: "duplicate"} {
		out := b.want(0, "show", id(n))
		golden(t, "show_"+name+".txt", []byte(out))
	}
}

func TestShortIDsWorkEverywhere(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	for _, args := range [][]string{{"show", "0198"}, {"0198"}, {"log", "019808A1"}, {"note", "0198", "--reason", "r"}, {"confirm", "019808a1@2", "--reason", "r"}} {
		b.want(0, args...)
	}
	b.doubt(2, "stripe.charge", strings.Replace(charge, "1042", "1043", 1))
	for _, args := range [][]string{{"show", "0198"}, {"log", "0198"}, {"deny", "0198@2", "--reason", "r"}, {"check", "0198"}, {"retry", "0198@2"}} {
		a := b.json(2, args...)
		need.That(t, a.Error.Code == "usage" && strings.Contains(a.Error.Message, id(1)) && strings.Contains(a.Error.Message, id(2)), "%v: %+v", args, a.Error)
	}
	for _, args := range [][]string{{"show", "ffff"}, {"log", "ffff"}, {"deny", "ffff@2", "--reason", "r"}, {"check", "ffff"}} {
		if a := b.json(3, args...); a.Error.Code != "not_found" || !strings.Contains(a.Error.Message, "ffff") {
			t.Errorf("%v: %+v", args, a.Error)
		}
	}
	b.json(2, "show", "01")
	b.json(2, "show")
}

func TestLogPrintsOneLineAnEvent(t *testing.T) {
	b := scene(t)
	out := b.want(0, "log")
	if n, want := strings.Count(out, "\n"), len(need.Get(b.open().History(t.Context(), ledger.HistoryQuery{Limit: 1000}))(t)); n != want {
		t.Errorf("%d lines for %d events\n%s", n, want, out)
	}
	golden(t, "log.txt", regexp.MustCompile(`indoubt@\S+`).ReplaceAll([]byte(out), []byte("indoubt")))
	if out := b.want(0, "log", id(3)); strings.Count(out, "\n") != 3 || !strings.Contains(out, "uncertain → failed  maya: not in the dashboard") {
		t.Error(out)
	}
	if out := b.want(0, "log", "--since", "15s"); strings.Count(out, "\n") >= int(b.lastEvent()) || !strings.Contains(out, "cus_6") && strings.Count(out, "\n") == 0 {
		t.Error(out)
	}
	need.Contains(t, b.want(0, "log", "--by", "Maya"), "it landed: po_81, po_97 · ", "maya: not in the dashboard")
	b.json(2, "log", "--since", "gestern")
	b.json(2, "log", "--limit", "0")
}

// What a list leaves out is said on stderr, with the way to it, and in the JSON.
func TestAListSaysThatItIsCut(t *testing.T) {
	b := newBench(t)
	for n := 1; n <= 12; n++ {
		b.doubt(n, map[bool]string{true: "stripe.charge", false: "other"}[n <= 6], strings.Replace(charge, "INV-1042", "INV-"+id(n)[34:], 1))
		b.now = b.now.Add(time.Second)
	}
	b.want(0, "deny", b.at(1), b.at(2), "--reason", "not there")
	b.now = b.now.Add(time.Second)
	b.want(0, "deny", b.at(3), b.at(4), "--reason", "not there")
	last, first := fmt.Sprint(b.lastEvent()), id(1)
	for _, c := range []struct {
		args  []string
		lines int
		said  string // "": nothing is left out
	}{
		{[]string{"log"}, int(b.lastEvent()), ""},
		{[]string{"log", "--limit", last}, int(b.lastEvent()), ""},
		{[]string{"log", "--limit", "2"}, 2, "the newest 2 events; there are older ones: --limit, --since, or --all -o jsonl"},
		{[]string{"log", "--limit", "3", first}, 3, ""},
		{[]string{"log", "--limit", "2", first}, 2, "the newest 2 events; there are older ones: --limit, --since, or --all -o jsonl"},
		{[]string{"runs", "--all"}, 2, ""},
		{[]string{"runs", "--all", "--limit", "2"}, 2, ""},
		{[]string{"runs", "--all", "--limit", "1"}, 1, "the newest 1; there are more: --limit"},
		{[]string{"outage", "list", "--limit", "2"}, 4, ""},
		{[]string{"outage", "list", "--limit", "1"}, 2, "the newest 1; there are more: --limit"},
	} {
		_, out, said := b.run(c.args...)
		if n := strings.Count(out, "\n"); n != c.lines || !strings.HasPrefix(said, c.said) || c.said == "" && said != "" {
			t.Errorf("%s: %d lines, want %d, and said %q, want %q", c.args, n, c.lines, said, c.said)
		}
		var data struct{ Cut *bool }
		need.OK(t, json.Unmarshal(b.json(0, c.args...).Data, &data))
		need.That(t, data.Cut != nil && *data.Cut == (c.said != ""), "%s: cut is %v", c.args, data.Cut)
	}
	b.json(2, "runs", "--limit", "0")
	b.json(2, "runs", first, "--limit", "9")
	need.Contains(t, b.want(0, "list", "--limit", "1"), "1 shown, there are more: --limit, or --all")
}

func TestLogFollows(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	ctx, stop := context.WithCancel(context.Background())
	lines := make(chan string, 16)
	a := base.NewApp(strings.NewReader(""), lineWriter(lines), lineWriter(lines))
	a.Clock, a.Steady = b.clock, hostclock.With(b.clock)
	a.Env = func(name string) string { return map[string]string{"INDOUBT_LEDGER": b.ledger}[name] }
	done := make(chan int)
	go func() { done <- run(ctx, a, []string{"log", "--follow"}) }()
	next := func() string {
		select {
		case line := <-lines:
			return line
		case <-time.After(patience):
			t.Fatal("nothing came")
			return ""
		}
	}
	need.Contains(t, next(), "begin")
	next()
	b.want(0, "note", id(1), "--reason", "here I am")
	need.Contains(t, next(), "here I am")
	stop()
	need.Equal(t, <-done, 0, "exit")
}

type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	for _, line := range strings.Split(strings.TrimRight(string(p), "\n"), "\n") {
		w <- line
	}
	return len(p), nil
}
