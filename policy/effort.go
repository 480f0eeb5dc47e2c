package policy

import (
	"regexp/syntax"
	"sync"
	"sync/atomic"

	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

const (
	// maxEffort bounds what a single call may take, in comparisons of two
	// characters: a few seconds of them.
	maxEffort = 200_000_000
	// perEntry is what it takes to compare two entries of lists, in the same measure.
	perEntry = 50
)

// efforts are the calls that take more than their arguments are long. CEL counts
// too little for them, and stops no call half-way.
var efforts = map[string]func() func(args []ref.Val) int{
	"distinct":    always(func(args []ref.Val) int { return pairs(args[0], args[0]) }),
	"hasAll":      always(func(args []ref.Val) int { return pairs(args[0], args[1]) }),
	"hasAny":      always(func(args []ref.Val) int { return pairs(args[0], args[1]) }),
	"hasOnly":     always(func(args []ref.Val) int { return pairs(args[0], args[1]) }),
	"hasExactly":  always(func(args []ref.Val) int { return 2 * pairs(args[0], args[1]) }),
	"indexOf":     always(func(args []ref.Val) int { return length(args[0]) * length(args[1]) }),
	"lastIndexOf": always(func(args []ref.Val) int { return length(args[0]) * length(args[1]) }),
	"matches":     matching,
}

func always(f func([]ref.Val) int) func() func([]ref.Val) int {
	return func() func([]ref.Val) int { return f }
}

// boundEffort refuses such a call where it would take too long.
func boundEffort(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || efforts[call.Function()] == nil {
		return i, nil
	}
	run, effort := plainCalls()[call.Function()], efforts[call.Function()]()
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		if len(args) > 0 && effort(args) > maxEffort {
			return types.WrapErr(errStopped)
		}
		return run(args...)
	}), nil
}

// plainCalls are those calls as CEL makes them.
var plainCalls = sync.OnceValue(func() map[string]functions.FunctionOp {
	out := map[string]functions.FunctionOp{}
	for name := range efforts {
		bindings, err := environments()[scopeOperation].Functions()[name].Bindings()
		if err != nil {
			panic("policy: " + name + ": " + err.Error()) // a test would show it
		}
		for _, b := range bindings {
			switch {
			case b.Operator != name:
			case b.Function != nil:
				out[name] = b.Function
			case b.Binary != nil:
				out[name] = func(args ...ref.Val) ref.Val { return b.Binary(args[0], args[1]) }
			case b.Unary != nil:
				out[name] = func(args ...ref.Val) ref.Val { return b.Unary(args[0]) }
			}
		}
	}
	return out
})

func pairs(a, b ref.Val) int { return perEntry * length(a) * length(b) }

func length(v ref.Val) int {
	switch x := v.(type) {
	case types.String:
		return len(x)
	case traits.Sizer:
		if n, ok := x.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 1
}

// matching is the effort of searching a text for a regular expression: at every
// character it may be anywhere in its program.
func matching() func([]ref.Val) int {
	type program struct {
		pattern types.String
		size    int
	}
	var last atomic.Pointer[program] // it is mostly the same one
	return func(args []ref.Val) int {
		pattern, ok := args[1].(types.String)
		if !ok {
			return 0
		}
		p := last.Load()
		if p == nil || p.pattern != pattern {
			p = &program{pattern, 0}
			if parsed, err := syntax.Parse(string(pattern), syntax.Perl); err == nil {
				if compiled, err := syntax.Compile(parsed.Simplify()); err == nil {
					for _, i := range compiled.Inst {
						if i.Op >= syntax.InstRune { // those that take a character
							p.size++
						}
					}
				}
			}
			last.Store(p)
		}
		return length(args[0]) * p.size
	}
}
