// Package file reads a policy's YAML: values with their places, the readers of fields, and every
// problem with its line, excerpt, path and hint, all at once. What the fields mean, and the words
// that went, its callers know.
//
// It may import ledger (for durations and hints), redact and expr; no other room of the policy.
package file

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy/expr"
)

// Decoder reads the fields of a file. It collects every problem on the way, so that one run of
// the check shows them all.
type Decoder struct {
	Problems Errors
	Warnings Errors
	Visit    func(path string, known []string)        // of each mapping, for the test of the schema
	Meant    func(name string, known []string) string // the hint for a name that a mapping does not know

	src *source
}

func (d *Decoder) Fail(at Place, message, hint string) {
	d.Problems = append(d.Problems, d.src.problem(at, message, hint))
}

func (d *Decoder) Warn(at Place, message, hint string) {
	d.Warnings = append(d.Warnings, d.src.problem(at, message, hint))
}

// Reader reads the value of one field and keeps it where it belongs.
type Reader func(n *Node)

// Table has the readers of the fields that a mapping may have, by their names.
type Table map[string]Reader

// Fields reads a mapping by its table: each known name at most once, everything
// else is refused with the name that was probably meant. It reports whether the
// mapping is one and nothing in it is wrong.
func (d *Decoder) Fields(n *Node, known Table) bool {
	names := slices.Sorted(maps.Keys(known))
	if d.Visit != nil {
		d.Visit(n.Path, names)
	}
	if n.Kind == Null && !n.Broken {
		d.Fail(n.Place, "nothing is said here", "")
	}
	if n.Kind == Null || !d.Must(n, Mapping, "a mapping (name: value)", "") {
		return false
	}
	before, broken := len(d.Problems), false
	for _, e := range n.Entries {
		broken = broken || e.Value.Broken
		if read := known[e.Name]; read != nil {
			read(e.Value)
		} else {
			d.Fail(e.Named(), "unknown field", d.Meant(e.Name, names))
		}
	}
	return len(d.Problems) == before && !broken
}

func (d *Decoder) Mapping(known Table) Reader {
	return func(n *Node) { d.Fields(n, known) }
}

// Must reports whether a value has the form that `what` describes.
func (d *Decoder) Must(n *Node, kind Kind, what, hint string) bool {
	if n.Kind != kind && !n.Broken {
		d.Fail(n.Place, fmt.Sprintf("must be %s, but is %s", what, n.What()), hint)
	}
	return n.Kind == kind
}

func (d *Decoder) Scalar(n *Node) (string, bool) {
	hint := ""
	if n.Kind == Mapping || n.Kind == List {
		hint = quotedHint(d.src, n.Position)
	}
	return n.Text, d.Must(n, Scalar, "one value", hint)
}

// Parsed reads a single value by a parser of its own; hint says how it is written.
func Parsed[T any](d *Decoder, out *T, parse func(string) (T, error), hint string) Reader {
	return func(n *Node) {
		text, ok := d.Scalar(n)
		if !ok {
			return
		}
		v, err := parse(text)
		if err != nil {
			d.Fail(n.Place, err.Error(), hint)
			return
		}
		*out = v
	}
}

func (d *Decoder) Text(out *string) Reader {
	return Parsed(d, out, func(text string) (string, error) { return text, nil }, "")
}

func (d *Decoder) Duration(out *time.Duration) Reader {
	return Parsed(d, out, ParseDuration, durationHint)
}

// Second reads a duration of one second or more.
func (d *Decoder) Second(out *time.Duration) Reader {
	return func(n *Node) {
		if d.Duration(out)(n); n.Kind == Scalar && *out < time.Second {
			d.Fail(n.Place, "must be 1s or more", "")
		}
	}
}

// Bound reads a duration that may not be stated.
func (d *Decoder) Bound(out **time.Duration) Reader {
	return Parsed(d, out, func(text string) (*time.Duration, error) {
		v, err := ParseDuration(text)
		return &v, err
	}, durationHint)
}

func (d *Decoder) Integer(out *int, low, high int) Reader {
	return Parsed(d, out, func(text string) (int, error) {
		v, err := strconv.Atoi(text)
		if err != nil || v < low || v > high {
			err = fmt.Errorf("must be a whole number from %d to %d, but is %q", low, high, text)
		}
		return v, err
	}, "")
}

func (d *Decoder) Boolean(out *bool) Reader {
	return func(n *Node) {
		word := strconv.FormatBool(*out)
		d.Choice(&word, "true", "false")(n)
		*out = word == "true"
	}
}

func (d *Decoder) Choice(out *string, words ...string) Reader {
	return func(n *Node) {
		text, ok := d.Scalar(n)
		if !ok {
			return
		}
		if !slices.Contains(words, text) {
			d.Fail(n.Place, fmt.Sprintf("must be %s, but is %q", Either(words), text), ledger.Meant(text, words))
			return
		}
		*out = text
	}
}

func Either(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// Texts reads a list of texts, or one text.
func (d *Decoder) Texts(out *[]string) Reader {
	return func(n *Node) {
		if n.Kind == Scalar {
			*out = []string{n.Text}
			return
		}
		list := []string{}
		d.Each(n, "a list", "write [first, second]", func(item *Node) {
			if text, ok := d.Scalar(item); ok {
				list = append(list, text)
			}
		})
		*out = list
	}
}

func (d *Decoder) Each(n *Node, what, hint string, read Reader) {
	if !d.Must(n, List, what, hint) {
		return
	}
	for _, item := range n.Items {
		read(item)
	}
}

// Entries reads what stands under names of the file's own. It reports whether
// there is such a mapping; nil is none.
func (d *Decoder) Entries(n *Node, what, hint string, read func(Entry)) bool {
	if n == nil || !d.Must(n, Mapping, what, hint) {
		return false
	}
	for _, e := range n.Entries {
		read(e)
	}
	return true
}

// inside is the place of a character of a scalar's text. For text over several
// lines or with escapes it is the beginning.
func (n *Node) inside(offset int) Place {
	at := n.Place
	switch {
	case n.Block:
		return at
	case !n.plain:
		at.column++ // behind the quote
	}
	at.column += max(offset, 0)
	return at
}

// refuse reports why an expression or a template does not compile.
func (d *Decoder) refuse(n *Node, problem *expr.Problem) {
	at := n.Place
	if problem.Inside {
		at = n.inside(problem.Offset)
	}
	d.Fail(at, problem.Message, problem.Hint)
}

// Expression reads a CEL expression; nil where it is refused.
func (d *Decoder) Expression(n *Node, s expr.Scope, want expr.Type) *expr.Expression {
	text, ok := d.Scalar(n)
	if !ok {
		return nil
	}
	if strings.Contains(text, "${") {
		d.Fail(n.Place, "this is an expression, not a template", "write it without ${ }")
		return nil
	}
	e, problem := expr.Compile(text, s, want)
	if problem != nil {
		d.refuse(n, problem)
		return nil
	}
	e.Line, e.Column = n.Line, n.column
	return e
}

func (d *Decoder) Rule(out **expr.Expression, s expr.Scope, want expr.Type) Reader {
	return func(n *Node) { *out = d.Expression(n, s, want) }
}

// Template reads text with ${expressions}; nil where it is refused.
func (d *Decoder) Template(n *Node, s expr.Scope) *expr.Template {
	text, ok := d.Scalar(n)
	if !ok {
		return nil
	}
	t, problem := expr.ParseTemplate(text, s)
	if problem != nil {
		d.refuse(n, problem)
		return nil
	}
	for _, e := range t.Expressions() {
		e.Line, e.Column = n.Line, n.column
	}
	return t
}

func (d *Decoder) Filled(out **expr.Template, s expr.Scope) Reader {
	return func(n *Node) { *out = d.Template(n, s) }
}

// Value reads a tree of templates of a request: what becomes JSON, a form or a query.
func (d *Decoder) Value(n *Node) *expr.Tree {
	switch n.Kind {
	case Mapping:
		v := &expr.Tree{Entries: []expr.Entry{}}
		for _, e := range n.Entries {
			v.Entries = append(v.Entries, expr.Entry{Name: e.Name, Value: d.Value(e.Value)})
		}
		return v
	case List:
		v := &expr.Tree{Items: []*expr.Tree{}}
		for _, item := range n.Items {
			v.Items = append(v.Items, d.Value(item))
		}
		return v
	case Null:
		return &expr.Tree{}
	}
	if _, text := n.leaf().(string); !text {
		return &expr.Tree{Literal: n.leaf()}
	}
	return &expr.Tree{Text: d.Template(n, expr.ForRequest)}
}

func (d *Decoder) Data(out **expr.Tree) Reader {
	return func(n *Node) { *out = d.Value(n) }
}

// maxDuration keeps sums of a few durations and today far from overflow.
const maxDuration = 10 * 366 * 24 * time.Hour

const durationHint = "a duration is written 500ms, 30s, 2m, 12h, 7d or 1h30m"

// ParseDuration reads 2m, 7d, 1h30m, 0s. There are no negative durations.
func ParseDuration(text string) (time.Duration, error) {
	d, err := ledger.ParseDuration(strings.TrimSpace(text))
	switch {
	case err != nil || d < 0:
		return 0, fmt.Errorf("%q is not a duration", text)
	case d > maxDuration:
		return 0, fmt.Errorf("%q is longer than ten years", text)
	}
	return d, nil
}

// ParseRange reads 500ms..30s; one duration alone is both ends.
func ParseRange(text string) (low, high time.Duration, err error) {
	a, b, two := strings.Cut(text, "..")
	if low, err = ParseDuration(a); err != nil {
		return 0, 0, err
	}
	if !two {
		return low, low, nil
	}
	if high, err = ParseDuration(b); err != nil {
		return 0, 0, err
	}
	if high < low {
		return 0, 0, fmt.Errorf("%q ends before it begins", text)
	}
	return low, high, nil
}

var ratePattern = lazyregexp.New(`^(\d+(?:\.\d+)?)/(s|m|min|h)$`)

// ParseRate reads 20/s, 600/m, 1000/h as a number per second.
func ParseRate(text string) (float64, error) {
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

// ParseSize reads 4096, 64KB, 2MiB as bytes.
func ParseSize(text string) (int64, error) {
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

// Short reports whether a text of at most so many bytes matches a pattern. A bound in the pattern
// itself is compiled as that many copies, before main.
func Short(pattern string, most int) func(text string) bool {
	re := lazyregexp.New(pattern)
	return func(text string) bool { return len(text) <= most && re.MatchString(text) }
}
