package mcpproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"indoubt/ledger/record"
	"indoubt/ledger/record/mcpwire"
)

// step is one step of a path into the arguments: a name or an index.
type step struct {
	name  string
	index int // -1 for a name
}

var pathStep = regexp.MustCompile(`^(?:\.?([A-Za-z_$][\w$-]*)|\[(\d{1,6})\])`)

// parsePath reads metadata.indoubt or entities[0].observations.
func parsePath(text string) ([]step, error) {
	var out []step
	for rest := strings.TrimPrefix(text, "input."); rest != ""; {
		m := pathStep.FindStringSubmatch(rest)
		if m == nil || len(out) == 0 && (m[1] == "" || rest[0] == '.') {
			return nil, fmt.Errorf("%q is no path", text)
		}
		if m[1] != "" {
			out = append(out, step{m[1], -1})
		} else {
			i, _ := strconv.Atoi(m[2])
			out = append(out, step{"", i})
		}
		rest = rest[len(m[0]):]
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%q is no path", text)
	}
	return out, nil
}

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
	steps, err := parsePath(path)
	if err != nil {
		return line, false
	}
	quoted, err := json.Marshal(token)
	if err != nil {
		return line, false
	}
	if absent(arguments) {
		arguments = json.RawMessage("{}")
	}
	placed, ok := place(arguments, steps, quoted, appending)
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

// place puts a token into a value. It never takes the place of something else.
func place(value []byte, steps []step, token []byte, appending bool) ([]byte, bool) {
	if len(steps) == 0 {
		return placeHere(value, token, appending)
	}
	s := steps[0]
	if s.index >= 0 {
		from, to, ok := elementAt(value, s.index)
		if !ok {
			return nil, false
		}
		inner, ok := place(value[from:to], steps[1:], token, appending)
		if !ok {
			return nil, false
		}
		return append(append(append([]byte(nil), value[:from]...), inner...), value[to:]...), true
	}
	members := map[string]json.RawMessage{}
	if value[0] != '{' || json.Unmarshal(value, &members) != nil {
		return nil, false
	}
	old := members[s.name]
	if absent(old) && len(steps) > 1 {
		if steps[1].index >= 0 {
			return nil, false
		}
		old = json.RawMessage("{}")
	}
	inner, ok := place(old, steps[1:], token, appending)
	if !ok {
		return nil, false
	}
	if bytes.Equal(inner, old) {
		return value, true
	}
	return mcpwire.Set(value, inner, s.name)
}

func placeHere(old, token []byte, appending bool) ([]byte, bool) {
	switch {
	case !appending && (absent(old) || bytes.Equal(old, token)):
		return token, true
	case !appending:
		return nil, false
	case absent(old):
		return append(append([]byte{'['}, token...), ']'), true
	}
	var list []json.RawMessage
	if old[0] != '[' || json.Unmarshal(old, &list) != nil {
		return nil, false
	}
	for _, v := range list {
		if bytes.Equal(v, token) {
			return old, true
		}
	}
	return mcpwire.Append(old, token)
}

// elementAt finds an element of an array.
func elementAt(value []byte, index int) (from, to int, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(value))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return 0, 0, false
	}
	for i := 0; dec.More(); i++ {
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			return 0, 0, false
		}
		if i == index {
			to = int(dec.InputOffset())
			return to - len(v), to, true
		}
	}
	return 0, 0, false
}

// absent tells whether a member is missing or null.
func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}
