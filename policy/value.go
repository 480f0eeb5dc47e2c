package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"indoubt/ledger"
)

// exactLimit is 2^53: from here on a double cannot tell neighbours apart.
const exactLimit = 1 << 53

// bigNumberType is the CEL type of bigNumber.
var bigNumberType = types.NewOpaqueType("indoubt.number")

// bigNumber is a JSON integer beyond 64 bits, kept digit by digit. It equals
// only itself and takes part in no arithmetic.
type bigNumber string

func (b bigNumber) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.String {
		return reflect.ValueOf(string(b)).Convert(t).Interface(), nil
	}
	return nil, fmt.Errorf("the number %s is too large to calculate with", string(b))
}

func (b bigNumber) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.StringType:
		return types.String(b)
	case types.TypeType:
		return bigNumberType
	}
	return types.NewErr("the number %s is too large to calculate with", string(b))
}

func (b bigNumber) Equal(other ref.Val) ref.Val {
	o, ok := other.(bigNumber)
	return types.Bool(ok && o == b)
}

func (b bigNumber) Type() ref.Type { return bigNumberType }
func (b bigNumber) Value() any     { return json.Number(b) }

// decodeJSON reads one JSON value for expressions: numbers below 2^53 as
// doubles, greater integers exactly, member names as they are.
func decodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errMoreValues
	}
	if ledger.NamesTwice(data, v) {
		return nil, errTwice
	}
	return exactNumbers(v), nil
}

var (
	errMoreValues = errors.New("more text after the JSON value")
	errTwice      = errors.New("an object has two members of one name")
)

// exactNumbers replaces the numbers in decoded JSON by what expressions calculate with.
func exactNumbers(v any) any {
	made, _ := exchange(v, nil, func(was any) any {
		if n, ok := was.(json.Number); ok {
			return exactNumber(string(n))
		}
		return was
	})
	return made
}

// exactNumber keeps what a double can hold as a double and the rest exactly. A
// number too large for a double stays text that no arithmetic accepts.
func exactNumber(text string) any {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return bigNumber(text)
	}
	if math.Abs(f) < exactLimit {
		return f
	}
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			return u
		}
		return bigNumber(text)
	}
	if math.Abs(f) < 1<<62 && len(text) < 64 {
		// 9007199254740993.0 is an integer too, and must equal itself written plainly.
		if r, ok := new(big.Rat).SetString(text); ok && r.IsInt() {
			return r.Num().Int64()
		}
	}
	return f
}

// native turns an expression's value into what encoding/json writes: nil, bool,
// json.Number, string, []any, map[string]any.
func native(v ref.Val) (any, error) {
	switch x := v.(type) {
	case nil, types.Null:
		return nil, nil
	case types.Bool:
		return bool(x), nil
	case types.String:
		return string(x), nil
	case types.Int:
		return json.Number(strconv.FormatInt(int64(x), 10)), nil
	case types.Uint:
		return json.Number(strconv.FormatUint(uint64(x), 10)), nil
	case types.Double:
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return nil, fmt.Errorf("the value is not a finite number")
		}
		return json.Number(formatNumber(float64(x))), nil
	case bigNumber:
		return json.Number(x), nil
	case types.Bytes:
		return string(x), nil
	case types.Timestamp:
		return x.Time.UTC().Format(time.RFC3339), nil
	case types.Duration:
		return json.Number(formatNumber(x.Seconds())), nil
	case *types.Err:
		return nil, x
	case *types.Unknown:
		return nil, fmt.Errorf("the value is unknown")
	case traits.Lister:
		return nativeList(x)
	case traits.Mapper:
		return nativeMap(x)
	}
	return nil, fmt.Errorf("a value of type %s cannot be written", v.Type().TypeName())
}

func nativeList(l traits.Lister) (any, error) {
	out := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		e, err := native(it.Next())
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func nativeMap(m traits.Mapper) (any, error) {
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, err := formatValue(key)
		if err != nil {
			return nil, err
		}
		value, found := m.Find(key)
		if !found {
			continue
		}
		if out[name], err = native(value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// formatValue writes a value into text. A list or mapping has no plain form
// there, and null would be read as a name.
func formatValue(v ref.Val) (string, error) {
	n, err := native(v)
	if err != nil {
		return "", err
	}
	return formatNative(n)
}

func formatNative(n any) (string, error) {
	switch x := n.(type) {
	case nil:
		return "", fmt.Errorf("the value is null")
	case string:
		return x, nil
	case bool:
		return strconv.FormatBool(x), nil
	case json.Number:
		return string(x), nil
	}
	return "", fmt.Errorf("a list or mapping has no place inside text")
}

// formatNumber writes a double as JSON (RFC 8785) does: 420, 0.5, 1e+21.
func formatNumber(f float64) string {
	if f == 0 {
		return "0"
	}
	if abs := math.Abs(f); abs < 1e-6 || abs >= 1e21 {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// number reads a value as a double.
func number(v ref.Val) (float64, error) {
	if err, failed := v.(*types.Err); failed {
		return 0, err
	}
	if !isNumber(v) {
		return 0, fmt.Errorf("not a number but %s", typeName(v))
	}
	return float64(v.ConvertToType(types.DoubleType).(types.Double)), nil
}

// typeName says in words what a value is.
func typeName(v ref.Val) string {
	switch v.(type) {
	case bigNumber:
		return "a number"
	case traits.Lister:
		return "a list"
	case traits.Mapper:
		return "a mapping"
	}
	return cmp.Or(typeWords[v.Type().(*types.Type).Kind()], v.Type().TypeName())
}
