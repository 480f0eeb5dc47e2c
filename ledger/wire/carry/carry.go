// Package carry puts a correlation token into what is sent: into JSON, a form or a query,
// by what the text really is. Every other byte stays
// as it was, and nothing that stands there is replaced: what has no place for the
// token is said to have none, and goes without it.
//
// It imports ledger/wire/mcpwire, for edits inside of JSON, and nothing else of
// indoubt.
package carry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/wire/mcpwire"
)

// Place is where the token goes.
type Place struct {
	steps  []step
	append bool // it is added to the list there, or at the end of the text
}

// step is one step of a path: a name, or an index.
type step struct {
	name  string
	index int // -1 for a name
}

var pathStep = lazyregexp.New(`^(?:\.?([A-Za-z_$][\w$-]*)|\[(\d{1,6})\])`)

// At reads a path such as metadata.indoubt or entities[0].observations.
func At(path string, appending bool) (Place, error) {
	p := Place{append: appending}
	for rest := strings.TrimPrefix(path, "input."); rest != ""; {
		m := pathStep.FindStringSubmatch(rest)
		if m == nil || len(p.steps) == 0 && (m[1] == "" || rest[0] == '.') {
			return p, fmt.Errorf("%q is no path", path)
		}
		if m[1] != "" {
			p.steps = append(p.steps, step{m[1], -1})
		} else {
			i, _ := strconv.Atoi(m[2])
			p.steps = append(p.steps, step{"", i})
		}
		rest = rest[len(m[0]):]
	}
	if len(p.steps) == 0 {
		return p, fmt.Errorf("%q is no path", path)
	}
	return p, nil
}

// Below is the place inside of the member that its first step names; ok is false
// where that is another one, or nothing is below it.
func (p Place) Below(name string) (below Place, ok bool) {
	if len(p.steps) < 2 || p.steps[0].name != name {
		return p, false
	}
	return Place{p.steps[1:], p.append}, true
}

// JSON puts the token into a JSON value. ok is false, and the value as it was,
// where it has no such place.
func (p Place) JSON(value []byte, token string) (out []byte, ok bool) {
	quoted, err := json.Marshal(token)
	if err != nil || !json.Valid(value) {
		return value, false
	}
	text := bytes.TrimSpace(value)
	placed, ok := inJSON(text, p.steps, quoted, p.append)
	if !ok {
		return value, false
	}
	if len(text) == len(value) {
		return placed, true
	}
	from := bytes.Index(value, text)
	return bytes.Join([][]byte{value[:from], placed, value[from+len(text):]}, nil), true
}

func inJSON(value []byte, steps []step, token []byte, appending bool) ([]byte, bool) {
	if len(steps) == 0 {
		return here(value, token, appending)
	}
	s := steps[0]
	if s.index >= 0 {
		from, to, ok := elementAt(value, s.index)
		if !ok {
			return nil, false
		}
		inner, ok := inJSON(value[from:to], steps[1:], token, appending)
		if !ok {
			return nil, false
		}
		return bytes.Join([][]byte{value[:from], inner, value[to:]}, nil), true
	}
	members := map[string]json.RawMessage{}
	if len(value) == 0 || value[0] != '{' || json.Unmarshal(value, &members) != nil {
		return nil, false
	}
	old := members[s.name]
	if mcpwire.Absent(old) && len(steps) > 1 {
		if steps[1].index >= 0 {
			return nil, false
		}
		old = json.RawMessage("{}")
	}
	inner, ok := inJSON(old, steps[1:], token, appending)
	if !ok {
		return nil, false
	}
	if bytes.Equal(inner, old) {
		return value, true
	}
	return mcpwire.Set(value, inner, s.name)
}

func here(old, token []byte, appending bool) ([]byte, bool) {
	switch {
	case !appending && (mcpwire.Absent(old) || bytes.Equal(old, token)):
		return token, true
	case !appending:
		return nil, false
	case mcpwire.Absent(old):
		return append(append([]byte{'['}, token...), ']'), true
	case old[0] == '"':
		return behind(old, token), true
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

// behind is a JSON text with the token as a word of its own at its end: in a
// paragraph of its own where the text has lines. Every byte of the text stays.
func behind(old, token []byte) []byte {
	text, word := old[1:len(old)-1], token[1:len(token)-1]
	separator, decoded := " ", ""
	switch _ = json.Unmarshal(old, &decoded); {
	case decoded == "":
		separator = ""
	case strings.Contains(decoded, "\n"):
		separator = `\n\n`
	}
	own := append([]byte(separator), word...)
	if bytes.Equal(text, word) || len(text) > 0 && bytes.HasSuffix(text, own) {
		return old
	}
	return bytes.Join([][]byte{old[:len(old)-1], own, {'"'}}, nil)
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
