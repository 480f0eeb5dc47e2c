package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"time"
)

// What a name begins with that a recorder made of a request.
const (
	namedByInput  = "input-"  // of all that is asked, where it goes: its gate
	namedByFields = "fields-" // of the fields that the policy names
	namedAlone    = "k-"      // of nothing: it is the operation's own
)

// theRequest is what a target begins with that no policy names.
const theRequest = "request-"

// requestTarget is the target of a request whose kind names none: the request itself, which its
// gate tells from others, or else its name.
func (req BeginRequest) requestTarget() string {
	if req.Gate != "" {
		return theRequest + req.Gate
	}
	name := sha256.Sum256([]byte(strings.Join([]string{req.Kind, req.Scope, req.Key}, "\n")))
	return theRequest + hex.EncodeToString(name[:digestLength/2])
}

// NamedTarget is a target as a person knows it; "" where it is the request itself.
func NamedTarget(target string) string {
	if gate, is := strings.CutPrefix(target, theRequest); is && isDigest(GateBase(gate)) {
		return ""
	}
	return target
}

// inputKeeps is how long what its input alone names stands for its request after it was sent
// last, where its caller was not given the answer: a day, less what a nightly job may be early.
// Who still asks then asks at least once more within askedAgain after it ended.
const inputKeeps, askedAgain = 20 * time.Hour, time.Hour

// A gate is BASE or BASE.NAMESVALUES, in hexadecimal digits: a digest of what is asked and
// where it goes, one of the names of the headers that tell callers apart, and one of what these hold.
const baseLength, namesLength = 32, 8

// GateBase is the part of a gate that has no caller in it.
func GateBase(gate string) string { return gate[:min(len(gate), baseLength)] }

// GateNames is the part of a gate that says which headers tell callers apart; "": none do.
func GateNames(gate string) string {
	_, caller, _ := strings.Cut(gate, ".")
	return caller[:min(len(caller), namesLength)]
}

// ForCaller is a gate with digests of the names and the values of the headers that tell
// callers apart.
func ForCaller(gate, names, values string) string {
	return GateBase(gate) + "." + names[:namesLength] + values[:CallerLength]
}

// GateHolds reports whether an operation that is open under a gate holds a request back that has
// the other one. What was recorded while callers were told apart by other headers may be
// anyone's, so that it holds everyone's.
func GateHolds(open, asked string) bool {
	return open != "" && asked != "" && GateBase(open) == GateBase(asked) && (open == asked || GateNames(open) != GateNames(asked))
}

// InputKey is the name of a request whose caller gave no key: made of what it asks. Callers
// that are told apart have scopes of their own.
func InputKey(gate string) string { return namedByInput + GateBase(gate) }

// FieldsKey is the name of a request that some fields of its input name, among those of a kind
// or a pattern: which fields, in any order, and a digest of what they hold.
func FieldsKey(of string, paths []string, digest string) string {
	var list []string
	for _, path := range paths {
		list = append(list, url.QueryEscape(path))
	}
	slices.Sort(list)
	return namedByFields + url.QueryEscape(of) + "," + strings.Join(slices.Compact(list), ",") + ":" + digest
}

// FieldsOf are the fields that a name was made of, and the kind or the pattern of those that it
// tells apart; none for a name of another sort.
func FieldsOf(key string) (of string, paths []string) {
	list, is := strings.CutPrefix(key, namedByFields)
	end := len(list) - digestLength - 1
	if !is || end < 1 || list[end] != ':' || !isDigest(list[end+1:]) {
		return "", nil
	}
	list = list[:end]
	for _, escaped := range strings.Split(list, ",") {
		path, err := url.QueryUnescape(escaped)
		if err != nil || path == "" {
			return "", nil
		}
		paths = append(paths, path)
	}
	if len(paths) < 2 {
		return "", nil
	}
	return paths[0], paths[1:]
}

// ByName is where the operation with a name is: in its scope and its kind. A name that is made
// of fields says itself which requests it tells apart, whatever their kind is called.
func ByName(kind, scope, key string) Locator {
	return Locator{Kind: kind, AnyKind: fieldsMade(key), Scope: scope, Key: key}
}

// FieldsList is what names of the same fields, among the same requests, begin with.
func FieldsList(key string) string { return key[:max(0, len(key)-digestLength)] }

const digestLength = 32 // of Digest

func isDigest(text string) bool {
	return len(text) == digestLength && strings.Trim(text, "0123456789abcdef") == ""
}

func fieldsMade(key string) bool {
	_, paths := FieldsOf(key)
	return paths != nil
}

// OwnKey is the name of an operation that nothing else names, and what goes out as its key.
func OwnKey(operationID string) string { return namedAlone + operationID }

// MadeKey reports whether a recorder made the key, so that it tells a person nothing.
func MadeKey(key string) bool {
	if digest, is := strings.CutPrefix(key, namedByInput); is && isDigest(digest) || fieldsMade(key) {
		return true
	}
	id, alone := strings.CutPrefix(key, namedAlone)
	return alone && len(id) == 36 && strings.Trim(id, "0123456789abcdef-") == ""
}

func madeOf(key, of string) bool { return strings.HasPrefix(key, of) && MadeKey(key) }

// KeyToSend is the idempotency key that goes out with each attempt: the caller's, or one of
// this operation and no other, so that it never meets what the other side remembers of
// another one.
func (o Operation) KeyToSend() string {
	switch {
	case o.SentKey != "":
		return o.SentKey
	case MadeKey(o.Key) && !strings.HasPrefix(o.Key, namedAlone):
		return OwnKey(o.ID)
	}
	return o.Key
}

// NameOver reports whether the operation has given its name up, so that a request under it is a
// new one. What is in flight, in doubt, in conflict or allowed never has. What its input
// alone names is over once its answer was delivered: the same words are a new wish then,
// unless the kind's finished requests are replayed.
func (r *Record) NameOver(req BeginRequest) bool {
	o := r.Operation
	if o.State.Open() || r.OpenAllowed() != nil || o.ID == req.Follows {
		return false
	}
	if !o.NamedByInput() || req.Replay {
		return expired(r)
	}
	if o.Conflict != NoConflict && o.Conflict != ConflictMaybeTwice {
		return false
	}
	// Its caller was told that it failed, and wants it now that another one had its target.
	failed := o.State == Failed && !o.PersonOnly && !o.Undelivered && allProven(o, r.Attempts)
	if req.Safe && failed && r.Overtaken() != nil {
		return true
	}
	if o.State == Committed && !o.Undelivered {
		return true
	}
	for _, a := range r.Attempts {
		if !r.Now.After(a.StartedAt.Add(inputKeeps)) {
			return false
		}
	}
	return r.Over(askedAgain)
}

// NamedByInput reports whether all that was asked names the operation, and no key.
func (o Operation) NamedByInput() bool { return madeOf(o.Key, namedByInput) }

// seenBeside reports whether who allowed the attempt that a change begins was shown another
// operation.
func (c Change) seenBeside(attemptID, other string) bool {
	return slices.ContainsFunc(c.Allowed, func(g Allowed) bool {
		return g.AttemptID == attemptID && slices.Contains(g.Related, other)
	})
}

// Tell notes that who makes a call like one in doubt was told of it, and reports whether nobody
// was before: over all processes, one caller is.
func Tell(ctx context.Context, s Changer, operationID string, by Actor) (bool, error) {
	change := DeriveID(operationID, "told")
	applied, err := s.Change(ctx, Locator{ID: operationID, Skip: AllParts}, change, func(rec *Record) (Change, error) {
		o := rec.Operation
		note := Event{ID: change, Verb: string(VerbNote), Actor: by, Reason: "the caller of another one was told of it"}
		return Change{Operation: &o, Event: &note}, nil
	})
	return err == nil && !applied.Noop, err
}
