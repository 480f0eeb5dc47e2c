package policy

import (
	"reflect"
	"slices"
	"strings"

	"indoubt/ledger"
)

// OwnBy is what a read tells an operation's own effect by.
type OwnBy int

const (
	OwnByContent OwnBy = iota // what is wanted; others may want the same
	OwnByKey                  // the key, which is given again in time, and by other kinds
	OwnByToken                // the token, which nobody else ever has
)

// OwnBy is the surest thing that the read compares or, where it compares
// nothing, asks the other side for. What only judges an effect that was found
// (`same`) finds none.
func (r *Read) OwnBy() OwnBy {
	switch {
	case r.found.uses("token"):
		return OwnByToken
	case r.found.uses("key"):
		return OwnByKey
	case r.SearchesByToken():
		return OwnByToken
	}
	for _, t := range r.transport.questions() {
		if t.uses("key") {
			return OwnByKey
		}
	}
	return OwnByContent
}

// JudgesToken tells whether an effect that is the same carries the token.
func (r *Read) JudgesToken() bool { return r.same.uses("token") }

// TrustsTheirSearch tells whether the read asks the other side for the token or
// the key and takes all that it answers: nothing in `found` compares them.
func (r *Read) TrustsTheirSearch() bool {
	if r.found.uses("token", "key") {
		return false
	}
	for _, t := range r.transport.questions() {
		if t.uses("token", "key") {
			return true
		}
	}
	return r.toldToken()
}

// looseCalls compare parts of texts, or texts that were changed.
var looseCalls = []string{"contains", "startsWith", "endsWith", "matches", "indexOf", "lastIndexOf", "lowerAscii", "upperAscii", "substring", "replace", "trim", "split"}

// comparesWhole tells whether what `found` compares, it compares as a whole.
func (r *Read) comparesWhole() bool {
	return !slices.ContainsFunc(looseCalls, func(call string) bool { return strings.Contains(r.found.text, call) })
}

// ComparesAll tells whether the read compares every member of the operation's
// input, each as a whole: then whoever else it finds has the same fingerprint,
// unless the other's input says more.
func (r *Read) ComparesAll(o ledger.Operation) bool {
	input, err := decodeInput(o)
	return err == nil && r.comparesWhole() && covered(input, "", r.found.inputs)
}

func covered(v any, at string, by []string) bool {
	if slices.Contains(by, at) && at != "" {
		return true
	}
	members, ok := v.(map[string]any)
	if !ok || len(members) == 0 {
		return false
	}
	for name, m := range members {
		if !covered(m, strings.TrimPrefix(at+"."+name, "."), by) {
			return false
		}
	}
	return true
}

// Alike tells whether the read might take the effect of one operation for that
// of the other: in no part of the input that it compares do they differ, and in
// none that it leaves to the other side, or compares in part, other than by one
// text being a part of the other's. Operations of two kinds must have such a part
// in common.
func (r *Read) Alike(a, b ledger.Operation) bool {
	one, err := decodeInput(a)
	other, err2 := decodeInput(b)
	if err != nil || err2 != nil {
		return true
	}
	common := a.Kind == b.Kind
	differ := func(paths []string, whole bool) bool {
		return slices.ContainsFunc(paths, func(path string) bool {
			x, has := member(one, path)
			y, hasToo := member(other, path)
			common = common || has && hasToo
			return has != hasToo || has && !reflect.DeepEqual(x, y) && (whole || !mistakable(x, y))
		})
	}
	if differ(r.found.inputs, r.comparesWhole()) {
		return false
	}
	for _, t := range r.transport.questions() {
		for _, e := range t.expressions() {
			if differ(e.inputs, false) {
				return false
			}
		}
	}
	return common
}

// member is the part of an input at a path; false where the path is not plain.
func member(v any, path string) (any, bool) {
	if path == "" {
		return v, true
	}
	for _, name := range strings.Split(path, ".") {
		members, _ := v.(map[string]any)
		next, ok := members[name]
		if !ok {
			return nil, false
		}
		v = next
	}
	return v, true
}

func mistakable(a, b any) bool {
	x, text := a.(string)
	y, too := b.(string)
	x, y = strings.ToLower(x), strings.ToLower(y)
	return text && too && (strings.Contains(x, y) || strings.Contains(y, x))
}
