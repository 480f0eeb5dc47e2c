// Package transport knows how a downstream is asked, over HTTP, by a tool of MCP, by a statement or
// by a command: what the file says of it, the request that is made of that, and by the rules of
// each transport what came back. It sends nothing.
//
// It may import ledger (for operations and answers), redact, expr and file; no other room of the
// policy.
package transport

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/redact"
	"indoubt/policy/expr"
	"indoubt/policy/file"
)

const DefaultMaxBody = 4 << 20

// DigestPrefix marks a digest that stands for a redacted value in what is
// recorded. Nothing may be sent or searched with it.
const DigestPrefix = "redacted:"

// Way is how a request is made of templates.
type Way interface {
	Via() string                 // http, command, mcp or sql
	Attach(*file.Decoder, Reach) // gives it what its downstream knows: address and headers, server or database
	Questions() []*expr.Template // of what is asked
	beside() []*expr.Template    // of what leads there or goes along: addresses, headers, a server
	render(r *Rendering) Request // errors are kept in r
}

func Templates(w Way) []*expr.Template { return slices.Concat(w.Questions(), w.beside()) }

// Twice makes a request as it is sent, and as it is shown to people.
func Twice(r Rendering, make func(*Rendering) (Request, error)) (Request, error) {
	out, err := make(&r)
	if err != nil {
		return Request{}, err
	}
	r.Rendering = &expr.Rendering{Names: r.Names, Note: r.Note, Show: true}
	shown, err := make(&r)
	if err != nil {
		return Request{}, err
	}
	out.Secrets = r.Secrets.Forms()
	out.Shown = redact.Hide(shown.Message().text(), r.Operation.Token, r.Operation.KeyToSend())
	out.Digest, err = shown.Sum()
	return out, err
}

// Request is what a way asks with, whose first error ends it.
func (r *Rendering) Request(w Way) (Request, error) { return w.render(r), r.Err() }

const WaysHint = "http: { get: … }, command: [ … ], mcp: { tool: … } or sql: { query: … }"

// Ways are the fields that say how to ask, of which one is said.
func Ways(d *file.Decoder, out *Way) file.Table {
	table := file.Table{}
	for name, read := range map[string]func(*file.Node) Way{
		"http":    func(n *file.Node) Way { return readHTTP(d, n) },
		"command": func(n *file.Node) Way { return readCommand(d, n) },
		"mcp":     func(n *file.Node) Way { return readTool(d, n) },
		"sql":     func(n *file.Node) Way { return readStatement(d, n) },
	} {
		table[name] = func(n *file.Node) {
			if *out != nil {
				d.Fail(n.Place, "`http`, `command`, `mcp` and `sql` exclude each other", WaysHint)
				return
			}
			*out = read(n)
		}
	}
	return table
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
	Leaving() []string // the texts that reach the other side, without the encoding they travel in
}

func (r Request) Message() message {
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

// Sum is the digest of all that would be sent, and where to.
func (r Request) Sum() (string, error) {
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

// Rendering is one pass over the templates of a request for an operation.
type Rendering struct {
	*expr.Rendering
	Operation ledger.Operation
	KeyHeader string        // that has the operation's key; "" for none
	Stdin     func() []byte // what a command without `stdin` is given
	Secrets   *redact.Box   // that were put in
}

func (r *Rendering) headers(pairs []Pair) http.Header {
	out := http.Header{}
	for _, p := range pairs {
		v := r.At("header " + p.Name + " cannot be made").Text(p.value)
		if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			r.Fail(fmt.Errorf("the value has control characters"))
		}
		out[p.Name] = []string{v}
	}
	return out
}

func (r *Rendering) environment(pairs []Pair) (out []string) {
	for _, p := range pairs {
		v := r.At("variable " + p.Name).Text(p.value)
		if strings.ContainsRune(v, 0) {
			r.At("").Fail(fmt.Errorf("variable %s has a zero byte", p.Name))
		}
		out = append(out, p.Name+"="+v)
	}
	return out
}

// keep notes the secrets in an address or a DSN.
func (r *Rendering) keep(text string) {
	if !r.Show {
		r.Secrets.Parts(text)
	}
}

// base renders the address of a downstream. It may be shown, but for the secrets in it.
func (r *Rendering) base(t *expr.Template) string {
	known := len(r.Secrets.Values)
	base := r.At("address").Text(t)
	r.Secrets.Values = r.Secrets.Values[:known]
	r.Secrets.Parts(base)
	return base
}

// Pair is a header or an environment variable.
type Pair struct {
	Name  string
	value *expr.Template
}

func values(pairs []Pair) []*expr.Template {
	return ledger.Each(pairs, func(p Pair) *expr.Template { return p.value })
}

// pairs reads a mapping of names to templates, in the file's order.
func readPairs(d *file.Decoder, n *file.Node) (out []Pair) {
	if !d.Must(n, file.Mapping, "a mapping (name: value)", "") {
		return nil
	}
	for _, e := range n.Entries {
		if t := d.Template(e.Value, expr.ForRequest); t != nil {
			out = append(out, Pair{e.Name, t})
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
