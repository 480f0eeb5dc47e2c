package expr

import (
	"fmt"
	"strconv"

	"indoubt/ledger/lazyregexp"
)

// Path leads into JSON data: names of members (string), indexes (int), or Each.
type Path []any

type each struct{}

// Each is a step to every element of a list.
var Each any = each{}

var (
	pathForm = lazyregexp.New(`^[A-Za-z_$][\w$-]*(?:\.[A-Za-z_$][\w$-]*|\[\d{1,6}\])*$`)
	pathStep = lazyregexp.New(`([A-Za-z_$][\w$-]*)|\[(\d+)\]`)
)

// ParsePath reads metadata.indoubt or entities[0].observations.
func ParsePath(text string) (path Path, err error) {
	if !pathForm.MatchString(text) {
		return nil, fmt.Errorf("%q is not a path into the input", text)
	}
	for _, m := range pathStep.FindAllStringSubmatch(text, -1) {
		if i, err := strconv.Atoi(m[2]); err == nil {
			path = append(path, i)
		} else {
			path = append(path, m[1])
		}
	}
	return path, nil
}

// Get is the value at the path. What is missing or null on the way has none; a
// step that its value cannot take is an error.
func (p Path) Get(data any) (value any, found bool, err error) {
	for _, step := range p {
		switch at := data.(type) {
		case nil:
			return nil, false, nil
		case map[string]any:
			name, ok := step.(string)
			if !ok {
				return nil, false, fmt.Errorf("a mapping has no index")
			}
			if data, found = at[name]; !found {
				return nil, false, nil
			}
		case []any:
			i, ok := step.(int)
			if !ok {
				return nil, false, fmt.Errorf("a list has no `%v`", step)
			}
			if i < 0 || i >= len(at) {
				return nil, false, nil
			}
			data = at[i]
		default:
			return nil, false, fmt.Errorf("a plain value has no `%v`", step)
		}
	}
	return data, true, nil
}

// Replace changes every plain value at the path and below it, inside data. found
// reports whether there was one.
func (p Path) Replace(data any, change func(old any) any) (_ any, found bool) {
	rest := p[min(1, len(p)):]
	switch at := data.(type) {
	case map[string]any:
		for name, member := range at {
			if len(p) > 0 && p[0] != name {
				continue
			}
			made, ok := rest.Replace(member, change)
			if ok {
				at[name], found = made, true
			}
		}
		return at, found
	case []any:
		if len(p) > 0 && p[0] != Each {
			return at, false
		}
		for i := range at {
			made, ok := rest.Replace(at[i], change)
			if ok {
				at[i], found = made, true
			}
		}
		return at, found
	}
	if len(p) > 0 {
		return data, false
	}
	return change(data), true
}
