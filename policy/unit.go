package policy

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"indoubt/ledger"
)

// Unit is what the title of a kind multiplies a number of the input by to write it as an amount:
// 0.01 for ${money(input.amount / 100)}. 0 where the title does not tell. It looks at
// what two other amounts would make of the title.
func Unit(k *Kind, op ledger.Operation, member string) float64 {
	titled := func(n float64) []string {
		d := json.NewDecoder(bytes.NewReader(op.Input))
		d.UseNumber()
		var input any
		if d.Decode(&input) != nil || !replace(input, member, strconv.FormatFloat(n, 'f', 0, 64)) {
			return nil
		}
		other := op
		other.Title = ""
		other.Input, _ = json.Marshal(input) // it was JSON before
		return strings.FieldsFunc(k.Title(other), func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != ',' })
	}
	if k.title == nil || !strings.Contains(k.title.Text, "money(") {
		return 0
	}
	const small, large = 1_000_000, 3_000_000
	a, b := titled(small), titled(large)
	if len(a) != len(b) {
		return 0
	}
	unit := 0.0
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		one, err1 := strconv.ParseFloat(strings.ReplaceAll(a[i], ",", ""), 64)
		two, err2 := strconv.ParseFloat(strings.ReplaceAll(b[i], ",", ""), 64)
		u := one / small
		if err1 != nil || err2 != nil || math.Abs(two-u*large) > 1e-6*two || unit != 0 && u != unit {
			return 0
		}
		unit = u
	}
	return unit
}

// replace writes a number into every member of that name, as a text where it was one.
// It reports whether there was any.
func replace(v any, member, number string) (done bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			switch inner.(type) {
			case json.Number:
				if name == member {
					v[name], done = json.Number(number), true
				}
			case string:
				if name == member {
					v[name], done = number, true
				}
			default:
				done = replace(inner, member, number) || done
			}
		}
	case []any:
		for _, inner := range v {
			done = replace(inner, member, number) || done
		}
	}
	return done
}
