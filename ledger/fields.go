package ledger

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Fields are the values at paths of an input, by "input." and the path. A missing or
// null one is an error: what is told apart by them would be made one.
func Fields(input json.RawMessage, paths []string) (map[string]any, error) {
	data, err := DecodeJSON(input)
	if err != nil {
		return nil, fmt.Errorf("there is no input to take %s from", strings.Join(paths, ", "))
	}
	values := map[string]any{}
	for _, path := range paths {
		v, err := field(data, path)
		if err != nil {
			return nil, err
		}
		values["input."+path] = v
	}
	return values, nil
}

// Part is the value at one path of an input.
func Part(input json.RawMessage, path string) (json.RawMessage, error) {
	data, err := DecodeJSON(input)
	if err != nil {
		return nil, fmt.Errorf("there is no input to take %s from", path)
	}
	if data, err = field(data, path); err != nil {
		return nil, err
	}
	return EncodeJSON(data), nil
}

// Digest is a short one (hex) of values, the same for values that Fingerprint takes
// for the same.
func Digest(values map[string]any) (string, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return "", err
	}
	digest, err := Fingerprint(text)
	if err != nil {
		return "", err
	}
	return digest[:32], nil
}

// field is the value at a path of the input.
func field(data any, path string) (any, error) {
	steps, err := ParsePath(path)
	if err != nil {
		return nil, err
	}
	for _, step := range steps {
		var found bool
		switch t := data.(type) {
		case map[string]any:
			data, found = t[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(t) {
				data, found = t[i], true
			}
		}
		if !found {
			return nil, fmt.Errorf("the input has no %s", path)
		}
	}
	if data == nil {
		return nil, fmt.Errorf("the input's %s is null", path)
	}
	return data, nil
}

// ParsePath splits "a.b[0].c" or "items[*].card" into its steps, those of a
// list as "0" and "*".
func ParsePath(path string) ([]string, error) {
	var steps []string
	for _, part := range strings.Split(strings.TrimPrefix(path, "input."), ".") {
		name, rest, indexed := strings.Cut(part, "[")
		if name == "" && !indexed || name == "" && len(steps) == 0 && part[0] != '[' {
			return nil, fmt.Errorf("%q is no path", path)
		}
		if name != "" {
			steps = append(steps, name)
		}
		for indexed {
			var index string
			var closed bool
			index, rest, closed = strings.Cut(rest, "]")
			if !closed || index == "" {
				return nil, fmt.Errorf("%q is no path: a bracket is not closed", path)
			}
			steps = append(steps, strings.Trim(index, `"'`))
			if rest == "" {
				break
			}
			if rest[0] != '[' {
				return nil, fmt.Errorf("%q is no path", path)
			}
			rest = rest[1:]
		}
	}
	return steps, nil
}
