package mcpproxy

import (
	"bytes"
	"encoding/json"

	"indoubt/ledger/record"
	"indoubt/ledger/wire/carry"
	"indoubt/ledger/wire/mcpwire"
)

// withToken puts the correlation token into a call's arguments where the policy
// says, and leaves every other byte of the line. It reports false, with the line
// as it was, where the policy names no place or the arguments have none: such a
// call goes without a token.
func withToken(line []byte, arguments json.RawMessage, rule record.KindRule, token string) ([]byte, bool) {
	path, appending := rule.TokenInto, false
	if rule.TokenAppend != "" {
		path, appending = rule.TokenAppend, true
	}
	if path == "" {
		return line, false
	}
	at, err := carry.At(path, appending)
	if err != nil {
		return line, false
	}
	if absent(arguments) {
		arguments = json.RawMessage("{}")
	}
	placed, ok := at.JSON(arguments, token)
	if !ok {
		return line, false
	}
	if bytes.Equal(placed, arguments) {
		return line, true // it is there already
	}
	out, ok := mcpwire.Set(line, placed, "params", "arguments")
	if !ok {
		return line, false
	}
	return out, true
}

// absent reports whether a member is missing or null.
func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}
