package policy

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

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
