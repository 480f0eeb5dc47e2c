package policy

import (
	"slices"
	"strings"
)

// template is text with ${expressions}. `$${` stands for a plain `${`.
type template struct {
	place
	text  string
	parts []part
}

type part struct {
	literal string
	expr    *expression // nil: literal
}

// parseTemplate splits and compiles. The problem's offset is in characters of
// the text, which is where it stands in the file for a plain value.
func parseTemplate(text string, s scope) (*template, *compileProblem) {
	t := &template{text: text}
	rest, done := text, 0
	literal := ""
	for {
		i := strings.Index(rest, "${")
		if i < 0 {
			literal += rest
			break
		}
		if i > 0 && rest[i-1] == '$' {
			literal += rest[:i-1] + "${"
			rest, done = rest[i+2:], done+i+2
			continue
		}
		literal += rest[:i]
		if literal != "" {
			t.parts = append(t.parts, part{literal: literal})
			literal = ""
		}
		begin := done + i + 2
		end := closing(rest[i+2:])
		if end < 0 {
			return nil, &compileProblem{message: "`${` is not closed", hint: "add the `}`; a plain `${` is written `$${`",
				offset: len([]rune(text[:done+i])), inside: true}
		}
		source := rest[i+2 : i+2+end]
		e, problem := compile(source, s, wantAny)
		if problem != nil {
			if !problem.inside {
				problem.inside, problem.offset = true, 0
			}
			problem.offset += len([]rune(text[:begin]))
			return nil, problem
		}
		t.parts = append(t.parts, part{expr: e})
		rest, done = rest[i+2+end+1:], begin+end+1
	}
	if literal != "" || len(t.parts) == 0 {
		t.parts = append(t.parts, part{literal: literal})
	}
	return t, nil
}

// closing finds the `}` that ends an expression, past strings and inner braces.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		case '"', '\'':
			n := quoted(s[i:], i > 0 && (s[i-1] == 'r' || s[i-1] == 'R'))
			if n < 0 {
				return -1
			}
			i += n - 1
		}
	}
	return -1
}

// quoted is the length of the string literal s begins with, or -1.
func quoted(s string, raw bool) int {
	mark := s[:1]
	if strings.HasPrefix(s, strings.Repeat(mark, 3)) {
		mark = s[:3]
	}
	for i := len(mark); i < len(s); i++ {
		if s[i] == '\\' && !raw {
			i++
			continue
		}
		if strings.HasPrefix(s[i:], mark) {
			return i + len(mark)
		}
	}
	return -1
}

// single is the template's one expression when it is nothing else.
func (t *template) single() *expression {
	if t != nil && len(t.parts) == 1 {
		return t.parts[0].expr
	}
	return nil
}

// uses reports whether an expression of the template uses any of these names.
func (t *template) uses(names ...string) bool {
	return slices.ContainsFunc(t.expressions(), func(e *expression) bool { return e.uses(names...) })
}

// states reports whether a value stands in the template as it is.
func (t *template) states(name string) bool {
	return slices.ContainsFunc(t.expressions(), func(e *expression) bool { return strings.TrimSpace(e.text) == name })
}

// settled reports whether the template is the same for every operation: nothing
// is computed but secrets.
func (t *template) settled() bool {
	return !slices.ContainsFunc(t.expressions(), func(e *expression) bool { return !e.onlySecret() })
}

func (t *template) expressions() []*expression {
	if t == nil {
		return nil
	}
	var out []*expression
	for _, p := range t.parts {
		if p.expr != nil {
			out = append(out, p.expr)
		}
	}
	return out
}

// value is a tree of templates and constants.
type value struct {
	text    *template
	fixed   bool // literal, which may be nil
	literal any  // bool, json.Number
	entries []named
	items   []*value
}

type named struct {
	name  string
	value *value
}

// pair is a header or an environment variable.
type pair struct {
	name  string
	value *template
}

func (v *value) templates() []*template {
	if v == nil {
		return nil
	}
	var out []*template
	if v.text != nil {
		out = append(out, v.text)
	}
	for _, e := range v.entries {
		out = append(out, e.value.templates()...)
	}
	for _, i := range v.items {
		out = append(out, i.templates()...)
	}
	return out
}
