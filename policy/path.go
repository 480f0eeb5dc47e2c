package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	inputPath = regexp.MustCompile(`^[A-Za-z_$][\w$-]*(?:\.[A-Za-z_$][\w$-]*|\[\d{1,6}\])*$`)
	pathStep  = regexp.MustCompile(`([A-Za-z_$][\w$-]*)|\[(\d+)\]`)
)

// parsePath reads metadata.indoubt or entities[0].observations: names (string) and
// indexes (int).
func parsePath(text string) (steps []any, err error) {
	if !inputPath.MatchString(text) {
		return nil, fmt.Errorf("%q is no path into the input", text)
	}
	for _, m := range pathStep.FindAllStringSubmatch(text, -1) {
		if i, err := strconv.Atoi(m[2]); err == nil {
			steps = append(steps, i)
		} else {
			steps = append(steps, m[1])
		}
	}
	return steps, nil
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

// insert is Insert for an input that is decoded, which it changes.
func (t TokenRule) insert(data any, token string) (any, error) {
	path := cmp.Or(t.Append, t.Into)
	if path == "" {
		return data, nil
	}
	steps, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	nowhere := fmt.Errorf("the token has no place: input.%s does not exist", path)
	return descend(data, steps, nowhere, func(old any) (any, error) {
		list, isList := old.([]any)
		text, isText := old.(string)
		switch {
		case t.Append == "" && old != nil && old != token:
			return nil, fmt.Errorf("the token has no place: input.%s is taken", path)
		case t.Append == "":
			return token, nil
		case isText:
			return behind(text, token), nil
		case old != nil && !isList:
			return nil, fmt.Errorf("the token cannot be added: input.%s is neither a list nor a text", path)
		case slices.Contains(list, any(token)):
			return list, nil
		}
		return append(list, token), nil
	})
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

// descend changes what is at the end of a path. Names on the way that are missing
// are made; where there can be none, the error is nowhere.
func descend(data any, steps []any, nowhere error, change func(old any) (any, error)) (_ any, err error) {
	if len(steps) == 0 {
		return change(data)
	}
	switch at := data.(type) {
	case []any:
		i, ok := steps[0].(int)
		if !ok || i >= len(at) {
			return nil, nowhere
		}
		at[i], err = descend(at[i], steps[1:], nowhere, change)
	case map[string]any:
		name, ok := steps[0].(string)
		if !ok {
			return nil, nowhere
		}
		member := at[name]
		if member == nil && len(steps) > 1 {
			member = map[string]any{}
		}
		at[name], err = descend(member, steps[1:], nowhere, change)
	default:
		return nil, nowhere
	}
	return data, err
}
