package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
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
	kind    nodeKind
	at      position
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
	key   string
	at    position
	value *node
}

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
		return nil, whole(fmt.Sprintf("the file is larger than %d KiB", maxFile>>10), "")
	}
	if !utf8.Valid(text) {
		return nil, whole("the file is not UTF-8 text", "")
	}
	if at, deep := tooDeep(src); deep {
		return nil, Errors{src.problem(at, "", fmt.Sprintf("nested deeper than %d levels", maxDepth), "")}
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
	t := &tree{src: src}
	for _, doc := range file.Docs {
		if doc == nil || doc.Body == nil {
			continue
		}
		if root != nil {
			at := position{doc.Body.GetToken().Position.Line, 1}
			if doc.Start != nil {
				at = place(doc.Start)
			}
			t.problem(at, "", "a second document; the file holds one policy", "remove the `---` line or keep the second in a file of its own")
			break
		}
		root = t.convert(doc.Body, "", 0)
	}
	return root, t.problems
}

type tree struct {
	src      *source
	problems Errors
}

func (t *tree) problem(at position, path, message, hint string) {
	t.problems = append(t.problems, t.src.problem(at, path, message, hint))
}

func place(tk *token.Token) position {
	if tk == nil || tk.Position == nil {
		return position{}
	}
	return position{tk.Position.Line, tk.Position.Column}
}

func (t *tree) convert(n ast.Node, path string, depth int) *node {
	if n == nil {
		return &node{}
	}
	at := place(n.GetToken())
	if depth > maxDepth {
		t.problem(at, path, fmt.Sprintf("nested deeper than %d levels", maxDepth), "")
		return &node{at: at}
	}
	switch x := n.(type) {
	case *ast.MappingNode:
		out := &node{kind: mappingNode, at: at}
		for _, v := range x.Values {
			t.entry(out, v, path, depth)
		}
		if len(out.entries) > 0 && x.Start != nil && x.Start.Value == ":" {
			out.at = out.entries[0].at
		}
		return out
	case *ast.MappingValueNode:
		out := &node{kind: mappingNode, at: at}
		t.entry(out, x, path, depth)
		return out
	case *ast.SequenceNode:
		out := &node{kind: sequenceNode, at: at}
		for i, v := range x.Values {
			out.items = append(out.items, t.convert(v, index(path, i), depth+1))
		}
		return out
	case *ast.NullNode:
		return &node{at: at}
	}
	return t.single(n, at, path)
}

// single converts what is no mapping and no list.
func (t *tree) single(n ast.Node, at position, path string) *node {
	out := &node{kind: scalarNode, at: at}
	refused := func(why string) *node {
		t.problem(at, path, why, t.quotedHint(at))
		return &node{at: at, broken: true}
	}
	switch x := n.(type) {
	case *ast.StringNode:
		quoted := x.Token.Type == token.SingleQuoteType || x.Token.Type == token.DoubleQuoteType
		out.text, out.plain = x.Value, !quoted && !strings.Contains(x.Token.Origin, "\n\n")
	case *ast.LiteralNode:
		out.text, out.block = strings.TrimRight(x.Value.Value, "\n"), true
	case *ast.BoolNode:
		out.text, out.plain, out.boolean = strings.ToLower(x.Token.Value), true, true
	case *ast.IntegerNode, *ast.FloatNode:
		out.text, out.plain, out.number = n.GetToken().Value, true, true
	case *ast.InfinityNode, *ast.NanNode:
		out.text, out.plain = n.GetToken().Value, true
	case *ast.TagNode:
		return refused(fmt.Sprintf("`%s` is a YAML tag, so the value would be lost", x.Start.Value))
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return refused("anchors, aliases and merge keys are not read")
	default:
		return refused("this form of YAML is not read")
	}
	return out
}

func (t *tree) entry(out *node, v *ast.MappingValueNode, path string, depth int) {
	tk := v.Key.GetToken()
	at := place(tk)
	switch v.Key.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
	default:
		t.problem(at, path, "this form of key is not read", "write a plain name")
		return
	}
	key := tk.Value
	for _, e := range out.entries {
		if e.key == key {
			t.problem(at, join(path, key), fmt.Sprintf("said twice; first in line %d", e.at.line), "keep one of them")
			return
		}
	}
	value := t.convert(v.Value, join(path, key), depth+1)
	value.key = at
	out.entries = append(out.entries, entry{key, at, value})
}

// data is a node as maps, lists and what leaf makes of a scalar.
func (n *node) data(leaf func(*node) any) any {
	switch n.kind {
	case mappingNode:
		out := map[string]any{}
		for _, e := range n.entries {
			out[e.key] = e.value.data(leaf)
		}
		return out
	case sequenceNode:
		out := []any{}
		for _, i := range n.items {
			out = append(out, i.data(leaf))
		}
		return out
	case nullNode:
		return nil
	}
	return leaf(n)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// index is the path of a list's element.
func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

var keyValue = regexp.MustCompile(`^(\s*(?:- +)?[A-Za-z_][\w.-]*:)\s+(.+)$`)

// quotedHint shows how the value in this line is written with quotes.
func (t *tree) quotedHint(at position) string { return quotedHint(t.src, at) }

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
		message, at = syntax.Message, place(syntax.Token)
	} else if i := strings.IndexByte(message, '\n'); i >= 0 {
		message = message[:i]
	}
	hint := ""
	if at.line >= 1 && at.line <= len(src.lines) {
		line := src.lines[at.line-1]
		m := keyValue.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(strings.TrimLeft(line, " "), "\t"):
			hint = "indent with spaces, not tabs"
		case m != nil && !strings.HasPrefix(m[2], "{"):
			hint = quotedHint(src, at)
		}
	}
	return src.problem(at, "", "not YAML: "+message, hint)
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
		if d := strings.Count(trimmed, "- "); d > maxDepth && strings.HasPrefix(trimmed, strings.Repeat("- ", maxDepth)) {
			return position{i + 1, 1}, true
		}
		run := 0 // nesting that is opened and closed within the line counts too
		for j, r := range trimmed {
			switch r {
			case '[', '{':
				run++
				if depth+run > 4*maxDepth {
					return position{i + 1, len(line) - len(trimmed) + j + 1}, true
				}
			case ']', '}':
				run--
			}
		}
		depth = max(0, depth+run)
	}
	return position{}, false
}
