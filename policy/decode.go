package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/wire/carry"
	"indoubt/policy/expr"
)

// decoder reads the fields of a file, with requests and their downstreams, into a Policy. It
// collects every problem on the way, so that one run of the check shows them all.
type decoder struct {
	src      *source
	policy   *Policy
	problems Errors
	warnings Errors
	visit    func(path string, known []field) // for the test of the schema
}

// fileDecoder reads a whole file: its kinds and all beside them, and then checks what no
// field can know alone.
type fileDecoder struct{ *decoder }

func (d *decoder) fail(at place, message, hint string) {
	d.problems = append(d.problems, d.src.problem(at, message, hint))
}

func (d *decoder) warn(at place, message, hint string) {
	d.warnings = append(d.warnings, d.src.problem(at, message, hint))
}

// reader reads the value of one field and keeps it where it belongs.
type reader func(n *node)

// field is a row of the table of a mapping: a name it may have, and its reader.
type field struct {
	name string
	read reader
}

// fields reads a mapping by its table: each known name at most once, everything
// else is refused with the name that was probably meant. It reports whether the
// mapping is one and nothing in it is wrong.
func (d *decoder) fields(n *node, known ...field) bool {
	if d.visit != nil {
		d.visit(n.path, known)
	}
	if n.kind == nullNode && !n.broken {
		d.fail(n.place, "nothing is said here", "")
	}
	if n.kind == nullNode || !d.must(n, mappingNode, "a mapping (name: value)", "") {
		return false
	}
	before, broken := len(d.problems), false
	for _, e := range n.entries {
		broken = broken || e.value.broken
		i := slices.IndexFunc(known, func(f field) bool { return f.name == e.name })
		if i < 0 {
			d.fail(e.named(), "unknown field", meantField(e.name, ledger.Each(known, func(f field) string { return f.name })))
			continue
		}
		known[i].read(e.value)
	}
	return len(d.problems) == before && !broken
}

func (d *decoder) mapping(known ...field) reader {
	return func(n *node) { d.fields(n, known...) }
}

// must reports whether a value has the form that `what` describes.
func (d *decoder) must(n *node, kind nodeKind, what, hint string) bool {
	if n.kind != kind && !n.broken {
		d.fail(n.place, fmt.Sprintf("must be %s, but is %s", what, n.what()), hint)
	}
	return n.kind == kind
}

func (d *decoder) scalar(n *node) (string, bool) {
	hint := ""
	if n.kind == mappingNode || n.kind == sequenceNode {
		hint = quotedHint(d.src, n.position)
	}
	return n.text, d.must(n, scalarNode, "one value", hint)
}

// parsed reads a single value by a parser of its own; hint says how it is written.
func parsed[T any](d *decoder, out *T, parse func(string) (T, error), hint string) reader {
	return func(n *node) {
		text, ok := d.scalar(n)
		if !ok {
			return
		}
		v, err := parse(text)
		if err != nil {
			d.fail(n.place, err.Error(), hint)
			return
		}
		*out = v
	}
}

func (d *decoder) text(out *string) reader {
	return parsed(d, out, func(text string) (string, error) { return text, nil }, "")
}

func (d *decoder) duration(out *time.Duration) reader {
	return parsed(d, out, parseDuration, durationHint)
}

// second reads a duration of one second or more.
func (d *decoder) second(out *time.Duration) reader {
	return func(n *node) {
		if d.duration(out)(n); n.kind == scalarNode && *out < time.Second {
			d.fail(n.place, "must be 1s or more", "")
		}
	}
}

// bound reads a duration that may not be stated.
func (d *decoder) bound(out **time.Duration) reader {
	return parsed(d, out, func(text string) (*time.Duration, error) {
		v, err := parseDuration(text)
		return &v, err
	}, durationHint)
}

func (d *decoder) integer(out *int, low, high int) reader {
	return parsed(d, out, func(text string) (int, error) {
		v, err := strconv.Atoi(text)
		if err != nil || v < low || v > high {
			err = fmt.Errorf("must be a whole number from %d to %d, but is %q", low, high, text)
		}
		return v, err
	}, "")
}

func (d *decoder) boolean(out *bool) reader {
	return func(n *node) {
		word := strconv.FormatBool(*out)
		d.choice(&word, "true", "false")(n)
		*out = word == "true"
	}
}

func (d *decoder) choice(out *string, words ...string) reader {
	return func(n *node) {
		text, ok := d.scalar(n)
		if !ok {
			return
		}
		if !slices.Contains(words, text) {
			d.fail(n.place, fmt.Sprintf("must be %s, but is %q", either(words), text), ledger.Meant(text, words))
			return
		}
		*out = text
	}
}

func either(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// strings reads a list of texts, or one text.
func (d *decoder) strings(out *[]string) reader {
	return func(n *node) {
		if n.kind == scalarNode {
			*out = []string{n.text}
			return
		}
		list := []string{}
		d.each(n, "a list", "write [first, second]", func(item *node) {
			if text, ok := d.scalar(item); ok {
				list = append(list, text)
			}
		})
		*out = list
	}
}

func (d *decoder) each(n *node, what, hint string, read reader) {
	if !d.must(n, sequenceNode, what, hint) {
		return
	}
	for _, item := range n.items {
		read(item)
	}
}

// inside is the place of a character of a scalar's text. For text over several
// lines or with escapes it is the beginning.
func (n *node) inside(offset int) place {
	at := n.place
	switch {
	case n.block:
		return at
	case !n.plain:
		at.column++ // behind the quote
	}
	at.column += max(offset, 0)
	return at
}

// refuse reports why an expression or a template does not compile.
func (d *decoder) refuse(n *node, problem *expr.Problem) {
	at := n.place
	if problem.Inside {
		at = n.inside(problem.Offset)
	}
	d.fail(at, problem.Message, problem.Hint)
}

// expression reads a CEL expression; nil where it is refused.
func (d *decoder) expression(n *node, s expr.Scope, want expr.Type) *expr.Expression {
	text, ok := d.scalar(n)
	if !ok {
		return nil
	}
	if strings.Contains(text, "${") {
		d.fail(n.place, "this is an expression, not a template", "write it without ${ }")
		return nil
	}
	e, problem := expr.Compile(text, s, want)
	if problem != nil {
		d.refuse(n, problem)
		return nil
	}
	e.Line, e.Column = n.line, n.column
	return e
}

func (d *decoder) rule(out **expr.Expression, s expr.Scope, want expr.Type) reader {
	return func(n *node) { *out = d.expression(n, s, want) }
}

// template reads text with ${expressions}; nil where it is refused.
func (d *decoder) template(n *node, s expr.Scope) *expr.Template {
	text, ok := d.scalar(n)
	if !ok {
		return nil
	}
	t, problem := expr.ParseTemplate(text, s)
	if problem != nil {
		d.refuse(n, problem)
		return nil
	}
	for _, e := range t.Expressions() {
		e.Line, e.Column = n.line, n.column
	}
	return t
}

func (d *decoder) filled(out **expr.Template, s expr.Scope) reader {
	return func(n *node) { *out = d.template(n, s) }
}

// value reads a tree of templates of a request: what becomes JSON, a form or a query.
func (d *decoder) value(n *node) *expr.Tree {
	switch n.kind {
	case mappingNode:
		v := &expr.Tree{Entries: []expr.Entry{}}
		for _, e := range n.entries {
			v.Entries = append(v.Entries, expr.Entry{Name: e.name, Value: d.value(e.value)})
		}
		return v
	case sequenceNode:
		v := &expr.Tree{Items: []*expr.Tree{}}
		for _, item := range n.items {
			v.Items = append(v.Items, d.value(item))
		}
		return v
	case nullNode:
		return &expr.Tree{}
	}
	if _, text := n.leaf().(string); !text {
		return &expr.Tree{Literal: n.leaf()}
	}
	return &expr.Tree{Text: d.template(n, expr.ForRequest)}
}

func (d *decoder) data(out **expr.Tree) reader {
	return func(n *node) { *out = d.value(n) }
}

// pairs reads a mapping of names to templates, in the file's order.
func (d *decoder) pairs(n *node) (out []pair) {
	if !d.must(n, mappingNode, "a mapping (name: value)", "") {
		return nil
	}
	for _, e := range n.entries {
		if t := d.template(e.value, expr.ForRequest); t != nil {
			out = append(out, pair{e.name, t})
		}
	}
	return out
}

// maxDuration keeps sums of a few durations and today far from overflow.
const maxDuration = 10 * 366 * 24 * time.Hour

const durationHint = "a duration is written 500ms, 30s, 2m, 12h, 7d or 1h30m"

// parseDuration reads 2m, 7d, 1h30m, 0s. There are no negative durations.
func parseDuration(text string) (time.Duration, error) {
	d, err := ledger.ParseDuration(strings.TrimSpace(text))
	switch {
	case err != nil || d < 0:
		return 0, fmt.Errorf("%q is not a duration", text)
	case d > maxDuration:
		return 0, fmt.Errorf("%q is longer than ten years", text)
	}
	return d, nil
}

// parseRange reads 500ms..30s; one duration alone is both ends.
func parseRange(text string) (low, high time.Duration, err error) {
	a, b, two := strings.Cut(text, "..")
	if low, err = parseDuration(a); err != nil {
		return 0, 0, err
	}
	if !two {
		return low, low, nil
	}
	if high, err = parseDuration(b); err != nil {
		return 0, 0, err
	}
	if high < low {
		return 0, 0, fmt.Errorf("%q ends before it begins", text)
	}
	return low, high, nil
}

var ratePattern = lazyregexp.New(`^(\d+(?:\.\d+)?)/(s|m|min|h)$`)

// parseRate reads 20/s, 600/m, 1000/h as a number per second.
func parseRate(text string) (float64, error) {
	m := ratePattern.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, fmt.Errorf("%q is not a rate", text)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%q is not a rate above zero", text)
	}
	switch m[2] {
	case "m", "min":
		n /= 60
	case "h":
		n /= 3600
	}
	return n, nil
}

var sizePattern = lazyregexp.New(`^(\d+)\s*(B|KB|MB|KiB|MiB)?$`)

// parseSize reads 4096, 64KB, 2MiB as bytes.
func parseSize(text string) (int64, error) {
	m := sizePattern.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, fmt.Errorf("%q is not a size", text)
	}
	n, err := strconv.ParseInt(m[1], 10, 40)
	if err != nil {
		return 0, fmt.Errorf("%q is too large", text)
	}
	n *= map[string]int64{"": 1, "B": 1, "KB": 1000, "MB": 1000 * 1000, "KiB": 1 << 10, "MiB": 1 << 20}[m[2]]
	if n < 1 || n > 256<<20 {
		return 0, fmt.Errorf("%q is outside 1 B … 256 MiB", text)
	}
	return n, nil
}

// Insert puts the correlation token into an input where the rule says, and errs where the
// input has no such place. The same token twice changes nothing.
func (t TokenRule) Insert(input json.RawMessage, token string) (json.RawMessage, error) {
	path := cmp.Or(t.Append, t.Into)
	if path == "" {
		return input, nil
	}
	at, err := carry.At(path, t.Append != "")
	if err == nil {
		if placed, ok := at.JSON(input, token); ok {
			return placed, nil
		}
	}
	return nil, fmt.Errorf("the token has no place at input.%s", path)
}
