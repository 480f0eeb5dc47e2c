package expr

import (
	"fmt"
	"regexp/syntax"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// arithmetic functions that take a number of one type beside one of another.
var arithmetic = map[string]string{operators.Add: "add", operators.Subtract: "subtract",
	operators.Multiply: "multiply", operators.Divide: "divide"}

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

// checks are the calls that CEL would make wrongly, too long or for too long.
var checks = map[string]check{
	operators.Add: mixed(traits.AdderType), operators.Subtract: mixed(traits.SubtractorType),
	operators.Multiply: mixed(traits.MultiplierType), operators.Divide: mixed(traits.DividerType),
	"join": joined, "replace": replaced,
	"distinct": bounded, "hasAll": bounded, "hasAny": bounded, "hasOnly": bounded, "hasExactly": bounded,
	"indexOf": bounded, "lastIndexOf": bounded, "matches": matched,
}

// checkCalls puts the checks in front of the calls of an expression.
func checkCalls(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || checks[call.Function()] == nil || len(call.Args()) == 0 {
		return i, nil
	}
	run, check := plainCalls()[call.Function()], checks[call.Function()]
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

// replaced refuses to make a text that may be too long.
func replaced(args []ref.Val) ([]ref.Val, error) {
	if length(args[0])*length(args[2]) > maxText {
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
	perEntry  = 7 // characters that an entry of a list counts as
)

// bounded refuses a call that may take too long: each character of an argument may be compared
// with each of another. CEL counts too little for such calls, and stops none half-way.
func bounded(args []ref.Val) ([]ref.Val, error) {
	effort := length(args[len(args)-1]) // a list alone is compared with itself
	for _, a := range args[:max(1, len(args)-1)] {
		effort *= length(a)
	}
	if effort > maxEffort {
		return nil, ErrStopped
	}
	return args, nil
}

// matched refuses to search a text for too long: at every character the search may be anywhere
// in the program of the pattern.
func matched(args []ref.Val) ([]ref.Val, error) {
	pattern, _ := args[1].(types.String)
	parsed, err := syntax.Parse(string(pattern), syntax.Perl)
	if err != nil {
		return args, nil // CEL says so
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err == nil && length(args[0])*float64(len(program.Inst)) > maxEffort {
		return nil, ErrStopped
	}
	return args, nil
}

// length is how many characters a value counts as, 1 or more.
func length(v ref.Val) float64 {
	switch x := v.(type) {
	case types.String:
		return float64(max(1, len(x)))
	case traits.Sizer:
		if n, ok := x.Size().(types.Int); ok {
			return float64(max(1, perEntry*n))
		}
	}
	return 1
}
