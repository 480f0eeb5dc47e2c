package detail

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// side is one of the things that a conflict sets against each other: an effect,
// what was asked for, or what is recorded.
type side struct {
	head    string
	receipt string
	attempt int // which attempt made it; 0 when that is not known
	facts   map[string]string
}

// told is what an other side usually says of an effect, in the order in which
// it is read best.
var told = []string{"amount", "currency", "created", "created_at", "sent by", "sent", "status", "state", "title", "subject", "version"}

var ordinals = []string{"FIRST", "SECOND", "THIRD", "FOURTH", "FIFTH"}

func ordinal(i int) string {
	if i < len(ordinals) {
		return ordinals[i]
	}
	return fmt.Sprintf("%dTH", i+1)
}

// sidesOf are the sides of a conflict; fewer than two where there is nothing to
// set against each other.
func sidesOf(b *feed.Brief, at func(time.Time) string) []side {
	switch o := &b.Rec.Operation; o.Conflict {
	case ledger.Duplicate:
		return inOrder(effectSides(b, o.Receipts, at))
	case ledger.PossibleDuplicate:
		known := inOrder(effectSides(b, o.Receipts, at))
		if len(known) == 1 {
			known[0].head = "LANDED"
			return append(known, unheard(b, known[0].attempt, at)...)
		}
		return known
	case ledger.MismatchConflict:
		return askedAndFound(b, at)
	case ledger.Contradiction:
		return recordedAndFound(b, at)
	}
	return nil
}

func inOrder(s []side) []side {
	sort.SliceStable(s, func(i, j int) bool {
		return s[i].attempt != 0 && s[j].attempt != 0 && s[i].attempt < s[j].attempt
	})
	for i := range s {
		s[i].head = ordinal(i)
	}
	return s
}

// effectSides are effects by their receipts, with what attempts and checks tell
// of each.
func effectSides(b *feed.Brief, receipts []string, at func(time.Time) string) []side {
	o := &b.Rec.Operation
	var out []side
	for _, r := range receipts {
		out = append(out, side{receipt: r, facts: map[string]string{"receipt": r}})
	}
	for i := range out {
		for _, a := range b.Rec.Attempts {
			if a.Receipt == out[i].receipt || a.LateReceipt == out[i].receipt {
				out[i].attempt = a.N
				out[i].facts["sent by"] = fmt.Sprintf("attempt %d, %s", a.N, senderWords(*o, a))
				out[i].facts["sent"] = at(a.StartedAt)
			}
		}
	}
	unanswered(b, out, at)
	// The evidence of a check is what the other side says of each effect. Whatever
	// plain members stand beside a receipt are shown as they are.
	for _, read := range b.Raw.Reads {
		for _, effect := range effects(read.Evidence) {
			text := plainMembers(effect)
			for i := range out {
				if !slices.Contains(valuesOf(text), out[i].receipt) {
					continue
				}
				for _, k := range told {
					if v, ok := text[k]; ok && out[i].facts[k] == "" {
						out[i].facts[k] = readable(k, v, at)
					}
				}
			}
		}
	}
	for i := range out {
		if out[i].facts["created"] != "" || out[i].facts["created_at"] != "" {
			delete(out[i].facts, "sent") // the other side knows better
		}
	}
	return out
}

// unanswered gives the one effect without an attempt to the one attempt that had no
// answer: they belong together.
func unanswered(b *feed.Brief, out []side, at func(time.Time) string) {
	lone := slices.IndexFunc(out, func(s side) bool { return s.facts["sent by"] == "" })
	silent := func(a ledger.Attempt) bool {
		return a.Receipt == "" && a.LateReceipt == "" && a.Final() == ledger.OutcomeUncertain
	}
	i := slices.IndexFunc(b.Rec.Attempts, silent)
	if lone < 0 || i < 0 || slices.ContainsFunc(b.Rec.Attempts[i+1:], silent) || slices.ContainsFunc(out[lone+1:], func(s side) bool { return s.facts["sent by"] == "" }) {
		return
	}
	a := b.Rec.Attempts[i]
	out[lone].attempt = a.N
	out[lone].facts["sent by"] = fmt.Sprintf("attempt %d, %s", a.N, cmp.Or(ticket.ErrorClass(a.ErrorClass), "no answer"))
	out[lone].facts["sent"] = at(a.StartedAt)
}

// unheard is what an earlier attempt, of which nobody heard again, may have done.
func unheard(b *feed.Brief, known int, at func(time.Time) string) []side {
	for _, a := range b.Rec.Attempts {
		if a.N != known && a.Final() == ledger.OutcomeUncertain {
			return []side{{head: "MAYBE", attempt: a.N, facts: map[string]string{
				"receipt": "not known", "sent by": fmt.Sprintf("attempt %d, %s", a.N, cmp.Or(ticket.ErrorClass(a.ErrorClass), "no answer")), "sent": at(a.StartedAt),
			}}}
		}
	}
	return nil
}

// askedAndFound sets the input beside what a check found instead.
func askedAndFound(b *feed.Brief, at func(time.Time) string) []side {
	read := newest(b.Rec.Reads, func(r ledger.Read) bool { return r.Verdict == ledger.Mismatch })
	if read == nil {
		return nil
	}
	asked := side{head: "ASKED", facts: map[string]string{"at": at(ticket.FirstTime(b.Rec.Operation.StartedAt, b.Rec.Operation.CreatedAt))}}
	input := plainMembers(asObject(b.Raw.Operation.Input))
	found := effectSides(b, read.Receipts, at)
	if len(found) == 0 {
		found = []side{{facts: map[string]string{}}}
	}
	for i := range found {
		found[i].head = "FOUND"
		found[i].facts["at"] = "seen " + at(read.EndedAt)
		delete(found[i].facts, "sent") // it is when it was asked for
		for _, raw := range b.Raw.Reads {
			if raw.ID != read.ID {
				continue
			}
			for _, effect := range effects(raw.Evidence) {
				text := plainMembers(effect)
				if !slices.Contains(valuesOf(text), found[i].receipt) {
					continue
				}
				for k, v := range text {
					if want, ok := input[k]; ok {
						asked.facts[k], found[i].facts[k] = want, v
					}
				}
			}
		}
	}
	return append([]side{asked}, found...)
}

// recordedAndFound sets what somebody recorded beside what came up later.
func recordedAndFound(b *feed.Brief, at func(time.Time) string) []side {
	o := &b.Rec.Operation
	recorded := side{head: "RECORDED", facts: map[string]string{"fact": ticket.State(o.State)}}
	var since time.Time
	for _, e := range b.Events {
		if e.To == o.State && e.From != e.To {
			since = e.At
			recorded.facts["by"], recorded.facts["at"], recorded.facts["because"] = ticket.Who(e.Actor.Name), at(e.At), e.Reason
		}
	}
	found := side{head: "FOUND", facts: map[string]string{}}
	landed := o.State == ledger.Committed
	read := newest(b.Rec.Reads, func(r ledger.Read) bool {
		return !r.EndedAt.Before(since) && (landed && (r.Verdict == ledger.Absent || r.Verdict == ledger.Mismatch) ||
			!landed && (r.Verdict == ledger.Landed || r.Verdict == ledger.Duplicated || r.Verdict == ledger.Mismatch))
	})
	var late *ledger.Attempt
	for i, a := range b.Rec.Attempts {
		if a.LateOutcome != "" && !a.LateAt.Before(since) && (a.LateOutcome == ledger.OutcomeCommitted) != landed {
			late = &b.Rec.Attempts[i]
		}
	}
	switch {
	case late != nil && (read == nil || late.LateAt.After(read.EndedAt)):
		found.facts["by"], found.facts["at"] = fmt.Sprintf("late answer of attempt %d", late.N), at(late.LateAt)
		found.facts["fact"] = map[bool]string{true: "landed", false: "did not land"}[late.LateOutcome == ledger.OutcomeCommitted]
		found.facts["receipt"] = late.LateReceipt
	case read != nil:
		found.facts["by"], found.facts["at"], found.facts["fact"] = "a check", at(read.EndedAt), "landed"
		switch read.Verdict {
		case ledger.Absent:
			found.facts["fact"] = "not there"
		case ledger.Mismatch:
			found.facts["fact"] = "landed, but different"
		case ledger.Duplicated:
			found.facts["fact"] = fmt.Sprintf("happened %d times", max(read.Found, 2))
		}
		found.facts["receipt"] = strings.Join(read.Receipts, ", ")
		found.facts["because"] = read.Reason
	default:
		return nil
	}
	if landed {
		recorded.facts["receipt"] = strings.Join(o.Receipts, ", ")
	}
	return []side{recorded, found}
}

// newest is the last of the checks of the operation itself that fits, or nil.
func newest(reads []ledger.Read, fits func(ledger.Read) bool) *ledger.Read {
	var out *ledger.Read
	for i, r := range reads {
		if !r.Control && fits(r) && (out == nil || r.EndedAt.After(out.EndedAt)) {
			out = &reads[i]
		}
	}
	return out
}

// names are what the sides say, in the order in which it is shown.
func names(of []side) []string {
	seen := map[string]bool{}
	var out, more []string
	for _, k := range append([]string{"fact", "by", "at", "receipt"}, told...) {
		for _, s := range of {
			if s.facts[k] != "" && !seen[k] {
				seen[k] = true
				out = append(out, k)
			}
		}
	}
	for _, s := range of {
		for k, v := range s.facts {
			if !seen[k] && v != "" && k != "because" {
				seen[k] = true
				more = append(more, k)
			}
		}
	}
	sort.Strings(more)
	return append(append(out, more...), "because")
}

// readable writes a moment given as Unix seconds or RFC 3339 as a clock shows it.
func readable(name, value string, at func(time.Time) string) string {
	if !strings.HasPrefix(name, "created") {
		return value
	}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && len(value) == 10 {
		return at(time.Unix(n, 0))
	}
	if t, err := time.Parse(time.RFC3339, value); err == nil {
		return at(t)
	}
	return value
}

// plainMembers are the members of an object that are no objects themselves, as
// text that is safe to show.
func plainMembers(object map[string]any) map[string]string {
	out := map[string]string{}
	for k, v := range object {
		switch v := v.(type) {
		case string:
			out[safe.Of(k).String()] = safe.Of(v).String()
		case json.Number:
			out[safe.Of(k).String()] = safe.Of(v.String()).String()
		case bool:
			out[safe.Of(k).String()] = fmt.Sprint(v)
		}
	}
	return out
}

func valuesOf(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// effects finds the objects in a check's evidence, wherever they are.
func effects(raw json.RawMessage) []map[string]any {
	var out []map[string]any
	var walk func(v any, depth int)
	walk = func(v any, depth int) {
		if depth > 6 || len(out) > 200 {
			return
		}
		switch v := v.(type) {
		case map[string]any:
			out = append(out, v)
			for _, w := range v {
				walk(w, depth+1)
			}
		case []any:
			for _, w := range v {
				walk(w, depth+1)
			}
		}
	}
	walk(asValue(raw), 0)
	return out
}

func asValue(raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

func asObject(raw json.RawMessage) map[string]any {
	o, _ := asValue(raw).(map[string]any)
	return o
}
