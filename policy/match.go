package policy

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy/file"
)

// writing are the methods that a match without methods stands for.
var writing = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

var (
	matchMethods = lazyregexp.New(`^[A-Z]+(,[A-Z]+)*$`)
	matchHost    = lazyregexp.New(`^[A-Za-z0-9.-]+(:\d+)?$`)
)

// parseMatch reads "POST,PUT api.example.com/v1/orders/*".
func parseMatch(text string) (Match, error) {
	var m Match
	words := strings.Fields(text)
	if len(words) == 2 {
		if !matchMethods.MatchString(words[0]) {
			return m, fmt.Errorf("%q are not methods", words[0])
		}
		m.Methods = strings.Split(words[0], ",")
	}
	if len(words) != 1 && len(words) != 2 {
		return m, fmt.Errorf("%q is not a pattern of requests", text)
	}
	place := words[len(words)-1]
	i := strings.IndexByte(place, '/')
	if i < 0 || strings.ContainsAny(place, "?#") {
		return m, fmt.Errorf("%q is not a path", place)
	}
	m.Host, m.Path = strings.ToLower(place[:i]), place[i:]
	if m.Host != "" && !matchHost.MatchString(m.Host) {
		return m, fmt.Errorf("%q is not a host", place[:i])
	}
	segments := m.segments()
	for i, s := range segments {
		if strings.Contains(s, "*") && s != "*" && (s != "**" || i != len(segments)-1) {
			return m, fmt.Errorf("%q: * stands for one whole segment, and ** for the rest at the end", m.Path)
		}
	}
	return m, nil
}

// matches reads `match:`, one pattern or several.
func (d decoder) matches(k *Kind, n *file.Node) {
	var texts []string
	d.Texts(&texts)(n)
	k.Match = nil
	if strings.Contains(k.Pattern, "*") {
		d.Fail(n.Place, "a request is of one kind, and this is a pattern for many", "say it in a kind of its own")
		return
	}
	for i, text := range texts {
		m, err := parseMatch(text)
		if err != nil {
			d.Fail(n.Item(i), err.Error(), "for example POST /v1/charges, or POST,PUT api.example.com/v1/orders/*")
			continue
		}
		k.Match = append(k.Match, m)
	}
}

// Patterns are those of a kind's `match:`, one a line; "" where it has none.
func Patterns(match []Match) string {
	return strings.Join(ledger.Each(match, Match.String), "\n")
}

// Covers reports whether one of the patterns, as Patterns gives them, matches a request: its
// method, host and path, with a blank between them.
func Covers(patterns, request string) bool {
	method, rest, _ := strings.Cut(request, " ")
	host, path, _ := strings.Cut(rest, " ")
	return slices.ContainsFunc(strings.Split(patterns, "\n"), func(line string) bool {
		m, err := parseMatch(line)
		return err == nil && m.covers(method, host, path)
	})
}

func (m Match) segments() []string { return strings.Split(strings.TrimPrefix(m.Path, "/"), "/") }

func (m Match) methods() []string {
	if len(m.Methods) == 0 {
		return writing
	}
	return m.Methods
}

func (m Match) covers(method, host, path string) bool {
	if !slices.Contains(m.methods(), strings.ToUpper(method)) {
		return false
	}
	if host = strings.ToLower(host); m.Host != "" && m.Host != host {
		name, _, ok := strings.Cut(host, ":")
		if !ok || m.Host != name {
			return false
		}
	}
	return segmentsCover(m.segments(), strings.Split(strings.TrimPrefix(path, "/"), "/"))
}

func segmentsCover(pattern, path []string) bool {
	for i, s := range pattern {
		switch {
		case s == "**":
			return true
		case i >= len(path), s == "*" && path[i] == "", s != "*" && s != path[i]:
			return false
		}
	}
	return len(pattern) == len(path)
}

// KindFor is the kind of an HTTP request by the kinds' `match:`. Of several patterns the one with
// the most letters counts, then the one with fewer methods, then the first in the file. ok is
// false when none matches. The path is without its query.
func (p *Policy) KindFor(method, host, path string) (kind string, ok bool) {
	var best Match
	for _, k := range p.order {
		for _, m := range k.Match {
			if m.covers(method, host, path) && (!ok || m.narrower(best)) {
				kind, best, ok = k.Pattern, m, true
			}
		}
	}
	return kind, ok
}

func (m Match) narrower(o Match) bool {
	letters := func(m Match) int { return len(m.Host) + len(strings.ReplaceAll(m.Path, "*", "")) }
	return cmp.Or(letters(m)-letters(o), len(o.methods())-len(m.methods())) > 0
}

// ambiguous refuses one pattern for two kinds.
func (d decoder) ambiguous() {
	said := map[string]string{}
	for _, k := range d.policy.order {
		for _, m := range k.Match {
			if other, twice := said[m.String()]; twice && other != k.Pattern {
				d.Fail(k.said("match").Below("match"), fmt.Sprintf("%s is the pattern of %s, too", m, other),
					"say methods, host or path of one of them more exactly")
			}
			said[m.String()] = k.Pattern
		}
	}
}

func (m Match) String() string {
	text := m.Host + m.Path
	if len(m.Methods) > 0 {
		text = strings.Join(m.Methods, ",") + " " + text
	}
	return text
}
