package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// side is one of two effects.
type side struct {
	receipt string
	attempt int // which attempt made it; 0 when that is not known
	facts   map[string]string
}

// sides are the effects known, in the order of the attempts that made them as
// far as that is known, with what attempts and checks tell of each.
func sides(b *brief, at func(time.Time) string) []side {
	o := &b.rec.Operation
	var out []side
	for _, r := range o.Receipts {
		out = append(out, side{receipt: r, facts: map[string]string{}})
	}
	for i := range out {
		for _, a := range b.rec.Attempts {
			if a.Receipt == out[i].receipt || a.LateReceipt == out[i].receipt {
				out[i].attempt = a.N
				out[i].facts["sent by"] = fmt.Sprintf("attempt %d, %s", a.N, senderWords(*o, a))
				out[i].facts["sent"] = at(a.StartedAt)
			}
		}
	}
	// One effect without an attempt, and one attempt that nobody heard of again,
	// belong together.
	lone, silent := -1, -1
	for i := range out {
		if out[i].facts["sent by"] == "" {
			if lone >= 0 {
				lone = -2
				break
			}
			lone = i
		}
	}
	for i, a := range b.rec.Attempts {
		if a.Receipt == "" && a.LateReceipt == "" && a.Final() == ledger.OutcomeUncertain {
			if silent >= 0 {
				silent = -2
				break
			}
			silent = i
		}
	}
	if lone >= 0 && silent >= 0 {
		a := b.rec.Attempts[silent]
		out[lone].attempt = a.N
		out[lone].facts["sent by"] = fmt.Sprintf("attempt %d, %s", a.N, firstOf(errorWords(a.ErrorClass), "no answer"))
		out[lone].facts["sent"] = at(a.StartedAt)
	}
	// The evidence of a check is what the other side says of each effect. Whatever
	// plain members stand beside a receipt are shown as they are.
	for _, read := range b.raw.Reads {
		for _, effect := range effects(read.Evidence) {
			text := map[string]string{}
			match := -1
			for k, v := range effect {
				var plain string
				switch v := v.(type) {
				case string:
					plain = v
				case json.Number:
					plain = v.String()
				case bool:
					plain = fmt.Sprint(v)
				default:
					continue
				}
				text[safe.Text(k)] = safe.Text(plain)
				for i := range out {
					if safe.Text(plain) == out[i].receipt {
						match = i
					}
				}
			}
			if match < 0 {
				continue
			}
			for _, k := range []string{"amount", "currency", "created", "created_at", "status", "state", "title", "subject", "version"} {
				if v, ok := text[k]; ok && out[match].facts[k] == "" {
					out[match].facts[k] = readable(k, v, at)
				}
			}
		}
	}
	sort.SliceStable(out, func(i, j int) bool {
		return out[i].attempt != 0 && out[j].attempt != 0 && out[i].attempt < out[j].attempt
	})
	return out
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

// effects finds the objects in a check's evidence, wherever they are.
func effects(raw json.RawMessage) []map[string]any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
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
	walk(v, 0)
	return out
}

// conflictLines shows both sides of an operation that happened twice.
func (m *Root) conflictLines(b *brief, w int) []string {
	o := &b.rec.Operation
	p := &page{w: w, th: m.th}
	at := func(t time.Time) string { return moment(t, m.at, m.loc) }
	found := sides(b, at)
	head := " ! " + conflictWords(o.Conflict) + "   " + o.Title
	when := "found " + at(o.UpdatedAt)
	p.lines = append(p.lines, m.th.bad.s(left(head, w-width(when)-1))+m.th.faint.s(when), m.th.faint.s(rule(w)))
	const name = 13
	col := max((w-name)/2, 8)
	if len(found) >= 2 {
		first, second := "FIRST", "SECOND"
		if m.side == 0 {
			first = "▌" + first
		} else {
			second = "▌" + second
		}
		p.lines = append(p.lines, m.th.strong.s(spaces(name)+left(first, col)+left(second, col)))
		line := func(k, a, b string) {
			p.lines = append(p.lines, m.th.faint.s(left(" "+k, name))+left(firstOf(a, "–"), col-1)+" "+cut(firstOf(b, "–"), col-1))
		}
		line("receipt", found[0].receipt, found[1].receipt)
		for _, k := range []string{"amount", "currency", "created", "created_at", "sent by", "status", "state", "title", "subject", "version"} {
			if found[0].facts[k] != "" || found[1].facts[k] != "" {
				line(strings.ReplaceAll(k, "_", " "), found[0].facts[k], found[1].facts[k])
			}
		}
		for i, s := range found[2:] {
			line(fmt.Sprintf("%d. receipt", i+3), s.receipt, s.facts["status"])
		}
	} else {
		for _, s := range found {
			p.say("RECEIPT", m.th.text, s.receipt)
		}
		p.say("", m.th.bad, firstOf(o.ConflictNote, "what is recorded and what was found disagree"))
	}
	p.lines = append(p.lines, m.th.faint.s(rule(w)))
	m.conflictDo(p, b)
	for i, e := range timeline(b) {
		k := ""
		if i == 0 {
			k = "WHY"
		}
		text := at(e.at) + " " + strings.TrimSpace(e.who+" "+e.what)
		paint := m.th.text
		if e.grave {
			paint = m.th.bad
		}
		p.say(k, paint, text)
	}
	return p.lines
}

// conflictDo says what it costs and what to do, before why it came so.
func (m *Root) conflictDo(p *page, b *brief) {
	switch b.rec.Operation.Conflict {
	case ledger.Duplicate, ledger.PossibleDuplicate:
		p.say("LOSS", m.th.text, fullCost(b.facts.advice.Duplicate)+" until one is taken back; indoubt does not take it back")
		p.say("DO", m.th.strong, "cancel one of them outside, then D with its reference")
	default:
		p.say("DO", m.th.strong, "look at what was found; U puts it in doubt again, D says it was dealt with outside")
	}
}

// indented lays JSON out; what is not JSON stays as it is.
func indented(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return raw
	}
	return b.Bytes()
}
