package ticket

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/ui/safe"
)

// Entry is one line of what was seen: when, who, what.
type Entry struct {
	At      time.Time
	Who     safe.Text // "attempt 2", "check 1", a person
	What    safe.Text
	Grave   bool
	Attempt int // the attempt that it tells of; 0: none

	check bool      // by the engine, which may say the same many times
	many  int       // how many checks in a row said so; 0: this one
	from  time.Time // when the first of them did
}

// Says is what an entry says, with since when where it stands for several.
func (t Ticket) Says(e Entry) safe.Text {
	if e.many > 1 {
		return safe.Say("%s, since %s", e.What, t.at(e.from))
	}
	return e.What
}

// Timeline merges attempts, checks and what people did, oldest first.
func (t Ticket) Timeline() []Entry {
	rec := t.Record
	var out []Entry
	for _, a := range rec.Attempts {
		out = append(out, attemptEntries(rec, a)...)
	}
	n := 0
	for _, r := range slices.Backward(rec.Reads) {
		n++
		out = append(out, Entry{At: r.EndedAt, Who: safe.Say("check %d", n), What: tell(r, t.Record.Operation), Grave: r.Verdict == ledger.Twice || r.Verdict == ledger.Different, check: true})
	}
	for _, e := range t.Events {
		if entry, ok := t.eventEntry(e); ok {
			out = append(out, entry)
		}
	}
	if o := rec.Operation; o.Conflict != ledger.NoConflict && !slices.ContainsFunc(out, func(e Entry) bool { return e.Grave }) {
		out = append(out, Entry{At: o.UpdatedAt, Who: safe.Say("conflict"), What: safe.Say("%s: %s", strings.ToLower(Conflict(o.Conflict)), o.ConflictNote), Grave: true})
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return a.At.Compare(b.At) })
	return gathered(out)
}

var digits = lazyregexp.New(`[0-9]+`)

// gathered puts checks in a row that say the same, but for how long, into one
// entry, the newest, so that they do not hide what else was seen.
func gathered(all []Entry) []Entry {
	out := all[:0:0]
	last := ""
	for _, e := range all {
		form := ""
		if e.check {
			form = digits.ReplaceAllString(e.What.String(), "#")
		}
		if form == "" || form != last {
			out, last = append(out, e), form
			continue
		}
		before := out[len(out)-1]
		e.many, e.from = max(before.many, 1)+1, cmp.Or(before.from, before.At)
		e.Who = safe.Say("%d checks", e.many)
		out[len(out)-1] = e
	}
	return out
}

// Unnamed leaves the name out where an entry goes on with what the one before
// it began: an attempt and its outcome.
func Unnamed(all []Entry) []Entry {
	for i := len(all) - 1; i > 0; i-- {
		if all[i].Attempt > 0 && all[i].Attempt == all[i-1].Attempt {
			all[i].Who = safe.Text{}
		}
	}
	return all
}

// LastSeen is the newest entry that tells something of the operation itself.
func (t Ticket) LastSeen() safe.Text {
	all := t.Timeline()
	for i, e := range slices.Backward(all) {
		if i > 0 && e.Attempt > 0 && e.Attempt == all[i-1].Attempt {
			return safe.Say("%s %s: %s", t.at(e.At), e.Who, t.Says(e))
		}
		return safe.Say("%s %s %s", t.at(e.At), e.Who, t.Says(e))
	}
	return safe.Say("nothing yet")
}

func attemptEntries(rec *ledger.Record, a ledger.Attempt) []Entry {
	entry := func(at time.Time, what safe.Text) Entry {
		return Entry{At: at, Who: safe.Say("attempt %d", a.N), Attempt: a.N, What: what}
	}
	sent := safe.Say("sent by %s", sender(rec.Operation, a))
	switch a.Basis {
	case "":
	case ledger.BasisRiskAccepted:
		sent = safe.Say("%s, %s", sent, Because(a.Basis, allowedBy(rec, a)))
	default:
		sent = safe.Say("%s, allowed because %s", sent, Because(a.Basis, allowedBy(rec, a)))
	}
	out := []Entry{entry(a.StartedAt, sent)}
	if !a.EndedAt.IsZero() {
		out = append(out, entry(a.EndedAt, outcome(a)))
	}
	if a.LateOutcome != "" {
		late := map[ledger.Outcome]string{ledger.OutcomeCommitted: "it landed", ledger.OutcomeFailed: "it did not land"}[a.LateOutcome]
		what := safe.Say("late answer: %s", cmp.Or(late, "still unclear"))
		if a.LateReceipt != "" {
			what = safe.Say("%s, receipt %s", what, a.LateReceipt)
		}
		out = append(out, entry(a.LateAt, what))
	}
	// Whether what it had started was seen to be gone, where that is not the same
	// as its end.
	switch {
	case a.Final() != ledger.OutcomeUncertain:
	case a.Tree == ledger.TreeOpen:
		out = append(out, entry(a.EndedAt, safe.Say("a process that it started may still write: none was seen to be gone")))
	case a.TreeAt.After(a.EndedAt.Add(time.Second)):
		out = append(out, entry(a.TreeAt, safe.Say("no process that it started lives any more")))
	}
	return out
}

// allowedBy is who gave the permission that an attempt used. That is not the
// pipeline that came for it.
func allowedBy(rec *ledger.Record, a ledger.Attempt) string {
	for _, g := range rec.Allowed {
		if g.AttemptID == a.ID {
			return g.Actor
		}
	}
	if a.AllowID == "" || a.Sender == "pipeline" || a.Sender == "" {
		return ""
	}
	return a.Actor
}

func sender(o ledger.Operation, a ledger.Attempt) safe.Text {
	switch a.Sender {
	case "", "pipeline":
		words := safe.Of(cmp.Or(a.Actor, o.Source.Pipeline, "its pipeline"))
		if a.Host != "" {
			words = safe.Say("%s on %s", words, a.Host)
		}
		return words
	case "command":
		if o.Command != nil && len(o.Command.Argv) > 0 {
			return safe.Say("command %s", strings.Join(o.Command.Argv, " "))
		}
		return safe.Say("command")
	case ledger.SenderForgotten:
		return safe.Say("%s, or nobody: the ledger was adopted, and lost what came last", cmp.Or(o.Source.Pipeline, "its pipeline"))
	case ledger.SenderImport:
		return safe.Say("%s, not before this time", cmp.Or(o.Source.Pipeline, "its pipeline"))
	}
	return safe.Say("indoubt (%s)", a.Sender)
}

func outcome(a ledger.Attempt) safe.Text {
	took := a.EndedAt.Sub(a.StartedAt)
	switch a.Outcome {
	case ledger.OutcomeCommitted:
		text := safe.Say("landed")
		if a.Already {
			text = safe.Say("was there already")
		}
		if a.Receipt != "" {
			text = safe.Say("%s, receipt %s", text, a.Receipt)
		}
		return text
	case ledger.OutcomeFailed:
		switch a.Proof {
		case ledger.NeverSent:
			return safe.Say("never sent: %s", cmp.Or(strings.TrimPrefix(a.Error, "never sent: "), "no byte left"))
		case ledger.Refused:
			return safe.Say("refused: %s", cmp.Or(a.Error, status(a.Status), "the other side said no"))
		}
		return safe.Say("did not land%s", Colon(a.Error))
	case ledger.OutcomeUncertain:
		text := safe.Say("%s after %s", cmp.Or(status(a.Status), "no clear answer"), seconds(took))
		switch a.Sender {
		case ledger.SenderImport:
			text = safe.Say("taken over as given up")
		case ledger.SenderForgotten:
			text = safe.Say("not known")
		}
		if c := ErrorClass(a.ErrorClass); c != "" {
			text = safe.Say("%s (%s)", text, c)
		}
		if a.Proof == ledger.ProofNotThere {
			text = safe.Say("%s; proven since: it did not land", text)
		}
		return safe.Say("%s%s", text, Colon(a.Error))
	}
	return safe.Say("ended")
}

func status(status int) string {
	if status >= 100 {
		return fmt.Sprintf("answer %d", status)
	}
	if status > 0 {
		return fmt.Sprintf("exit code %d", status)
	}
	return ""
}

func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	if d < 2*time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return Span(d)
}

// eventEntry is what a person or the ledger did, apart from attempts and
// checks, which have their own lines.
func (t Ticket) eventEntry(e ledger.Event) (Entry, bool) {
	en, say := Entry{At: e.At, Who: Who(e.Actor.Name)}, safe.Say
	quoted := safe.Text{}
	if e.Reason != "" && e.Reason != e.Verb { // its own verb stands where no one gave a reason
		quoted = say(`, "%s"`, e.Reason)
	}
	more := func(key string) string { return detail(e.Detail, key) }
	switch e.Verb {
	case "expire":
		en.Who, en.What = say("in doubt"), safe.Of(cmp.Or(e.Reason, "its deadline passed without an answer"))
	case "confirm":
		en.What = say("it landed%s", quoted)
		if r := more("receipts"); r != "" {
			en.What = say("it landed, receipt %s%s", r, quoted)
		}
	case "deny":
		en.What = say("did not land%s", quoted)
	case "abandon":
		en.What = say("abandoned%s", quoted)
	case "ack":
		en.What = say("dealt with%s", Colon(e.Reason))
	case "park":
		until := "later"
		if at, err := time.Parse(time.RFC3339, more("until")); err == nil {
			until = t.at(at)
		}
		en.What = say("parked until %s%s", until, quoted)
	case "undo":
		en.What, en.Grave = say("undone, %s again%s", State(e.To), quoted), true
	case "note":
		en.What = say(`note: "%s"`, e.Reason)
	case "allow":
		en.What = say("allowed one send%s", Colon(e.Reason))
	case "void":
		en.What = safe.Of(e.Reason)
	case "hold", "release":
		en.What = say("%s%s", e.Verb, quoted)
	case ledger.PolicyApplied:
		en.What = say("policy %d put in force%s", e.Version, quoted)
	case "adopt":
		en.What = say("made this copy a ledger of its own%s", quoted)
	case "standby":
		en.What = say("a standby that no commit waits for is accepted%s", quoted)
	case "failover":
		en.What, en.Grave = safe.Of(e.Reason), true
	default: // begin, settle, retry, read, late: told by attempts and checks
		return Entry{}, false
	}
	return en, true
}

// Why is the reason of an event, with a time of the ledger in it as the reader has them.
func Why(e ledger.Event, at func(time.Time) string) string {
	until := detail(e.Detail, "until")
	if t, err := time.Parse(time.RFC3339, until); err == nil {
		return strings.ReplaceAll(e.Reason, until, at(t))
	}
	return e.Reason
}

// detail reads one member of an event's details.
func detail(raw json.RawMessage, key string) string {
	var all map[string]any
	if json.Unmarshal(raw, &all) != nil {
		return ""
	}
	switch v := all[key].(type) {
	case string:
		return v
	case []any:
		var parts []string
		for _, p := range v {
			if s, ok := p.(string); ok {
				parts = append(parts, s)
			}
		}
		return strings.Join(parts, ", ")
	}
	return ""
}
