package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
)

// exactLimit is 2^53: from here on a double cannot tell neighbours apart.
const exactLimit = 1 << 53

var (
	ErrMoreValues = errors.New("more text after the JSON value")
	ErrTwice      = errors.New("duplicate member name")
)

// Decode reads one JSON value for expressions: numbers below 2^53 as doubles, greater
// integers exactly, member names as they are.
func Decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, ErrMoreValues
	}
	if ledger.NamesTwice(text, v) {
		return nil, ErrTwice
	}
	return Exact(v), nil
}

// Exact replaces the numbers in JSON data, in place, by those that Decode gives.
func Exact(data any) any {
	made, _ := Path(nil).Replace(data, func(was any) any {
		if n, ok := was.(json.Number); ok {
			return exactNumber(string(n))
		}
		return was
	})
	return made
}

func IsNumber(data any) bool {
	switch data.(type) {
	case json.Number, float64, int64, uint64, bigNumber:
		return true
	}
	return false
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

// FormatData is Value.Format for data.
func FormatData(data any) (string, error) {
	switch x := data.(type) {
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

// FormatNumber writes a double as JSON (RFC 8785) does: 420, 0.5, 1e+21.
func FormatNumber(f float64) string {
	if f == 0 {
		return "0"
	}
	if abs := math.Abs(f); abs < 1e-6 || abs >= 1e21 {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// Money writes an amount as people read it: 12,000 · 420.50 · 0.07.
func Money(v float64) string { return strings.TrimSuffix(Cents(v), ".00") }

// Cents is Money with both decimals, as money(x) writes it: 12,000.00.
func Cents(v float64) string {
	whole, cents, _ := strings.Cut(fmt.Sprintf("%.2f", math.Abs(v)), ".")
	text := ledger.Thousands(whole) + "." + cents
	if v < 0 {
		return "-" + text
	}
	return text
}

// Path leads into JSON data: names of members (string), indexes (int), or Each.
type Path []any

type each struct{}

// Each is a step to every element of a list.
var Each any = each{}

var (
	pathForm = lazyregexp.New(`^[A-Za-z_$][\w$-]*(?:\.[A-Za-z_$][\w$-]*|\[\d{1,6}\])*$`)
	pathStep = lazyregexp.New(`([A-Za-z_$][\w$-]*)|\[(\d+)\]`)
)

// ParsePath reads metadata.indoubt or entities[0].observations.
func ParsePath(text string) (path Path, err error) {
	if !pathForm.MatchString(text) {
		return nil, fmt.Errorf("%q is not a path into the input", text)
	}
	for _, m := range pathStep.FindAllStringSubmatch(text, -1) {
		if i, err := strconv.Atoi(m[2]); err == nil {
			path = append(path, i)
		} else {
			path = append(path, m[1])
		}
	}
	return path, nil
}

// Get is the value at the path. What is missing or null on the way has none; a
// step that its value cannot take is an error.
func (p Path) Get(data any) (value any, found bool, err error) {
	for _, step := range p {
		switch at := data.(type) {
		case nil:
			return nil, false, nil
		case map[string]any:
			name, ok := step.(string)
			if !ok {
				return nil, false, fmt.Errorf("a mapping has no index")
			}
			if data, found = at[name]; !found {
				return nil, false, nil
			}
		case []any:
			i, ok := step.(int)
			if !ok {
				return nil, false, fmt.Errorf("a list has no `%v`", step)
			}
			if i < 0 || i >= len(at) {
				return nil, false, nil
			}
			data = at[i]
		default:
			return nil, false, fmt.Errorf("a plain value has no `%v`", step)
		}
	}
	return data, true, nil
}

// Replace changes every plain value at the path and below it, inside data. found
// reports whether there was one.
func (p Path) Replace(data any, change func(old any) any) (_ any, found bool) {
	rest := p[min(1, len(p)):]
	switch at := data.(type) {
	case map[string]any:
		for name, member := range at {
			if len(p) > 0 && p[0] != name {
				continue
			}
			made, ok := rest.Replace(member, change)
			if ok {
				at[name], found = made, true
			}
		}
		return at, found
	case []any:
		for i := range at {
			if len(p) > 0 && p[0] != Each && p[0] != i {
				continue
			}
			made, ok := rest.Replace(at[i], change)
			if ok {
				at[i], found = made, true
			}
		}
		return at, found
	}
	if len(p) > 0 {
		return data, false
	}
	return change(data), true
}
