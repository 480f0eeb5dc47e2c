package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/transport"
)

// Resending is what a person sends once more from here: what was recorded, with its own key
// and token (I4), and with the headers of its downstream. An error says in one sentence
// why only its pipeline can send it.
func (k *Kind) Resending(rec ledger.Record, digest transport.Digest) (transport.Request, error) {
	vars, o := k.variables(rec), rec.Operation
	vars.sending, vars.keyHeader = true, k.KeyHeader
	switch via := k.Via(rec); {
	case o.Gone() != "":
		return transport.Request{}, fmt.Errorf("it was %s", o.Gone())
	case via == "http":
		return transport.Twice(vars.rendering(), func(r *transport.Rendering) (transport.Request, error) {
			return transport.Recorded(r, k.Downstream, digest)
		})
	case via == "command":
		req, err := transport.Twice(vars.rendering(), func(r *transport.Rendering) (transport.Request, error) {
			return transport.RecordedCommand(r, digest)
		})
		req.Shown += "\nin your environment"
		return req, err
	case via == "mcp":
		return k.call(vars)
	}
	return transport.Request{}, errors.New("what was sent is not recorded")
}

// call is a recorded call of an MCP tool, with the token where it had one.
func (k *Kind) call(vars *variables) (transport.Request, error) {
	o := vars.rec.Operation
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
func (k *Kind) Carries(rec ledger.Record, req transport.Request) (key, token bool) {
	texts, o := req.Message().Leaving(), rec.Operation
	key = k.CarriesKey(rec) && slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, o.KeyToSend()) })
	return key, slices.ContainsFunc(texts, func(t string) bool { return ledger.HasWord(t, o.Token) })
}
