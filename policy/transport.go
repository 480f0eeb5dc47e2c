package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"indoubt/policy/file"

	"indoubt/ledger"
	"indoubt/ledger/redact"
	"indoubt/policy/expr"
)

const defaultMaxBody = 4 << 20

// digestPrefix marks a digest that stands for a redacted value in what is
// recorded. Nothing may be sent or searched with it.
const digestPrefix = "redacted:"

// way is how a request is made of templates.
type way interface {
	via() string                 // http, command, mcp or sql
	questions() []*expr.Template // of what is asked
	beside() []*expr.Template    // of what leads there or goes along: addresses, headers, a server
	render(r *rendering) Request // errors are kept in r
}

func templates(w way) []*expr.Template { return slices.Concat(w.questions(), w.beside()) }

// render fills in the templates once: with secrets, or with their names to be shown.
func (v *variables) render(w way, show bool) (Request, error) {
	r := v.rendering(show)
	return w.render(r), r.Err()
}

// twice renders as it is sent, and as it is shown to people.
func (v *variables) twice(render func(show bool) (Request, error)) (Request, error) {
	out, err := render(false)
	if err != nil {
		return Request{}, err
	}
	shown, err := render(true)
	if err != nil {
		return Request{}, err
	}
	o := v.rec.Operation
	out.Secrets = v.secrets.Forms()
	out.Shown = redact.Hide(shown.message().text(), o.Token, o.KeyToSend())
	out.Digest, err = shown.digest()
	return out, err
}

const waysHint = "http: { get: … }, command: [ … ], mcp: { tool: … } or sql: { query: … }"

// ways are the fields that say how to ask, of which one is said.
func (d decoder) ways(out *way) file.Table {
	one := func(read func(*file.Node) way) file.Reader {
		return func(n *file.Node) {
			if *out != nil {
				d.Fail(n.Place, "`http`, `command`, `mcp` and `sql` exclude each other", waysHint)
				return
			}
			*out = read(n)
		}
	}
	return file.Table{
		"http":    one(func(n *file.Node) way { return d.http(n) }),
		"command": one(func(n *file.Node) way { return d.command(n) }),
		"mcp":     one(func(n *file.Node) way { return d.mcpCall(n) }),
		"sql":     one(func(n *file.Node) way { return d.statement(n) }),
	}
}

// answerRules reads `answer:`, what an answer to the write says.
func (d decoder) answerRules(k *Kind, n *file.Node) {
	d.Fields(n, file.Table{
		"committed": d.Rule(&k.committed, expr.ForAnswer, expr.Bool),
		"refused":   d.Rule(&k.refused, expr.ForAnswer, expr.Bool),
		"already":   d.Rule(&k.already, expr.ForAnswer, expr.Bool),
		"receipt":   d.Rule(&k.receipt, expr.ForAnswer, expr.Any),
	})
}

// Request is something to send: exactly one of its fields is set.
type Request struct {
	HTTP    *HTTPRequest
	Command *CommandRequest
	MCP     *MCPRequest
	SQL     *SQLRequest
	// Secrets are the values of environment and files in it, and what was computed
	// from them, in all forms in which the other side may repeat them; not those of an
	// address's beginning. Never show or store them.
	Secrets []string
	// Digest (SHA-256, hex) is of all that a send would transmit and of where to,
	// secrets by name: two requests with the same one are the same to a person.
	Digest string
	// Shown is the request as text for people, secrets by name.
	Shown string
}

// message is the one of a Request's fields that is set.
type message interface {
	text() string      // as a person reads it
	leaving() []string // the texts that reach the other side, without the encoding they travel in
}

func (r Request) message() message {
	switch {
	case r.HTTP != nil:
		return r.HTTP
	case r.Command != nil:
		return r.Command
	case r.MCP != nil:
		return r.MCP
	}
	return r.SQL
}

// digest is of all that would be sent, and where to.
func (r Request) digest() (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("digest of the request: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Limits bound one transmission of a request. Who makes it states them.
type Limits struct {
	Timeout  time.Duration // of the whole exchange
	Deadline time.Time     // no byte of a write leaves after it; zero: none
	Max      int64         // bytes kept of the answer
}

// HTTPRequest is a rendered request. It holds secrets: never show or store it.
type HTTPRequest struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte
	Limits
}

// CommandRequest is a rendered command line without a shell. It may hold
// secrets: never show it.
type CommandRequest struct {
	Argv  []string
	Dir   string
	Env   []string // NAME=value, added to the sender's own environment
	Stdin []byte
	// Attempt is the one that the program makes, "" for one that only reads. Its
	// processes carry it, and the answer says whether any of them is left.
	Attempt string
	Limits  // Max counts for each stream, of which the end is kept
}

// MCPRequest is a rendered call of one tool of an MCP server, which is reached
// by a command or by a URL. It may hold secrets: never show it.
type MCPRequest struct {
	Server    string   // the downstream's name; one connection serves all its requests
	Command   []string // argv over stdio; empty: URL
	Dir       string
	Env       []string // NAME=value, added to the sender's own environment
	URL       string
	Header    http.Header
	Tool      string
	Arguments json.RawMessage // a JSON object; nil for none
	ReadOnly  bool            // the policy vouches that the tool only reads
	Limits
}

// SQLRequest is one rendered statement. Everything computed is in Args, nothing
// in Query. It may hold secrets: never show it.
type SQLRequest struct {
	Database string // the downstream's name; one pool serves all its requests
	Driver   string // sqlite or postgres
	DSN      string // for sqlite a path
	Query    string // with the driver's placeholders: ? or $1, $2, …
	Args     []any  // nil, bool, int64, float64, string; a list or mapping as JSON text
	Limits
}

// Found is what one page of a read's answer shows.
type Found struct {
	// Effects are the candidates that are the operation's own by what the read
	// recognises; all of them where it recognises nothing (ByNothing).
	Effects  []Effect
	Others   int       // candidates whose mark is another's
	Unmarked int       // candidates without a mark
	Marks    []string  // of Others, of the first and the last
	Latest   time.Time // when the newest of Others and Unmarked was made, where that is told
	Complete bool      // "none" is the whole truth of this page
	Next     any       // cursor of the following page, nil at the last
	Paged    bool      // the list has several pages
	Valid    bool
}

// Effect is one candidate that may be the operation's effect.
type Effect struct {
	Receipt string
	Same    bool            // it is what was asked for; otherwise it is different
	Value   json.RawMessage // as the other side shows it; nil for a state
	Answer  json.RawMessage // what the policy's `answer` makes of it; nil where it says nothing
	Doubt   string          // why it settles nothing: it looks older, or is not finished; "" when it counts
	Cause   ledger.Cause    // of the doubt
}

// rendering is one pass over the templates of a request.
type rendering struct {
	*expr.Rendering
	vars *variables
}

// rendering writes templates with the values of v; show writes secrets by their name.
func (v *variables) rendering(show bool) *rendering {
	return &rendering{Rendering: &expr.Rendering{Names: v.Names, Show: show, Note: v.secrets.Add}, vars: v}
}

func (r *rendering) headers(pairs []pair) http.Header {
	out := http.Header{}
	for _, p := range pairs {
		v := r.At("header " + p.name + " cannot be made").Text(p.value)
		if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			r.Fail(fmt.Errorf("the value has control characters"))
		}
		out[p.name] = []string{v}
	}
	return out
}

// environment is NAME=value of each.
func (r *rendering) environment(pairs []pair) (out []string) {
	for _, p := range pairs {
		v := r.At("variable " + p.name).Text(p.value)
		if strings.ContainsRune(v, 0) {
			r.At("").Fail(fmt.Errorf("variable %s has a zero byte", p.name))
		}
		out = append(out, p.name+"="+v)
	}
	return out
}

// keep notes the secrets in an address or a DSN.
func (r *rendering) keep(text string) {
	if !r.Show {
		r.vars.secrets.Parts(text)
	}
}

// base renders the address of a downstream. It may be shown, but for the secrets in it.
func (r *rendering) base(t *expr.Template) string {
	known := len(r.vars.secrets.Values)
	base := r.At("address").Text(t)
	r.vars.secrets.Values = r.vars.secrets.Values[:known]
	r.vars.secrets.Parts(base)
	return base
}

// pair is a header or an environment variable.
type pair struct {
	name  string
	value *expr.Template
}

func values(pairs []pair) []*expr.Template {
	return ledger.Each(pairs, func(p pair) *expr.Template { return p.value })
}

// pairs reads a mapping of names to templates, in the file's order.
func (d decoder) pairs(n *file.Node) (out []pair) {
	if !d.Must(n, file.Mapping, "a mapping (name: value)", "") {
		return nil
	}
	for _, e := range n.Entries {
		if t := d.Template(e.Value, expr.ForRequest); t != nil {
			out = append(out, pair{e.Name, t})
		}
	}
	return out
}

// Withhold is a text without the secrets that were put into the request.
func (r Request) Withhold(text string) string { return redact.Withhold(text, r.Secrets) }

// WithholdFrom is err with its text as Withhold gives it.
func (r Request) WithholdFrom(err error) error {
	if err == nil {
		return nil
	}
	if text := r.Withhold(err.Error()); text != err.Error() {
		return &withheldError{text, err}
	}
	return err
}

type withheldError struct {
	text string
	err  error
}

func (e *withheldError) Error() string { return e.text }
func (e *withheldError) Unwrap() error { return e.err }
