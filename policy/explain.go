package policy

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"
)

// Explain says what applies to a kind and why: every value with the place it
// was said, or "default" where nobody said it.
func (p *Policy) Explain(kind string) string {
	k := p.Kind(kind)
	e := &explanation{kind: k}
	switch {
	case p.empty:
		e.line("kind", k.Name, "no policy file: built-in defaults, costs are guesses")
	case !k.Known:
		e.line("kind", k.Name, "not listed: `defaults` apply, costs are guesses")
	case k.Pattern != k.Name:
		e.line("kind", k.Name, fmt.Sprintf("by %s, %s:%d", k.Pattern, filepath.Base(k.File), k.Line))
	default:
		e.line("kind", k.Name, fmt.Sprintf("%s:%d", filepath.Base(k.File), k.Line))
	}
	e.downstream()
	e.costs()
	e.clocks()
	e.asking()
	e.sending()
	e.machine()
	return p.Withhold(e.text.String())
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
	e.line(name, value, e.kind.Origin(field))
}

// Origin is where the file said a field of this kind ("policy.yaml:88"), or
// "default".
func (k *Kind) Origin(field string) string {
	at, ok := k.origins[field]
	if !ok {
		return "default"
	}
	place := fmt.Sprintf("%s:%d", filepath.Base(k.policy.file), at.line)
	if own := k.Line; k.Known && at.line < own || !k.Known {
		return place + " (defaults)"
	}
	return place
}

func (e *explanation) downstream() {
	ds := e.kind.Downstream
	if ds == nil {
		return
	}
	at := fmt.Sprintf("%s:%d", filepath.Base(ds.File), ds.Line)
	name, rate := ds.Name, "not limited"
	if ds.Base != "" {
		name += ", " + ds.Base
	}
	if ds.RatePerSecond > 0 {
		rate = rateWords(ds.RatePerSecond)
	}
	if ds.Concurrency > 0 {
		rate += fmt.Sprintf(", %d at once", ds.Concurrency)
	}
	e.line("downstream", name, at)
	e.line("rate", rate, at)
	if len(ds.Redirects) > 0 {
		e.line("redirects", strings.Join(ds.Redirects, ", "), at)
	}
}

// rateWords is a rate in the largest unit that makes it a whole number or more.
func rateWords(perSecond float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"s", 1}, {"m", 60}} {
		if n := perSecond * unit.seconds; n >= 1 && math.Abs(n-math.Round(n)) < 1e-9 {
			return formatNumber(math.Round(n)) + "/" + unit.name
		}
	}
	return formatNumber(math.Round(perSecond*3600*1000)/1000) + "/h"
}

func (e *explanation) costs() {
	k := e.kind
	for _, c := range []struct {
		name string
		rule *costRule
	}{{"duplicate", k.duplicate}, {"miss", k.miss}} {
		value := c.rule.text
		switch {
		case c.rule.expr != nil:
			value += " (calculated)"
		case c.rule.word != "":
			value = fmt.Sprintf("%s = %s %s", c.rule.word, money(c.rule.number), k.policy.currency)
		default:
			value = money(c.rule.number) + " " + k.policy.currency
		}
		if c.rule.guess {
			value = "~" + value
		}
		e.say("cost "+c.name, value, "cost."+c.name)
	}
	e.say("look", money(k.Look)+" "+k.policy.currency, "look")
}

func (e *explanation) clocks() {
	k := e.kind
	e.say("deadline", formatDuration(k.Deadline), "deadline")
	e.say("escalate_after", formatDuration(k.EscalateAfter), "escalate_after")
	bound := func(name string, d *time.Duration, unknown string) {
		value := unknown
		if d != nil {
			value = formatDuration(*d)
		}
		e.say(name, value, name)
	}
	bound("lands_within", k.LandsWithin, "not stated: no wait proves absence")
	bound("visible_within", k.VisibleWithin, "not stated: no wait proves absence")
	bound("visible_for", k.VisibleFor, "for ever")
	e.say("skew", formatDuration(k.Skew), "skew")
	if k.Remembers > 0 {
		e.line("key remembered", formatDuration(k.Remembers)+" by "+k.Downstream.Name, fmt.Sprintf("%s:%d", filepath.Base(k.Downstream.File), k.Downstream.Line))
	} else {
		e.line("key remembered", "not at all", "default")
	}
	if k.Idempotent {
		e.say("idempotent", "safe to repeat until overtaken on its target", "idempotent")
	}
}

func (e *explanation) asking() {
	k := e.kind
	switch {
	case k.Token.Into != "":
		e.say("token", "into input."+k.Token.Into, "token")
	case k.Token.Append != "":
		e.say("token", "added to input."+k.Token.Append, "token")
	case k.Token.Argument:
		e.say("token", "in the command, as {{token}}", "token")
	default:
		e.say("token", "nowhere", "token")
	}
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
	if !k.Control {
		e.say("control", "off: no positive control, so nothing proves absence", "control")
	}
}

func (e *explanation) sending() {
	k := e.kind
	switch k.Send.Via() {
	case "pipeline":
		e.say("send", "by its pipeline", "send")
	default:
		e.say("send", "by indoubt, over "+k.Send.Via(), "send")
	}
	e.say("retry", fmt.Sprintf("%d further attempts, %s..%s apart", k.Retry.Max, formatDuration(k.Retry.BackoffMin), formatDuration(k.Retry.BackoffMax)), "retry")
	if len(k.Match) > 0 {
		texts := make([]string, len(k.Match))
		for i, m := range k.Match {
			texts[i] = m.String()
		}
		e.say("match", strings.Join(texts, "; "), "match")
	}
	if k.Cancel == "forward" {
		e.say("cancel", "a client's cancellation is passed on", "cancel")
	}
	strategy := k.Key.Strategy
	if strategy == "" {
		strategy = "content, a new one after a commit"
	}
	if len(k.Key.From) > 0 {
		strategy += " " + strings.Join(k.Key.From, ", ")
	}
	e.say("key", strategy, "key")
}

func (e *explanation) machine() {
	k := e.kind
	yes := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	e.say("auto", fmt.Sprintf("confirm %s, deny %s, retry %s", yes(k.Auto.Confirm), yes(k.Auto.Deny), k.Auto.Retry), "auto")
	if k.UnattendedRisk {
		e.say("unattended_risk", "a risk may be taken without a person at a terminal", "unattended_risk")
	}
	if len(k.Redact) > 0 {
		e.say("redact", strings.Join(k.Redact, ", "), "redact")
	}
}
