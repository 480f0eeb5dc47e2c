package expr

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
// needs; mixed computes them. (Overloads with bindings are refused beside
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

// check looks at the arguments of a call before CEL makes it: it may change them, or
// refuse them by an error.
type check func(args []ref.Val) ([]ref.Val, error)

// checks are the calls that CEL would make wrongly, too long or for too long; for
// each place in an expression a check is made anew.
var checks = map[string]func() check{
	operators.Add:      always(added),
	operators.Subtract: always(mixed(traits.SubtractorType)),
	operators.Multiply: always(mixed(traits.MultiplierType)),
	operators.Divide:   always(mixed(traits.DividerType)),
	"replace":          always(replaced),
	"join":             always(joined),
	"distinct":         effort(func(args []ref.Val) int { return pairs(args[0], args[0]) }),
	"hasAll":           effort(func(args []ref.Val) int { return pairs(args[0], args[1]) }),
	"hasAny":           effort(func(args []ref.Val) int { return pairs(args[0], args[1]) }),
	"hasOnly":          effort(func(args []ref.Val) int { return pairs(args[0], args[1]) }),
	"hasExactly":       effort(func(args []ref.Val) int { return 2 * pairs(args[0], args[1]) }),
	"indexOf":          effort(func(args []ref.Val) int { return length(args[0]) * length(args[1]) }),
	"lastIndexOf":      effort(func(args []ref.Val) int { return length(args[0]) * length(args[1]) }),
	"matches":          func() check { return effort(matching())() },
}

func always(c check) func() check { return func() check { return c } }

// checkCalls puts the checks in front of the calls of an expression.
func checkCalls(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || checks[call.Function()] == nil || len(call.Args()) == 0 {
		return i, nil
	}
	run, check := plainCalls()[call.Function()], checks[call.Function()]()
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		args, err := check(args)
		if err != nil {
			return types.WrapErr(err)
		}
		return run(args...)
	}), nil
}

// plainCalls are those calls as CEL makes them.
var plainCalls = sync.OnceValue(func() map[string]functions.FunctionOp {
	out := map[string]functions.FunctionOp{}
	for name, f := range language().Functions() {
		if checks[name] == nil {
			continue
		}
		bindings, err := f.Bindings()
		if err != nil {
			panic("expr: " + name + ": " + err.Error()) // a test would show it
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

// mixed makes arithmetic work on numbers of two types: both become doubles, as JSON
// numbers are. What has no such arithmetic by its trait is refused.
func mixed(trait int) check {
	return func(args []ref.Val) ([]ref.Val, error) {
		switch {
		case !args[0].Type().HasTrait(trait):
			return nil, fmt.Errorf("%s has no arithmetic", Value{args[0]}.typeName())
		case !isNumber(args[0]) || !isNumber(args[1]) || args[0].Type() == args[1].Type():
			return args, nil
		}
		l, err := exactDouble(args[0])
		if err != nil {
			return nil, err
		}
		r, err := exactDouble(args[1])
		return []ref.Val{l, r}, err
	}
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

// added is mixed, and refuses two texts that are too long together.
func added(args []ref.Val) ([]ref.Val, error) {
	l, left := args[0].(types.String)
	r, right := args[1].(types.String)
	if left && right && len(l)+len(r) > maxText {
		return nil, errTooLong
	}
	return mixed(traits.AdderType)(args)
}

// replaced refuses to make a text that is too long.
func replaced(args []ref.Val) ([]ref.Val, error) {
	var s [3]string
	for i := range s {
		text, _ := args[i].(types.String)
		s[i] = string(text)
	}
	times := utf8.RuneCountInString(s[0]) + 1
	if s[1] != "" {
		times = strings.Count(s[0], s[1])
	}
	if len(args) == 4 {
		if limit, ok := args[3].(types.Int); ok && limit >= 0 {
			times = min(times, int(limit))
		}
	}
	if grow := len(s[2]) - len(s[1]); grow > 0 && times > (maxText-min(len(s[0]), maxText))/grow {
		return nil, errTooLong
	}
	return args, nil
}

// joined refuses to make a text that is too long.
func joined(args []ref.Val) ([]ref.Val, error) {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return args, nil
	}
	between, size := types.String(""), 0
	if len(args) == 2 {
		between, _ = args[1].(types.String)
	}
	for it := list.Iterator(); it.HasNext() == types.True; {
		part, _ := it.Next().(types.String)
		if size += len(between) + len(part); size > maxText+len(between) {
			return nil, errTooLong
		}
	}
	return args, nil
}

const (
	// maxEffort bounds what a single call may take, in comparisons of two
	// characters: a few seconds of them.
	maxEffort = 200_000_000
	// perEntry is what it takes to compare two entries of lists, in the same measure.
	perEntry = 50
)

// effort refuses a call that would take too long. CEL counts too little for those
// that take more than their arguments are long, and stops no call half-way.
func effort(of func(args []ref.Val) int) func() check {
	return always(func(args []ref.Val) ([]ref.Val, error) {
		if of(args) > maxEffort {
			return nil, ErrStopped
		}
		return args, nil
	})
}

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
