package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
)

// keyBase makes the key of a request whose caller brought none. A numbered one comes
// in generations.
func (r *Recorder) keyBase(w Request, rule KindRule, req ledger.BeginRequest) (base string, numbered bool, err error) {
	strategy := rule.KeyStrategy
	if strategy == "" {
		strategy = KeyContent
	}
	if strategy == KeyRandom {
		return "k-" + req.OperationID, false, nil
	}
	parts, err := keyParts(strategy, w, rule, req)
	if err != nil {
		return "", false, &NoKeyError{w.Kind, err}
	}
	digest, err := ledger.Digest(parts)
	if err != nil {
		return "", false, fmt.Errorf("key of %s: %w", w.Kind, err)
	}
	return strategy + "-" + digest, true, nil
}

// NoKeyError says that a request lacks what its kind's policy makes a key of.
type NoKeyError struct {
	Kind string
	Err  error
}

func (e *NoKeyError) Error() string { return fmt.Sprintf("key of %s: %v", e.Kind, e.Err) }
func (e *NoKeyError) Unwrap() error { return e.Err }

// keyParts is what the key is made from. It is taken from the input as it is
// recorded, so that a digest stands for what is secret.
func keyParts(strategy string, w Request, rule KindRule, req ledger.BeginRequest) (map[string]any, error) {
	parts := map[string]any{}
	switch strategy {
	case KeyContent:
		parts["fingerprint"] = req.Fingerprint
	case KeySession:
		if w.Session == "" {
			return nil, errors.New("its policy makes one per session, and no session was given")
		}
		parts["session"], parts["fingerprint"] = w.Session, req.Fingerprint
	case KeyFields:
		if len(rule.KeyFrom) == 0 {
			return nil, errors.New("its policy makes it from fields, and names none")
		}
		return ledger.Fields(rule.seen(w, req.Input), rule.KeyFrom)
	case KeyRow:
		from := rule.KeyFrom
		if len(from) == 0 {
			from = []string{"id"}
		}
		parts, err := ledger.Fields(rule.seen(w, req.Input), from)
		if err == nil {
			parts["pipeline"] = req.Source.Pipeline
		}
		return parts, err
	default:
		return nil, fmt.Errorf("unknown strategy %q", strategy)
	}
	return parts, nil
}

// seen is the part of a request's input in which the paths of the rule begin.
func (rule KindRule) seen(w Request, input json.RawMessage) json.RawMessage {
	if rule.Input == "" || w.HTTP == nil {
		return input
	}
	part, err := ledger.Part(input, rule.Input)
	if err != nil { // then it has none of the fields either
		return json.RawMessage("{}")
	}
	return part
}

// redact are the paths of what is secret in a request's input. A path that holds for
// every kind may mean the whole request, so that it is taken both ways.
func (rule KindRule) redact(w Request) (paths []string) {
	for _, path := range rule.Redact {
		paths = append(paths, path)
		if rule.Input == "" || w.HTTP == nil {
			continue
		}
		if path = strings.TrimPrefix(path, "input."); strings.HasPrefix(path, "[") {
			paths = append(paths, rule.Input+path)
		} else {
			paths = append(paths, rule.Input+"."+path)
		}
	}
	return paths
}

// generation names the made keys of one request: "content-1f3a…", then
// "content-1f3a….2", and so on. The newest stands for the request until its operation
// is finished and the window after it has run out (or, for a fresh request, until it
// is committed); then the next one begins. The key itself changes, because a
// downstream that still remembers the old one would answer a new request with the
// old result. Two processes that find the same newest generation ask for the same
// key, so that only one of them sends.
type generation struct{ kind, scope, base string } // the kind "" is any

func (g generation) key(n int) string {
	if n == 1 {
		return g.base
	}
	return g.base + "." + strconv.Itoa(n)
}

// standing is the generation that stands for the request now, with the newest record
// where that one does not. Generations have no gaps, so that the newest is found in
// a few steps from one that is known to exist, however many there are.
func (r *Recorder) standing(ctx context.Context, g generation, from int, w standingRule) (n int, passed ledger.Record, err error) {
	var newest ledger.Record
	last, beyond := from-1, 0 // generation last is known to exist, beyond is known not to
	for step := 1; beyond == 0 || beyond-last > 1; {
		n := last + step
		if beyond > 0 {
			n = last + (beyond-last)/2
		}
		rec, err := r.store.Read(ctx, w.at(g, n))
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			beyond = n
		case err != nil:
			return 0, passed, fmt.Errorf("look up the key %s: %w", g.base, err)
		default:
			if newest.Found { // most often the one after the first is not there yet
				step *= 2
			}
			newest, last = rec, n
		}
	}
	if !newest.Found {
		return 1, passed, nil
	}
	r.made.found(g, last)
	if w.over(newest) {
		return last + 1, newest, nil
	}
	return last, passed, nil
}

// mostGenerations bounds what a long-lived recorder remembers of made keys.
const mostGenerations = 10_000

// generations remembers the newest generation that was seen of each made key, to
// begin the next search there. Generations never vanish from a ledger.
type generations struct {
	mu   sync.Mutex
	seen map[generation]int
}

func (s *generations) newest(g generation) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[g]
}

func (s *generations) found(g generation, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil || len(s.seen) >= mostGenerations {
		s.seen = map[generation]int{}
	}
	s.seen[g] = max(s.seen[g], n)
}

// standingRule is how a request stands to an earlier one under the same made key.
type standingRule struct {
	window time.Duration
	fresh  bool   // a commit whose answer was delivered is the end of the request
	hold   string // one of the Hold… constants
	// supersedes: so is a later one on its target.
	supersedes bool
}

// at finds a generation, with what over looks at.
func (w standingRule) at(g generation, n int) ledger.Locator {
	at := ledger.Locator{Kind: g.kind, Scope: g.scope, Key: g.key(n), Skip: ledger.AllParts &^ ledger.PartHolds} // as begin does
	if w.supersedes {
		at.Skip &^= ledger.PartRelated
	}
	return at
}

// over reports whether a made key's operation no longer stands for a new request.
// What is granted or in conflict always does; but a possible duplicate has landed,
// and its answer is as good as any.
func (w standingRule) over(rec ledger.Record) bool {
	o := rec.Operation
	if o.Conflict != ledger.NoConflict && !(w.fresh && o.Conflict == ledger.PossibleDuplicate) {
		return false
	}
	passed := rec.Over(w.window) || w.supersedes && rec.Superseded()
	switch rec.State() {
	case ledger.Pending:
		return w.hold == HoldNone
	case ledger.Committed:
		return w.fresh && (!o.Undelivered || w.hold == HoldNone) || passed
	case ledger.Uncertain:
		return rec.OpenGrant() == nil && (w.hold == HoldNone || w.hold == HoldLost && answeredAll(rec))
	}
	return passed && rec.OpenGrant() == nil
}

// answeredAll reports whether an operation is in doubt by whole answers alone, none of
// which says that another one was lost.
func answeredAll(rec ledger.Record) bool {
	found := false
	for _, a := range rec.Attempts {
		switch {
		case a.NoEffect():
		case a.Final() != ledger.OutcomeUncertain, outcome.AnswerLost(a):
			return false
		default:
			found = true
		}
	}
	return found && !rec.Operation.HandsOff
}
