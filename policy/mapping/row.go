package mapping

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/policy/expr"
)

// Operation is what a row says.
type Operation struct {
	ID               string // the same whenever the row is read
	Kind, Key, Scope string
	Source, Run      string
	At               time.Time // the earliest at which it may have been sent
	Input            json.RawMessage
	Error            string
	ErrorClass       ledger.ErrorClass
	Outcome          ledger.Outcome
	Proof            ledger.Proof
	Token            string // that was inside what was sent, or ""
	KeySent          bool
}

// RowError is why a row is no operation, and what to do about it.
type RowError struct{ Message, Hint string }

func (e *RowError) Error() string { return e.Message }

// Longest texts, in bytes: what is longer is no name.
const (
	maxName  = 300
	maxKey   = 1000
	oldest   = 946684800 // the year 2000, in seconds; times before it are mistakes
	maxInput = 16 << 20
)

// reading is one evaluation of a mapping over a row. Its first error sticks.
type reading struct {
	m     *Mapping
	ctx   context.Context
	names *expr.Names
	err   error
}

// Read is the operation of a row; skip reports that the mapping leaves it out. Errors:
// *RowError.
func (m *Mapping) Read(ctx context.Context, row Row) (op Operation, skip bool, err error) {
	var headers expr.Lookup
	r := &reading{m: m, ctx: ctx}
	r.names = expr.NewNames(func(name string) (any, error) {
		switch {
		case name == "row":
			return row.Data, nil
		case headers != nil:
			return headers, nil
		}
		return nil, errors.New("header() needs `headers`, which says where they are")
	})
	if v, ok := r.value(headersField); ok {
		headers = headersOf(v)
	}
	if v, ok := r.value("skip"); ok && r.err == nil {
		if left, _ := v.Data(); left == true {
			return op, true, nil
		}
	}
	op = Operation{Kind: r.text("kind", maxName), Key: r.text("key", maxKey), Scope: r.text("scope", maxName), Source: r.text("source", maxName), Run: r.text("run", maxName),
		At: r.at(), Input: r.input(), Error: r.text("error", maxInput), ErrorClass: ledger.ErrorClass(r.text("error_class", maxName)),
		Outcome: ledger.Outcome(r.text("outcome", maxName)), Proof: ledger.Proof(r.text("proof", maxName)), Token: r.text("token", maxName)}
	if v, ok := r.value("key_sent"); ok {
		sent, _ := v.Data()
		op.KeySent = sent == true
	}
	id := r.text("id", maxKey)
	if r.err == nil {
		r.err = op.check()
	}
	if r.err != nil {
		return op, false, r.err
	}
	op.Outcome = cmp.Or(op.Outcome, ledger.OutcomeUncertain)
	if id == "" {
		if id, err = ledger.Fingerprint(row.Text); err != nil {
			return op, false, &RowError{err.Error(), ""}
		}
	}
	op.ID = ledger.DeriveID("import "+m.Name, op.Source+"\x00"+id)
	return op, false, nil
}

// check says what an operation lacks to be one.
func (op Operation) check() error {
	switch {
	case op.Kind == "":
		return &RowError{"it has no kind", `say what it is: --map kind='"mail.send"'`}
	case !policy.NamesKind(op.Kind):
		return &RowError{fmt.Sprintf("a policy cannot name the kind `%s`", op.Kind), "letters, digits and _ . / : @ - make a kind: --map kind=EXPRESSION"}
	case op.Outcome != "" && op.Outcome != ledger.OutcomeUncertain && op.Outcome != ledger.OutcomeFailed:
		return &RowError{fmt.Sprintf("outcome `%s` is neither uncertain nor failed", op.Outcome), "what has landed for certain is no dead letter: leave it out with `skip`"}
	case op.Outcome == ledger.OutcomeFailed && !op.Proof.OfAttempt():
		return &RowError{"outcome failed needs a proof that nothing happened", "proof: never_sent or refused; without one it is uncertain"}
	case op.Outcome != ledger.OutcomeFailed && op.Proof != "":
		return &RowError{fmt.Sprintf("proof `%s` belongs to outcome failed", op.Proof), "what is proven to have had no effect has failed"}
	case op.Token != "" && !ledger.HasWord(string(op.Input), op.Token):
		return &RowError{fmt.Sprintf("the token `%s` is not in the input", op.Token), "a check looks for what was inside the write; without it, leave `token` out"}
	}
	return nil
}

// value evaluates a field; ok is false where the mapping has none, or it is null.
func (r *reading) value(field string) (v expr.Value, ok bool) {
	e := r.m.fields[field]
	if e == nil || r.err != nil {
		return v, false
	}
	v, err := e.Eval(r.ctx, r.names)
	if err != nil {
		r.fail(field, err.Error(), `where a row may lack a field: has(row.x) ? row.x : ""`)
		return v, false
	}
	data, err := v.Data()
	if err != nil {
		r.fail(field, err.Error(), "")
	}
	return v, err == nil && data != nil
}

func (r *reading) fail(field, message, hint string) {
	if r.err == nil {
		r.err = &RowError{field + ": " + message, hint}
	}
}

func (r *reading) text(field string, most int) string {
	v, ok := r.value(field)
	if !ok {
		return ""
	}
	text, err := v.Format()
	switch text = strings.TrimSpace(text); {
	case err != nil:
		r.fail(field, err.Error(), "")
	case len(text) > most:
		r.fail(field, fmt.Sprintf("longer than %d bytes", most), "make it of less: --map "+field+"=EXPRESSION")
	case strings.ContainsRune(text, 0):
		r.fail(field, "it has a NUL in it", "")
	}
	return text
}

func (r *reading) at() time.Time {
	const hint = "the earliest time at which it may have been sent: --map at=EXPRESSION"
	v, ok := r.value("at")
	if !ok {
		r.fail("at", "it says no time", hint)
		return time.Time{}
	}
	at, _, err := v.Moment()
	switch {
	case err != nil:
		r.fail("at", err.Error(), hint)
	case at.Unix() < oldest:
		r.fail("at", at.UTC().Format(time.RFC3339)+" is too long ago to be meant", "seconds, milliseconds and RFC 3339 are understood")
	}
	return at.UTC().Truncate(time.Millisecond)
}

func (r *reading) input() json.RawMessage {
	v, ok := r.value("input")
	if !ok {
		return nil
	}
	data, err := v.Data()
	if err != nil {
		r.fail("input", err.Error(), "")
		return nil
	}
	text, err := expr.Encode(data)
	switch {
	case err != nil:
		r.fail("input", err.Error(), "")
	case len(text) > maxInput:
		r.fail("input", "longer than 16 MiB", "map a reference to it instead")
	}
	return text
}

// headersOf are headers by name: of a list of names and values in turn, or of a mapping
// of names to values or lists of them. The last of a name counts, as Kafka has it.
func headersOf(v expr.Value) expr.Lookup {
	data, err := v.Data()
	of := map[string]any{}
	switch x := data.(type) {
	case []any:
		for i := 0; i+1 < len(x); i += 2 {
			if name, ok := x[i].(string); ok {
				of[name] = x[i+1]
			}
		}
	case map[string]any:
		for name, value := range x {
			if list, ok := value.([]any); ok && len(list) > 0 {
				value = list[len(list)-1]
			}
			of[name] = value
		}
	}
	return func(name string) (string, error) {
		if of[name] == nil || err != nil {
			return "", err
		}
		return expr.FormatData(of[name])
	}
}
