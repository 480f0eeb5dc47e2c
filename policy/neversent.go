package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"indoubt/ledger"
)

// neverSent is what `never:` says: values of the form that the other side wants,
// and that nobody ever sends.
type neverSent struct {
	value  any            // instead of whatever is replaced
	fields map[string]any // by path of the input; then only these are replaced
}

// substitution is what the negative control of a read replaces by values that were
// never sent.
type substitution struct {
	token, key bool
	inputs     []string // paths; "" is the whole input
}

// replaces is everything that an own effect is recognised by.
func (r *Read) replaces() substitution {
	switch r.Identity() {
	case ByToken, ByAsking:
		return substitution{token: true}
	case ByName:
		if r.markKey {
			return substitution{key: true}
		}
		return usedBy(r.markIs.expressions())
	case ByState:
		if len(r.never.fields) > 0 {
			return substitution{inputs: sortedNames(r.never.fields)}
		}
		if out := usedBy([]*expression{r.state}); !out.nothing() {
			return out
		}
		var asked []*expression
		for _, t := range r.transport.templates() {
			asked = append(asked, t.expressions()...)
		}
		return usedBy(asked)
	}
	return substitution{}
}

func usedBy(expressions []*expression) (out substitution) {
	for _, e := range expressions {
		out.token, out.key = out.token || e.uses("token"), out.key || e.uses("key")
		for _, path := range e.inputs {
			if !slices.Contains(out.inputs, path) {
				out.inputs = append(out.inputs, path)
			}
		}
	}
	return out
}

func (x substitution) nothing() bool { return !x.token && !x.key && len(x.inputs) == 0 }

// NeedsNegativeControl reports whether what the read finds counts only if the same
// request for something that was never sent finds nothing: the request holds what
// the mark is compared with, so that an echo of it would be taken for an effect;
// or nothing in the answer shows whose it is.
func (r *Read) NeedsNegativeControl() bool {
	switch r.Identity() {
	case ByNothing:
		return false
	case ByAsking, ByState:
		return true
	}
	return r.operationOnStdin() || r.asksByMark()
}

// asksByMark reports whether the request names what the mark is compared with.
func (r *Read) asksByMark() bool {
	x := r.replaces()
	for _, t := range r.transport.templates() {
		for _, e := range t.expressions() {
			if x.token && e.uses("token") || x.key && e.uses("key") || overlapsAny(e.inputs, x.inputs) {
				return true
			}
		}
	}
	return false
}

func overlapsAny(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool { return x == "" || y == "" || overlaps(x, y) })
	})
}

// NeverSent is the record as it would be of an operation that nobody ever sent:
// what its effect is recognised by is replaced by random values of the same type,
// or by what `never:` says. An error means that no such request can be made.
func (r *Read) NeverSent(rec ledger.Record) (ledger.Record, error) {
	return r.replace(rec, func() float64 { return float64(1e9 + rand.IntN(1e9)) }, ledger.NewToken)
}

// ControlKey names the request of a negative control apart from what is replaced
// in it, under which its result may be believed for other operations.
func (r *Read) ControlKey(rec ledger.Record) (string, error) {
	fixed, err := r.replace(rec, func() float64 { return 1 }, func() string { return "never-sent" })
	if err != nil {
		return "", err
	}
	return r.requestKey(fixed)
}

func (r *Read) requestKey(rec ledger.Record) (string, error) {
	req, err := r.Request(rec, nil)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(req)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// RequestKey names the request that a read makes for a record.
func (r *Read) RequestKey(rec ledger.Record) (string, error) { return r.requestKey(rec) }

func (r *Read) replace(rec ledger.Record, number func() float64, text func() string) (ledger.Record, error) {
	fresh := func(was any) any {
		if r.never.value != nil {
			return r.never.value
		}
		switch x := was.(type) {
		case bool:
			return !x
		case json.Number, float64, int64:
			return json.Number(strconv.FormatFloat(number(), 'f', -1, 64))
		}
		return text()
	}
	o := &rec.Operation
	o.Receipts, o.Fingerprint = nil, ""
	x := r.replaces()
	if x.nothing() {
		return rec, fmt.Errorf("nothing of the operation is in the check, so there is nothing to leave out")
	}
	var err error
	if x.token {
		o.Token = fmt.Sprint(fresh(o.Token))
	}
	if x.key {
		o.Key = fmt.Sprint(fresh(o.Key))
	}
	if len(x.inputs) == 0 {
		return rec, nil
	}
	input, err := decodeInput(*o)
	if err != nil {
		return rec, err
	}
	for _, path := range x.inputs {
		value, stated := r.never.fields[path]
		made := func(was any) any {
			if stated {
				return value
			}
			return fresh(was)
		}
		var found bool
		if input, found = exchange(input, stepsOf(path), made); !found {
			return rec, fmt.Errorf("the operation has no input.%s", path)
		}
	}
	o.Input, err = marshal(input)
	return rec, err
}

// stepsOf are the members that a path of expression.inputs goes through; "[]" is
// an index that is not known.
func stepsOf(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path, ".")
}

// exchange replaces every plain value at a path, and reports whether there was one.
func exchange(v any, path []string, fresh func(was any) any) (any, bool) {
	switch x := v.(type) {
	case map[string]any:
		found := false
		for name, member := range x {
			if len(path) > 0 && path[0] != name {
				continue
			}
			made, ok := exchange(member, tail(path), fresh)
			if ok {
				x[name], found = made, true
			}
		}
		return x, found
	case []any:
		if len(path) > 0 && path[0] != "[]" {
			return x, false
		}
		found := false
		for i := range x {
			made, ok := exchange(x[i], tail(path), fresh)
			if ok {
				x[i], found = made, true
			}
		}
		return x, found
	}
	if len(path) > 0 {
		return v, false
	}
	return fresh(v), true
}
