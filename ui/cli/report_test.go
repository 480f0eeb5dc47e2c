package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ui/cli/base"
)

// outage is a ledger with an outage of six, an operation that is not in it, and what
// people and checks made of them.
func outage(t *testing.T) (b *bench, outage string) {
	b = newBench(t)
	b.doubt(9, "legacy.charge", `{"customer":"cus_1QX","amount":1200000}`)
	for n := 1; n <= 6; n++ {
		b.doubt(n, "stripe.charge", strings.Replace(charge, "INV-1042", "INV-"+id(n)[9:13], 1))
	}
	all, err := b.open().Outages(t.Context(), b.now, 9)
	need.Must(t, err == nil && len(all) == 1, "%v %v", all, err)
	return b, all[0].ID
}

// The history of an outage is its own and that of what counts in it, from the begin
// of the first on.
func TestLogOfAnOutage(t *testing.T) {
	b, in := outage(t)
	b.now = b.now.Add(20 * time.Minute)
	b.want(0, "outage", "take", in, "--reason", "their page says 03:01")
	b.want(0, "note", id(2), "--reason", "asked them")
	b.want(0, "note", id(9), "--reason", "another matter")
	var data struct{ Events []ledger.Event }
	need.OK(t, json.Unmarshal(b.json(0, "log", "--outage", in[:6]).Data, &data))
	seen := map[string]int{}
	for _, e := range data.Events {
		need.That(t, e.OperationID != id(9), "%+v is of no outage", e)
		seen[e.Verb]++
	}
	need.That(t, seen["begin"] == 6 && seen["settle"] == 6 && seen["outage_opened"] == 1 && seen["outage_taken"] == 1 && seen["note"] == 1, "%v", seen)
	if out := b.want(0, "log", "--outage", in, "--by", "maya"); !strings.Contains(out, "asked them · charge cus_9") {
		t.Error(out)
	}
	b.json(3, "log", "--outage", "ffffff")
	if out := b.want(0, "log"); !strings.Contains(out, "maya: their page says 03:01 · ") {
		t.Errorf("the outage of an event has no title: %s", out)
	}
	page := string(need.Get(os.ReadFile("../../ledger/README.md"))(t))
	for _, verb := range []string{"begin", "settle", "expire", "late", "read", "confirm", "deny", "allow", "void", "retry", "wait", "tree", "abandon", "ack",
		"park", "undo", "note", "hold", "release", "adopt", "standby", "failover", "clock", "home", ledger.NoticeTold, ledger.PolicyApplied, "run",
		ledger.VerbRunOver, "left_out", "set", "redact", ledger.OutageOpened, ledger.OutageOver, ledger.OutageNoted, ledger.OutageTaken} {
		need.Contains(t, page, "`"+verb+"`")
	}
}

// The report of a night and that of one outage: their account, who decided on what
// evidence, and which decision was found wrong.
func TestReport(t *testing.T) {
	b, in := outage(t)
	b.now = b.now.Add(11 * time.Minute)
	b.want(0, "deny", b.at(1), b.at(2), b.at(3), "--reason", "not in the | dashboard")
	for n := 1; n <= 3; n++ {
		b.price(n)
	}
	b.read(2, ledger.Read{Verdict: ledger.Landed, Reason: "found", Found: 1, Receipts: []string{"pi_2"}})
	b.read(4, ledger.Read{Verdict: ledger.Landed, Reason: "found", Found: 1, Receipts: []string{"pi_4"}})
	left := "In no outage:\n\n| since | what | what to do | look |\n|---|---|---|---|\n| 03:06:00 | charge cus_1QX 12000 | look: "
	if out := b.want(0, "report"); !strings.Contains(out, left) || !strings.Contains(out, "`indoubt show "+strings.SplitN(b.at(9), "@", 2)[0]+"`") {
		t.Error(out)
	}
	b.want(0, "confirm", b.at(9), "--receipt", "ch_9", "--reason", "seen in the bank")
	b.want(0, "outage", "take", in, "--reason", "their page says 03:01")
	for name, args := range map[string][]string{"report_since.md": {"report", "--since", "1h"}, "report_outage.md": {"report", in[:6]}} {
		golden(t, name, []byte(b.want(0, args...)))
	}
	b.now = b.now.Add(time.Minute)
	if out := b.want(0, "report", "--since", "1s"); strings.Contains(out, "cus_1QX") || !strings.Contains(out, "## Still open") {
		t.Error(out)
	}
	var data struct {
		Outages []outageJSON
		Page    string
		Open    ledger.Needing
	}
	if err := json.Unmarshal(b.json(0, "report", in).Data, &data); err != nil || len(data.Outages) != 1 || data.Open.Unsent == 0 || data.Page != b.want(0, "report", in) {
		t.Errorf("%v %+v", err, data)
	}
	b.json(2, "report", in, "--since", "1h")
	b.json(3, "report", "ffffff")
	b.json(2, "report", "--since", "gestern")
}

// A report names the bulk runs of its time or its outage, and says what it leaves out.
func TestReportOfRunsAndItsLimits(t *testing.T) {
	b := newBench(t)
	b.burst.Errors = 1
	for n := 1; n <= reportOutages+2; n++ {
		b.begin(n, fmt.Sprintf("k%02d", n), "{}")
		b.settle(n, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout})
	}
	all := need.Get(b.open().Outages(t.Context(), b.now, 99))(t)
	need.Equal(t, len(all), reportOutages+2)
	first := b.rec(1).Outages[0]
	record := func(run, outage string, of ...int) {
		var items []ledger.RunItem
		for i, n := range of {
			items = append(items, ledger.RunItem{N: i + 1, OperationID: id(n), Version: b.rec(n).Operation.Version})
		}
		_, _, err := b.open().Run(t.Context(), ledger.DecisionRun{ID: ledger.NewID(), CreatedAt: b.now, Verb: "park", Actor: ledger.Actor{Name: "sam"}, Terms: ledger.RunTerms{Outage: outage, Reason: run}}, items)
		need.OK(t, err)
	}
	b.want(0, "deny", b.at(1), b.at(2), "--reason", "not there")
	b.now = b.now.Add(10 * time.Minute)
	record("open", "", 3, 4)
	b.now = b.now.Add(time.Second)
	record("of it", first, 3, 5)
	b.now = b.now.Add(10 * time.Minute)
	runs := func(want string, args ...string) {
		t.Helper()
		var data struct {
			Runs []bulkJSON
			More int
		}
		need.OK(t, json.Unmarshal(b.json(0, append([]string{"report"}, args...)...).Data, &data))
		var got []string
		for _, r := range data.Runs {
			got = append(got, fmt.Sprintf("%s of %d: %s", r.Verb, r.Size, r.Reason))
		}
		need.Equal(t, strings.Join(got, ", "), want, args)
	}
	runs("deny of 2: not there, park of 2: open, park of 2: of it", "--since", "1h")
	runs("park of 2: open, park of 2: of it", "--since", "1m") // they are not finished
	runs("deny of 2: not there, park of 2: of it", first)
	runs("park of 2: open", b.rec(4).Outages[0])
	out := b.want(0, "report", "--since", "2026-07-14 03:00")
	need.Contains(t, out, "And 2 more: `indoubt outage list`", "- `indoubt report --since 2026-07-14T03:00:00Z`", "- `indoubt log --limit 1000000 --since 2026-07-14T03:00:00Z`",
		"| maya | deny of 2 | not there |  | done. 2 = 2 recorded as not landed |", "| sam | park of 2 | of it | k01 timeout 03:06 | broken off, no one drives it. 2 = 2 to go |")
	need.Lacks(t, out, "rests on")

	events := len(need.Get(b.open().History(t.Context(), ledger.HistoryQuery{Limit: 1000}))(t))
	for limit, cut := range map[int]bool{events - 1: true, events: false} {
		var page bytes.Buffer
		a := base.NewApp(strings.NewReader(""), &page, io.Discard)
		a.Store, a.Clock, a.PolicyPath = b.open(), b.clock, b.policy
		need.OK(t, logCommand{a}.report(t.Context(), logOptions{since: "1h", limit: limit}))
		need.Equal(t, strings.Contains(page.String(), fmt.Sprintf("rests on the newest %d events, from 2026-07-14 03:06 UTC on: `indoubt log --limit", events-1)), cut, limit)
	}

	b.now = b.now.Add(24 * time.Hour)
	need.Contains(t, b.want(0, "report", b.rec(4).Outages[0]), "\n1 need a person.") // of it, not of all
	need.Contains(t, b.want(0, "report", first), "# Report, 2026-07-14 03:06 UTC to", "deny of 2")
	outages := func(want int) {
		t.Helper()
		var data struct {
			Outages []outageJSON
			More    int
		}
		need.OK(t, json.Unmarshal(b.json(0, "report", "--since", "1h").Data, &data))
		need.Equal(t, len(data.Outages)+data.More, want)
	}
	outages(reportOutages) // all but those of the two that were denied have something to look at
}
