package ledger

import (
	"slices"
	"strings"
)

// MadeKey reports whether a recorder made the key, so that it tells a person nothing.
func MadeKey(key string) bool {
	of, _ := made(key)
	id, alone := strings.CutPrefix(key, "k-") // of this operation and no other
	return of != "" || alone && len(id) == 36 && strings.Trim(id, "0123456789abcdef-") == ""
}

// made takes a key apart that a recorder made of a request: of what, and its base, without
// its generation; "" for other keys.
func made(key string) (of, base string) {
	base, generation, _ := strings.Cut(key, ".")
	of, digest, _ := strings.Cut(base, "-")
	if !slices.Contains([]string{"content", "fields", "session", "row"}, of) ||
		len(digest) != 32 || strings.Trim(digest, "0123456789abcdef") != "" || strings.Trim(generation, "0123456789") != "" {
		return "", ""
	}
	return of, base
}

// madeBase is the base of a key that was made of the input or of fields of it, so that one
// request has one; "" for other keys.
func madeBase(key string) string {
	of, base := made(key)
	if of != "content" && of != "fields" {
		return ""
	}
	return base
}

// Alike reports whether the operation may stand for a request under another key. A made key
// says only what the input says. Two that callers gave say that two are wanted, and so do the
// generations of one made key.
func (at Locator) Alike(o Operation) bool {
	return at.Like != "" && o.Fingerprint == at.Like && o.Scope == at.Scope && (at.LikeKind == "" || o.Kind == at.LikeKind) && o.KeyLive &&
		(o.State == Pending || o.State == Uncertain) && madeBase(o.Key) != madeBase(at.Key)
}

// Makes reports whether the key was made of the input: then what is under any key may stand
// for the request, else only what is under a made one.
func (at Locator) Makes() bool { return madeBase(at.Key) != "" }

// passed is the newest operation with the same input that does not stand for a request, or
// "": what begins is sent beside it.
func (r *Record) passed(req BeginRequest) string {
	for i := range r.Alike {
		if other := &r.Alike[i]; req.AlikeOver != nil && req.AlikeOver(*other) {
			return other.Operation.ID
		}
	}
	return ""
}

// alike is what stands for a request that would be sent under the key of this record, or
// nil. Who allowed the attempt has seen what the grant names.
func (r *Record) alike(req BeginRequest, c Change) *Record {
	for i := range r.Alike {
		other := &r.Alike[i]
		seen := slices.ContainsFunc(c.Grants, func(g Grant) bool {
			return g.AttemptID == req.AttemptID && slices.Contains(g.Related, other.Operation.ID)
		})
		if !seen && (req.AlikeOver == nil || !req.AlikeOver(*other)) {
			return other
		}
	}
	return nil
}
