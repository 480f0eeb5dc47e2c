package expr

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// memberChain is a name and the members that an expression takes of it: it.a["b"][0].
type memberChain struct {
	root  string
	steps Path
}

// owners are what the names stand for, in an error about a member that one of them lacks.
var owners = map[string]string{
	"input": "the input", "it": "the candidate", "body": "the answer", "structured": "the answer", "json": "the output",
	"row": "the row", "op": "the operation", "attempt": "the attempt",
}

// lacking is what has no such member: CEL names the member alone. Each chain of the
// expression is followed through the values that it was computed of, to where it ends.
func (e *Expression) lacking(names *Names, member string) string {
	owner := "a value in this expression"
	for _, c := range e.chains {
		at, known := names.known(c.root)
		if !known && slices.Contains(c.steps, any(member)) { // the variable of a loop
			owner = "an element of the list"
			continue
		}
		for i, step := range c.steps {
			next, found := take(at, step)
			if found {
				at = next
				continue
			}
			if fmt.Sprint(step) == member {
				return c.ownerOf(i)
			}
			break
		}
	}
	return owner
}

// known is the value of a name that the expression has asked for.
func (n *Names) known(name string) (ref.Val, bool) {
	if name == "it" && n.it != nil {
		return n.it.val, true
	}
	v, ok := n.found[name]
	if !ok {
		return nil, false
	}
	return types.DefaultTypeAdapter.NativeToValue(v), true
}

// take is a member or an element of a value.
func take(of ref.Val, step any) (ref.Val, bool) {
	switch of := of.(type) {
	case traits.Mapper:
		return of.Find(types.DefaultTypeAdapter.NativeToValue(step))
	case traits.Lister:
		if i, ok := step.(int); ok && i >= 0 && types.Int(i) < of.Size().(types.Int) {
			return of.Get(types.Int(i)), true
		}
	}
	return nil, false
}

// ownerOf names the value that the chain has come to after some steps.
func (c memberChain) ownerOf(steps int) string {
	if owner := owners[c.root]; owner != "" && steps == 0 {
		return owner
	}
	text := c.root
	for _, step := range c.steps[:steps] {
		if name, ok := step.(string); ok {
			text += "." + name
		} else {
			text += fmt.Sprintf("[%v]", step)
		}
	}
	return "`" + text + "`"
}
