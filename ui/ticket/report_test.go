package ticket

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ui/safe"
)

// What is the same soon after is one act; each decision found wrong later stands beside
// the decision before it.
func TestTold(t *testing.T) {
	human, engine := ledger.Actor{Name: "maya"}, ledger.Actor{Name: ledger.ActorChecks, Machine: true}
	var events []ledger.Event
	add := func(minute int, actor ledger.Actor, verb, op, reason string, change func(*ledger.Event)) {
		e := ledger.Event{Seq: int64(len(events) + 1), At: at.Add(time.Duration(minute) * time.Minute), Actor: actor, Verb: verb, OperationID: op, Reason: reason}
		if change != nil {
			change(&e)
		}
		events = append(events, e)
	}
	found := func(v ledger.Verdict) func(*ledger.Event) {
		return func(e *ledger.Event) { e.Detail = json.RawMessage(`{"verdict":"` + string(v) + `"}`) }
	}
	doubt := func(class ledger.ErrorClass) func(*ledger.Event) {
		return func(e *ledger.Event) {
			e.From, e.To, e.Detail = ledger.Pending, ledger.Uncertain, json.RawMessage(`{"error_class":"`+string(class)+`"}`)
		}
	}
	for _, verb := range []string{"begin", "wait", "tree", "clock"} {
		add(0, engine, verb, "o1", "", nil)
	}
	add(0, engine, "settle", "o1", "no answer", doubt(ledger.ClassTimeout))
	add(9, engine, "settle", "o2", "no answer after 30s", doubt(ledger.ClassTimeout)) // a machine's own words differ
	add(18, engine, "settle", "o3", "no answer", doubt(ledger.ClassTimeout))          // soon after the last, not the first
	add(28, engine, "settle", "o4", "no answer", doubt(ledger.ClassTimeout))          // too late
	add(28, engine, "settle", "o5", "no answer", doubt(ledger.ClassReset))
	add(28, engine, "settle", "o6", "refused", func(e *ledger.Event) { doubt(ledger.ClassTimeout)(e); e.To = ledger.Failed })
	add(30, human, "deny", "o1", "not there", nil)
	add(31, human, "deny", "o2", "not there", nil)
	add(31, human, "deny", "o3", "they say so", nil)
	add(31, ledger.Actor{Name: "sam"}, "deny", "o4", "they say so", nil)
	add(32, human, "note", "o1", "look", nil) // decides nothing
	add(33, engine, "read", "o1", "found pi_1", func(e *ledger.Event) { found(ledger.Landed)(e); e.Conflict = ledger.ConflictDisputed })
	add(34, engine, "read", "o2", "none", found(ledger.NotThere))
	add(35, engine, "read", "o3", "none", found(ledger.NotThere))
	add(35, engine, "read", "o6", "none", found(ledger.CannotTell))
	add(35, engine, "read", "o7", "found pi_7", found(ledger.Landed))
	add(36, engine, "read", "o9", "2 found", func(e *ledger.Event) { found(ledger.Twice)(e); e.Conflict = ledger.ConflictTwice })
	add(37, engine, "allow", "o2", "proven", nil)
	add(37, engine, "allow", "o3", "proven", nil)
	add(37, engine, "retry", "o4", "", nil)
	add(38, human, "hold", "", "stop", func(e *ledger.Event) { e.Conflict = ledger.ConflictDisputed })
	add(38, human, "hold", "", "stop", nil)
	add(38, human, "hold", "", "stop", nil) // of the ledger: each stands for itself
	for _, verb := range []string{"confirm", "abandon", "ack", "undo"} {
		add(40, human, verb, "o4", "", func(e *ledger.Event) { e.From, e.To = ledger.Uncertain, ledger.Committed })
	}
	acts, wrong := Told(events)
	r := Report{Now: at.Add(time.Hour), Zone: time.UTC, Acts: acts}
	var lines []string
	for _, a := range acts {
		line := fmt.Sprintf("%s %s %d %s, %s", r.when(a), Who(a.Actor.Name), a.N, a.What(), r.of(a))
		if a.Decided {
			line += ": " + a.Evidence().String()
		}
		lines = append(lines, line)
	}
	need.Equal(t, strings.Join(lines, "\n"), `02:15:10–02:33:10 checks 3 in doubt (timeout), o1, and 2 more
02:43:10 checks 1 in doubt (timeout), o4
02:43:10 checks 1 in doubt (connection reset), o5
02:43:10 checks 1 did not land (timeout), o6
02:45:10–02:46:10 maya 2 it did not land, o1, and 1 more: the word of maya: not there
02:46:10 maya 1 it did not land, o3: the word of maya: they say so
02:46:10 sam 1 it did not land, o4: the word of sam: they say so
02:47:10 maya 1 note, o1
02:48:10 checks 1 landed, o1: a check: found pi_1
02:49:10–02:50:10 checks 2 not there, o2, and 1 more: a check of each
02:50:10 checks 1 cannot tell, o6: a check: none
02:50:10 checks 1 landed, o7: a check: found pi_7
02:51:10 checks 1 happened twice, o9: a check: 2 found
02:52:10 checks 2 one send allowed, o2, and 1 more: the policy
02:52:10 checks 1 sent once more, o4: the policy
02:53:10 maya 1 hold, 
02:53:10 maya 1 hold, 
02:53:10 maya 1 hold, 
02:55:10 maya 1 it landed, o4: the word of maya
02:55:10 maya 1 abandoned, not sent any more, o4: the word of maya
02:55:10 maya 1 dealt with, o4: the word of maya
02:55:10 maya 1 undone, o4: the word of maya`)
	need.Equal(t, len(wrong), 2)
	need.Equal(t, wrong[0].OperationID+" "+wrong[0].Before.Verb+" "+wrong[0].Before.Reason, "o1 deny not there")
	if wrong[1].Before != nil {
		t.Errorf("before %s: %+v", wrong[1].OperationID, wrong[1].Before)
	}
}

// A page says how much it leaves out, and which command has it.
func TestReportSaysWhatItLeavesOut(t *testing.T) {
	page := func(n int) (Report, string) {
		r := Report{From: at, Now: at.Add(time.Hour), Zone: time.UTC, Again: []string{"again", "history"}, Titles: map[string]safe.Text{}, More: n - lines, Oldest: at, Events: n, Cut: n > lines,
			Alone: []Ticket{operation(func(*ledger.Record) {})}, AloneCut: n > lines}
		for i := range n {
			e := ledger.Event{At: at, OperationID: fmt.Sprint("w", i, "."), Conflict: ledger.ConflictDisputed}
			r.Wrong = append(r.Wrong, Wrong{Event: e})
			e.OperationID = fmt.Sprint("d", i, ".")
			r.Acts = append(r.Acts, Act{Event: e, Last: at, N: 1, Decided: true})
			e.OperationID = fmt.Sprint("e", i, ".")
			r.Acts = append(r.Acts, Act{Event: e, Last: at, N: 1})
			r.Runs = append(r.Runs, Run{DecisionRun: ledger.DecisionRun{Verb: fmt.Sprint("r", i, "."), Size: 2}})
		}
		return r, r.Markdown()
	}
	r, all := page(lines)
	for _, cut := range []string{"left out", "more: `", "rests on"} {
		need.Lacks(t, all, cut)
	}
	for _, row := range []string{"w", "d", "e"} {
		need.Contains(t, all, row+"0.", fmt.Sprint(row, lines-1, "."))
	}
	need.Equal(t, len(r.Lines()), 3*lines)
	r, cut := page(lines + 3)
	need.Equal(t, strings.Count(cut, "3 earlier ones are left out: `history` has them."), 4)
	need.Contains(t, cut, "And 3 more: `indoubt outage list`", "And more: `indoubt list 'needs:you -outage:any'`", "rests on the newest 203 events, from 2026-07-14 02:15 UTC on: `history` has the earlier ones")
	named := map[string]bool{}
	for _, e := range r.Lines() {
		named[e.OperationID] = true
	}
	for _, row := range []string{"w", "d", "e"} {
		need.Lacks(t, cut, row+"2.")
		need.Contains(t, cut, row+"3.")
		need.Equal(t, named[row+"3."], true, row)
		need.Equal(t, named[row+"2."], false, row)
	}
	need.Lacks(t, cut, "r2. of 2")
	need.Contains(t, cut, "r3. of 2")
}

// The page has the account of each outage, what is open and what it costs; text stays text.
func TestReportPage(t *testing.T) {
	outage := Outage{Now: at, Zone: time.UTC, OutageAccount: ledger.OutageAccount{
		Outage: ledger.Outage{ID: "i1", Scope: "downstream:bank", FirstAt: at, LastAt: at, Fates: map[ledger.Fate]ledger.Sum{ledger.FateLanded: {N: 3, Resent: 2, Doubled: 1}}},
		Groups: []ledger.OutageGroup{{Group: ledger.Group(ledger.ConflictTwice), Sum: ledger.Sum{N: 1, Twice: 960, Miss: 480}}, {Group: ledger.GroupLanded, Sum: ledger.Sum{N: 2}}}}}
	r := Report{From: at, Now: at, Zone: time.UTC, Again: []string{"again", "history"}, Currency: "USD",
		Open: ledger.Needing{NeedsYou: 5, Conflicts: 2, Twice: 1, Unsent: 840, Loss: 1260, ByWord: 3}}
	need.Contains(t, r.Markdown(), "No outage.\n", "\n## Found wrong later\n\nNothing.\n", "\n## Bulk runs\n\nNothing.\n",
		"\n5 need a person. USD 840 did not land and was not sent again; USD 1,260 is at stake by the odds. 2 in conflict, 1 of them happened twice.\nThe policy gives the cost of 3 as a word.\n")
	r.Open.ByWord, r.Outages = 0, []Outage{outage, outage}
	r.Outages[1].ID, r.Outages[1].Fates, r.Outages[1].OutageAccount.Groups = "i2", map[ledger.Fate]ledger.Sum{ledger.FateLanded: {N: 3}}, nil
	decision := ledger.Event{At: at, OperationID: "o1", Actor: ledger.Actor{Name: "maya"}, Verb: "deny"}
	r.Wrong = []Wrong{{Event: ledger.Event{At: at, OperationID: "o1", Conflict: ledger.ConflictDisputed, Reason: "found"}, Before: &decision}}
	r.Runs = []Run{{ledger.DecisionRun{CreatedAt: at, Actor: ledger.Actor{Name: "maya"}, Verb: "retry", Size: 68, Terms: ledger.RunTerms{Outage: "i1", Reason: "they | are up"}}, safe.Say("done")},
		{ledger.DecisionRun{CreatedAt: at, Verb: "park", Size: 2, Terms: ledger.RunTerms{Outage: "i9"}}, safe.Text{}}}
	r.Acts = []Act{{Event: ledger.Event{At: at, Verb: "hold", Reason: "a `b` <c> [d] *e*"}, Last: at, N: 1},
		{Event: ledger.Event{At: at, OperationID: "o2", Actor: ledger.Actor{Name: "checks", Machine: true}, Verb: "expire", Reason: "of the first"}, Last: at, N: 2}}
	page := r.Markdown()
	need.Contains(t, page, "3 errors. 3 = 3 landed. 2 sent again. 1 HAPPENED TWICE. nobody is on it.\n", "\nHappening twice costs 960.\n", "3 errors. 3 = 3 landed. none sent twice. nobody",
		"- 02:15:10 o1: decision was wrong: found; before: it did not land by maya: `indoubt show o1`\n",
		"| 02:15:10 | maya | retry of 68 | they \\| are up | bank 02:15 | done |\n", "| park of 2 |  | i9 |  |\n",
		"| – | hold | a \\`b\\` \\<c> \\[d] \\*e\\* |  |\n", "| checks | 2 | expire |  | o2, and 1 more |\n", "- `again`\n- `history`\n")
	for _, none := range []string{"No outage", "as a word", "of the first"} {
		need.Lacks(t, page, none)
	}
	need.Equal(t, strings.Count(page, "Happening twice"), 1)
}
