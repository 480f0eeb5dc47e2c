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
)

// exactLimit is 2^53: from here on a double cannot tell neighbours apart.
const exactLimit = 1 << 53

// Errors of Decode and List.
var (
	ErrMoreValues = errors.New("more text after the JSON value")
	ErrTwice      = errors.New("duplicate member name")
	ErrTooMany    = errors.New("the list is too long")
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

// IsNumber reports whether plain JSON data is a number.
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
