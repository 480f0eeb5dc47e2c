package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
)

// gate is a digest, under the ledger's key, of what a request asks and where it goes: as it
// came, before the policy and before secrets are replaced. "" where it says nothing. A ledger
// on a server that was given no key keeps no secret; its gates are plain digests.
func (r *Recorder) gate(w Request) (string, error) {
	asked := w.Asked
	if asked == "" {
		if len(w.Input) == 0 {
			return "", nil
		}
		print, err := ledger.Fingerprint(w.Input)
		if err != nil {
			return "", err
		}
		asked = strings.Join([]string{"begin", w.Kind, w.Key, print}, "\n")
	}
	gate, err := r.Digest(asked)
	if errors.Is(err, ledger.ErrNoKey) {
		sum := sha256.Sum256([]byte(asked))
		return hex.EncodeToString(sum[:16]), nil
	}
	return gate, err
}

// named gives a request its name: the fields that its policy names, whatever else differs;
// else the caller's key; else its gate; else its own.
func (r *Recorder) named(w Request, rule KindRule, req ledger.BeginRequest) (ledger.BeginRequest, error) {
	switch {
	case len(rule.KeyFrom) > 0:
		fields, err := ledger.Fields(rule.seen(w, req.Input), rule.KeyFrom)
		if err != nil && w.Key == "" {
			return req, &NoKeyError{w.Kind, err}
		}
		if err == nil {
			if rule.Match != "" && w.AnyKind {
				fields["match"], req.AnyKind = rule.Match, true
			}
			digest, err := ledger.Digest(fields)
			if err != nil {
				return req, fmt.Errorf("key of %s: %w", w.Kind, err)
			}
			req.Key, req.SentKey = ledger.FieldsKey(digest), w.Key
			return req, nil
		}
		req.Key, req.AnyKind = w.Key, w.AnyKind
	case w.Key != "":
		req.Key, req.AnyKind = w.Key, w.AnyKind
	case req.Gate != "":
		req.Key, req.AnyKind = ledger.InputKey(req.Gate), w.AnyKind
	default:
		req.Key = "k-" + req.OperationID
	}
	return req, nil
}

// NoKeyError says that a request lacks what its kind's policy makes a key of.
type NoKeyError struct {
	Kind string
	Err  error
}

func (e *NoKeyError) Error() string { return fmt.Sprintf("key of %s: %v", e.Kind, e.Err) }
func (e *NoKeyError) Unwrap() error { return e.Err }

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

// mostPassing bounds the doubts that a recorder remembers to tell of.
const mostPassing = 10_000

// passing are the operations in doubt, by their gates, that hold nothing back: an answer
// came that proves nothing, and no policy names the kind. Who asks the same again is told
// of it once by this process, and passes after that.
type passing struct {
	mu  sync.Mutex
	all map[string]*passed
}

type passed struct {
	operation ledger.Operation
	told      bool
}

// keep remembers an operation that was just settled so.
func (p *passing) keep(gate string, o ledger.Operation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil || len(p.all) >= mostPassing {
		p.all = map[string]*passed{}
	}
	p.all[gate] = &passed{operation: o}
}

// next is the one that a request is told of, or goes out beside.
func (p *passing) next(gate, follows string) (id string, told bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	it := p.all[gate]
	if gate == "" || it == nil {
		return "", false
	}
	id, told = it.operation.ID, it.told && it.operation.ID != follows
	if it.told = true; told {
		delete(p.all, gate)
	}
	return id, told
}

// tell answers the first request that is like an operation in doubt which holds nothing
// back. The next one goes out beside it.
func (r *Recorder) tell(ctx context.Context, req *ledger.BeginRequest) (res ledger.BeginResult, told bool, err error) {
	id, before := r.passing.next(req.Gate, req.Follows)
	if id == "" {
		return res, false, nil
	}
	rec, err := r.store.Read(ctx, ledger.Locator{ID: id, Skip: ledger.AllParts})
	if err != nil {
		return res, false, err
	}
	switch s := rec.State(); {
	case s == ledger.Uncertain && before:
		req.Beside = id
	case s == ledger.Uncertain:
		return ledger.BeginResult{Answer: ledger.AnswerInDoubt, Operation: rec.Operation, Told: true}, true, nil
	case s == ledger.Committed && !before:
		return ledger.BeginResult{Answer: ledger.AnswerFinished, Operation: rec.Operation}, true, nil
	}
	return res, false, nil
}

// likes are the calls of each tool whose answers were lost, where nobody was told yet. An
// agent that lost an answer calls again in other words: it is told once, and passes then.
type likes struct {
	mu  sync.Mutex
	all map[string]string // an operation by its kind, "" where there is none
}

// keep remembers a call whose answer was just lost.
func (l *likes) keep(o ledger.Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]string{}
	}
	l.all[o.Kind] = o.ID
}

// tellOfLike answers the first call of a tool after one whose answer was lost. What a session
// before this one lost is looked up at the first call; one of all sessions is told.
func (r *Recorder) tellOfLike(ctx context.Context, w Request, rule KindRule, req ledger.BeginRequest) (ledger.BeginResult, bool, error) {
	var res ledger.BeginResult
	if w.Sender != "mcp" || w.Key != "" || w.Follows != "" || req.Gate == "" || rule.Safe || len(rule.KeyFrom) > 0 {
		return res, false, nil
	}
	l := &r.likes
	l.mu.Lock()
	defer l.mu.Unlock()
	id, asked := l.all[req.Kind]
	if !asked {
		var err error
		if id, err = r.lostCall(ctx, req); err != nil {
			return res, false, err
		}
		if l.all == nil {
			l.all = map[string]string{}
		}
		l.all[req.Kind] = id
	}
	if id == "" {
		return res, false, nil
	}
	rec, err := r.store.Read(ctx, ledger.Locator{ID: id, Skip: ledger.AllParts})
	if err != nil {
		return res, false, err
	}
	if o := rec.Operation; rec.State() == ledger.Uncertain && o.Gate == req.Gate {
		return res, false, nil // the gate tells
	}
	l.all[req.Kind] = ""
	if rec.State() != ledger.Uncertain || outcome.Answered(rec.Operation.ErrorClass) {
		return res, false, nil
	}
	told, err := ledger.Tell(ctx, r.store, id, r.options.Actor)
	if err != nil { // what cannot be noted holds nothing back: the gate has what is identical
		return res, false, nil
	}
	return ledger.BeginResult{Answer: ledger.AnswerInDoubt, Operation: rec.Operation, Told: true, Like: true}, told, nil
}

// lostCall is the newest call of a tool whose answer was lost and that is in doubt.
func (r *Recorder) lostCall(ctx context.Context, req ledger.BeginRequest) (string, error) {
	filter := ledger.Filter{Terms: []ledger.Term{{Field: "kind", Value: req.Kind}, {Field: "state", Value: string(ledger.Uncertain)}}}
	page, err := r.store.Page(ctx, ledger.Query{Tab: ledger.TabAll, Filter: filter, Order: ledger.OrderNewest, Now: r.options.Clock(), Limit: 50})
	for _, row := range page.Rows {
		if !outcome.Answered(row.ErrorClass) {
			return row.ID, err
		}
	}
	return "", err
}

// lets reports whether an identical request may go out beside an attempt of this process
// that an answer left in doubt: a proxy passed that answer on, and no policy names its kind.
func (r *Recorder) lets(attemptID string) bool {
	sent := r.sent.of(attemptID)
	return sent.Operation.Gate != "" && (sent.Attempt.Sender == "http" || sent.Attempt.Sender == "mcp") && !r.Rule(sent.Operation.Kind).Named
}
