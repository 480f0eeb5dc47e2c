package ticket

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// telling are the members by which a person tells one effect from another, in the order
// in which they are read best.
var telling = []string{"amount", "currency", "created", "created_at", "status", "state", "title", "subject", "version"}

// tell says what a check found. In a conflict the other side's own words about each
// effect stand behind its receipt, because a person has to know which is which.
func tell(r ledger.Read, o ledger.Operation) safe.Text {
	if o.Conflict == ledger.NoConflict {
		return Verdict(r)
	}
	all, names := effects(r.Evidence), safe.Each(r.Receipts)
	for i, receipt := range r.Receipts {
		for _, effect := range all {
			if facts := describe(o.Input, plainMembers(effect), receipt); !facts.Empty() {
				names[i] = safe.Say("%s (%s)", receipt, facts)
				break
			}
		}
	}
	return verdict(r, safe.Join(names, ", "))
}

// describe tells an effect by its members, as the other side wrote them, with what was asked for where it differs. It
// is empty where none of them is the receipt.
func describe(input json.RawMessage, effect map[string]string, receipt string) safe.Text {
	if !slices.Contains(slices.Collect(maps.Values(effect)), receipt) {
		return safe.Text{}
	}
	data, _ := ledger.DecodeJSON(input) // what is no JSON has no members
	object, _ := data.(map[string]any)
	asked := plainMembers(object)
	names := slices.Clone(telling)
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if found, ok := effect[name]; ok && found != asked[name] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var facts []safe.Text
	for _, name := range names {
		found, ok := effect[name]
		if !ok {
			continue
		}
		fact := safe.Say("%s %s", name, found)
		if want, ok := asked[name]; ok && want != found {
			fact = safe.Say("%s, asked %s", fact, want)
		}
		facts = append(facts, fact)
	}
	return safe.Join(facts, ", ")
}

// plainMembers are the members of an object that are not objects themselves.
func plainMembers(object map[string]any) map[string]string {
	out := map[string]string{}
	for k, v := range object {
		switch v := v.(type) {
		case string:
			out[k] = v
		case json.Number, bool:
			out[k] = fmt.Sprint(v)
		}
	}
	return out
}

// effects finds the objects in a check's evidence, wherever they are.
func effects(raw json.RawMessage) []map[string]any {
	var out []map[string]any
	var walk func(v any, depth int)
	walk = func(v any, depth int) {
		if depth > 6 || len(out) > 200 {
			return
		}
		switch v := v.(type) {
		case map[string]any:
			out = append(out, v)
			for _, w := range v {
				walk(w, depth+1)
			}
		case []any:
			for _, w := range v {
				walk(w, depth+1)
			}
		}
	}
	data, _ := ledger.DecodeJSON(raw) // what is no JSON has no effects
	walk(data, 0)
	return out
}
