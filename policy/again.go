package policy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"indoubt/policy/transport"

	"indoubt/ledger"
)

// ResendHere is the `resend` of a kind that is sent again from here.
const ResendHere = "here"

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
func (s Sending) Request(digest transport.Digest) (transport.Request, error) {
	k, o := s.Kind, s.Record.Operation
	vars := k.variables(s.Record)
	vars.sending, vars.keyHeader = true, k.KeyHeader
	switch via := s.Via(); {
	case o.Gone() != "":
		return transport.Request{}, fmt.Errorf("it was %s", o.Gone())
	case via == "http":
		return transport.Twice(vars.rendering(), func(r *transport.Rendering) (transport.Request, error) {
			return transport.Recorded(r, k.Downstream, digest)
		})
	case via == "command":
		req, err := transport.Twice(vars.rendering(), func(r *transport.Rendering) (transport.Request,
			error) {
			return transport.RecordedCommand(r, digest)
		})
		req.Shown += "\nin your environment"
		return req, err
	case via == "mcp":
		return s.call(vars)
	}
	return transport.Request{}, errors.New("what was sent is not recorded")
}

// call is a recorded call of an MCP tool, with the token where it had one.
func (s Sending) call(vars *variables) (transport.Request, error) {
	k, o := s.Kind, s.Record.Operation
	w, err := k.Downstream.Tool(o)
	if err == nil && o.TokenSent {
		o.Input, err = k.Token.Insert(o.Input, o.Token)
	}
	if err == nil {
		vars.input, err = decodeInput(o)
	}
	if err != nil {
		return transport.Request{}, err
	}
	return transport.Twice(vars.rendering(), func(r *transport.Rendering) (transport.Request, error) { return r.Request(w) })
}

// Carries reports whether a rendered request holds the operation's key and its
// token, as the other side reads it: the only ground for saying that they were
// sent. What a command merely finds in its environment or on its standard input
// because every command does may never leave it.
func (s Sending) Carries(req transport.Request) (key, token bool) {
	texts, o := req.Message().Leaving(), s.Record.Operation
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
