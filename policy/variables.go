package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/redact"
	"indoubt/policy/expr"
	"indoubt/policy/file"
	"indoubt/policy/transport"
)

// variables are the names of one evaluation. Nothing is decoded before an
// expression asks for it.
type variables struct {
	*expr.Names
	rec    *ledger.Record
	kind   *Kind // decides what `input` is; nil: as it is recorded
	answer *ledger.Answer
	cursor any
	input  any // decoded once; with the token inserted for a send

	sending   bool   // another attempt
	keyHeader string // of the request, for the operation's key; "" for none

	secrets *redact.Box
}

// rendering writes templates as they are sent.
func (v *variables) rendering() transport.Rendering {
	return transport.Rendering{
		Rendering: &expr.Rendering{Names: v.Names, Note: v.secrets.Add}, Operation: v.rec.Operation,
		KeyHeader: v.keyHeader, Stdin: v.stdin, Secrets: v.secrets,
	}
}

// stdin is the JSON that a command gets on its standard input where the policy says nothing: the operation.
func (v *variables) stdin() []byte {
	o := v.rec.Operation
	return ledger.EncodeJSON(map[string]any{
		"id": o.ID, "kind": o.Kind, "key": o.KeyToSend(), "token": o.Token, "receipt": o.Receipt(),
		"input": v.kind.seenJSON(o), "cursor": v.cursor,
	})
}

// variables are the names as the kind's expressions see them.
func (k *Kind) variables(rec ledger.Record) *variables {
	v := &variables{rec: &rec, kind: k, secrets: &redact.Box{}}
	v.Names = expr.NewNames(v.value)
	return v
}

func (v *variables) withAnswer(a *ledger.Answer) *variables { v.answer = a; return v }

// effect is the same evaluation looking at one effect.
func (v *variables) effect(it expr.Value) *variables {
	w := *v
	w.Names = v.With(it)
	return &w
}

func (v *variables) value(name string) (any, error) {
	o := &v.rec.Operation
	switch name {
	case "input":
		if v.input != nil {
			return v.input, nil
		}
		return v.kind.seen(*o)
	case "token":
		return o.Token, nil
	case "key":
		return o.KeyToSend(), nil
	case "receipt":
		return o.Receipt(), nil
	case "op":
		return operationValue(*o), nil
	case "attempt":
		a := attemptValue(*v.rec)
		if v.sending { // of the one that is to be made only its number is known, because what is sent is what was shown
			newest, _ := a["n"].(float64)
			a = map[string]any{"n": newest + 1}
		}
		return a, nil
	case "cursor":
		return v.cursor, nil
	case "env":
		return v.secret(transport.Environment), nil
	case "file":
		return v.secret(transport.SecretIn), nil
	}
	if v.answer == nil {
		return nil, fmt.Errorf("there is no `%s` without an answer", name)
	}
	return transport.Value(v.answer, name)
}

func decodeInput(o ledger.Operation) (any, error) {
	if len(bytes.TrimSpace(o.Input)) == 0 {
		return map[string]any{}, nil
	}
	in, err := expr.Decode(o.Input)
	if err != nil {
		return nil, fmt.Errorf("the recorded input is not JSON")
	}
	return in, nil
}

func operationValue(o ledger.Operation) map[string]any {
	return map[string]any{
		"id": o.ID, "kind": o.Kind, "scope": o.Scope, "session": o.Session, "fingerprint": o.Fingerprint,
		"source":     map[string]any{"pipeline": o.Source.Pipeline, "run": o.Source.Run, "host": o.Source.Host},
		"created_at": zeroed(o.CreatedAt), "started": started(o), "started_at": zeroed(o.StartedAt),
		"ended_at": zeroed(o.EndedAt), "attempts": float64(o.AttemptCount),
	}
}

// startedEarly is how much earlier than its first attempt a list begins that an operation
// is looked for in: clocks differ, and what was sent before it shows that the list is right.
const startedEarly = 10 * time.Minute

// started is when an operation was first sent less startedEarly, in Unix seconds.
func started(o ledger.Operation) any {
	at := o.StartedAt
	if at.IsZero() || !o.CreatedAt.IsZero() && o.CreatedAt.Before(at) {
		at = o.CreatedAt
	}
	if at.IsZero() {
		return nil
	}
	return float64(at.Add(-startedEarly).Unix())
}

// attemptValue is the newest attempt. Of an operation without its attempts, as in a
// list, only its number is known.
func attemptValue(rec ledger.Record) map[string]any {
	if len(rec.Attempts) == 0 {
		return map[string]any{"n": float64(rec.Operation.AttemptCount)}
	}
	a := rec.Attempts[len(rec.Attempts)-1]
	return map[string]any{"n": float64(a.N), "id": a.ID, "started_at": zeroed(a.StartedAt), "deadline_at": zeroed(a.DeadlineAt),
		"ended_at": zeroed(a.EndedAt), "outcome": string(a.Final()), "class": string(a.ErrorClass)}
}

// secret is a lookup whose values are noted as secrets.
func (v *variables) secret(find expr.Lookup) expr.Lookup {
	return func(name string) (string, error) {
		value, err := find(name)
		if err == nil {
			v.secrets.Add(value)
		}
		return value, err
	}
}

// zeroed keeps a time that is not known out of calculations.
func zeroed(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// requestParts are the parts of the input of an operation that an HTTP recorder
// recorded, as it is recorded.
var requestParts = []string{"method", "override", "path", "query", "content_type", "headers", "body"}

// view reads `input:`, the part of such an input that the kind's expressions see:
// ${input.body}. It is a plain path, so that the token finds its way back.
func (d decoder) view(k *Kind, n *file.Node) {
	text, ok := d.Scalar(n)
	if !ok {
		return
	}
	inner, opened := strings.CutPrefix(strings.TrimSpace(text), "${")
	inner, closed := strings.CutSuffix(inner, "}")
	path, whole := strings.CutPrefix(strings.TrimSpace(inner), "input.")
	steps, err := expr.ParsePath(path)
	const hint = "input: ${input.body}, for the body of the requests that the HTTP proxy records"
	switch {
	case !opened || !closed || !whole || err != nil:
		d.Fail(n.Place, fmt.Sprintf("%q is not a part of a recorded request", text), hint)
		return
	case !slices.Contains(requestParts, fmt.Sprint(steps[0])):
		d.Fail(n.Place, fmt.Sprintf("a recorded request has no `%s`", path), "it has "+strings.Join(requestParts, ", "))
		return
	}
	k.Input, k.view = path, steps
}

// views reports whether the kind's expressions see a part of an operation's input.
func (k *Kind) views(o ledger.Operation) bool {
	return k != nil && len(k.view) > 0 && o.Request != nil
}

// seen is an operation's input as the kind's expressions see it.
func (k *Kind) seen(o ledger.Operation) (any, error) {
	in, err := decodeInput(o)
	if err != nil || !k.views(o) {
		return in, err
	}
	in, found, err := k.view.Get(in)
	if err != nil || !found {
		return nil, fmt.Errorf("the request has no %s", k.Input)
	}
	return in, nil
}

// reinput changes the plain values at a path of the input, and below it, as the kind's expressions
// see it. found reports whether there was one.
func (k *Kind) reinput(o *ledger.Operation, path expr.Path, change func(was any) any) (found bool, err error) {
	in, err := decodeInput(*o)
	if err != nil {
		return false, err
	}
	if k.views(*o) {
		path = slices.Concat(k.view, path)
	}
	in, found = path.Replace(in, change)
	o.Input = ledger.EncodeJSON(in)
	return found, nil
}

// seenJSON is the seen input as text, "null" where there is none.
func (k *Kind) seenJSON(o ledger.Operation) json.RawMessage {
	if !k.views(o) {
		if json.Valid(o.Input) {
			return o.Input
		}
		return json.RawMessage("null")
	}
	if part, err := ledger.Part(o.Input, k.Input); err == nil {
		return part
	}
	return json.RawMessage("null")
}
