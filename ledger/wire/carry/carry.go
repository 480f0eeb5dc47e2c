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
	"net/url"
	"slices"
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
	if slices.ContainsFunc(list, func(v json.RawMessage) bool { return bytes.Equal(v, token) }) {
		return old, true
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

// fieldName is what a field's name looks like as it is written in a form or a
// query. What has a blank, a quote or an angle bracket there is other text.
var fieldName = lazyregexp.New(`^[!#-;?-\[\]_a-z~]+$`)

// Fields are the fields of a form or of a query, if the text is one: other texts
// travel under a form's content type too, because clients put it there by default.
func Fields(text string) (url.Values, bool) {
	named := false
	for pair := range strings.SplitSeq(text, "&") {
		name, _, valued := strings.Cut(pair, "=")
		if pair != "" && !fieldName.MatchString(name) {
			return nil, false
		}
		named = named || valued
	}
	values, err := url.ParseQuery(text)
	return values, named && err == nil
}

// Form puts the token into a form or a query: into the JSON that a field holds (Slack's
// clients send an object so), else as a field of its own. ok is false, and the text as it
// was, where that is none or has something else in the place.
func (p Place) Form(text, token string) (out string, ok bool) {
	values, ok := Fields(text)
	if !ok && text != "" {
		return text, false
	}
	if held := values[p.steps[0].name]; len(p.steps) > 1 && len(held) == 1 && isJSON(held[0]) {
		return p.formJSON(text, held[0], token)
	}
	name, taken := p.field(func(name string) ([]string, bool) { v, has := values[name]; return v, has }, token)
	if name == "" {
		return text, taken
	}
	field := url.QueryEscape(name) + "=" + url.QueryEscape(token)
	if text == "" || strings.HasSuffix(text, "&") {
		return text + field, true
	}
	return text + "&" + field, true
}

func isJSON(text string) bool {
	return (strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")) && json.Valid([]byte(text))
}

// formJSON puts the token into what the field of the first step holds.
func (p Place) formJSON(text, held, token string) (out string, ok bool) {
	placed, ok := Place{p.steps[1:], p.append}.JSON([]byte(held), token)
	if !ok || string(placed) == held {
		return text, ok
	}
	pairs := strings.Split(text, "&")
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil && plain == p.steps[0].name {
			pairs[i] = name + "=" + url.QueryEscape(string(placed))
		}
	}
	return strings.Join(pairs, "&"), true
}

// field is the name of the field that the token goes into, by the fields there
// are. It is "" where there is none, or where the token is there already.
func (p Place) field(of func(name string) ([]string, bool), token string) (name string, there bool) {
	for i, s := range p.steps {
		switch {
		case i == 0:
			name = s.name
		case s.index >= 0:
			name += "[" + strconv.Itoa(s.index) + "]"
		default:
			name += "[" + s.name + "]"
		}
	}
	if !p.append {
		has, taken := of(name)
		if taken && slices.Equal(has, []string{token}) {
			return "", true
		}
		if taken {
			return "", false
		}
		return name, false
	}
	if _, bracketed := of(name + "[]"); bracketed {
		return name + "[]", false
	}
	if _, repeated := of(name); repeated {
		return name, false
	}
	for n := 0; ; n++ {
		next := name + "[" + strconv.Itoa(n) + "]"
		if _, taken := of(next); !taken {
			return next, false
		}
	}
}
