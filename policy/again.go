package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"indoubt/policy/transport"

	"indoubt/ledger"
)

// Sending is how an operation is sent once more for a person.
type Sending struct {
	Kind   *Kind
	Record ledger.Record
}

// Request is what a person sends once more from here: what was recorded, with its own key
// and token (I4), and with the headers of its downstream. An error says in one sentence
// why only its pipeline can send it.
func (s Sending) Request(digest transport.Digest) (transport.Request, error) {
	k, o := s.Kind, s.Record.Operation
	vars := k.variables(s.Record)
	vars.sending, vars.keyHeader = true, k.KeyHeader
	switch via := k.Via(s.Record); {
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
	key = s.Kind.CarriesKey(s.Record) && slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, o.KeyToSend()) })
	return key, slices.ContainsFunc(texts, func(t string) bool { return ledger.HasWord(t, o.Token) })
}
