package policy

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/ledger/redact"
	"indoubt/policy/expr"
)

// ResendHere is the `resend` of a kind that is sent again from here.
const ResendHere = "here"

// Digest makes what a recorder keeps of a header instead of its value. It errs where
// this process lacks the ledger's key.
type Digest func(value string) (string, error)

// Sending is how an operation is sent once more for a person.
type Sending struct {
	Kind   *Kind
	Record ledger.Record
}

// Via is who sends: http, command or mcp from here, else pipeline. What only the
// sending itself shows, such as a secret that is missing here, still leads back to the
// pipeline.
func (s Sending) Via() string {
	k, rec, o := s.Kind, s.Record, s.Record.Operation
	switch {
	case k.Resend != ResendHere || o.Gone() != "":
	case o.Request != nil:
		return "http"
	case o.Command != nil && len(o.Command.Argv) > 0:
		return "command"
	case len(rec.Attempts) > 0 && rec.Attempts[0].Sender == "mcp":
		return "mcp"
	}
	return "pipeline"
}

// Request is what a person sends once more from here: what was recorded, with its own key
// and token (I4), and with the headers of its downstream. An error says in one sentence
// why only its pipeline can send it.
func (s Sending) Request(digest Digest) (Request, error) {
	k, o := s.Kind, s.Record.Operation
	vars := k.variables(s.Record)
	vars.sending = true
	switch via := s.Via(); {
	case o.Gone() != "":
		return Request{}, fmt.Errorf("it was %s", o.Gone())
	case via == "http":
		return vars.twice(func(show bool) (Request, error) { return s.recorded(vars, digest, show) })
	case via == "command":
		return againCommand(vars, digest)
	case via == "mcp":
		return s.call(vars)
	}
	return Request{}, errors.New("what was sent is not recorded")
}

// recorded is a recorded HTTP request, to where it went.
func (s Sending) recorded(vars *variables, digest Digest, show bool) (Request, error) {
	k, o := s.Kind, s.Record.Operation
	was := o.Request
	if was.Lost != "" {
		return Request{}, errors.New(was.Lost)
	}
	out := &HTTPRequest{Method: was.Method, URL: was.Origin + was.Target, Body: was.Bytes(), Header: http.Header{}}
	for name, values := range was.Header {
		out.Header[http.CanonicalHeaderKey(name)] = values
	}
	if ds := k.Downstream; ds != nil {
		r := vars.rendering(show)
		own := r.headers(ds.headers)
		if !show && ds.base != nil {
			r.sameOrigin(ds.base, was.Origin)
		}
		if r.Err() != nil {
			return Request{}, r.Err()
		}
		for _, name := range sortedNames(own) {
			if err := sameHeader(was, name, own[name][0], digest); err != nil && !show {
				return Request{}, err
			}
			out.Header[name] = own[name]
		}
	}
	for _, name := range slices.Concat(was.Withheld, sortedNames(was.Callers)) {
		if out.Header[name] == nil {
			return Request{}, fmt.Errorf("its header %s is not kept, and the downstream's `headers` do not name it", name)
		}
	}
	if k.KeyHeader != "" && o.Key != "" {
		out.Header[http.CanonicalHeaderKey(k.KeyHeader)] = []string{o.KeyToSend()}
	}
	if show && !utf8.Valid(out.Body) {
		out.Body = fmt.Appendf(nil, "[%d bytes, SHA-256 %x]", len(out.Body), sha256.Sum256(out.Body))
	}
	return Request{HTTP: out}, nil
}

// sameHeader errs unless a write is known to have had a header with this value: another
// credential could be another account's.
func sameHeader(was *ledger.Request, name, value string, digest Digest) error {
	if values, kept := was.Header[name]; kept {
		if !slices.Equal(values, []string{value}) {
			return fmt.Errorf("it was sent with another %s than the downstream's `headers` say", name)
		}
		return nil
	}
	return sameValue(was.Callers[name], value, name, "the downstream's `headers` say", digest)
}

// sameValue errs unless known is the digest of a value, which is to be sent as name now.
func sameValue(known, value, name, whose string, digest Digest) error {
	if known == "" {
		return fmt.Errorf("the record does not show which %s it was sent with", name)
	}
	now, err := digest(value)
	switch {
	case err != nil:
		return fmt.Errorf("whether it was sent with the %s that %s cannot be told here: %w", name, whose, err)
	case now != known:
		return fmt.Errorf("it was sent with another %s than %s", name, whose)
	}
	return nil
}

// Stranger says why a check may be another caller's than the write was, "" where nothing shows
// that: it is asked with another credential, with one that the write is not known to have had,
// or with another one of the headers that say who asks.
func (ds *Downstream) Stranger(was *ledger.Request, asked *HTTPRequest, digest Digest) string {
	if was == nil || asked == nil {
		return ""
	}
	for _, name := range ds.tellingHeaders(was, asked) {
		now := strings.Join(asked.Header[name], "\n")
		if kept, whole := was.Header[name]; whole && strings.Join(kept, "\n") == now {
			continue
		}
		if known := was.Callers[name]; known != "" || now != "" {
			made, err := digest(now)
			if err != nil {
				return "whether it asks with the " + name + " of the write cannot be told here: " + err.Error()
			}
			if made != known {
				why := "it does not ask with the " + name + " that the write had, so that it may see another account"
				if redact.Credential(name) {
					why += "; where both lead to one, say same_account: true"
				}
				return why
			}
		}
	}
	return ""
}

// tellingHeaders are the headers of a write or of its check that say who asks.
func (ds *Downstream) tellingHeaders(was *ledger.Request, asked *HTTPRequest) (names []string) {
	for _, name := range slices.Concat(sortedNames(was.Callers), sortedNames(asked.Header)) {
		if ds.saysWhoAsks(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// sameOrigin makes sure that the headers of a downstream, and the secrets in them, go
// nowhere but to where it is.
func (r *rendering) sameOrigin(base *expr.Template, origin string) {
	text := r.base(base)
	at, err := url.Parse(text)
	was, bad := url.Parse(origin)
	if err != nil || bad != nil || !strings.EqualFold(at.Scheme, was.Scheme) ||
		!strings.EqualFold(at.Hostname(), was.Hostname()) || portOf(at) != portOf(was) {
		r.At("").Fail(fmt.Errorf("it was sent to %s, which is not where its downstream is", origin))
	}
}

func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)])
}

// call is a recorded call of an MCP tool.
func (s Sending) call(vars *variables) (Request, error) {
	k, o, ds := s.Kind, s.Record.Operation, s.Kind.Downstream
	switch {
	case ds == nil || ds.mcp == nil:
		return Request{}, errors.New("its kind names no downstream with `mcp`, so its server is not known here")
	case !strings.HasPrefix(o.Kind, "mcp."+ds.Name+"."):
		return Request{}, fmt.Errorf("it is a call of another server than %s", ds.Name)
	case o.Redacted:
		return Request{}, errors.New("parts of its arguments are secret, and not kept")
	case len(ds.mcp.headers) > 0:
		return Request{}, fmt.Errorf("the record does not show which %s it was sent with", ds.mcp.headers[0].name)
	}
	var err error
	if o.TokenSent {
		o.Input, err = k.Token.Insert(o.Input, o.Token)
	}
	if err == nil {
		vars.input, err = decodeInput(o)
	}
	if err != nil {
		return Request{}, err
	}
	whole, _ := expr.ParseTemplate("${input}", expr.ForRequest)
	m := &mcpRule{tool: strings.TrimPrefix(o.Kind, "mcp."+ds.Name+"."), server: ds, arguments: &expr.Tree{Text: whole}}
	return vars.twice(func(show bool) (Request, error) { return vars.render(m, show) })
}

// Carries reports whether a rendered request holds the operation's key and its
// token, as the other side reads it: the only ground for saying that they were
// sent. What a command merely finds in its environment or on its standard input
// because every command does may never leave it.
func (s Sending) Carries(req Request) (key, token bool) {
	texts, o := req.message().leaving(), s.Record.Operation
	key = s.carriesKey() && slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, o.KeyToSend()) })
	return key, slices.ContainsFunc(texts, func(t string) bool { return ledger.HasWord(t, o.Token) })
}

// carriesKey reports whether what would be sent repeats the operation's key, so
// that the other side can know it again. A key is the caller's text and may be
// short, so it is not searched for but must have its place.
func (s Sending) carriesKey() bool {
	k, o := s.Kind, s.Record.Operation
	if o.Key == "" {
		return false
	}
	switch via := s.Via(); {
	case via == "pipeline":
		return true // it brings its own
	case via == "http" && k.KeyHeader != "":
		return true
	case via == "http":
		return keyOf(o.Request) == o.KeyToSend()
	case via == "command":
		return slices.ContainsFunc(o.Command.Argv, func(a string) bool { return strings.Contains(a, "{{key}}") })
	}
	return false
}

// keyOf is the key that a recorded request holds, bare or as a structured string.
func keyOf(r *ledger.Request) string {
	values := http.Header(r.Header)["Idempotency-Key"]
	if len(values) != 1 {
		return ""
	}
	if key, err := strconv.Unquote(values[0]); err == nil {
		return key
	}
	return values[0]
}
