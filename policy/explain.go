package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"indoubt/policy/verdict"
)

// unsaid is what holds where neither the kind nor `defaults` says a field.
var unsaid = [][2]string{
	{"cost", "a guess: duplicate high, miss medium"}, {"deadline", "2m"}, {"escalate_after", "15m"},
	{"lands_within", "not stated: no wait proves absence"}, {"visible_within", "not stated: no wait proves absence"},
	{"visible_for", "for ever"},
	{"effect", "GET reads, PUT and DELETE replace, else once"}, {"key", "the caller's, else all that is asked"}, {"token", "nowhere"},
	{"read", "none: only a person can tell"}, {"resend", "by its pipeline"}, {"retry", "none"}, {"repeat", "hold"},
}

// Explain says what applies to a kind and why: the lines of the file that say it, of the kind, of
// `defaults` and of its downstream, then what is built in.
func (p *Policy) Explain(kind string) string {
	k := p.Kind(kind)
	from := fmt.Sprintf("%s:%d", filepath.Base(p.file), k.Line)
	switch {
	case p.empty:
		from = "no policy file: built-in defaults, costs are guesses"
	case !k.Known:
		from = "not listed: `defaults` apply, costs are guesses"
	case k.Pattern != k.Name:
		from = "by " + k.Pattern + ", " + from
	}
	var text strings.Builder
	row := func(name, value, from string) { // a name may have any character
		fmt.Fprintln(&text, strings.TrimRight(fmt.Sprintf("%-16s %-44s %s", name, strings.ReplaceAll(value, "\n", " "), from), " "))
	}
	row("kind", k.Name, from)
	lines := strings.Split(string(p.text), "\n")
	for _, n := range linesOf(k, lines) {
		fmt.Fprintf(&text, "%5d | %s\n", n, lines[n-1])
	}
	for _, u := range unsaid {
		if _, said := k.origins[u[0]]; !said {
			row(u[0], u[1], "default")
		}
	}
	if k.Read != nil {
		proves := "can prove both answers"
		switch {
		case k.Read.Identity() == verdict.ByNothing:
			proves = "settles nothing"
		case k.Read.complete == nil || k.LandsWithin == nil || k.VisibleWithin == nil || !k.Read.Proves():
			proves = "can see it landed, never prove that it did not"
		}
		row("check", k.Read.Via()+", "+proves, "")
		row("recognised by", k.Read.Recognises(), "")
	}
	return text.String()
}

// linesOf are the lines of the file that say what holds for a kind.
func linesOf(k *Kind, lines []string) (said []int) {
	heads := []int{k.Line}
	if k.Downstream != nil {
		heads = append(heads, k.Downstream.Line)
	}
	for field, at := range k.origins {
		if field != "tests" {
			heads = append(heads, at.Line)
		}
	}
	for _, head := range heads {
		if head == 0 {
			continue
		}
		said = append(said, head)
		for n := head + 1; head != k.Line && n <= len(lines) && within(lines[n-1], lines[head-1]); n++ {
			said = append(said, n)
		}
	}
	slices.Sort(said)
	return slices.Compact(said)
}

// within reports whether a line belongs to what begins in another one.
func within(line, head string) bool {
	indent := func(text string) int { return len(text) - len(strings.TrimLeft(text, " ")) }
	switch text := strings.TrimLeft(line, " "); {
	case text == "":
		return false
	case indent(line) == indent(head):
		return strings.HasPrefix(text, "- ")
	}
	return indent(line) > indent(head)
}
