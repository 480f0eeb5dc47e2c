package reconcile

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/policy"
)

// resembling is why what was found by a key settles nothing.
const resembling = "this check also finds what has a key that only resembles its own, so this may be that of another: compare the key in `found`"

// sieveHolds is how long a check that told one operation from another is trusted
// to do so still.
const sieveHolds = time.Minute

// sieve tells why what was found may be anybody's: the check takes whatever the
// other side answers when it is asked for the token or the key, and it answers
// the same to one that was never sent. A parameter that the other side does not
// know, or no longer knows, has this effect. "" when the check can tell them
// apart, or could not long ago.
func (e *Engine) sieve(ctx context.Context, k *policy.Kind, rec ledger.Record, held *holding, f findings, eager bool) string {
	if o := rec.Operation; o.StateAt(rec.Now) != ledger.Uncertain && known(o, f.effects) {
		return ""
	}
	if k.Read.TrustsTheirSearch() && !shows(f.effects, rec.Operation.Token) {
		if why := e.asNobody(ctx, k, rec, held.digest, eager, func() error { return held.lasts(ctx, k) }); why != "" {
			return why
		}
	}
	if key := rec.Operation.Key; k.Read.OwnBy() == policy.OwnByKey && !shows(f.effects, key) {
		if slices.ContainsFunc(f.effects, func(e policy.Effect) bool { return !shows([]policy.Effect{e}, key) && containsFolded(e.Value, key) }) {
			return resembling
		}
		return e.byPartOfKey(ctx, k, rec, held, f)
	}
	return ""
}

// shows tells whether every effect carries a text, as a whole value, where it can
// be seen: then it needs nobody's word for it.
func shows(effects []policy.Effect, text string) bool {
	return !slices.ContainsFunc(effects, func(e policy.Effect) bool {
		var v any
		return json.Unmarshal(e.Value, &v) != nil || !carries(v, text)
	})
}

func carries(v any, text string) bool {
	switch x := v.(type) {
	case string:
		return x == text && text != ""
	case []any:
		return slices.ContainsFunc(x, func(v any) bool { return carries(v, text) })
	case map[string]any:
		for _, v := range x {
			if carries(v, text) {
				return true
			}
		}
	}
	return false
}

// asNobody asks for a token and a key that were never sent. Checks made at once
// share the question.
func (e *Engine) asNobody(ctx context.Context, k *policy.Kind, rec ledger.Record, digest string, eager bool, ready func() error) string {
	key := k.Name + "\x00" + digest
	free, err := e.sieves.making.lock(ctx, key)
	if err != nil {
		return err.Error()
	}
	defer free()
	began := e.now()
	if e.sieves.heldSince(key, began.Add(-sieveHolds)) {
		return ""
	}
	if last, tried := e.sieves.last(key); tried && !eager && began.Sub(last.at) < controlPause {
		return last.why
	}
	nobody := rec
	nobody.Operation.Token, nobody.Operation.Key, nobody.Operation.Receipts = ledger.NewToken(), ledger.NewToken(), nil
	n := e.look(ctx, k, nobody, ready)
	switch {
	case len(n.effects) > 0:
		why := "this check finds something for a token that was never sent as well"
		e.sieves.note(key, began, failedControl{e.now(), why})
		return why
	case n.trouble != "" && !n.none, n.stale != "":
		return "whether this check finds something for a token that was never sent is not known: " + n.trouble + n.stale
	}
	// To say that there is no such thing, some answer with an error, always the same.
	e.sieves.note(key, began, failedControl{})
	return ""
}

// byPartOfKey tells why what was found may have another key: asked for a key that
// differs a little, the check finds the same, or what does not show to have that one.
// A token is random and as long as every other, so that nothing of the kind happens
// to it.
func (e *Engine) byPartOfKey(ctx context.Context, k *policy.Kind, rec ledger.Record, held *holding, f findings) string {
	for _, other := range almost(rec.Operation.Key) {
		it := rec
		it.Operation.Key = other
		n := e.look(ctx, k, it, func() error { return held.lasts(ctx, k) })
		switch {
		case len(n.effects) > 0 && (!shows(n.effects, other) || slices.ContainsFunc(n.effects, func(x policy.Effect) bool { return among(x, f.effects) })):
			return resembling
		case n.trouble != "" && !n.none, n.stale != "":
			return "whether this check finds it by a key that only resembles its own is not known: " + n.trouble + n.stale
		}
	}
	return ""
}

func containsFolded(value []byte, key string) bool {
	return strings.Contains(strings.ToLower(string(value)), strings.ToLower(key))
}

func among(x policy.Effect, found []policy.Effect) bool {
	return slices.ContainsFunc(found, func(f policy.Effect) bool { return f.Receipt == x.Receipt && string(f.Value) == string(x.Value) })
}

// almost are keys that a search by parts, or without regard to case, takes for
// this one.
func almost(key string) []string {
	_, first := utf8.DecodeRuneInString(key)
	_, last := utf8.DecodeLastRuneInString(key)
	turned := strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, key)
	out := []string{key[first:], key[:len(key)-last], key + "0", turned}
	return slices.DeleteFunc(out, func(k string) bool { return k == "" || k == key })
}
