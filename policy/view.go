package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

// requestParts are the parts of the input of an operation that an HTTP recorder
// recorded, as it is recorded.
var requestParts = []string{"method", "override", "path", "query", "content_type", "headers", "body"}

// view reads `input:`, the part of such an input that the kind's expressions see:
// ${input.body}. It is a plain path, so that the token finds its way back.
func (d fileDecoder) view(k *Kind, n *node) {
	text, ok := d.scalar(n)
	if !ok {
		return
	}
	inner, opened := strings.CutPrefix(strings.TrimSpace(text), "${")
	inner, closed := strings.CutSuffix(inner, "}")
	path, whole := strings.CutPrefix(strings.TrimSpace(inner), "input.")
	steps, err := expr.ParsePath(path)
	const hint = "input: ${input.body}, for the body of the requests that the HTTP proxy records"
	switch {
	case !opened || !closed || !whole || err != nil:
		d.fail(n.place, fmt.Sprintf("%q is not a part of a recorded request", text), hint)
		return
	case !slices.Contains(requestParts, fmt.Sprint(steps[0])):
		d.fail(n.place, fmt.Sprintf("a recorded request has no `%s`", path), "it has "+strings.Join(requestParts, ", "))
		return
	}
	k.Input, k.view = path, steps
}

// views reports whether the kind's expressions see a part of an operation's input.
func (k *Kind) views(o ledger.Operation) bool {
	return k != nil && len(k.view) > 0 && o.Request != nil
}

// seen is an operation's input as the kind's expressions see it.
func (k *Kind) seen(o ledger.Operation) (any, error) {
	in, err := decodeInput(o)
	if err != nil || !k.views(o) {
		return in, err
	}
	in, found, err := k.view.Get(in)
	if err != nil || !found {
		return nil, fmt.Errorf("the request has no %s", k.Input)
	}
	return in, nil
}

// reseen is an operation that has another input, in the place of what seen gave.
func (k *Kind) reseen(o ledger.Operation, seen any) (ledger.Operation, error) {
	if !k.views(o) {
		o.Input = ledger.EncodeJSON(seen)
		return o, nil
	}
	whole, err := decodeInput(o)
	if err != nil {
		return o, err
	}
	last := len(k.view) - 1
	holder, _, _ := k.view[:last].Get(whole)
	switch step := k.view[last].(type) {
	case string:
		holder.(map[string]any)[step] = seen
	case int:
		holder.([]any)[step] = seen
	}
	o.Input = ledger.EncodeJSON(whole)
	return o, nil
}

// seenJSON is the seen input as text, "null" where there is none.
func (k *Kind) seenJSON(o ledger.Operation) json.RawMessage {
	if !k.views(o) {
		if json.Valid(o.Input) {
			return o.Input
		}
		return json.RawMessage("null")
	}
	if part, err := ledger.Part(o.Input, k.Input); err == nil {
		return part
	}
	return json.RawMessage("null")
}
