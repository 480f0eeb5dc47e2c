package expr

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"indoubt/ledger"
)

// Rendering is one pass over templates: the real one, or the one that is shown with
// secrets by their name. What is rendered after an error is of no use.
type Rendering struct {
	Names *Names
	Show  bool                // what uses a secret is not computed but named as it is written
	Full  bool                // an empty value is an error
	Note  func(secret string) // called with each secret, and with what is made of one

	what string // what is rendered now, for the error
	err  error  // the first one
}

func (r *Rendering) Err() error { return r.err }

// At says what is rendered from here on.
func (r *Rendering) At(what string) *Rendering {
	r.what = what
	return r
}

// Fail keeps an error, if it is one and the first.
func (r *Rendering) Fail(err error) {
	if err == nil || r.err != nil {
		return
	}
	if r.what != "" {
		err = fmt.Errorf("%s: %w", r.what, err)
	}
	r.err = err
}

// Data computes one expression as JSON data.
func (r *Rendering) Data(e *Expression) any {
	if r.Show && e.Secret() {
		return "${" + e.Text + "}"
	}
	if r.err != nil {
		return nil
	}
	if data, known := r.Names.data[e]; known {
		return data
	}
	v, err := e.Eval(context.Background(), r.Names)
	if err != nil {
		r.Fail(err)
		return nil
	}
	data, err := v.Data()
	if err != nil {
		r.Fail(e.About(err))
		return nil
	}
	if !e.Secret() {
		if r.Names.data == nil {
			r.Names.data = map[*Expression]any{}
		}
		r.Names.data[e] = data
	} else if text, err := FormatData(data); err == nil && r.Note != nil {
		r.Note(text)
	}
	return data
}

// piece is the value of one expression as text.
func (r *Rendering) piece(e *Expression) string {
	data := r.Data(e)
	text, err := FormatData(data)
	if err == nil && r.Full && text == "" {
		err = fmt.Errorf("it is empty")
	}
	r.Fail(e.About(err))
	return text
}

func (r *Rendering) Text(t *Template) string {
	var b strings.Builder
	for _, p := range t.Parts {
		if p.Expr != nil {
			b.WriteString(r.piece(p.Expr))
		} else {
			b.WriteString(p.Literal)
		}
	}
	return b.String()
}

// Tree renders a tree as JSON data: a single expression keeps its type.
func (r *Rendering) Tree(t *Tree) any {
	switch {
	case t.Text.Single() != nil:
		return r.Data(t.Text.Single())
	case t.Text != nil:
		return r.Text(t.Text)
	case t.Entries != nil:
		out, what := map[string]any{}, r.what
		for _, e := range t.Entries {
			out[e.Name] = r.At(what + ": " + e.Name).Tree(e.Value)
		}
		r.what = what
		return out
	case t.Items != nil:
		return ledger.Each(t.Items, r.Tree)
	}
	return t.Literal
}

// Form renders a tree the way Stripe, Rails and PHP read nested forms:
// metadata[indoubt]=…, items[0][price]=…. Null is left out. In a query a list
// repeats its name, as most interfaces read it. Shown, a secret's name stays legible.
func (r *Rendering) Form(t *Tree, query bool) string {
	data := r.Tree(t)
	top, ok := data.(map[string]any)
	if !ok {
		r.Fail(fmt.Errorf("a form or query needs a mapping of names to values"))
	}
	values := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(top)) {
		list, repeated := top[name].([]any)
		if !repeated || !query {
			list = []any{top[name]}
		}
		for _, e := range list {
			r.Fail(addForm(values, name, e))
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, text := range values[name] {
			if !r.Show || !strings.Contains(text, "${") {
				text = url.QueryEscape(text)
			}
			out = append(out, url.QueryEscape(name)+"="+text)
		}
	}
	return strings.Join(out, "&")
}

func addForm(out url.Values, name string, v any) error {
	switch x := v.(type) {
	case nil:
	case map[string]any:
		for k, e := range x {
			if err := addForm(out, name+"["+k+"]", e); err != nil {
				return err
			}
		}
	case []any:
		for i, e := range x {
			if err := addForm(out, name+"["+strconv.Itoa(i)+"]", e); err != nil {
				return err
			}
		}
	default:
		text, err := FormatData(v)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out.Add(name, text)
	}
	return nil
}

// URL renders an address: values in the path are percent-encoded and may not
// be what a server reads as another path; values in the query are encoded. A
// value before the path is where the host comes from; that it is no data is
// checked when the policy is loaded.
func (r *Rendering) URL(t *Template) string {
	var b addressBuilder
	for i, p := range t.Parts {
		if p.Expr == nil {
			b.written(p.Literal)
		} else {
			b.value(r.piece(p.Expr), i == 0 || r.Show && p.Expr.Secret())
		}
	}
	b.endSegment()
	r.Fail(b.err)
	return b.text.String()
}

// addressBuilder writes an address and looks at each segment of its path.
type addressBuilder struct {
	text     strings.Builder
	query    bool
	segment  string // of the path, decoded
	computed bool   // the segment
	err      error
}

// written adds a part that stands in the policy.
func (b *addressBuilder) written(literal string) {
	for _, c := range literal {
		if c == '?' || c == '#' || c == '/' && !b.query {
			b.endSegment()
		}
		b.query = b.query || c == '?' || c == '#'
		if !b.query && c != '/' {
			b.segment += string(c)
		}
		b.text.WriteRune(c)
	}
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

// endSegment refuses a segment with a value that would lead elsewhere (I11), also
// where a server decodes it first.
func (b *addressBuilder) endSegment() {
	segment, computed := b.segment, b.computed
	b.segment, b.computed = "", false
	for _, s := range strings.Split(strings.ReplaceAll(segment, `\`, "/"), "/") {
		switch {
		case !computed || b.err != nil:
		case s == "":
			b.err = fmt.Errorf("a part of the path is empty: a value for it is missing")
		case s == ".", s == "..":
			b.err = fmt.Errorf("a part of the path is %q, which leads elsewhere", s)
		}
	}
}
