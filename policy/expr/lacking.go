package expr

import "fmt"

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
	for _, c := range e.chains {
		of, known := names.found[c.root]
		if c.root == "it" && names.it != nil {
			of, _ = names.it.Data()
			known = true
		}
		for i, step := range c.steps {
			if fmt.Sprint(step) != member {
				continue
			}
			if !known { // the variable of a loop
				return "an element of the list"
			}
			holder, found, err := c.steps[:i].Get(of)
			if _, has, _ := c.steps[i : i+1].Get(holder); found && err == nil && !has {
				return c.ownerOf(i)
			}
		}
	}
	return "a value in this expression"
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
