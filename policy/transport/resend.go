package transport

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

// Recorded is the HTTP request that was recorded, to where it went, with the headers of its
// downstream; nil is none. It errs where a header that says who asks is not known to be the same.
func Recorded(r *Rendering, ds *Downstream, digest Digest) (Request, error) {
	was := r.Operation.Request
	if was.Lost != "" {
		return Request{}, errors.New(was.Lost)
	}
	out := &HTTPRequest{Method: was.Method, URL: was.Origin + was.Target, Body: was.Bytes(), Header: http.Header{}}
	for name, values := range was.Header {
		out.Header[http.CanonicalHeaderKey(name)] = values
	}
	if ds != nil {
		own := r.headers(ds.headers)
		if !r.Show && ds.base != nil {
			r.sameOrigin(ds.base, was.Origin)
		}
		if r.Err() != nil {
			return Request{}, r.Err()
		}
		for _, name := range slices.Sorted(maps.Keys(own)) {
			if err := sameHeader(was, name, own[name][0], digest); err != nil && !r.Show {
				return Request{}, err
			}
			out.Header[name] = own[name]
		}
	}
	for _, name := range slices.Concat(was.Withheld, slices.Sorted(maps.Keys(was.Callers))) {
		if out.Header[name] == nil {
			return Request{}, fmt.Errorf("its header %s is not kept, and the downstream's `headers` do not name it", name)
		}
	}
	if r.KeyHeader != "" && r.Operation.Key != "" {
		out.Header[http.CanonicalHeaderKey(r.KeyHeader)] = []string{r.Operation.KeyToSend()}
	}
	if r.Show && !utf8.Valid(out.Body) {
		out.Body = fmt.Appendf(nil, "[%d bytes, SHA-256 %x]", len(out.Body), sha256.Sum256(out.Body))
	}
	return Request{HTTP: out}, nil
}

// Tool is a call of the tool of a recorded operation, with its input as arguments. It errs in a
// sentence where the downstream does not show that the call went there.
func (ds *Downstream) Tool(o ledger.Operation) (Way, error) {
	switch {
	case ds == nil || ds.mcp == nil:
		return nil, errors.New("its kind names no downstream with `mcp`, so its server is not known here")
	case !strings.HasPrefix(o.Kind, "mcp."+ds.Name+"."):
		return nil, fmt.Errorf("it is a call of another server than %s", ds.Name)
	case o.Redacted:
		return nil, errors.New("parts of its arguments are secret, and not kept")
	case len(ds.mcp.headers) > 0:
		return nil, fmt.Errorf("the record does not show which %s it was sent with", ds.mcp.headers[0].Name)
	}
	return &MCP{Tool: strings.TrimPrefix(o.Kind, "mcp."+ds.Name+"."), Server: ds, arguments: WholeInput()}, nil
}

func WholeInput() *expr.Tree {
	whole, _ := expr.ParseTemplate("${input}", expr.ForRequest)
	return &expr.Tree{Text: whole}
}

// RecordedCommand is the command line as `run` recorded it. It fills in {{key}} and {{token}}, and ${NAME}, read from the environment now,
// where its value is the one it had. What is shown keeps the name.
func RecordedCommand(r *Rendering, digest Digest) (Request, error) {
	o := r.Operation
	out := &CommandRequest{Dir: o.Command.Dir}
	if !r.Show {
		out.Env = []string{"INDOUBT_KEY=" + o.KeyToSend(), "INDOUBT_TOKEN=" + o.Token}
	}
	for _, a := range o.Command.Argv {
		if strings.Contains(a, DigestPrefix) {
			return Request{}, errors.New("parts of its command are secret, and not kept; a secret that is named is read anew: " +
				"indoubt run --expand NAME -- … '${NAME}'")
		}
		// One pass over the argument: a value that looks like a placeholder is not expanded again.
		pairs := []string{"{{key}}", o.KeyToSend(), "{{token}}", o.Token}
		for _, name := range slices.Sorted(maps.Keys(o.Command.Expand)) {
			mark := "${" + name + "}"
			if r.Show || !strings.Contains(a, mark) {
				continue
			}
			v, ok := os.LookupEnv(name)
			if !ok {
				return Request{}, &MissingError{What: "variable", Name: name}
			}
			if err := sameValue(o.Command.Expand[name], v, name, "your environment has", digest); err != nil {
				return Request{}, err
			}
			r.Secrets.Add(v)
			pairs = append(pairs, mark, v)
		}
		v := strings.NewReplacer(pairs...).Replace(a)
		if strings.HasPrefix(v, "-") && !strings.HasPrefix(a, "-") {
			return Request{}, fmt.Errorf("a value makes argument %d begin with \"-\", which the command would take for an option",
				len(out.Argv))
		}
		out.Argv = append(out.Argv, v)
	}
	return Request{Command: out}, nil
}
