package file

import (
	"encoding/json"
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
	MaxFile  = 1 << 20
	maxDepth = 24
)

type Kind int

const (
	Null Kind = iota
	Scalar
	Mapping
	List
)

// Node is a YAML value with its place. We keep our own small tree because the
// library's decoder drops tags, second documents and positions silently.
type Node struct {
	Place
	Kind    Kind
	Key     Position // of the name it stands under
	Text    string   // of a scalar
	plain   bool     // scalar without quotes and on one line
	number  bool     // plain and written as a number
	boolean bool     // plain true or false
	Broken  bool     // a problem is reported already
	Block   bool     // | or > scalar: columns inside it are not known
	Entries []Entry
	Items   []*Node
}

type Entry struct {
	Name  string
	Value *Node
}

// Named is the place of the name that a value stands under.
func (e Entry) Named() Place { return Place{e.Value.Key, e.Value.Path} }

func (n *Node) What() string {
	switch n.Kind {
	case Mapping:
		return "a mapping"
	case List:
		return "a list"
	case Null:
		return "nothing"
	}
	return fmt.Sprintf("%q", n.Text)
}

// openFile reads the text of a file into a tree. The tree is nil where the decoder's problems say
// that there is none to read. The name stands in problems.
func Parse(name string, text []byte) (*Decoder, *Node) {
	d := &Decoder{src: newSource(name, text)}
	root := d.parse(text)
	switch {
	case root != nil:
		d.refuseSecrets(root)
	case len(d.Problems) == 0:
		d.whole("the file is empty", "`indoubt policy init` writes an example; at least: version: 1")
	}
	return d, root
}

func (d *Decoder) whole(message, hint string) {
	d.Problems = append(d.Problems, Problem{File: d.src.name, Message: message, Hint: hint})
}

// parse reads one document into a tree and reports all that a policy file
// must not have: tags, anchors, several documents, duplicate keys.
func (d *Decoder) parse(text []byte) (root *Node) {
	if len(text) > MaxFile {
		d.whole(fmt.Sprintf("the file is larger than %d KiB", MaxFile>>10), "leave out what no one uses")
		return nil
	}
	if !utf8.Valid(text) {
		d.whole("the file is not UTF-8 text", "save it as UTF-8: iconv -t utf-8")
		return nil
	}
	if at, deep := tooDeep(d.src); deep {
		d.Fail(Place{Position: at}, deepNesting, "")
		return nil
	}
	defer func() {
		if r := recover(); r != nil { // a bug of the YAML library on odd input
			root, d.Problems = nil, nil
			d.whole(fmt.Sprintf("this is not YAML that can be read (%v)", r), "")
		}
	}()
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.Problems = Errors{syntaxProblem(d.src, err)}
		return nil
	}
	for _, doc := range file.Docs {
		if doc == nil || doc.Body == nil {
			continue
		}
		if root != nil {
			at := Position{doc.Body.GetToken().Position.Line, 1}
			if doc.Start != nil {
				at = positionOf(doc.Start)
			}
			d.Fail(Place{Position: at}, "a second document; the file holds one policy",
				"remove the `---` line or keep the second in a file of its own")
			break
		}
		root = d.convert(doc.Body, "", 0)
	}
	return root
}

func positionOf(tk *token.Token) Position {
	if tk == nil || tk.Position == nil {
		return Position{}
	}
	return Position{tk.Position.Line, tk.Position.Column}
}

var deepNesting = fmt.Sprintf("nested deeper than %d levels", maxDepth)

func (d *Decoder) convert(n ast.Node, path string, depth int) *Node {
	out := &Node{Place: Place{Path: path}}
	if n == nil {
		return out
	}
	out.Position = positionOf(n.GetToken())
	if depth > maxDepth {
		d.Fail(out.Place, deepNesting, "")
		return out
	}
	switch x := n.(type) {
	case *ast.MappingNode:
		out.Kind = Mapping
		for _, v := range x.Values {
			d.entry(out, v, depth)
		}
		if len(out.Entries) > 0 && x.Start != nil && x.Start.Value == ":" {
			out.Position = out.Entries[0].Value.Key
		}
	case *ast.MappingValueNode:
		out.Kind = Mapping
		d.entry(out, x, depth)
	case *ast.SequenceNode:
		out.Kind = List
		for i, v := range x.Values {
			out.Items = append(out.Items, d.convert(v, out.Item(i).Path, depth+1))
		}
	case *ast.NullNode:
	default:
		if why := out.scalar(n); why != "" {
			out.Kind, out.Broken = Null, true
			d.Fail(out.Place, why, quotedHint(d.src, out.Position))
		}
	}
	return out
}

// scalar takes over what is no mapping and no list, or says why it is refused.
func (n *Node) scalar(from ast.Node) (why string) {
	n.Kind = Scalar
	switch x := from.(type) {
	case *ast.StringNode:
		quoted := x.Token.Type == token.SingleQuoteType || x.Token.Type == token.DoubleQuoteType
		n.Text, n.plain = x.Value, !quoted && !strings.Contains(x.Token.Origin, "\n\n")
	case *ast.LiteralNode:
		n.Text, n.Block = strings.TrimRight(x.Value.Value, "\n"), true
	case *ast.BoolNode:
		n.Text, n.plain, n.boolean = strings.ToLower(x.Token.Value), true, true
	case *ast.IntegerNode, *ast.FloatNode:
		n.Text, n.plain, n.number = from.GetToken().Value, true, true
	case *ast.InfinityNode, *ast.NanNode:
		n.Text, n.plain = from.GetToken().Value, true
	case *ast.TagNode:
		return fmt.Sprintf("`%s` is a YAML tag, so the value would be lost", x.Start.Value)
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return "anchors, aliases and merge keys are not read"
	default:
		return "this form of YAML is not read"
	}
	return ""
}

func (d *Decoder) entry(out *Node, v *ast.MappingValueNode, depth int) {
	key := v.Key.GetToken()
	at := positionOf(key)
	switch v.Key.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
	default:
		d.Fail(Place{at, out.Path}, "this form of key is not read", "write a plain name")
		return
	}
	path := out.Below(key.Value).Path
	for _, e := range out.Entries {
		if e.Name == key.Value {
			d.Fail(Place{at, path}, fmt.Sprintf("said twice; first in line %d", e.Value.Key.Line), "keep one of them")
			return
		}
	}
	value := d.convert(v.Value, path, depth+1)
	value.Key = at
	out.Entries = append(out.Entries, Entry{key.Value, value})
}

func PlainValue(n *Node) any {
	switch n.Kind {
	case Mapping:
		out := map[string]any{}
		for _, e := range n.Entries {
			out[e.Name] = PlainValue(e.Value)
		}
		return out
	case List:
		return append([]any{}, ledger.Each(n.Items, PlainValue)...)
	case Null:
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
func quotedHint(src *source, at Position) string {
	if at.Line < 1 || at.Line > len(src.lines) {
		return ""
	}
	line := src.lines[at.Line-1]
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
	var at Position
	message := err.Error()
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) {
		message, at = syntax.Message, positionOf(syntax.Token)
	} else if i := strings.IndexByte(message, '\n'); i >= 0 {
		message = message[:i]
	}
	hint := "see that each [ and { is closed, and that each name stands under the one before it"
	if at.Line >= 1 && at.Line <= len(src.lines) {
		line := src.lines[at.Line-1]
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
	return src.problem(Place{Position: at}, "not YAML: "+message, hint)
}

// closed reports whether a text closes as many brackets as it opens.
func closed(text string) bool {
	return strings.Count(text, "[") == strings.Count(text, "]") && strings.Count(text, "{") == strings.Count(text, "}")
}

// tooDeep looks at brackets and indentation before the parser does, which is
// quadratic in them. Brackets inside quotes or expressions close again, so the
// limit is far above what a policy needs.
func tooDeep(src *source) (Position, bool) {
	depth := 0
	for i, line := range src.lines {
		trimmed := strings.TrimLeft(line, " ")
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		if indent := len(line) - len(trimmed); indent > 8*maxDepth {
			return Position{i + 1, indent + 1}, true
		}
		if dashes := strings.Count(trimmed, "- "); dashes > maxDepth && strings.HasPrefix(trimmed, strings.Repeat("- ", maxDepth)) {
			return Position{i + 1, 1}, true
		}
		for j, r := range trimmed {
			switch r {
			case '[', '{':
				if depth++; depth > 4*maxDepth {
					return Position{i + 1, len(line) - len(trimmed) + j + 1}, true
				}
			case ']', '}':
				depth = max(0, depth-1)
			}
		}
	}
	return Position{}, false
}

// leaf is a scalar as data: true, false, a number that JSON can write, or text.
func (n *Node) leaf() any {
	if n.boolean {
		return n.Text == "true"
	}
	if n.number && json.Valid([]byte(n.Text)) {
		return json.Number(n.Text)
	}
	return n.Text
}
