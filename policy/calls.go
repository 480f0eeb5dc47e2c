package policy

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// arithmetic functions that take a number of one type beside one of another.
var arithmetic = map[string]string{operators.Add: "add", operators.Subtract: "subtract", operators.Multiply: "multiply", operators.Divide: "divide"}

// mixedArithmetic declares overloads without bindings, which only the checker
// needs; mixNumbers computes them. (Overloads with bindings are refused beside
// the standard ones.)
func mixedArithmetic() []cel.EnvOption {
	var out []cel.EnvOption
	numbers := map[string]*cel.Type{"int": cel.IntType, "uint": cel.UintType, "double": cel.DoubleType}
	for fn, name := range arithmetic {
		for l, lt := range numbers {
			for r, rt := range numbers {
				if l != r {
					out = append(out, cel.Function(fn, cel.Overload(name+"_mixed_"+l+"_"+r, []*cel.Type{lt, rt}, cel.DoubleType)))
				}
			}
		}
	}
	return out
}

// mixNumbers makes the four operations work on numbers of two types: both
// become doubles, as JSON numbers are.
func mixNumbers(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || arithmetic[call.Function()] == "" || len(call.Args()) != 2 {
		return i, nil
	}
	fn := call.Function()
	return interpreter.NewCall(call.ID(), fn, call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		l, r := args[0], args[1]
		if isNumber(l) && isNumber(r) && l.Type() != r.Type() {
			var err error
			if l, err = exactDouble(l); err != nil {
				return types.WrapErr(err)
			}
			if r, err = exactDouble(r); err != nil {
				return types.WrapErr(err)
			}
		}
		return compute(fn, l, r)
	}), nil
}

func compute(fn string, l, r ref.Val) ref.Val {
	switch fn {
	case operators.Add:
		if tooLong(fn, l, r) {
			return types.WrapErr(errTooLong)
		}
		if a, ok := l.(traits.Adder); ok {
			return a.Add(r)
		}
	case operators.Subtract:
		if a, ok := l.(traits.Subtractor); ok {
			return a.Subtract(r)
		}
	case operators.Multiply:
		if a, ok := l.(traits.Multiplier); ok {
			return a.Multiply(r)
		}
	case operators.Divide:
		if a, ok := l.(traits.Divider); ok {
			return a.Divide(r)
		}
	}
	return types.NewErr("%s has no arithmetic", typeName(l))
}

func isNumber(v ref.Val) bool {
	switch v.(type) {
	case types.Int, types.Uint, types.Double:
		return true
	}
	return false
}

// exactDouble refuses to round: a number that is computed wrongly is worse than
// an error.
func exactDouble(v ref.Val) (ref.Val, error) {
	switch x := v.(type) {
	case types.Int:
		if x > exactLimit || x < -exactLimit {
			return nil, fmt.Errorf("%d is too large to calculate with", int64(x))
		}
		return types.Double(x), nil
	case types.Uint:
		if x > exactLimit {
			return nil, fmt.Errorf("%d is too large to calculate with", uint64(x))
		}
		return types.Double(x), nil
	}
	return v, nil
}

// maxText bounds a text that an expression makes, in bytes. What CEL counts as a
// step may make a text as long as two others multiplied, and both may be the
// other side's.
const maxText = 16 << 20

var errTooLong = fmt.Errorf("it makes a text of more than %d MiB", maxText>>20)

// boundText puts a bound in front of the calls that make texts longer: +,
// replace and join.
func boundText(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	n := len(call.Args())
	switch fn := call.Function(); {
	case fn == "replace" && (n == 3 || n == 4), fn == "join" && (n == 1 || n == 2):
		return interpreter.NewCall(call.ID(), fn, call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
			if fn == "join" {
				return joined(args)
			}
			return replaced(args)
		}), nil
	}
	return i, nil
}

// tooLong tells whether two values joined by + are longer than a text may be.
func tooLong(fn string, l, r ref.Val) bool {
	a, left := l.(types.String)
	b, right := r.(types.String)
	return fn == operators.Add && left && right && len(a)+len(b) > maxText
}

func replaced(args []ref.Val) ref.Val {
	var s [3]string
	for i := range s {
		text, ok := args[i].(types.String)
		if !ok {
			return wrongCall("replace", args)
		}
		s[i] = string(text)
	}
	limit := -1
	if len(args) == 4 {
		n, ok := args[3].(types.Int)
		if !ok {
			return wrongCall("replace", args)
		}
		limit = int(n)
	}
	times := utf8.RuneCountInString(s[0]) + 1
	if s[1] != "" {
		times = strings.Count(s[0], s[1])
	}
	if limit >= 0 {
		times = min(times, limit)
	}
	if grow := len(s[2]) - len(s[1]); grow > 0 && times > (maxText-min(len(s[0]), maxText))/grow {
		return types.WrapErr(errTooLong)
	}
	return types.String(strings.Replace(s[0], s[1], s[2], limit))
}

func joined(args []ref.Val) ref.Val {
	list, ok := args[0].(traits.Lister)
	separator := types.String("")
	if ok && len(args) == 2 {
		separator, ok = args[1].(types.String)
	}
	if !ok {
		return wrongCall("join", args)
	}
	var b strings.Builder
	for it, first := list.Iterator(), true; it.HasNext() == types.True; first = false {
		part, text := it.Next().(types.String)
		if !text {
			return types.NewErr("join: not all of the list is text")
		}
		if b.Len()+len(separator)+len(part) > maxText {
			return types.WrapErr(errTooLong)
		}
		if !first {
			b.WriteString(string(separator))
		}
		b.WriteString(string(part))
	}
	return types.String(b.String())
}

// wrongCall passes on the error that an argument is, else says what is wrong.
func wrongCall(fn string, args []ref.Val) ref.Val {
	for _, a := range args {
		if types.IsUnknownOrError(a) {
			return a
		}
	}
	return types.NewErr("%s has no place on %s", fn, typeName(args[0]))
}

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
