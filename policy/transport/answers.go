package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

var errCut = errors.New("answer was cut off: it is longer than what is kept")

// answered is what the transport that an answer came over makes of it.
type answered interface {
	complete(a *ledger.Answer)                             // what is left out where an answer is written down
	whole(a *ledger.Answer) bool                           // there is something to rule on
	usable(a *ledger.Answer) error                         // why no expression may be evaluated on it
	succeeded(a *ledger.Answer, status bool) (bool, error) // status: its HTTP status is a success
	document(a *ledger.Answer) (any, error)                // its JSON, or in one sentence what came instead
	refusal(a *ledger.Answer, byPolicy bool) error         // why it is no success; nil where the transport has no word for it
}

// Written is an answer that is written down, as if it had come the given way.
func Written(via string, a ledger.Answer) ledger.Answer {
	a.Via, a.Sent = via, true
	by(&a).complete(&a)
	return a
}

func by(a *ledger.Answer) answered {
	switch {
	case a.Via == "mcp":
		return overMCP{}
	case a.Via == "sql":
		return overSQL{}
	case a.Via == "command", a.Via == "" && (a.Exited || len(a.Stdout) > 0):
		return overCommand{}
	}
	return overHTTP{}
}

// Whole reports whether an answer to a write came, so that rules may be asked of it.
func Whole(a *ledger.Answer) bool { return a.Err == nil && by(a).whole(a) }

// Succeeded reports whether an answer is a success by the rules of its transport.
// status says whether its HTTP status is one.
func Succeeded(a *ledger.Answer, status bool) (bool, error) { return by(a).succeeded(a, status) }

// Document decodes the answer's JSON, or says in one sentence what came instead.
func Document(a *ledger.Answer) (any, error) { return by(a).document(a) }

// Refusal says why an answer is not valid, by the rules of its transport or by `valid`.
func Refusal(a *ledger.Answer, byPolicy bool) error {
	if err := by(a).refusal(a, byPolicy); err != nil {
		return err
	}
	return fmt.Errorf("the answer is not what the policy calls valid%s", complaint(*a))
}

// decoded is the JSON of what came as text.
func decoded(a *ledger.Answer, text []byte) (any, error) {
	if a.Truncated {
		return nil, errCut
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("answer is empty, not JSON" + complaint(*a))
	}
	doc, err := expr.Decode(text)
	if err != nil {
		what := "answer is " + whatInstead(a, text, err)
		if a.Status >= 300 {
			what = fmt.Sprintf("answered %d; %s", a.Status, what)
		}
		return nil, errors.New(what + complaint(*a))
	}
	return doc, nil
}

// whatInstead says what came where JSON was expected.
func whatInstead(a *ledger.Answer, text []byte, err error) string {
	kind := strings.ToLower(strings.Join(a.Header["Content-Type"], ""))
	head := strings.ToLower(string(bytes.TrimSpace(text[:min(len(text), 512)])))
	switch {
	case strings.Contains(kind, "html"), strings.HasPrefix(head, "<!doctype html"), strings.HasPrefix(head, "<html"):
		return "HTML, not JSON"
	case strings.Contains(kind, "xml"), strings.HasPrefix(head, "<?xml"):
		return "XML, not JSON"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Sprintf("JSON that breaks off after %d bytes", len(text))
	case errors.Is(err, expr.ErrTwice):
		return "JSON that names a member twice"
	case errors.Is(err, expr.ErrMoreValues):
		return "several JSON values, not one"
	}
	return "not JSON"
}

// Value is what a name stands for in an answer.
func Value(a *ledger.Answer, name string) (any, error) {
	switch name {
	case "status":
		return int64(a.Status), nil
	case "exit":
		if !a.Exited {
			if a.Signal != "" {
				return nil, fmt.Errorf("the command was killed (%s) and has no exit code", a.Signal)
			}
			return nil, fmt.Errorf("there is no exit code")
		}
		return int64(a.Exit), nil
	case "header":
		return expr.Lookup(func(n string) (string, error) { return strings.Join(a.Header[http.CanonicalHeaderKey(n)], ", "), nil }), nil
	case "stdout", "stderr":
		if a.Truncated {
			return nil, errCut
		}
		if name == "stderr" {
			return string(a.Stderr), nil
		}
		return string(a.Stdout), nil
	case "body", "json":
		return Document(a)
	case "link":
		return expr.Lookup(func(rel string) (string, error) { return linkOf(a, rel), nil }), nil
	case "rows":
		return rowsOf(a)
	case "content", "structured", "isError":
		return toolAnswer(a, name)
	}
	return nil, fmt.Errorf("an answer has no `%s`", name)
}
