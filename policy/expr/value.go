package expr

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Value is what an expression gave.
type Value struct{ val ref.Val }

func NewValue(data any) Value { return Value{types.DefaultTypeAdapter.NativeToValue(Exact(data))} }

// Data is the value as encoding/json writes it: nil, bool, json.Number, string, []any,
// map[string]any.
func (v Value) Data() (any, error) {
	switch x := v.val.(type) {
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
		return json.Number(FormatNumber(float64(x))), nil
	case bigNumber:
		return json.Number(x), nil
	case types.Bytes:
		return string(x), nil
	case types.Timestamp:
		return x.Time.UTC().Format(time.RFC3339), nil
	case types.Duration:
		return json.Number(FormatNumber(x.Seconds())), nil
	case *types.Err:
		return nil, x
	case *types.Unknown:
		return nil, fmt.Errorf("the value is unknown")
	case traits.Lister:
		return listData(x)
	case traits.Mapper:
		return mapData(x)
	}
	return nil, fmt.Errorf("a value of type %s cannot be written", v.val.Type().TypeName())
}

func listData(l traits.Lister) (any, error) {
	out := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		e, err := Value{it.Next()}.Data()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func mapData(m traits.Mapper) (any, error) {
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, err := Value{key}.Format()
		if err != nil {
			return nil, err
		}
		value, found := m.Find(key)
		if !found {
			continue
		}
		if out[name], err = (Value{value}).Data(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Format writes a plain value as text. A list or mapping has no plain form, and null
// would be read as a name: those are errors.
func (v Value) Format() (string, error) {
	data, err := v.Data()
	if err != nil {
		return "", err
	}
	return FormatData(data)
}

// List is the elements of a list of at most so many.
func (v Value) List(most int) ([]Value, error) {
	list, ok := v.val.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("not a list but %s", v.typeName())
	}
	if size, ok := list.Size().(types.Int); !ok || int(size) > most {
		return nil, fmt.Errorf("it has more than %d candidates on one page, which looks too wide", most)
	}
	var out []Value
	for it := list.Iterator(); it.HasNext() == types.True; {
		out = append(out, Value{it.Next()})
	}
	return out, nil
}

// secondsBelow is where numbers that give a moment change from seconds to
// milliseconds: the year 5138, or 1973.
const secondsBelow = 1e11

// Moment is a point in time as services write it: seconds or milliseconds
// since 1970, or RFC 3339. unit is how exactly it is written.
func (v Value) Moment() (at time.Time, unit time.Duration, err error) {
	if t, ok := v.val.(types.Timestamp); ok {
		return t.Time, written(t.Nanosecond()), nil
	}
	text, err := v.Format()
	if err != nil {
		return at, 0, err
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		if strings.ContainsAny(text, ".,") { // .000 is exact, too
			return t, time.Millisecond, nil
		}
		return t, time.Second, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n <= 0 || n > 1e14 {
		return at, 0, fmt.Errorf("%s is not a moment: seconds, milliseconds or RFC 3339", Shorten(text, 40))
	}
	if n < secondsBelow {
		whole, part := math.Modf(n)
		return time.Unix(int64(whole), int64(part*1e9)), written(int(part * 1e9)), nil
	}
	return time.UnixMilli(int64(n)), time.Millisecond, nil
}

func written(nanoseconds int) time.Duration {
	if nanoseconds == 0 {
		return time.Second
	}
	return time.Millisecond
}

func (v Value) Number() (float64, error) {
	if err, failed := v.val.(*types.Err); failed {
		return 0, err
	}
	if !isNumber(v.val) {
		return 0, fmt.Errorf("not a number but %s", v.typeName())
	}
	return float64(v.val.ConvertToType(types.DoubleType).(types.Double)), nil
}

func (v Value) typeName() string {
	switch v.val.(type) {
	case bigNumber:
		return "a number"
	case traits.Lister:
		return "a list"
	case traits.Mapper:
		return "a mapping"
	}
	return cmp.Or(typeWords[v.val.Type().(*types.Type).Kind()], v.val.Type().TypeName())
}

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

// Shorten is text on one line, of at most so many characters.
func Shorten(text string, most int) string {
	r := []rune(strings.Join(strings.Fields(text), " "))
	if len(r) <= most {
		return string(r)
	}
	return string(r[:most-1]) + "…"
}
