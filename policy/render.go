package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"

	"indoubt/ledger"
)

// defaultMaxBody bounds an answer where the policy does not.
const defaultMaxBody = 4 << 20

// digestPrefix marks a digest that stands for a redacted value in what is
// recorded. Nothing may be sent or searched with it.
const digestPrefix = "redacted:"

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Send is how an operation is sent again.
type Send struct {
	transport transport
	token     TokenRule
	keyHeader string
}

// Via is who sends: http, command, mcp, sql or pipeline. A nil Send is the pipeline's.
func (s *Send) Via() string {
	if s == nil {
		return "pipeline"
	}
	return s.transport.via()
}

func (t *transport) via() string {
	switch {
	case t.http != nil:
		return "http"
	case t.command != nil, t.recorded:
		return "command"
	case t.mcp != nil:
		return "mcp"
	case t.sql != nil:
		return "sql"
	}
	return "pipeline"
}

// Request renders what a send would transmit, with the operation's own key and
// token (I4). Errors: *MissingSecretError, and sentences for people, e.g. when
// parts of the input are not kept or a value would lead elsewhere.
func (s *Send) Request(rec ledger.Record) (Request, error) {
	o := rec.Operation
	switch {
	case s.Via() == "pipeline":
		return Request{}, fmt.Errorf("its pipeline sends it, not indoubt")
	case s.transport.recorded:
		return recorded(o)
	case o.Redacted:
		return Request{}, fmt.Errorf("parts of its input are not kept, so it cannot be sent from here")
	}
	vars := newVariables(rec)
	vars.sending = true
	input, err := decodeInput(o)
	if err != nil {
		return Request{}, err
	}
	if vars.input, err = s.token.insertValue(input, o.Token); err != nil {
		return Request{}, err
	}
	var key []string
	if s.keyHeader != "" {
		if o.Key == "" {
			return Request{}, fmt.Errorf("it has no idempotency key to send")
		}
		key = []string{s.keyHeader, o.Key}
	}
	return s.transport.request(vars, key, nil)
}

// insertValue is Insert for an input that is decoded for expressions.
func (t TokenRule) insertValue(input any, token string) (any, error) {
	if t.Into == "" && t.Append == "" {
		return input, nil
	}
	return t.insert(input, token)
}

// request renders twice: as it is, and as it is shown.
func (t *transport) request(vars *variables, key []string, cursor any) (Request, error) {
	vars.cursor = cursor
	real, err := t.render(&rendering{ctx: context.Background(), vars: vars}, key)
	if err != nil {
		return Request{}, err
	}
	if t.guarded != nil {
		if err := t.guarded.guard(vars, real); err != nil {
			return Request{}, err
		}
	}
	shown, err := t.render(&rendering{ctx: context.Background(), vars: vars, show: true}, key)
	if err != nil {
		return Request{}, err
	}
	if real.Digest, err = shown.digest(t.secrets); err != nil {
		return Request{}, err
	}
	real.Secrets = append(vars.secrets.values, t.secrets...)
	o := vars.rec.Operation
	fit := func(text string) string { return hide(text, t.secrets, o.Token, o.Key) }
	switch {
	case real.HTTP != nil:
		real.HTTP.Shown = fit(shown.HTTP.text())
	case real.Command != nil:
		real.Command.Shown = fit(shown.Command.text())
	case real.MCP != nil:
		real.MCP.Shown = fit(shown.MCP.text())
	case real.SQL != nil:
		real.SQL.Shown = fit(shown.SQL.text())
	}
	return real, nil
}

func (t *transport) render(r *rendering, key []string) (out Request, err error) {
	switch {
	case t.http != nil:
		out.HTTP, err = t.http.render(r, key)
	case t.command != nil:
		out.Command, err = t.command.render(r, r.vars)
	case t.mcp != nil:
		out.MCP, err = t.mcp.render(r)
	case t.sql != nil:
		out.SQL, err = t.sql.render(r)
	default:
		err = fmt.Errorf("the policy names no way to ask")
	}
	return out, err
}

func (h *httpRule) render(r *rendering, key []string) (*HTTPRequest, error) {
	out := &HTTPRequest{Method: h.method, Redirects: h.redirects}
	address, err := h.address(r)
	if err != nil {
		return nil, err
	}
	out.URL = address
	if out.Header, err = r.headers(h.headers); err != nil {
		return nil, err
	}
	if key != nil {
		out.Header[http.CanonicalHeaderKey(key[0])] = []string{key[1]}
	}
	return out, h.body(r, out)
}

func (r *rendering) headers(pairs []pair) (map[string][]string, error) {
	out := map[string][]string{}
	for _, p := range pairs {
		v, err := r.text(p.value)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", p.name, err)
		}
		if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return nil, fmt.Errorf("header %s: the value has control characters", p.name)
		}
		out[p.name] = []string{v}
	}
	return out, nil
}

func (h *httpRule) address(r *rendering) (string, error) {
	address, err := r.url(h.path)
	if err != nil {
		return "", fmt.Errorf("address: %w", err)
	}
	if h.base != nil {
		known := len(r.vars.secrets.values)
		base, err := r.text(h.base)
		if err != nil {
			return "", fmt.Errorf("address: %w", err)
		}
		r.vars.secrets.values = r.vars.secrets.values[:known] // where a downstream is may be told
		r.vars.secrets.parts(base, inAddress)
		address = strings.TrimSuffix(base, "/") + address
	}
	if h.query != nil {
		data, err := r.tree(h.query)
		if err != nil {
			return "", fmt.Errorf("query: %w", err)
		}
		values, err := queryValues(data)
		if err != nil {
			return "", fmt.Errorf("query: %w", err)
		}
		if encoded := encodeValues(values, r.show); encoded != "" {
			join := "?"
			if strings.Contains(address, "?") {
				join = "&"
			}
			address += join + encoded
		}
	}
	if r.show {
		return address, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("address: it is no http address")
	}
	return address, nil
}

// encodeValues is Encode; shown, a secret's name stays legible.
func encodeValues(values url.Values, show bool) string {
	encoded := values.Encode()
	if !show {
		return encoded
	}
	var out []string
	for _, k := range sortedNames(values) {
		for _, v := range values[k] {
			if strings.Contains(v, "${") {
				out = append(out, url.QueryEscape(k)+"="+v)
			} else {
				out = append(out, url.QueryEscape(k)+"="+url.QueryEscape(v))
			}
		}
	}
	return strings.Join(out, "&")
}

func (h *httpRule) body(r *rendering, out *HTTPRequest) error {
	contentType := ""
	switch {
	case h.json != nil:
		data, err := r.tree(h.json)
		if err != nil {
			return fmt.Errorf("json: %w", err)
		}
		if out.Body, err = marshal(data); err != nil {
			return fmt.Errorf("json: %w", err)
		}
		contentType = "application/json"
	case h.form != nil:
		data, err := r.tree(h.form)
		if err != nil {
			return fmt.Errorf("form: %w", err)
		}
		values, err := formValues(data)
		if err != nil {
			return fmt.Errorf("form: %w", err)
		}
		out.Body = []byte(encodeValues(values, r.show))
		contentType = "application/x-www-form-urlencoded"
	}
	if contentType != "" && out.Header["Content-Type"] == nil {
		out.Header["Content-Type"] = []string{contentType}
	}
	return nil
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

// text is the request as a person reads it.
func (h *HTTPRequest) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", h.Method, h.URL)
	for _, n := range sortedNames(h.Header) {
		fmt.Fprintf(&b, "\n%s: %s", n, strings.Join(h.Header[n], ", "))
	}
	if len(h.Body) > 0 {
		fmt.Fprintf(&b, "\n\n%s", h.Body)
	}
	return b.String()
}

func (c *commandRule) render(r *rendering, vars *variables) (*CommandRequest, error) {
	out := &CommandRequest{Dir: c.dir}
	free := false // after `--` nothing is an option
	for i, a := range c.argv {
		v, err := r.text(a.value)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
		literal := a.value.parts[0].expr == nil
		if strings.HasPrefix(v, "-") && !literal && !a.dash && !free {
			return nil, fmt.Errorf("argument %d begins with %q, which the command would take for an option", i, "-")
		}
		if strings.ContainsRune(v, 0) {
			return nil, fmt.Errorf("argument %d has a zero byte", i)
		}
		free = free || v == "--" && literal
		out.Argv = append(out.Argv, v)
	}
	for _, p := range c.env {
		v, err := r.text(p.value)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", p.name, err)
		}
		if strings.ContainsRune(v, 0) {
			return nil, fmt.Errorf("variable %s has a zero byte", p.name)
		}
		out.Env = append(out.Env, p.name+"="+v)
	}
	stdin, err := c.input(r, vars)
	if err != nil {
		return nil, fmt.Errorf("stdin: %w", err)
	}
	out.Stdin = stdin
	return out, nil
}

// input is the JSON a command gets on its standard input: what the policy says,
// else the operation.
func (c *commandRule) input(r *rendering, vars *variables) ([]byte, error) {
	if c.stdin != nil {
		data, err := r.tree(c.stdin)
		if err != nil {
			return nil, err
		}
		return marshal(data)
	}
	o := vars.rec.Operation
	input := json.RawMessage(o.Input)
	if !json.Valid(input) {
		input = json.RawMessage("null")
	}
	return marshal(map[string]any{
		"id": o.ID, "kind": o.Kind, "key": o.Key, "token": o.Token, "receipt": o.Receipt(), "input": input, "cursor": vars.cursor,
	})
}

// text is the command line as a person reads it, with where it runs and what it
// reads below it.
func (c *CommandRequest) text() string {
	var b strings.Builder
	for _, e := range c.Env {
		b.WriteString(shellWord(e) + " ")
	}
	for i, a := range c.Argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(shellWord(a))
	}
	if c.Dir != "" {
		b.WriteString("\nin " + c.Dir)
	}
	if len(c.Stdin) > 0 {
		fmt.Fprintf(&b, "\nstdin: %s", c.Stdin)
	}
	return b.String()
}

// shellWord quotes for reading, not for running: there is no shell.
func shellWord(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n\"'\\|&;<>()*?") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// recorded renders the command line as `run` recorded it: {{key}} and {{token}}
// filled in, ${NAME} read from the environment now.
func recorded(o ledger.Operation) (Request, error) {
	c := o.Command
	if c == nil || len(c.Argv) == 0 {
		return Request{}, fmt.Errorf("no command was recorded for it")
	}
	out := &CommandRequest{Dir: c.Dir, Env: []string{"INDOUBT_KEY=" + o.Key, "INDOUBT_TOKEN=" + o.Token}}
	shown, secrets := &CommandRequest{Dir: c.Dir}, &secretBox{}
	for _, a := range c.Argv {
		if strings.Contains(a, digestPrefix) {
			return Request{}, fmt.Errorf("parts of its command are not kept, so it cannot be sent from here")
		}
		// One pass over the argument: a value that looks like a placeholder is not expanded again.
		pairs := []string{"{{key}}", o.Key, "{{token}}", o.Token}
		plain := append([]string(nil), pairs...)
		for _, name := range c.Expand {
			mark := "${" + name + "}"
			if !strings.Contains(a, mark) {
				continue
			}
			v, ok := os.LookupEnv(name)
			if !ok {
				return Request{}, &MissingSecretError{Name: name}
			}
			secrets.add(v)
			pairs = append(pairs, mark, v)
		}
		v := strings.NewReplacer(pairs...).Replace(a)
		if strings.HasPrefix(v, "-") && !strings.HasPrefix(a, "-") {
			return Request{}, fmt.Errorf("a value makes argument %d begin with %q, which the command would take for an option", len(out.Argv), "-")
		}
		out.Argv = append(out.Argv, v)
		shown.Argv = append(shown.Argv, strings.NewReplacer(plain...).Replace(a))
	}
	digest, err := Request{Command: shown}.digest(nil)
	if err != nil {
		return Request{}, err
	}
	out.Shown = hide(shown.text(), nil, o.Token, o.Key)
	return Request{Command: out, Secrets: secrets.values, Digest: digest}, nil
}
