package policy

import (
	"fmt"

	"cel.dev/cel-go/cel"
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
