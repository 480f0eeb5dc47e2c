package ledger

import "strings"

// madeBase is the base of a key that a recorder made of the input or of fields of it, so
// that one request has one, without its generation; "" for other keys.
func madeBase(key string) string {
	base, generation, _ := strings.Cut(key, ".")
	digest, isContent := strings.CutPrefix(base, "content-")
	if !isContent {
		var isFields bool
		if digest, isFields = strings.CutPrefix(base, "fields-"); !isFields {
			return ""
		}
	}
	if len(digest) != 32 || strings.Trim(digest, "0123456789abcdef") != "" || strings.Trim(generation, "0123456789") != "" {
		return ""
	}
	return base
}

// Alike reports whether the operation stands for a request that no operation has the key
// of. Generations of one made key are requests of their own.
func (at Locator) Alike(o Operation) bool {
	made := madeBase(o.Key)
	return at.Like != "" && o.Fingerprint == at.Like && o.Scope == at.Scope && (at.LikeKind == "" || o.Kind == at.LikeKind) && o.KeyLive &&
		(o.State == Pending || o.State == Uncertain) && made != "" && made != madeBase(at.Key)
}

// Makes reports whether what begins under the key would stand for a request under another.
func (at Locator) Makes() bool { return madeBase(at.Key) != "" }

// has reports whether an operation has the key, or did before it was redacted.
func (at Locator) has(o Operation) bool { return o.Key == at.Key || o.Key == Masked(at.Key) }
