package expr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// Names are the values of the names of one evaluation. Each is found once, and only
// when an expression asks for it. They serve one goroutine at a time.
type Names struct {
	find    func(name string) (any, error)
	found   map[string]any
	data    map[*Expression]any // what renderings computed, without secrets
	it      *Value
	problem error // of a name; kept, because CEL may swallow it (`error || true`)
}

// NewNames are names whose values find gives: JSON data as Decode gives it, a time, a
// Lookup for header, link, env and file, or an error where there is no value.
func NewNames(find func(name string) (any, error)) *Names {
	return &Names{find: find, found: map[string]any{}}
}

// With are the same names for one candidate, `it`.
func (n *Names) With(it Value) *Names {
	return &Names{find: n.find, found: n.found, it: &it}
}

// Parent makes Names an interpreter.Activation.
func (n *Names) Parent() interpreter.Activation { return nil }

// ResolveName finds a name's value for CEL.
func (n *Names) ResolveName(name string) (any, bool) {
	if name == "it" && n.it != nil {
		return n.it.val, true
	}
	name = strings.TrimPrefix(name, lookupMark)
	if got, ok := n.found[name]; ok {
		return got, true
	}
	got, err := n.find(name)
	if err != nil {
		return types.WrapErr(n.note(err)), true
	}
	if find, ok := got.(Lookup); ok {
		got = &lookup{types.NewStringStringMap(types.DefaultTypeAdapter, nil), func(of string) (string, error) {
			text, err := find(of)
			return text, n.note(err)
		}}
	}
	n.found[name] = got
	return got, true
}

// note keeps the first error as it is, because CEL passes on only its text.
func (n *Names) note(err error) error {
	if n.problem == nil {
		n.problem = err
	}
	return err
}

// Lookup is a mapping from text to text that can be asked but not listed.
type Lookup func(name string) (string, error)

type lookup struct {
	traits.Mapper // an empty one
	find          Lookup
}

func (l *lookup) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.NewErr("a name must be text"), false
	}
	value, err := l.find(string(name))
	if err != nil {
		return types.WrapErr(err), false
	}
	return types.String(value), true
}

func (l *lookup) Get(key ref.Val) ref.Val {
	v, _ := l.Find(key)
	return v
}

func (l *lookup) Contains(key ref.Val) ref.Val {
	_, found := l.Find(key)
	return types.Bool(found)
}

// ErrStopped says that an expression ran too long.
var ErrStopped = errors.New("the expression took too long and was stopped")

// Bounded ends all evaluations under it in time. What is bounded already shares its
// time.
func Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if until, ok := ctx.Deadline(); ok && time.Until(until) <= evalTimeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, evalTimeout)
}

// Eval computes the expression. Only a loop looks at ctx: all else is bounded by the
// length of its text and of the data.
func (e *Expression) Eval(ctx context.Context, names *Names) (Value, error) {
	names.problem = nil
	var out ref.Val
	var err error
	if e.loops {
		bounded, cancel := Bounded(ctx)
		defer cancel()
		ctx = bounded
		out, _, err = e.program.ContextEval(ctx, names)
	} else {
		out, _, err = e.program.Eval(names)
	}
	switch {
	case names.problem != nil:
		return Value{}, names.problem
	case err != nil:
		return Value{}, e.explain(ctx, names, err)
	case out == nil || types.IsError(out) || types.IsUnknown(out):
		return Value{}, e.About(fmt.Errorf("%v", out))
	}
	return Value{out}, nil
}

// explain turns CEL's words into a plain sentence.
func (e *Expression) explain(ctx context.Context, names *Names, err error) error {
	text := err.Error()
	key, missing := strings.CutPrefix(text, "no such key: ") // CEL's type of it is its own
	switch {
	case ctx.Err() != nil, errors.As(err, new(interpreter.EvalCancelledError)), errors.As(err, new(interpreter.InterruptError)),
		errors.Is(err, ErrStopped):
		return e.About(ErrStopped)
	case e.Secret():
		return e.About(errors.New("it cannot be computed")) // CEL's words may quote the secret
	case missing:
		return e.About(missingKeyError{key, e.lacking(names, key)})
	}
	return e.About(errors.New(text))
}

// missingKeyError is the name of a member that is not there, and what lacks it.
type missingKeyError struct{ member, owner string }

func (e missingKeyError) Error() string { return fmt.Sprintf("%s has no `%s`", e.owner, e.member) }

// Lacks reports that the expression found no value: a member on the way to it is missing.
func Lacks(err error) bool { return errors.As(err, new(missingKeyError)) }

// Truth computes an expression that must be true or false.
func (e *Expression) Truth(ctx context.Context, names *Names) (bool, error) {
	v, err := e.Eval(ctx, names)
	if err != nil {
		return false, err
	}
	b, ok := v.val.(types.Bool)
	if !ok {
		return false, e.About(fmt.Errorf("not true or false but %s", v.typeName()))
	}
	return bool(b), nil
}

// Holds is Truth, and true where there is no expression.
func (e *Expression) Holds(ctx context.Context, names *Names) (bool, error) {
	if e == nil {
		return true, nil
	}
	return e.Truth(ctx, names)
}

// OfCandidate computes an expression on the candidate as data. What is missing or null
// on the way to it is nil; CEL calls a member of null a type error, so a plain path is
// followed here. Where several members are gone through, one that is missing hides
// the others, and what the answer lacks says nothing of a candidate: those are errors.
func (e *Expression) OfCandidate(ctx context.Context, names *Names) (any, error) {
	if e.plain != nil {
		it, err := names.it.Data()
		if err != nil {
			return nil, err
		}
		data, _, err := e.plain.Get(it)
		return data, e.About(err)
	}
	v, err := e.Eval(ctx, names)
	if Lacks(err) && !e.loops && !e.Uses(AnswerNames...) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v.Data()
}

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
