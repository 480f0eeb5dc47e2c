package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
)

// Limits of a policy file. A file is written by people; what exceeds these is
// not one, and the YAML parser is slow on deep nesting.
const (
	maxFile  = 1 << 20
	maxDepth = 24
)

type nodeKind int

const (
	nullNode nodeKind = iota
	scalarNode
	mappingNode
	sequenceNode
)

// node is a YAML value with its place. We keep our own small tree because the
// library's decoder drops tags, second documents and positions silently.
type node struct {
	place
	kind    nodeKind
	key     position // of the name it stands under
	text    string   // of a scalar
	plain   bool     // scalar without quotes and on one line
	number  bool     // plain and written as a number
	boolean bool     // plain true or false
	broken  bool     // a problem is reported already
	block   bool     // | or > scalar: columns inside it are not known
	entries []entry
	items   []*node
}

type entry struct {
	name  string
	value *node
}

// named is the place of the name that a value stands under.
func (e entry) named() place { return place{e.value.key, e.value.path} }

func (n *node) what() string {
	switch n.kind {
	case mappingNode:
		return "a mapping"
	case sequenceNode:
		return "a list"
	case nullNode:
		return "nothing"
	}
	return fmt.Sprintf("%q", n.text)
}

// parseYAML reads one document into a tree and reports all that a policy file
// must not have: tags, anchors, several documents, duplicate keys.
func parseYAML(src *source, text []byte) (root *node, problems Errors) {
	whole := func(message, hint string) Errors {
		return Errors{{File: src.name, Message: message, Hint: hint}}
	}
	if len(text) > maxFile {
		return nil, whole(fmt.Sprintf("the file is larger than %d KiB", maxFile>>10), "leave out what no one uses")
	}
	if !utf8.Valid(text) {
		return nil, whole("the file is not UTF-8 text", "save it as UTF-8: iconv -t utf-8")
	}
	if at, deep := tooDeep(src); deep {
		return nil, Errors{src.problem(place{position: at}, deepNesting, "")}
	}
	defer func() {
		if r := recover(); r != nil { // a bug of the YAML library on odd input
			root, problems = nil, whole(fmt.Sprintf("this is not YAML that can be read (%v)", r), "")
		}
	}()
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, Errors{syntaxProblem(src, err)}
	}
	d := &decoder{src: src}
	for _, doc := range file.Docs {
		if doc == nil || doc.Body == nil {
			continue
		}
		if root != nil {
			at := position{doc.Body.GetToken().Position.Line, 1}
			if doc.Start != nil {
				at = positionOf(doc.Start)
			}
			d.fail(place{position: at}, "a second document; the file holds one policy", "remove the `---` line or keep the second in a file of its own")
			break
		}
		root = d.convert(doc.Body, "", 0)
	}
	return root, d.problems
}

func positionOf(tk *token.Token) position {
	if tk == nil || tk.Position == nil {
		return position{}
	}
	return position{tk.Position.Line, tk.Position.Column}
}

var deepNesting = fmt.Sprintf("nested deeper than %d levels", maxDepth)

func (d *decoder) convert(n ast.Node, path string, depth int) *node {
	out := &node{place: place{path: path}}
	if n == nil {
		return out
	}
	out.position = positionOf(n.GetToken())
	if depth > maxDepth {
		d.fail(out.place, deepNesting, "")
		return out
	}
	switch x := n.(type) {
	case *ast.MappingNode:
		out.kind = mappingNode
		for _, v := range x.Values {
			d.entry(out, v, depth)
		}
		if len(out.entries) > 0 && x.Start != nil && x.Start.Value == ":" {
			out.position = out.entries[0].value.key
		}
	case *ast.MappingValueNode:
		out.kind = mappingNode
		d.entry(out, x, depth)
	case *ast.SequenceNode:
		out.kind = sequenceNode
		for i, v := range x.Values {
			out.items = append(out.items, d.convert(v, out.item(i).path, depth+1))
		}
	case *ast.NullNode:
	default:
		if why := out.scalar(n); why != "" {
			out.kind, out.broken = nullNode, true
			d.fail(out.place, why, quotedHint(d.src, out.position))
		}
	}
	return out
}

// scalar takes over what is no mapping and no list, or says why it is refused.
func (n *node) scalar(from ast.Node) (why string) {
	n.kind = scalarNode
	switch x := from.(type) {
	case *ast.StringNode:
		quoted := x.Token.Type == token.SingleQuoteType || x.Token.Type == token.DoubleQuoteType
		n.text, n.plain = x.Value, !quoted && !strings.Contains(x.Token.Origin, "\n\n")
	case *ast.LiteralNode:
		n.text, n.block = strings.TrimRight(x.Value.Value, "\n"), true
	case *ast.BoolNode:
		n.text, n.plain, n.boolean = strings.ToLower(x.Token.Value), true, true
	case *ast.IntegerNode, *ast.FloatNode:
		n.text, n.plain, n.number = from.GetToken().Value, true, true
	case *ast.InfinityNode, *ast.NanNode:
		n.text, n.plain = from.GetToken().Value, true
	case *ast.TagNode:
		return fmt.Sprintf("`%s` is a YAML tag, so the value would be lost", x.Start.Value)
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return "anchors, aliases and merge keys are not read"
	default:
		return "this form of YAML is not read"
	}
	return ""
}

func (d *decoder) entry(out *node, v *ast.MappingValueNode, depth int) {
	key := v.Key.GetToken()
	at := positionOf(key)
	switch v.Key.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
	default:
		d.fail(place{at, out.path}, "this form of key is not read", "write a plain name")
		return
	}
	path := out.below(key.Value).path
	for _, e := range out.entries {
		if e.name == key.Value {
			d.fail(place{at, path}, fmt.Sprintf("said twice; first in line %d", e.value.key.line), "keep one of them")
			return
		}
	}
	value := d.convert(v.Value, path, depth+1)
	value.key = at
	out.entries = append(out.entries, entry{key.Value, value})
}

func plainValue(n *node) any {
	switch n.kind {
	case mappingNode:
		out := map[string]any{}
		for _, e := range n.entries {
			out[e.name] = plainValue(e.value)
		}
		return out
	case sequenceNode:
		return append([]any{}, ledger.Each(n.items, plainValue)...)
	case nullNode:
		return nil
	}
	return n.leaf()
}

// flow is a mapping or a list in one line.
var flow = lazyregexp.New(`^(?:\{.*\}|\[.*\])\s*(?:#.*)?$`)

var keyValue = lazyregexp.New(`^(\s*(?:- +)?[A-Za-z_][\w.-]*:)\s+(.+)$`)

// bareTemplate is a ${…} that stands within braces without quotes, where YAML takes its
// braces for its own.
var bareTemplate = lazyregexp.New(`([\w.-]+:)\s*(\$\{[^}]*\})`)

// quotedHint shows how the value in this line is written with quotes.
func quotedHint(src *source, at position) string {
	if at.line < 1 || at.line > len(src.lines) {
		return ""
	}
	line := src.lines[at.line-1]
	m := keyValue.FindStringSubmatch(line)
	if m == nil || strings.HasPrefix(m[2], "{") && strings.HasSuffix(strings.TrimSpace(m[2]), "}") {
		return "put the value in quotes"
	}
	value := m[2]
	if i := strings.Index(value, " #"); i >= 0 {
		value = value[:i]
	}
	return "quote it: " + strings.TrimSpace(m[1]) + " " + quoteYAML(strings.TrimSpace(value))
}

// quoteYAML writes a scalar so that YAML reads it back as it is.
func quoteYAML(s string) string {
	if !strings.ContainsAny(s, `"\`) {
		return `"` + s + `"`
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// syntaxProblem puts the parser's complaint in our form. Most of them come
// from a value that needs quotes.
func syntaxProblem(src *source, err error) Problem {
	var at position
	message := err.Error()
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) {
		message, at = syntax.Message, positionOf(syntax.Token)
	} else if i := strings.IndexByte(message, '\n'); i >= 0 {
		message = message[:i]
	}
	hint := "see that each [ and { is closed, and that each name stands under the one before it"
	if at.line >= 1 && at.line <= len(src.lines) {
		line := src.lines[at.line-1]
		m := keyValue.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(strings.TrimLeft(line, " "), "\t"):
			hint = "indent with spaces, not tabs"
		case m == nil || !closed(m[2]):
		case flow.MatchString(m[2]) && bareTemplate.MatchString(line):
			hint = "quote it: " + bareTemplate.ReplaceAllString(bareTemplate.FindString(line), `$1 "$2"`)
		case flow.MatchString(m[2]):
			hint = "put quotes around a value that has a colon, a comma, a quote or a bracket in it"
		default:
			hint = quotedHint(src, at)
		}
	}
	return src.problem(place{position: at}, "not YAML: "+message, hint)
}

// closed reports whether a text closes as many brackets as it opens.
func closed(text string) bool {
	return strings.Count(text, "[") == strings.Count(text, "]") && strings.Count(text, "{") == strings.Count(text, "}")
}

// tooDeep looks at brackets and indentation before the parser does, which is
// quadratic in them. Brackets inside quotes or expressions close again, so the
// limit is far above what a policy needs.
func tooDeep(src *source) (position, bool) {
	depth := 0
	for i, line := range src.lines {
		trimmed := strings.TrimLeft(line, " ")
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		if indent := len(line) - len(trimmed); indent > 8*maxDepth {
			return position{i + 1, indent + 1}, true
		}
		if dashes := strings.Count(trimmed, "- "); dashes > maxDepth && strings.HasPrefix(trimmed, strings.Repeat("- ", maxDepth)) {
			return position{i + 1, 1}, true
		}
		for j, r := range trimmed {
			switch r {
			case '[', '{':
				if depth++; depth > 4*maxDepth {
					return position{i + 1, len(line) - len(trimmed) + j + 1}, true
				}
			case ']', '}':
				depth = max(0, depth-1)
			}
		}
	}
	return position{}, false
}
