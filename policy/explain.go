package policy

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"indoubt/policy/expr"
)

// Explain says what applies to a kind and why: every value with the place it
// was said, or "default" where it is built in.
func (p *Policy) Explain(kind string) string {
	k := p.Kind(kind)
	e := &explanation{kind: k}
	switch {
	case p.empty:
		e.line("kind", k.Name, "no policy file: built-in defaults, costs are guesses")
	case !k.Known:
		e.line("kind", k.Name, "not listed: `defaults` apply, costs are guesses")
	case k.Pattern != k.Name:
		e.line("kind", k.Name, fmt.Sprintf("by %s, %s", k.Pattern, p.place(k.Line)))
	default:
		e.line("kind", k.Name, p.place(k.Line))
	}
	e.downstream()
	e.costs()
	e.clocks()
	e.asking()
	e.sending()
	return e.text.String()
}

type explanation struct {
	kind *Kind
	text strings.Builder
}

// line writes one value; where it has several lines, all but the first are set in.
func (e *explanation) line(name, value, from string) {
	name, value = strings.ReplaceAll(name, "\n", " "), strings.ReplaceAll(value, "\n", "\n"+strings.Repeat(" ", 17))
	fmt.Fprintf(&e.text, "%-16s %-44s %s\n", name, value, from)
}

// say writes a value with the place of the field it comes from.
func (e *explanation) say(name, value, field string) {
	e.line(name, value, e.kind.origin(field))
}

// origin is where the file said a field of this kind ("policy.yaml:88"), or
// "default".
func (k *Kind) origin(field string) string {
	at, ok := k.origins[field]
	if !ok {
		return "default"
	}
	place := k.policy.place(at.line)
	if !k.Known || at.line < k.Line {
		return place + " (defaults)"
	}
	return place
}

// place is a line of the file, "policy.yaml:12".
func (p *Policy) place(line int) string { return fmt.Sprintf("%s:%d", filepath.Base(p.file), line) }

func (e *explanation) downstream() {
	ds := e.kind.Downstream
	if ds == nil {
		return
	}
	at := e.kind.policy.place(ds.Line)
	name, rate := ds.Name, cmp.Or(ds.rate, "not limited")
	if ds.Base != "" {
		name += ", " + ds.Base
	}
	if ds.Concurrency > 0 {
		rate += fmt.Sprintf(", %d at once", ds.Concurrency)
	}
	e.line("downstream", name, at)
	e.line("rate", rate, at)
	if ds.Callers != nil {
		e.line("callers", cmp.Or(strings.Join(ds.Callers, ", "), "no header but the credential"), at)
	}
	if ds.SameAccount {
		e.line("same account", "all credentials lead to one", at)
	}
}

func (e *explanation) costs() {
	k := e.kind
	one := func(name string, c *costRule) {
		value := expr.Money(c.number) + " " + k.policy.currency
		switch {
		case c.expr != nil:
			value = c.text + " (calculated)"
		case c.word != "":
			value = c.word + " = " + value
		}
		if c.guess {
			value = "~" + value
		}
		e.say("cost "+name, value, "cost."+name)
	}
	one("duplicate", k.duplicate)
	one("miss", k.miss)
}

func (e *explanation) clocks() {
	k := e.kind
	bound := func(name string, d *time.Duration, unknown string) {
		if d != nil {
			unknown = formatDuration(*d)
		}
		e.say(name, unknown, name)
	}
	bound("deadline", &k.Deadline, "")
	bound("escalate_after", &k.EscalateAfter, "")
	bound("lands_within", k.LandsWithin, "not stated: no wait proves absence")
	bound("visible_within", k.VisibleWithin, "not stated: no wait proves absence")
	bound("visible_for", k.VisibleFor, "for ever")
	b := k.Burst()
	e.say("outage", fmt.Sprintf("%d errors within %s, over %s after the last", b.Errors, formatDuration(b.Within), formatDuration(b.Gap)), "outage")
	if k.Remembers > 0 {
		remembered := formatDuration(k.Remembers) + " by " + k.Downstream.Name
		if k.Downstream.Replays {
			remembered += ", which replays its answer"
		}
		e.line("key remembered", remembered, k.policy.place(k.Downstream.Line))
	} else {
		e.line("key remembered", "not at all", "default")
	}
	switch {
	case k.Effect.Replaces():
		e.say("effect", "replaces what is on its target: runs again once overtaken there", "effect")
	case k.Effect.Safe():
		e.say("effect", "safe to repeat until overtaken on its target", "effect")
	}
}

func (e *explanation) asking() {
	k := e.kind
	token := "nowhere"
	switch {
	case k.Token.Into != "":
		token = "into input." + k.Token.Into
	case k.Token.Append != "":
		token = "added to input." + k.Token.Append
	case k.Token.Argument:
		token = "in the command, as {{token}}"
	}
	e.say("token", token, "token")
	if k.Read == nil {
		e.say("check", "none: only a person can tell", "read")
		return
	}
	proves := "can prove both answers"
	if k.Read.complete == nil || k.LandsWithin == nil || k.VisibleWithin == nil || !k.Read.Proves() {
		proves = "can see it landed, never prove that it did not"
	}
	if k.Read.Identity() == ByNothing {
		proves = "settles nothing"
	}
	e.say("check", k.Read.Via()+", "+proves, "read")
	e.say("recognised by", k.Read.Recognises(), "read")
}

func (e *explanation) sending() {
	k := e.kind
	by := "by its pipeline"
	if k.Resend == ResendHere {
		by = "from here, as it was recorded"
	}
	e.say("resend", by, "resend")
	retry := "none"
	if k.Retry.Max > 0 {
		retry = fmt.Sprintf("%d further attempts, %s..%s apart", k.Retry.Max, formatDuration(k.Retry.BackoffMin), formatDuration(k.Retry.BackoffMax))
	}
	e.say("retry", retry, "retry")
	if len(k.Match) > 0 {
		e.say("match", strings.ReplaceAll(Patterns(k.Match), "\n", "; "), "match")
	}
	if k.Input != "" {
		e.say("input", k.Input+" of a recorded HTTP request", "input")
	}
	e.say("key", cmp.Or(strings.Join(k.Key.From, ", "), "the caller's, else all that is asked"), "key")
	if len(k.Redact) > 0 {
		e.say("redact", strings.Join(k.Redact, ", "), "redact")
	}
}
