package detail

import (
	"cmp"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	"indoubt/ledger/lazyregexp"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// entry is one line of what was seen: when, who, what.
type entry struct {
	at      time.Time
	who     string
	what    string
	grave   bool
	check   bool      // by the engine, which may say the same many times
	control bool      // made where it must find something
	many    int       // how many checks in a row said so; 0: this one
	from    time.Time // when the first of them did
}

// text is what an entry says, with since when where it stands for several.
func (e entry) text(now time.Time, loc *time.Location) string {
	if e.many > 1 {
		return e.what + ", since " + ticket.Moment(e.from, now, loc)
	}
	return e.what
}

var digits = lazyregexp.New(`[0-9]+`)

// gathered puts checks in a row that say the same, but for how long, into one
// entry: the newest. Whatever else was seen is not to drown in them.
func gathered(all []entry) []entry {
	out := all[:0:0]
	last := ""
	for _, e := range all {
		form := ""
		if e.check {
			form = strings.SplitN(e.who, " ", 2)[0] + digits.ReplaceAllString(e.what, "#")
		}
		if form == "" || form != last {
			out, last = append(out, e), form
			continue
		}
		before := out[len(out)-1]
		e.many, e.from = max(before.many, 1)+1, ticket.FirstTime(before.from, before.at)
		e.who = fmt.Sprintf("%d %ss", e.many, strings.SplitN(e.who, " ", 2)[0])
		out[len(out)-1] = e
	}
	return out
}

// unnamed leaves the name out where an entry goes on with what the one before
// it began: an attempt and its outcome.
func unnamed(all []entry) []entry {
	for i := len(all) - 1; i > 0; i-- {
		if all[i].who == all[i-1].who && strings.HasPrefix(all[i].who, "attempt ") {
			all[i].who = ""
		}
	}
	return all
}

// timeline merges attempts, checks and what people did, oldest first. The
// record and the events are safe already.
func timeline(b *feed.Brief) []entry {
	var out []entry
	rec := &b.Rec
	for _, a := range rec.Attempts {
		out = append(out, attemptEntries(rec, a)...)
	}
	n := 0
	for i := len(rec.Reads) - 1; i >= 0; i-- {
		r := rec.Reads[i]
		if r.Control { // made to see whether the check works, not what became of this
			out = append(out, entry{at: r.EndedAt, who: "control", what: controlWords(r), check: true, control: true})
			continue
		}
		n++
		out = append(out, entry{at: r.EndedAt, who: fmt.Sprintf("check %d", n), what: ticket.Verdict(r), grave: r.Verdict == ledger.Duplicated || r.Verdict == ledger.Mismatch, check: true})
	}
	for _, e := range b.Events {
		if en, ok := eventEntry(e); ok {
			out = append(out, en)
		}
	}
	told := false
	for _, e := range out {
		told = told || e.grave
	}
	if o := rec.Operation; o.Conflict != ledger.NoConflict && !told {
		out = append(out, entry{at: o.UpdatedAt, who: "conflict", what: strings.ToLower(ticket.Conflict(o.Conflict)) + ": " + o.ConflictNote, grave: true})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].at.Before(out[j].at) })
	return gathered(out)
}

func attemptEntries(rec *ledger.Record, a ledger.Attempt) []entry {
	name := fmt.Sprintf("attempt %d", a.N)
	sent := "sent by " + senderWords(rec.Operation, a)
	switch a.Basis {
	case "":
	case ledger.BasisRiskAccepted:
		sent += ", " + ticket.Because(a.Basis, allowedBy(rec, a))
	default:
		sent += ", allowed because " + ticket.Because(a.Basis, allowedBy(rec, a))
	}
	out := []entry{{at: a.StartedAt, who: name, what: sent}}
	if !a.EndedAt.IsZero() {
		out = append(out, entry{at: a.EndedAt, who: name, what: outcomeWords(a)})
	}
	if a.LateOutcome != "" {
		late := "late answer: "
		switch a.LateOutcome {
		case ledger.OutcomeCommitted:
			late += "it landed"
		case ledger.OutcomeFailed:
			late += "it did not land"
		default:
			late += "still unclear"
		}
		if a.LateReceipt != "" {
			late += ", receipt " + a.LateReceipt
		}
		out = append(out, entry{at: a.LateAt, who: name, what: late})
	}
	return append(out, treeEntries(name, a)...)
}

// treeEntries say of an attempt in doubt whether what it had started was seen to
// be gone, where that is not the same as its end.
func treeEntries(name string, a ledger.Attempt) []entry {
	switch {
	case a.Final() != ledger.OutcomeUncertain:
	case a.Tree == ledger.TreeOpen:
		return []entry{{at: a.EndedAt, who: name, what: "a process that it started may still write: none was seen to be gone"}}
	case a.TreeAt.After(a.EndedAt.Add(time.Second)):
		return []entry{{at: a.TreeAt, who: name, what: "no process that it started lives any more"}}
	}
	return nil
}

// allowedBy is who allowed an attempt: whoever gave the permission it used, not
// the pipeline that came for it.
func allowedBy(rec *ledger.Record, a ledger.Attempt) string {
	for _, g := range rec.Grants {
		if g.AttemptID == a.ID {
			return g.Actor
		}
	}
	if a.Sender == "pipeline" || a.Sender == "" {
		return ""
	}
	return a.Actor
}

// controlWords is a check that was made where it must find something.
func controlWords(r ledger.Read) string {
	if r.Verdict == ledger.Landed || r.Verdict == ledger.Duplicated {
		return "the check finds this one, so it works"
	}
	return "the check does not find this one" + ticket.Colon(r.Reason)
}

func senderWords(o ledger.Operation, a ledger.Attempt) string {
	switch a.Sender {
	case "", "pipeline":
		words := cmp.Or(a.Actor, o.Source.Pipeline, "its pipeline")
		if a.Host != "" {
			words += " on " + a.Host
		}
		return words
	case "command":
		if o.Command != nil && len(o.Command.Argv) > 0 {
			return "command " + strings.Join(o.Command.Argv, " ")
		}
		return "command"
	}
	return "indoubt (" + a.Sender + ")"
}

func outcomeWords(a ledger.Attempt) string {
	took := a.EndedAt.Sub(a.StartedAt)
	switch a.Outcome {
	case ledger.OutcomeCommitted:
		text := "landed"
		if a.Already {
			text = "was there already"
		}
		if a.Receipt != "" {
			text += ", receipt " + a.Receipt
		}
		return text
	case ledger.OutcomeFailed:
		switch a.Proof {
		case ledger.NeverSent:
			return "never sent: " + cmp.Or(a.Error, "no byte left")
		case ledger.Refused:
			return "refused: " + cmp.Or(a.Error, statusWords(a.Status), "the other side said no")
		}
		return "did not land" + ticket.Colon(a.Error)
	case ledger.OutcomeUncertain:
		text := fmt.Sprintf("no clear answer after %s", seconds(took))
		if a.Status > 0 {
			text = statusWords(a.Status) + " after " + seconds(took)
		}
		if c := ticket.ErrorClass(a.ErrorClass); c != "" {
			text += " (" + c + ")"
		}
		if a.Proof == ledger.ProvenAbsent {
			text += "; proven since: it did not land"
		}
		return text + ticket.Colon(a.Error)
	}
	return "ended"
}

func statusWords(status int) string {
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
	return ticket.Span(d)
}

// eventEntry is what a person or the ledger did, apart from attempts and
// checks, which have their own lines.
func eventEntry(e ledger.Event) (entry, bool) {
	en := entry{at: e.At, who: ticket.Who(e.Actor.Name)}
	quoted := ""
	if e.Reason != "" {
		quoted = `, "` + e.Reason + `"`
	}
	more := func(key string) string { return detailText(e.Detail, key) }
	switch e.Verb {
	case "expire":
		return entry{at: e.At, who: "in doubt", what: cmp.Or(e.Reason, "its deadline passed without an answer")}, true
	case "confirm":
		en.what = "it landed" + quoted
		if r := more("receipts"); r != "" {
			en.what = "it landed, receipt " + r + quoted
		}
	case "deny":
		en.what = "did not land" + quoted
	case "abandon":
		en.what = "abandoned" + quoted
	case "ack":
		en.what = "dealt with" + quoted
		if r := more("reference"); r != "" {
			en.what += ", reference " + r
		}
	case "park":
		en.what = "parked until " + cmp.Or(more("until"), "later") + quoted
	case "undo":
		en.what = "undone, in doubt again" + quoted
		en.grave = true
	case "note":
		en.what = `note: "` + e.Reason + `"`
	case "grant":
		en.what = "allowed one send" + ticket.Colon(e.Reason)
	case "void", "fetch":
		en.what = e.Reason
	case "hold", "release":
		en.what = e.Verb + quoted
	case "adopt":
		en.what = "made this copy a ledger of its own" + quoted
	default: // begin, settle, retry, read, late: told by attempts and checks
		return entry{}, false
	}
	return en, true
}

// detailText reads one member of an event's details, made safe.
func detailText(raw json.RawMessage, key string) string {
	var all map[string]any
	if json.Unmarshal(raw, &all) != nil {
		return ""
	}
	switch v := all[key].(type) {
	case string:
		return safe.Of(v).String()
	case []any:
		var parts []string
		for _, p := range v {
			if s, ok := p.(string); ok {
				parts = append(parts, safe.Of(s).String())
			}
		}
		return strings.Join(parts, ", ")
	}
	return ""
}
