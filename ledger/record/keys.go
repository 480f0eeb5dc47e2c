package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"indoubt/ledger"
)

// madeKey makes the key of a wish whose caller brought none.
//
// Made keys come in generations: "content-1f3a…", then "content-1f3a….2", and
// so on. The newest generation stands for the wish until its operation is
// finished and the window after it has run out (or, for a fresh wish, until it
// is committed); then the next one begins. The key itself changes, because a
// downstream that still remembers the old one would answer a new wish with the
// old result. Two processes that find the same newest generation ask for the
// same key, so that only one of them sends.
func (r *Recorder) madeKey(ctx context.Context, w Wish, rule KindRule, req ledger.BeginRequest) (string, error) {
	strategy, fresh := rule.KeyStrategy, w.Fresh
	if strategy == "" {
		strategy, fresh = KeyContent, w.Fresh || rule.Repeat != "replay"
	}
	if strategy == KeyRandom {
		return "k-" + req.OperationID, nil
	}
	parts, err := keyParts(strategy, w, rule, req)
	if err != nil {
		return "", fmt.Errorf("key of %s: %w", w.Kind, err)
	}
	seed, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("key of %s: %w", w.Kind, err)
	}
	digest, err := ledger.Fingerprint(seed)
	if err != nil {
		return "", fmt.Errorf("key of %s: %w", w.Kind, err)
	}
	return r.generation(ctx, w, strategy+"-"+digest[:32], rule.Window, fresh)
}

// keyParts is what the key is made from. It is taken from the input as it is
// recorded, so that a digest stands for what is secret.
func keyParts(strategy string, w Wish, rule KindRule, req ledger.BeginRequest) (map[string]any, error) {
	parts := map[string]any{}
	switch strategy {
	case KeyContent:
		parts["fingerprint"] = req.Fingerprint
	case KeySession:
		if w.Session == "" {
			return nil, errors.New("its policy makes one per session, and no session was given")
		}
		parts["session"], parts["fingerprint"] = w.Session, req.Fingerprint
	case KeyFields, KeyRow:
		from := rule.KeyFrom
		if strategy == KeyRow {
			parts["pipeline"] = req.Source.Pipeline
			if len(from) == 0 {
				from = []string{"id"}
			}
		}
		if len(from) == 0 {
			return nil, errors.New("its policy makes it from fields, and names none")
		}
		input, err := decode(req.Input)
		if err != nil {
			return nil, errors.New("its policy makes it from fields of the input, and there is none")
		}
		for _, path := range from {
			value, err := field(input, path)
			if err != nil {
				return nil, err
			}
			parts["input."+path] = value
		}
	default:
		return nil, fmt.Errorf("unknown strategy %q", strategy)
	}
	return parts, nil
}

// field is the value at a path of the input. A missing one is an error: a key
// made without it would make two wishes one.
func field(input any, path string) (json.RawMessage, error) {
	steps, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	v := input
	for _, step := range steps {
		var found bool
		switch t := v.(type) {
		case map[string]any:
			v, found = t[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(t) {
				v, found = t[i], true
			}
		}
		if !found {
			return nil, fmt.Errorf("the input has no %s", path)
		}
	}
	if v == nil {
		return nil, fmt.Errorf("the input's %s is null", path)
	}
	return bytes.TrimSpace(encode(v)), nil
}

// generation finds the key that stands for the wish now. Generations have no
// gaps, so that the newest is found in a few steps however many there are.
func (r *Recorder) generation(ctx context.Context, w Wish, base string, window time.Duration, fresh bool) (string, error) {
	key := func(n int) string {
		if n == 1 {
			return base
		}
		return base + "." + strconv.Itoa(n)
	}
	var newest ledger.Record
	last, beyond := 0, 0 // generation last is known to exist, beyond is known not to
	for step := 1; beyond == 0 || beyond-last > 1; {
		n := last + step
		if beyond > 0 {
			n = last + (beyond-last)/2
		}
		rec, err := r.store.Read(ctx, ledger.Locator{Kind: w.Kind, Scope: w.Scope, Key: key(n)})
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			beyond = n
		case err != nil:
			return "", fmt.Errorf("look up the key of %s: %w", w.Kind, err)
		default:
			newest, last = rec, n
			step *= 2
		}
	}
	if last == 0 || last > 0 && !over(newest, window, fresh) {
		return key(max(last, 1)), nil
	}
	return key(last + 1), nil
}

// over tells whether a made key's operation no longer stands for a new wish.
// What is pending, in doubt, granted or in conflict always does.
func over(rec ledger.Record, window time.Duration, fresh bool) bool {
	o := rec.Operation
	if o.Conflict != ledger.NoConflict {
		return false
	}
	passed := window > 0 && rec.Now.After(o.SettledAt.Add(window))
	switch o.StateAt(rec.Now) {
	case ledger.Committed:
		return fresh && !o.Undelivered || passed
	case ledger.Failed, ledger.Abandoned:
		return passed && rec.OpenGrant() == nil
	}
	return false
}
