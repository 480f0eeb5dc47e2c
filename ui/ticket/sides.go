package ticket

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// Side is one of the things that a conflict sets against each other: an effect,
// what was asked for, or what is recorded.
type Side struct {
	Head    safe.Text
	receipt string
	attempt int // which attempt made it; 0 when that is not known
	facts   map[safe.Text]safe.Text
}

// newSide is a side with what is known of it, as name, value pairs.
func newSide(head safe.Format, facts ...any) Side {
	s := Side{Head: safe.Say(head), facts: map[safe.Text]safe.Text{}}
	for i := 0; i+1 < len(facts); i += 2 {
		s.set(fmt.Sprint(facts[i]), safe.Say("%s", facts[i+1]))
	}
	return s
}

func (s *Side) set(name string, value safe.Text) { s.facts[safe.Of(name)] = value }
func (s *Side) drop(name string)                 { delete(s.facts, safe.Of(name)) }

// Fact is what a side says under one of its names; empty where it says nothing.
func (s Side) Fact(name safe.Text) safe.Text { return s.facts[name] }

// told is what an other side usually says of an effect, in the order in which
// it is read best.
var told = []string{amount, "currency", "created", "created_at", "sent by", "sent", "status", "state", "title", "subject", "version"}

// reason is the name of what a side gives as its reason. It comes last.
const reason = "because"

// Names are what the sides say, in the order in which it is shown.
func Names(of []Side) []safe.Text {
	said := map[safe.Text]bool{}
	for _, s := range of {
		for name, value := range s.facts {
			said[name] = said[name] || !value.Empty() && name != safe.Of(reason)
		}
	}
	var out []safe.Text
	take := func(name safe.Text) {
		if said[name] {
			out, said[name] = append(out, name), false
		}
	}
	for _, name := range append([]string{"fact", "by", "at", "receipt"}, told...) {
		take(safe.Of(name))
	}
	for _, name := range slices.SortedFunc(maps.Keys(said), func(a, b safe.Text) int { return cmp.Compare(a.String(), b.String()) }) {
		take(name)
	}
	return append(out, safe.Of(reason))
}

// Sides are the sides of a conflict; fewer than two where there is nothing to
// set against each other.
func (t Ticket) Sides() []Side { return conflict{t}.sides() }

// conflict makes the sides of one from the record of a ticket.
type conflict struct{ Ticket }

func (c conflict) sides() []Side {
	switch o := &c.Record.Operation; o.Conflict {
	case ledger.Duplicate:
		return inOrder(c.effectSides(o.Receipts))
	case ledger.PossibleDuplicate:
		known := inOrder(c.effectSides(o.Receipts))
		if len(known) == 1 {
			known[0].Head = safe.Say("LANDED")
			return append(known, c.unheard(known[0].attempt)...)
		}
		return known
	case ledger.MismatchConflict:
		return c.askedAndFound()
	case ledger.Contradiction:
		return c.recordedAndFound()
	}
	return nil
}

var ordinals = []string{"FIRST", "SECOND", "THIRD", "FOURTH", "FIFTH"}

func inOrder(s []Side) []Side {
	slices.SortStableFunc(s, func(a, b Side) int {
		if a.attempt == 0 || b.attempt == 0 {
			return 0
		}
		return cmp.Compare(a.attempt, b.attempt)
	})
	for i := range s {
		s[i].Head = safe.Say("%dTH", i+1)
		if i < len(ordinals) {
			s[i].Head = safe.Of(ordinals[i])
		}
	}
	return s
}

// effectSides are effects by their receipts, with what attempts and checks tell
// of each.
func (c conflict) effectSides(receipts []string) []Side {
	var out []Side
	for _, r := range receipts {
		s := newSide("", "receipt", r)
		s.receipt = r
		for _, a := range c.Record.Attempts {
			if a.Receipt == r || a.LateReceipt == r {
				c.sentBy(&s, a, sender(c.Record.Operation, a))
			}
		}
		out = append(out, s)
	}
	c.pairSilent(out)
	// The evidence of a check is what the other side says of each effect. Whatever
	// plain members stand beside a receipt are shown as they are.
	for _, read := range c.Record.Reads {
		for _, effect := range effects(read.Evidence) {
			text := plainMembers(effect)
			for i := range out {
				if holds(text, out[i].receipt) {
					c.tell(&out[i], text)
				}
			}
		}
	}
	for i := range out {
		if s := &out[i]; !s.facts[safe.Of("created")].Empty() || !s.facts[safe.Of("created_at")].Empty() {
			s.drop("sent") // the other side knows better
		}
	}
	return out
}

func (c conflict) sentBy(s *Side, a ledger.Attempt, by safe.Text) {
	s.attempt = a.N
	s.set("sent by", safe.Say("attempt %d, %s", a.N, by))
	s.set("sent", safe.Of(c.at(a.StartedAt)))
}

// pairSilent puts the one effect without an attempt and the one attempt without
// an answer together.
func (c conflict) pairSilent(of []Side) {
	lone := slices.IndexFunc(of, func(s Side) bool { return s.attempt == 0 })
	silent := slices.IndexFunc(c.Record.Attempts, unanswered)
	if lone < 0 || silent < 0 || slices.ContainsFunc(of[lone+1:], func(s Side) bool { return s.attempt == 0 }) ||
		slices.ContainsFunc(c.Record.Attempts[silent+1:], unanswered) {
		return
	}
	a := c.Record.Attempts[silent]
	c.sentBy(&of[lone], a, noAnswer(a))
}

func unanswered(a ledger.Attempt) bool {
	return a.Receipt == "" && a.LateReceipt == "" && a.Final() == ledger.OutcomeUncertain
}

func noAnswer(a ledger.Attempt) safe.Text {
	return safe.Of(cmp.Or(ErrorClass(a.ErrorClass), "no answer"))
}

// tell adds what the other side says to what is known.
func (c conflict) tell(s *Side, said map[string]string) {
	for _, k := range told {
		if v, ok := said[k]; ok && s.facts[safe.Of(k)].Empty() {
			s.set(k, safe.Of(c.readable(k, v)))
		}
	}
}

// unheard is what an earlier attempt without an answer may have done.
func (c conflict) unheard(known int) []Side {
	for _, a := range c.Record.Attempts {
		if a.N != known && a.Final() == ledger.OutcomeUncertain {
			s := newSide("MAYBE", "receipt", "not known")
			c.sentBy(&s, a, noAnswer(a))
			return []Side{s}
		}
	}
	return nil
}

// askedAndFound sets the input beside what a check found instead.
func (c conflict) askedAndFound() []Side {
	o := &c.Record.Operation
	read := newest(c.Record.Reads, func(r ledger.Read) bool { return r.Verdict == ledger.Mismatch })
	if read == nil {
		return nil
	}
	asked := newSide("ASKED", "at", c.at(cmp.Or(o.StartedAt, o.CreatedAt)))
	data, _ := ledger.DecodeJSON(o.Input) // what is no JSON has no members
	object, _ := data.(map[string]any)
	input := plainMembers(object)
	found := c.effectSides(read.Receipts)
	if len(found) == 0 {
		found = []Side{newSide("")}
	}
	for i := range found {
		f := &found[i]
		f.Head = safe.Say("FOUND")
		f.set("at", safe.Say("seen %s", c.at(read.EndedAt)))
		f.drop("sent") // it is when it was asked for
		for _, effect := range effects(read.Evidence) {
			text := plainMembers(effect)
			if !holds(text, f.receipt) {
				continue
			}
			for k, v := range text {
				if want, ok := input[k]; ok {
					asked.set(k, safe.Of(c.readable(k, want)))
					f.set(k, safe.Of(c.readable(k, v)))
				}
			}
		}
	}
	return append([]Side{asked}, found...)
}

// recordedAndFound sets what was recorded beside what came up later.
func (c conflict) recordedAndFound() []Side {
	o := &c.Record.Operation
	recorded := newSide("RECORDED", "fact", State(o.State))
	var since time.Time
	for _, e := range c.Events {
		if e.To == o.State && e.From != e.To {
			since = e.At
			recorded = newSide("RECORDED", "fact", State(o.State), "by", Who(e.Actor.Name), "at", c.at(e.At), reason, e.Reason)
		}
	}
	landed := o.State == ledger.Committed
	if landed {
		recorded.set("receipt", List(o.Receipts))
	}
	if found, ok := c.foundSince(since, landed); ok {
		return []Side{recorded, found}
	}
	return nil
}

// foundSince is what a check or a late answer said after a decision that it
// contradicts.
func (c conflict) foundSince(since time.Time, landed bool) (Side, bool) {
	against := []ledger.Verdict{ledger.Landed, ledger.Duplicated, ledger.Mismatch}
	if landed {
		against = []ledger.Verdict{ledger.Absent, ledger.Mismatch}
	}
	read := newest(c.Record.Reads, func(r ledger.Read) bool {
		return !r.EndedAt.Before(since) && slices.Contains(against, r.Verdict)
	})
	for _, a := range slices.Backward(c.Record.Attempts) {
		if a.LateOutcome == "" || a.LateAt.Before(since) || (a.LateOutcome == ledger.OutcomeCommitted) == landed {
			continue
		}
		if read != nil && !a.LateAt.After(read.EndedAt) {
			break
		}
		fact := "did not land"
		if a.LateOutcome == ledger.OutcomeCommitted {
			fact = "landed"
		}
		return newSide("FOUND", "by", fmt.Sprintf("late answer of attempt %d", a.N), "at", c.at(a.LateAt), "fact", fact, "receipt", a.LateReceipt), true
	}
	if read == nil {
		return Side{}, false
	}
	fact := "landed"
	switch read.Verdict {
	case ledger.Absent:
		fact = "not there"
	case ledger.Mismatch:
		fact = "landed, but different"
	case ledger.Duplicated:
		fact = fmt.Sprintf("happened %d times", max(read.Found, 2))
	}
	return newSide("FOUND", "by", "a check", "at", c.at(read.EndedAt), "fact", fact, "receipt", List(read.Receipts), reason, safe.Exact(read.Reason)), true
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

// amount is the name under which evidence has money.
const amount = "amount"

// readable writes a moment given as Unix seconds or RFC 3339 as a clock shows it, and
// an amount in the policy's unit. Where that is not known a whole number may be of a
// smaller one, and is marked.
func (c conflict) readable(name, value string) string {
	if name == amount {
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err == nil && c.Facts.Unit > 0:
			return Grouped(n*c.Facts.Unit, 2)
		case err == nil && !strings.Contains(value, "."):
			return value + " raw"
		}
		return value
	}
	if !strings.HasPrefix(name, "created") {
		return value
	}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && len(value) == 10 {
		return c.at(time.Unix(n, 0))
	}
	if m, err := time.Parse(time.RFC3339, value); err == nil {
		return c.at(m)
	}
	return value
}

// plainMembers are the members of an object that are not objects themselves.
func plainMembers(object map[string]any) map[string]string {
	out := map[string]string{}
	for k, v := range object {
		switch v := v.(type) {
		case string:
			out[k] = v
		case json.Number, bool:
			out[k] = fmt.Sprint(v)
		}
	}
	return out
}

// holds reports whether a member of the object is the receipt.
func holds(object map[string]string, receipt string) bool {
	for _, v := range object {
		if v == receipt {
			return true
		}
	}
	return false
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
	data, _ := ledger.DecodeJSON(raw) // what is no JSON has no effects
	walk(data, 0)
	return out
}
