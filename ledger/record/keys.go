package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
)

// gate is a digest, under the ledger's key, of what a request asks and where it goes: as it
// came, before the policy and before secrets are replaced. "" where it says nothing. A ledger
// on a server that was given no key keeps no secret; its gates are plain digests.
// What the kind's Callers hold is beside it.
func (r *Recorder) gate(w Request, rule KindRule) (string, error) {
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
	gate, err := r.gateDigest(asked)
	if err != nil || w.HTTP == nil || len(rule.Callers) == 0 {
		return gate, err
	}
	headers := strings.ToLower(strings.Join(slices.Sorted(slices.Values(rule.Callers)), "\n"))
	names, err := r.gateDigest("callers\n" + headers)
	if err != nil {
		return "", err
	}
	values, err := r.gateDigest("caller\n" + w.Caller)
	return ledger.ForCaller(gate, names, values), err
}

func (r *Recorder) gateDigest(text string) (string, error) {
	digest, err := r.Digest(text)
	if errors.Is(err, ledger.ErrNoKey) {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:16]), nil
	}
	return digest, err
}

// named gives a request its name: the fields that its policy names, whatever else differs;
// else the caller's key; else its gate; else its own.
//
// While one is open that has the name which other fields of the request make, as an earlier
// policy said, that is its name.
func (r *Recorder) named(ctx context.Context, w Request, rule KindRule, req ledger.BeginRequest) (ledger.BeginRequest, error) {
	if key, err := r.openUnder(ctx, w, rule, req); key != "" || err != nil {
		req.Key = key
		return req, err
	}
	if w.Key != "" || len(rule.KeyFrom) > 0 { // its token is made under the ledger's key
		if _, err := r.redact.key(); err != nil && !errors.Is(err, ledger.ErrNoKey) {
			return req, err
		}
	}
	switch {
	case len(rule.KeyFrom) > 0:
		key, err := rule.byFields(w, req, rule.named(w), rule.KeyFrom)
		if err == nil {
			r.fields.add(key)
			req.Key, req.SentKey = key, w.Key
			return req, nil
		}
		if w.Key == "" {
			return req, &NoKeyError{w.Kind, err}
		}
		req.Key = w.Key
	case w.Key != "":
		req.Key = w.Key
	case req.Gate != "":
		req.Key = ledger.InputKey(req.Gate)
	default:
		req.Key = ledger.OwnKey(req.OperationID)
	}
	return req, nil
}

// named is which requests the fields of the rule name: those that its kind matches, whatever it
// is called; else those of the kind.
func (rule KindRule) named(w Request) string {
	if w.Place != "" && rule.Match != "" {
		return rule.Match
	}
	return w.Kind
}

// byFields is the name that fields of a request's input make, among certain requests.
func (rule KindRule) byFields(w Request, req ledger.BeginRequest, of string, paths []string) (string, error) {
	fields, err := ledger.Fields(rule.seen(w, req.Input), paths)
	if err != nil {
		return "", err
	}
	digest, err := ledger.Digest(fields)
	return ledger.FieldsKey(of, paths, digest), err
}

// openUnder is the name that an earlier policy made of a request, of other fields or for a kind
// that matched other requests, while an operation is open under it; else "".
func (r *Recorder) openUnder(ctx context.Context, w Request, rule KindRule, req ledger.BeginRequest) (string, error) {
	names, err := r.fields.names(ctx, r.store, r.options.Clock())
	if err != nil || len(req.Input) == 0 {
		return "", err
	}
	current, _ := rule.byFields(w, req, rule.named(w), rule.KeyFrom)
	roots := slices.Compact([]string{rule.Input, "", "body"}) // where the fields began, of an earlier policy
	for _, name := range names {
		of, paths := ledger.FieldsOf(name)
		if paths == nil || of != w.Kind && (w.Place == "" || rule.Covers == nil || !rule.Covers(of, w.Place)) {
			continue // it is of other requests
		}
		for _, rule.Input = range roots {
			key, err := rule.byFields(w, req, of, paths)
			if err != nil || key == current { // it has none of this name, or begin looks for it
				continue
			}
			if open, err := isOpen(ctx, r.store, ledger.ByName(req.Kind, req.Scope, key)); open || err != nil {
				return key, err
			}
		}
	}
	return "", nil
}

// isOpen reports whether an operation is in flight, in doubt or allowed.
func isOpen(ctx context.Context, s ledger.Store, at ledger.Locator) (bool, error) {
	at.Skip = ledger.AllParts
	rec, err := s.Read(ctx, at)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, nil
	}
	return rec.Operation.State.Open() || rec.OpenAllowed() != nil, err
}

// fieldNames has a name of each list of fields that the ledger knew a moment ago, or that was
// used here.
type fieldNames struct {
	mu    sync.Mutex
	known map[string]string // by their list
	asked time.Time
}

// namesStay is how long the ledger is not asked again: an edit of the policy takes about as long
// to be read by all.
const namesStay = 2 * time.Second

func (f *fieldNames) names(ctx context.Context, s ledger.Finder, now time.Time) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked.IsZero() || now.Sub(f.asked) >= namesStay {
		names, err := s.FieldNames(ctx)
		if err != nil {
			return nil, err
		}
		f.known, f.asked = map[string]string{}, now
		for _, name := range names {
			f.known[ledger.FieldsList(name)] = name
		}
	}
	return slices.Collect(maps.Values(f.known)), nil
}

func (f *fieldNames) add(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known != nil {
		f.known[ledger.FieldsList(name)] = name
	}
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

// mostDoubts bounds what a recorder remembers to tell of.
const mostDoubts = 10_000

// doubts are the operations that a caller is told of once and that hold nothing back after
// that: by their gate, where an answer came that proves nothing and no policy names the kind;
// by their kind, the newest call of a tool whose answer was lost, because an agent calls again
// in other words. Who was told stands in the ledger.
type doubts struct {
	mu  sync.Mutex
	all map[string]string // ids of operations, "" where there is none
}

func (d *doubts) keep(of, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil || len(d.all) >= mostDoubts {
		d.all = map[string]string{}
	}
	d.all[of] = id
}

func (d *doubts) of(of string) (id string, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id, known = d.all[of]
	return id, known
}

// tell answers the first request that is like an operation in doubt which holds nothing back.
// The next one goes out beside it.
func (r *Recorder) tell(ctx context.Context, w Request, rule KindRule, req *ledger.BeginRequest) (ledger.BeginResult, bool, error) {
	res := ledger.BeginResult{Answer: ledger.AnswerInDoubt, Told: true}
	of := req.Gate
	id, _ := r.doubts.of(of)
	var err error
	if res.Like = id == "" && likeOthers(w, rule, *req); res.Like {
		of = req.Kind
		id, err = r.lostCall(ctx, of)
	}
	if id == "" || err != nil {
		return res, false, err
	}
	rec, err := r.store.Read(ctx, ledger.Locator{ID: id, Skip: ledger.AllParts})
	if err != nil {
		return res, false, err
	}
	res.Operation = rec.Operation
	told, open := false, rec.State() == ledger.Uncertain
	switch {
	case res.Like && open && rec.Operation.Gate == req.Gate: // the gate tells
		return res, false, nil
	case res.Like && outcome.Answered(rec.Operation.ErrorClass): // late
	case open, rec.State() == ledger.Committed && !res.Like:
		told, err = ledger.Tell(ctx, r.store, id, r.options.Actor)
		told = told || id == req.Follows
	}
	if told || err != nil {
		if !open {
			res.Answer, res.Told = ledger.AnswerFinished, false
		}
		return res, told, err
	}
	if r.doubts.keep(of, ""); open && !res.Like {
		req.Beside = id
	}
	return res, false, nil
}

// likeOthers reports whether a request may be what an agent lost, in other words.
func likeOthers(w Request, rule KindRule, req ledger.BeginRequest) bool {
	return w.Sender == "mcp" && w.Key == "" && w.Follows == "" && req.Gate != "" && !rule.Safe && len(rule.KeyFrom) == 0
}

// lostCall is the newest call of a tool whose answer was lost and that is in doubt. What
// another session lost is looked up once.
func (r *Recorder) lostCall(ctx context.Context, kind string) (string, error) {
	id, known := r.doubts.of(kind)
	if known {
		return id, nil
	}
	filter := ledger.Filter{Terms: []ledger.Term{{Field: "kind", Value: kind}, {Field: "state", Value: string(ledger.Uncertain)}}}
	page, err := r.store.Page(ctx, ledger.Query{Tab: ledger.TabAll, Filter: filter, Order: ledger.OrderNewest, Now: r.options.Clock(), Limit: 50})
	for _, row := range page.Rows {
		if !outcome.Answered(row.ErrorClass) {
			id = row.ID
			break
		}
	}
	if err == nil {
		r.doubts.keep(kind, id)
	}
	return id, err
}

// lets reports whether an identical request may go out beside an attempt of this process
// that an answer left in doubt: a proxy passed that answer on, and no policy names its kind.
func (r *Recorder) lets(attemptID string) bool {
	sent := r.sent.of(attemptID)
	return sent.Operation.Gate != "" && (sent.Attempt.Sender == "http" || sent.Attempt.Sender == "mcp") && !r.Rule(sent.Operation.Kind).Named
}
