package policy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// step is one step of a path into JSON: a name or an index.
type step struct {
	name    string
	index   int
	isIndex bool
}

var pathStep = regexp.MustCompile(`^(?:\.?([A-Za-z_$][\w$-]*)|\[(\d{1,6})\])`)

// parsePath reads metadata.indoubt or entities[0].observations.
func parsePath(text string) ([]step, error) {
	rest := text
	if rest == "" || strings.HasPrefix(rest, ".") {
		return nil, fmt.Errorf("%q is no path into the input", text)
	}
	var out []step
	for rest != "" {
		m := pathStep.FindStringSubmatch(rest)
		if m == nil || len(out) == 0 && m[1] == "" {
			return nil, fmt.Errorf("%q is no path into the input", text)
		}
		if m[1] != "" {
			out = append(out, step{name: m[1]})
		} else {
			i, _ := strconv.Atoi(m[2])
			out = append(out, step{index: i, isIndex: true})
		}
		rest = rest[len(m[0]):]
		if rest != "" && rest[0] != '.' && rest[0] != '[' {
			return nil, fmt.Errorf("%q is no path into the input", text)
		}
	}
	return out, nil
}

// Insert puts the correlation token into an input where the rule says, for
// senders that carry JSON. The same token twice changes nothing; another value
// in its place, or an input that has no such place, is an error.
func (t TokenRule) Insert(input json.RawMessage, token string) (json.RawMessage, error) {
	if t.Into == "" && t.Append == "" {
		return input, nil
	}
	data, err := decodeWire(input)
	if err != nil {
		return nil, err
	}
	if data, err = t.insert(data, token); err != nil {
		return nil, err
	}
	return json.Marshal(data)
}

// decodeWire reads JSON so that it can be written again digit by digit.
func decodeWire(input json.RawMessage) (any, error) {
	if len(input) == 0 {
		return map[string]any{}, nil
	}
	d := json.NewDecoder(strings.NewReader(string(input)))
	d.UseNumber()
	var data any
	if err := d.Decode(&data); err != nil {
		return nil, fmt.Errorf("the recorded input is not JSON")
	}
	return data, nil
}

// insert is Insert for an input that is decoded.
func (t TokenRule) insert(data any, token string) (any, error) {
	if t.Into == "" && t.Append == "" {
		return data, nil
	}
	path, appending := t.Into, false
	if t.Append != "" {
		path, appending = t.Append, true
	}
	steps, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	place := func(old any, exists bool) (any, error) {
		if appending {
			if text, ok := old.(string); ok {
				return behind(text, token), nil
			}
			list, ok := old.([]any)
			if exists && !ok && old != nil {
				return nil, fmt.Errorf("the token cannot be added: input.%s is neither a list nor a text", path)
			}
			for _, v := range list {
				if v == token {
					return list, nil
				}
			}
			return append(append([]any(nil), list...), token), nil
		}
		if exists && old != nil && old != token {
			return nil, fmt.Errorf("the token has no place: input.%s is taken", path)
		}
		return token, nil
	}
	return descend(data, steps, path, place)
}

// behind is a text with the token as a word of its own at its end: in a paragraph of
// its own where the text has lines. Recorders put it in the same way.
func behind(text, token string) string {
	separator := " "
	switch {
	case text == "" || text == token:
		return token
	case strings.Contains(text, "\n"):
		separator = "\n\n"
	}
	if strings.HasSuffix(text, separator+token) {
		return text
	}
	return text + separator + token
}

func descend(data any, steps []step, path string, place func(any, bool) (any, error)) (any, error) {
	if len(steps) == 0 {
		return place(data, true)
	}
	s := steps[0]
	if s.isIndex {
		list, ok := data.([]any)
		if !ok || s.index >= len(list) {
			return nil, fmt.Errorf("the token has no place: input.%s does not exist", path)
		}
		got, err := descend(list[s.index], steps[1:], path, place)
		if err != nil {
			return nil, err
		}
		out := append([]any(nil), list...)
		out[s.index] = got
		return out, nil
	}
	object, ok := data.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the token has no place: input.%s does not exist", path)
	}
	old, exists := object[s.name]
	var got any
	var err error
	switch {
	case len(steps) == 1:
		got, err = place(old, exists)
	case !exists || old == nil:
		if steps[1].isIndex {
			return nil, fmt.Errorf("the token has no place: input.%s does not exist", path)
		}
		got, err = descend(map[string]any{}, steps[1:], path, place)
	default:
		got, err = descend(old, steps[1:], path, place)
	}
	if err != nil {
		return nil, err
	}
	out := make(map[string]any, len(object)+1)
	for k, v := range object {
		out[k] = v
	}
	out[s.name] = got
	return out, nil
}
