package redact

import (
	"encoding/json"
	"slices"
)

// Walker replaces the secrets in decoded JSON, whose numbers are json.Number. It
// changes maps and lists in place.
type Walker struct {
	Stand  func(secret string) string // what stands for a secret text
	Values []string                   // further texts that are secret; Mark stands for them

	Changed bool // something was replaced
}

// Value is what stands under the name holder, without its secrets. A member argv
// that is a list of texts is a command line.
func (w *Walker) Value(holder string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if argv, ok := texts(member); ok && name == "argv" {
				v[name] = w.argv(argv)
			} else {
				v[name] = w.member(holder, name, member)
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = w.Value(holder, v[i])
		}
		return v
	case string:
		return w.changed(v, Replace(without(v, w.Values), w.Stand))
	case json.Number:
		if slices.Contains(w.Values, v.String()) {
			w.Changed = true
			return Mark
		}
	}
	return v
}

// member is Value for the value that a member has, or for those in its list.
func (w *Walker) member(holder, name string, v any) any {
	if list, ok := v.([]any); ok {
		for i := range list {
			list[i] = w.member(holder, name, list[i])
		}
		return list
	}
	if text, ok := Member(holder, name, v); ok && !Harmless(text) {
		return w.changed(text, w.Stand(text))
	}
	return w.Value(name, v)
}

func (w *Walker) argv(argv []string) any {
	out := make([]any, len(argv))
	for i, arg := range Argv(argv, w.Stand) {
		out[i] = w.changed(argv[i], without(arg, w.Values))
	}
	return out
}

func (w *Walker) changed(before, after string) string {
	w.Changed = w.Changed || before != after
	return after
}

// texts are the texts of a list that has nothing else in it.
func texts(v any) ([]string, bool) {
	list, ok := v.([]any)
	out := make([]string, len(list))
	for i := range list {
		text, is := list[i].(string)
		out[i], ok = text, ok && is
	}
	return out, ok
}
