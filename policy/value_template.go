package policy

import (
	"fmt"
	"net/url"
	"strconv"
)

// value is a tree of templates and constants.
type value struct {
	text    *template
	fixed   bool // literal, which may be nil
	literal any  // bool, json.Number
	entries []named
	items   []*value
}

type named struct {
	name  string
	value *value
}

// pair is a header or an environment variable.
type pair struct {
	name  string
	value *template
}

func (v *value) templates() []*template {
	if v == nil {
		return nil
	}
	var out []*template
	if v.text != nil {
		out = append(out, v.text)
	}
	for _, e := range v.entries {
		out = append(out, e.value.templates()...)
	}
	for _, i := range v.items {
		out = append(out, i.templates()...)
	}
	return out
}

// tree renders a value as JSON data.
func (r *rendering) tree(v *value) (any, error) {
	switch {
	case v.text != nil:
		return r.json(v.text)
	case v.entries != nil:
		out := map[string]any{}
		for _, e := range v.entries {
			got, err := r.tree(e.value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.name, err)
			}
			out[e.name] = got
		}
		return out, nil
	case v.items != nil:
		out := []any{}
		for _, i := range v.items {
			got, err := r.tree(i)
			if err != nil {
				return nil, err
			}
			out = append(out, got)
		}
		return out, nil
	}
	return v.literal, nil
}

// formValues writes data the way Stripe, Rails and PHP read nested forms:
// metadata[indoubt]=…, items[0][price]=…. Null is left out.
func formValues(data any) (url.Values, error) {
	top, ok := data.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a form or query needs a mapping of names to values")
	}
	out := url.Values{}
	for name, v := range top {
		if err := addForm(out, name, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func addForm(out url.Values, name string, v any) error {
	switch x := v.(type) {
	case nil:
	case map[string]any:
		for k, e := range x {
			if err := addForm(out, name+"["+k+"]", e); err != nil {
				return err
			}
		}
	case []any:
		for i, e := range x {
			if err := addForm(out, name+"["+strconv.Itoa(i)+"]", e); err != nil {
				return err
			}
		}
	default:
		text, err := formatNative(v)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out.Add(name, text)
	}
	return nil
}

// queryValues is like formValues, but a list repeats its name, as most
// interfaces read queries.
func queryValues(data any) (url.Values, error) {
	top, ok := data.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a form or query needs a mapping of names to values")
	}
	flat := map[string]any{}
	out := url.Values{}
	for name, v := range top {
		list, isList := v.([]any)
		if !isList {
			flat[name] = v
			continue
		}
		for _, e := range list {
			if err := addForm(out, name, e); err != nil {
				return nil, err
			}
		}
	}
	rest, err := formValues(flat)
	for k, v := range rest {
		out[k] = v
	}
	return out, err
}
