package policy

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types/ref"
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

func (t *template) uses(names ...string) bool {
	if t == nil {
		return false
	}
	for _, p := range t.parts {
		if p.expr.uses(names...) {
			return true
		}
	}
	return false
}

// states reports whether a value stands in the template as it is.
func (t *template) states(name string) bool {
	for _, e := range t.expressions() {
		if strings.TrimSpace(e.text) == name {
			return true
		}
	}
	return false
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

// rendering is one pass over templates: the real one, or the one that is shown
// with secrets by their name.
type rendering struct {
	ctx  context.Context
	vars *variables
	show bool
	full bool // an empty value is an error
}

// value computes one expression. In a rendering that is shown, what touches a
// secret is not computed at all but stands as it is written.
func (r *rendering) value(e *expression) (v ref.Val, name string, err error) {
	if r.show && e.secret() {
		return nil, "${" + e.text + "}", nil
	}
	if v, err = e.eval(r.ctx, r.vars); err == nil && e.secret() {
		if text, err := formatValue(v); err == nil {
			r.vars.secrets.add(text) // also what was made of one
		}
	}
	return v, "", err
}

func (r *rendering) piece(e *expression) (string, error) {
	v, name, err := r.value(e)
	if err != nil || name != "" {
		return name, err
	}
	text, err := formatValue(v)
	if err != nil {
		return "", fmt.Errorf("%s: %w", shorten(e.text, 60), err)
	}
	if r.full && text == "" {
		return "", fmt.Errorf("%s: it is empty", shorten(e.text, 60))
	}
	return text, nil
}

// text renders a template as plain text.
func (r *rendering) text(t *template) (string, error) {
	return r.encoded(t, func(s string) string { return s })
}

// encoded renders a template with every expression's value encoded.
func (r *rendering) encoded(t *template, encode func(string) string) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.expr == nil {
			b.WriteString(p.literal)
			continue
		}
		s, err := r.piece(p.expr)
		if err != nil {
			return "", err
		}
		if r.show && p.expr.secret() {
			b.WriteString(s)
		} else {
			b.WriteString(encode(s))
		}
	}
	return b.String(), nil
}

// json renders a template as a JSON value: a single expression keeps its type.
func (r *rendering) json(t *template) (any, error) {
	e := t.single()
	if e == nil {
		return r.text(t)
	}
	v, name, err := r.value(e)
	if err != nil {
		return nil, err
	}
	if name != "" {
		return name, nil
	}
	out, err := native(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shorten(e.text, 60), err)
	}
	return out, nil
}

// url renders an address: values in the path are percent-encoded and may not
// be what a server reads as another path; values in the query are encoded. A
// value before the path is where the host comes from; that it is no data is
// checked when the policy is loaded.
func (r *rendering) url(t *template) (string, error) {
	var b addressBuilder
	for i, p := range t.parts {
		if p.expr == nil {
			if err := b.written(p.literal); err != nil {
				return "", err
			}
			continue
		}
		s, err := r.piece(p.expr)
		if err != nil {
			return "", err
		}
		b.value(s, i == 0 || r.show && p.expr.secret())
	}
	if err := b.endSegment(); err != nil {
		return "", err
	}
	return b.text.String(), nil
}

// addressBuilder writes an address and looks at each segment of its path.
type addressBuilder struct {
	text     strings.Builder
	query    bool
	segment  string // of the path, decoded
	computed bool   // the segment
}

// written adds a part that stands in the policy.
func (b *addressBuilder) written(literal string) error {
	for _, c := range literal {
		if c == '?' || c == '#' || c == '/' && !b.query {
			if err := b.endSegment(); err != nil {
				return err
			}
		}
		b.query = b.query || c == '?' || c == '#'
		if !b.query && c != '/' {
			b.segment += string(c)
		}
		b.text.WriteRune(c)
	}
	return nil
}

// value adds a computed part; plain is one that is no value of the path.
func (b *addressBuilder) value(s string, plain bool) {
	switch {
	case plain:
		b.text.WriteString(s)
		b.segment += "secret"
	case b.query:
		b.text.WriteString(url.QueryEscape(s))
	default:
		b.segment, b.computed = b.segment+s, true
		b.text.WriteString(url.PathEscape(s))
	}
}

func (b *addressBuilder) endSegment() error {
	segment, computed := b.segment, b.computed
	b.segment, b.computed = "", false
	if !computed {
		return nil
	}
	return checkSegment(segment)
}

// checkSegment refuses a rendered path segment that would lead elsewhere (I11),
// also where a server decodes it first.
func checkSegment(segment string) error {
	for _, s := range strings.Split(strings.ReplaceAll(segment, `\`, "/"), "/") {
		switch s {
		case "":
			return fmt.Errorf("a part of the path is empty: a value for it is missing")
		case ".", "..":
			return fmt.Errorf("a part of the path is %q, which leads elsewhere", s)
		}
	}
	return nil
}
