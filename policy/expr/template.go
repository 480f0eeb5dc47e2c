package expr

import (
	"slices"
	"strings"
)

// Template is text with ${expressions}. `$${` stands for a plain `${`.
type Template struct {
	Text  string
	Parts []Part // at least one
}

// Part is a piece of a template: an expression, or else a literal.
type Part struct {
	Literal string
	Expr    *Expression
}

// ParseTemplate splits a text and compiles its expressions. The problem's offset is in
// characters of the text.
func ParseTemplate(text string, s Scope) (*Template, *Problem) {
	t := &Template{Text: text}
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
			t.Parts = append(t.Parts, Part{Literal: literal})
			literal = ""
		}
		begin := done + i + 2
		end := closing(rest[i+2:])
		if end < 0 {
			return nil, &Problem{Message: "`${` is not closed", Hint: "add the `}`; a plain `${` is written `$${`",
				Offset: len([]rune(text[:done+i])), Inside: true}
		}
		e, problem := Compile(rest[i+2:i+2+end], s, Any)
		if problem != nil {
			if !problem.Inside {
				problem.Inside, problem.Offset = true, 0
			}
			problem.Offset += len([]rune(text[:begin]))
			return nil, problem
		}
		t.Parts = append(t.Parts, Part{Expr: e})
		rest, done = rest[i+2+end+1:], begin+end+1
	}
	if literal != "" || len(t.Parts) == 0 {
		t.Parts = append(t.Parts, Part{Literal: literal})
	}
	return t, nil
}

// closing finds the `}` that ends an expression, or -1.
func closing(s string) int {
	for i, depth := 0, 0; i < len(s); i++ {
		switch s[i] {
		case '"', '\'':
			n := quoted(s[i:], i > 0 && (s[i-1] == 'r' || s[i-1] == 'R'))
			if n < 0 {
				return -1
			}
			i += n - 1
		case '{':
			depth++
		case '}':
			if depth--; depth < 0 {
				return i
			}
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

// Single is the template's one expression when it is nothing else.
func (t *Template) Single() *Expression {
	if t != nil && len(t.Parts) == 1 {
		return t.Parts[0].Expr
	}
	return nil
}

// Uses reports whether an expression of the template uses any of these names.
func (t *Template) Uses(names ...string) bool {
	return slices.ContainsFunc(t.Expressions(), func(e *Expression) bool { return e.Uses(names...) })
}

// States reports whether a value stands in the template as it is.
func (t *Template) States(name string) bool {
	return slices.ContainsFunc(t.Expressions(), func(e *Expression) bool { return strings.TrimSpace(e.Text) == name })
}

// Settled reports whether only secrets are computed: the template is the same for
// every operation.
func (t *Template) Settled() bool {
	return !slices.ContainsFunc(t.Expressions(), func(e *Expression) bool { return !e.onlySecret() })
}

// BeginsWithSecret reports whether a secret and nothing else of the template's
// expressions stands at its beginning, with more behind it.
func (t *Template) BeginsWithSecret() bool {
	return t.Single() == nil && t.Parts[0].Expr.onlySecret()
}

// Beginning is the literal text that the template begins with; ok is false where it
// begins with an expression.
func (t *Template) Beginning() (text string, ok bool) {
	if t == nil {
		return "", false
	}
	return t.Parts[0].Literal, t.Parts[0].Expr == nil
}

// Expressions are the expressions of the template, nil for none.
func (t *Template) Expressions() []*Expression {
	if t == nil {
		return nil
	}
	var out []*Expression
	for _, p := range t.Parts {
		if p.Expr != nil {
			out = append(out, p.Expr)
		}
	}
	return out
}

// Tree is JSON data with templates in it: one of its fields is set, or it is null.
type Tree struct {
	Text    *Template
	Literal any // bool, json.Number
	Entries []Entry
	Items   []*Tree
}

type Entry struct {
	Name  string
	Value *Tree
}

func (t *Tree) Templates() []*Template {
	if t == nil {
		return nil
	}
	var out []*Template
	if t.Text != nil {
		out = append(out, t.Text)
	}
	for _, e := range t.Entries {
		out = append(out, e.Value.Templates()...)
	}
	for _, i := range t.Items {
		out = append(out, i.Templates()...)
	}
	return out
}
