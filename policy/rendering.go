package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// rendering is one pass over templates: the real one, or the one that is shown
// with secrets by their name. What is rendered after an error is of no use.
type rendering struct {
	ctx       context.Context
	vars      *variables
	keyHeader string // of the request, for the operation's key; "" for none
	show      bool
	full      bool // an empty value is an error

	what string // what is rendered now, for the error
	err  error  // the first one
}

// at says what is rendered from here on.
func (r *rendering) at(what string) *rendering {
	r.what = what
	return r
}

// fail keeps an error, if it is one and the first.
func (r *rendering) fail(err error) {
	if err == nil || r.err != nil {
		return
	}
	if r.what != "" {
		err = fmt.Errorf("%s: %w", r.what, err)
	}
	r.err = err
}

// data computes one expression as JSON data. In a rendering that is shown, what
// touches a secret is not computed at all but named as it is written.
func (r *rendering) data(e *expression) (data any, named bool) {
	if r.show && e.secret() {
		return "${" + e.text + "}", true
	}
	if r.err != nil {
		return nil, false
	}
	v, err := e.eval(r.ctx, r.vars)
	if err != nil {
		r.fail(err)
		return nil, false
	}
	data, err = native(v)
	r.fail(e.about(err))
	if text, err := formatNative(data); err == nil && e.secret() {
		r.vars.secrets.add(text) // also what was made of one
	}
	return data, false
}

// piece is the value of one expression as text.
func (r *rendering) piece(e *expression) string {
	data, _ := r.data(e)
	text, err := formatNative(data)
	if err == nil && r.full && text == "" {
		err = fmt.Errorf("it is empty")
	}
	r.fail(e.about(err))
	return text
}

// text renders a template as plain text.
func (r *rendering) text(t *template) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.expr != nil {
			b.WriteString(r.piece(p.expr))
		} else {
			b.WriteString(p.literal)
		}
	}
	return b.String()
}

// tree renders a value as JSON data: a single expression keeps its type.
func (r *rendering) tree(v *value) any {
	switch {
	case v.text.single() != nil:
		data, _ := r.data(v.text.single())
		return data
	case v.text != nil:
		return r.text(v.text)
	case v.entries != nil:
		out, what := map[string]any{}, r.what
		for _, e := range v.entries {
			out[e.name] = r.at(what + ": " + e.name).tree(e.value)
		}
		r.what = what
		return out
	case v.items != nil:
		out := []any{}
		for _, i := range v.items {
			out = append(out, r.tree(i))
		}
		return out
	}
	return v.literal
}

func (r *rendering) json(v *value) []byte { return r.marshal(r.tree(v)) }

func (r *rendering) marshal(data any) []byte {
	text, err := marshal(data)
	r.fail(err)
	return text
}

// marshal writes JSON without HTML escapes, names sorted.
func marshal(data any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(data); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}

func (r *rendering) headers(pairs []pair) map[string][]string {
	out := map[string][]string{}
	for _, p := range pairs {
		v := r.at("header " + p.name).text(p.value)
		if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			r.fail(fmt.Errorf("the value has control characters"))
		}
		out[p.name] = []string{v}
	}
	return out
}

// environment is NAME=value of each.
func (r *rendering) environment(pairs []pair) (out []string) {
	for _, p := range pairs {
		v := r.at("variable " + p.name).text(p.value)
		if strings.ContainsRune(v, 0) {
			r.at("").fail(fmt.Errorf("variable %s has a zero byte", p.name))
		}
		out = append(out, p.name+"="+v)
	}
	return out
}

// keep notes the secrets in an address or a DSN.
func (r *rendering) keep(text string, in use) {
	if !r.show {
		r.vars.secrets.parts(text, in)
	}
}

// form renders a value the way Stripe, Rails and PHP read nested forms:
// metadata[indoubt]=…, items[0][price]=…. Null is left out. In a query a list
// repeats its name, as most interfaces read it. Shown, a secret's name stays legible.
func (r *rendering) form(v *value, query bool) string {
	data := r.tree(v)
	top, ok := data.(map[string]any)
	if !ok {
		r.fail(fmt.Errorf("a form or query needs a mapping of names to values"))
	}
	values := url.Values{}
	for _, name := range sortedNames(top) {
		list, repeated := top[name].([]any)
		if !repeated || !query {
			list = []any{top[name]}
		}
		for _, e := range list {
			r.fail(addForm(values, name, e))
		}
	}
	var out []string
	for _, name := range sortedNames(values) {
		for _, text := range values[name] {
			if !r.show || !strings.Contains(text, "${") {
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
		text, err := formatNative(v)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out.Add(name, text)
	}
	return nil
}

// url renders an address: values in the path are percent-encoded and may not
// be what a server reads as another path; values in the query are encoded. A
// value before the path is where the host comes from; that it is no data is
// checked when the policy is loaded.
func (r *rendering) url(t *template) string {
	var b addressBuilder
	for i, p := range t.parts {
		if p.expr == nil {
			b.written(p.literal)
		} else {
			b.value(r.piece(p.expr), i == 0 || r.show && p.expr.secret())
		}
	}
	b.endSegment()
	r.fail(b.err)
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
