package policy

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
)

// decoder turns the tree of a file into a Policy and collects every problem on
// the way, so that one run of the check shows them all.
type decoder struct {
	src      *source
	policy   *Policy
	problems Errors
	warnings Errors
	visit    func(path string, known []field) // for the test of the schema
}

func (d *decoder) fail(at position, path, message, hint string) {
	d.problems = append(d.problems, d.src.problem(at, path, message, hint))
}

func (d *decoder) warn(at position, path, message, hint string) {
	d.warnings = append(d.warnings, d.src.problem(at, path, message, hint))
}

// field is one name a mapping may have, and what reads its value.
type field struct {
	name string
	read func(n *node, path string)
}

// fields reads a mapping: each known name at most once, everything else is
// refused with the name that was probably meant.
func (d *decoder) fields(n *node, path string, known []field) {
	if d.visit != nil {
		d.visit(path, known)
	}
	if n.kind != mappingNode {
		if n.broken {
			return
		}
		if n.kind == nullNode {
			d.fail(n.at, path, "nothing is said here", "")
			return
		}
		d.fail(n.at, path, fmt.Sprintf("must be a mapping (name: value), but is %s", n.what()), "")
		return
	}
	for _, e := range n.entries {
		known := known
		i := indexField(known, e.key)
		if i < 0 {
			names := make([]string, len(known))
			for j, f := range known {
				names[j] = f.name
			}
			d.fail(e.at, join(path, e.key), "unknown field", didYouMean(e.key, names))
			continue
		}
		known[i].read(e.value, join(path, e.key))
	}
}

func indexField(known []field, name string) int {
	for i, f := range known {
		if f.name == name {
			return i
		}
	}
	return -1
}

// scalar reads a single value as text.
func (d *decoder) scalar(n *node, path string) (string, bool) {
	if n.kind == scalarNode {
		return n.text, true
	}
	if n.broken {
		return "", false
	}
	message := fmt.Sprintf("must be one value, but is %s", n.what())
	hint := ""
	if n.kind == mappingNode || n.kind == sequenceNode {
		hint = quotedHint(d.src, n.at)
	}
	d.fail(n.at, path, message, hint)
	return "", false
}

func (d *decoder) duration(n *node, path string, out *time.Duration) {
	text, ok := d.scalar(n, path)
	if !ok {
		return
	}
	v, err := parseDuration(text)
	if err != nil {
		d.fail(n.at, path, err.Error(), durationHint)
		return
	}
	*out = v
}

func (d *decoder) optionalDuration(n *node, path string, out **time.Duration) {
	v := time.Duration(-1)
	d.duration(n, path, &v)
	if v >= 0 {
		*out = &v
	}
}

func (d *decoder) boolean(n *node, path string, out *bool) {
	text, ok := d.scalar(n, path)
	if !ok {
		return
	}
	switch text {
	case "true":
		*out = true
	case "false":
		*out = false
	default:
		d.fail(n.at, path, fmt.Sprintf("must be true or false, but is %q", text), "")
	}
}

// choice reads one of a few words.
func (d *decoder) choice(n *node, path string, out *string, words ...string) {
	text, ok := d.scalar(n, path)
	if !ok {
		return
	}
	for _, w := range words {
		if w == text {
			*out = text
			return
		}
	}
	hint := ""
	if near := nearest(text, words); near != "" {
		hint = fmt.Sprintf("did you mean `%s`?", near)
	}
	d.fail(n.at, path, fmt.Sprintf("must be %s, but is %q", either(words), text), hint)
}

func either(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func (d *decoder) integer(n *node, path string, out *int, low, high int) {
	text, ok := d.scalar(n, path)
	if !ok {
		return
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < low || v > high {
		d.fail(n.at, path, fmt.Sprintf("must be a whole number from %d to %d, but is %q", low, high, text), "")
		return
	}
	*out = v
}

// amount reads a number or a word of `words`.
func (d *decoder) amount(n *node, path string, out *float64) {
	text, ok := d.scalar(n, path)
	if !ok {
		return
	}
	if v, known := d.policy.words[text]; known {
		*out = v
		return
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		d.fail(n.at, path, fmt.Sprintf("must be a number of zero or more, or a word, but is %q", text), didYouMean(text, d.wordNames()))
		return
	}
	*out = v
}

func (d *decoder) wordNames() []string {
	out := make([]string, 0, len(d.policy.words))
	for w := range d.policy.words {
		out = append(out, w)
	}
	sort.Slice(out, func(i, j int) bool { return d.policy.words[out[i]] < d.policy.words[out[j]] })
	return out
}

func (d *decoder) strings(n *node, path string, out *[]string) {
	if n.kind == scalarNode {
		*out = []string{n.text}
		return
	}
	if n.kind != sequenceNode {
		d.fail(n.at, path, fmt.Sprintf("must be a list, but is %s", n.what()), "write [first, second]")
		return
	}
	list := []string{}
	for i, item := range n.items {
		if text, ok := d.scalar(item, index(path, i)); ok {
			list = append(list, text)
		}
	}
	*out = list
}

// inside is the place of a character of a scalar's text. For text over several
// lines or with escapes it is the beginning.
func inside(n *node, offset int) position {
	if n.block || offset <= 0 {
		if !n.plain && !n.block {
			return position{n.at.line, n.at.column + 1}
		}
		return n.at
	}
	if !n.plain {
		offset++ // the quote
	}
	return position{n.at.line, n.at.column + offset}
}

// expression reads a CEL expression.
func (d *decoder) expression(n *node, path string, s scope, w want) *expression {
	text, ok := d.scalar(n, path)
	if !ok {
		return nil
	}
	if strings.Contains(text, "${") {
		d.fail(n.at, path, "this is an expression, not a template", "write it without ${ }")
		return nil
	}
	e, problem := compile(text, s, w)
	if problem != nil {
		at := n.at
		if problem.inside {
			at = inside(n, problem.offset)
		}
		d.fail(at, path, problem.message, problem.hint)
		return nil
	}
	e.at, e.text = n.at, d.policy.Withhold(e.text)
	return e
}

// template reads text with ${expressions}.
func (d *decoder) template(n *node, path string, s scope) *template {
	text, ok := d.scalar(n, path)
	if !ok {
		return nil
	}
	return d.templateText(n, text, path, s)
}

func (d *decoder) templateText(n *node, text, path string, s scope) *template {
	t, problem := parseTemplate(text, s)
	if problem != nil {
		at := n.at
		if problem.inside {
			at = inside(n, problem.offset)
		}
		d.fail(at, path, problem.message, problem.hint)
		return nil
	}
	t.at = n.at
	for i, p := range t.parts {
		if p.expr != nil {
			p.expr.at, p.expr.text = n.at, d.policy.Withhold(p.expr.text)
		} else if s == scopeOperation {
			t.parts[i].literal = d.policy.Withhold(p.literal) // what is shown of an operation
		}
	}
	return t
}

// value reads a tree of templates: what becomes JSON, a form or a query.
func (d *decoder) value(n *node, path string, s scope) *value {
	switch n.kind {
	case mappingNode:
		v := &value{entries: []named{}}
		for _, e := range n.entries {
			v.entries = append(v.entries, named{e.key, d.value(e.value, join(path, e.key), s)})
		}
		return v
	case sequenceNode:
		v := &value{items: []*value{}}
		for i, item := range n.items {
			v.items = append(v.items, d.value(item, index(path, i), s))
		}
		return v
	case nullNode:
		return &value{fixed: true}
	}
	switch {
	case n.boolean:
		return &value{fixed: true, literal: n.text == "true"}
	case n.number:
		if f, ok := jsonNumber(n.text); ok {
			return &value{fixed: true, literal: f}
		}
	}
	return &value{text: d.template(n, path, s)}
}

// pairs reads a mapping of names to templates, in the file's order.
func (d *decoder) pairs(n *node, path string, s scope) []pair {
	if n.kind != mappingNode {
		d.fail(n.at, path, fmt.Sprintf("must be a mapping (name: value), but is %s", n.what()), "")
		return nil
	}
	var out []pair
	for _, e := range n.entries {
		if t := d.template(e.value, join(path, e.key), s); t != nil {
			out = append(out, pair{e.key, t})
		}
	}
	return out
}
