package mapping

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/policy/expr"
)

type Operation struct {
	ID               string // the same whenever the row is read
	Kind, Key, Scope string
	Source, Run      string
	At               time.Time // the earliest at which it may have been sent; AnyTime where the row does not say
	Input            json.RawMessage
	Error            string
	Proof            ledger.Proof // that it had no effect; "": it is in doubt
	Token            string       // that was inside what was sent, or ""
	KeySent          bool
}

// AnyTime stands for an unknown time: no effect that a check finds is older than the row then.
var AnyTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

const maxName, maxKey, maxInput = 300, 1000, 16 << 20 // bytes

// reading is one evaluation of a mapping over a row. Its first error sticks.
type reading struct {
	m          *Mapping
	ctx        context.Context
	row, whole *expr.Names // without and with what is null
	err        error
}

// Read is the operation of a row; skip reports that the mapping leaves it out. Errors: *Error.
func (m *Mapping) Read(ctx context.Context, row Row) (op Operation, skip bool, err error) {
	var headers expr.Lookup
	names := func(data any) *expr.Names {
		return expr.NewNames(func(name string) (any, error) { return map[bool]any{true: data, false: headers}[name == "row"], nil })
	}
	r := &reading{m, ctx, names(withoutNulls(row.data)), names(row.data), nil}
	headers = headersOf(r.data("headers"))
	if r.truth("skip") {
		return op, true, nil
	}
	op = Operation{
		Kind: r.text("kind", maxName), Key: r.text("key", maxKey), Scope: r.text("scope", maxName),
		Source: r.text("source", maxName), Run: r.text("run", maxName), At: r.at(),
		Proof: ledger.Proof(r.text("proof", maxName)), Token: r.text("token", maxName), KeySent: r.truth("key_sent"),
	}
	if data := r.data("input"); data != nil {
		if op.Input = ledger.EncodeJSON(data); len(op.Input) > maxInput {
			r.fail("input", "JSON of 16 MiB at most was expected", "map a reference to it instead")
		}
	}
	id := r.text("id", maxKey)
	if id == "" {
		if id, err = ledger.Fingerprint(row.Text); err != nil {
			r.fail("id", err.Error(), "")
		}
	}
	if err = cmp.Or(r.err, op.check()); err != nil {
		return op, false, err
	}
	op.ID = ledger.DeriveID("import "+m.Name, op.Source+"\x00"+id)
	if said := r.data("error"); said != nil { // it is for people, and for its words: nothing about it makes a row bad
		if text, isText := said.(string); isText {
			op.Error = strings.ReplaceAll(strings.TrimSpace(text), "\x00", "")
		} else {
			op.Error = string(ledger.EncodeJSON(said))
		}
	}
	return op, false, nil
}

// check says what an operation lacks to be one.
func (op Operation) check() error {
	switch {
	case op.Kind == "":
		return &Error{"kind: a name was expected, and the row has none", `say what it is: --map kind='"mail.send"'`}
	case !policy.NamesKind(op.Kind):
		return &Error{fmt.Sprintf("kind: a policy cannot name `%s`", op.Kind),
			"letters, digits and _ . / : @ - make a kind: --map kind=EXPRESSION"}
	case op.Proof != "" && !op.Proof.OfAttempt():
		return &Error{fmt.Sprintf("proof: never_sent or refused was expected, not `%s`", op.Proof), "without a proof it is in doubt"}
	case op.Token != "" && !ledger.HasWord(string(op.Input), op.Token):
		return &Error{fmt.Sprintf("token: `%s` is not in the input", op.Token),
			"a check looks for what was inside the write; without it, leave `token` out"}
	}
	return nil
}

// data is what a field gives: nil where the mapping has none, or the row lacks what it is
// made of. kind, skip and input must find all that they name.
func (r *reading) data(field string) (data any) {
	e, names := r.m.fields[field], r.row
	if e == nil || r.err != nil {
		return nil
	}
	if field == "input" {
		names = r.whole
	}
	v, err := e.Eval(r.ctx, names)
	if err == nil {
		data, err = v.Data()
	}
	if err != nil && (!expr.Lacks(err) || field == "kind" || field == "skip" || field == "input") {
		r.fail(field, strings.Replace(err.Error(), "no such overload", "a value of the row has another type than this expects", 1),
			`where a row may lack it: has(row.x) ? row.x : ""`)
	}
	return data
}

func (r *reading) fail(field, message, hint string) {
	r.err = cmp.Or(r.err, error(&Error{field + ": " + message, hint}))
}

func (r *reading) text(field string, most int) string {
	data := r.data(field)
	if data == nil {
		return ""
	}
	text, err := expr.FormatData(data)
	switch text = strings.TrimSpace(text); {
	case err != nil:
		r.fail(field, "a text or number was expected: "+err.Error(), "")
	case len(text) > most:
		r.fail(field, fmt.Sprintf("%d bytes at most were expected, not %d", most, len(text)), "make it of less: --map "+field+"=EXPRESSION")
	case strings.ContainsRune(text, 0):
		r.fail(field, "it has a NUL in it", "")
	}
	return text
}

func (r *reading) truth(field string) bool {
	data := r.data(field)
	yes, isBool := data.(bool)
	if data != nil && !isBool {
		r.fail(field, "true or false was expected", "")
	}
	return yes
}

func (r *reading) at() time.Time {
	data := r.data("at")
	if data == nil {
		return AnyTime
	}
	at, _, err := expr.NewValue(data).Moment()
	if err != nil || at.Before(AnyTime) {
		r.fail("at", fmt.Sprintf("seconds, milliseconds or RFC 3339 with a zone was expected, after 2000, not %.60v", data),
			"the earliest time at which it may have been sent: --map at=EXPRESSION, or at=null")
	}
	return at.UTC().Truncate(time.Millisecond)
}

// headersOf are headers by name, of a list of names and values in turn. The last of a
// name counts, as Kafka has it.
func headersOf(data any) expr.Lookup {
	of := map[string]any{}
	list, _ := data.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		of[fmt.Sprint(list[i])] = list[i+1]
	}
	return func(name string) (string, error) {
		if of[name] == nil {
			return "", nil
		}
		return expr.FormatData(of[name])
	}
}

type Row struct {
	Place string // "line 12", or "line 12, row 3" of a list
	Text  []byte
	data  any
}

const maxLine = 16 << 20

// Rows reads JSON lines. A line is a row, a list of rows, or a document in which `each`
// finds a list. take gets each row, or why a line has none (*Error).
func (m *Mapping) Rows(ctx context.Context, source io.Reader, take func(Row, error) error) error {
	in := bufio.NewReaderSize(source, 1<<16)
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	for n := 1; ; n++ {
		text, long, end := readLine(in)
		if end != nil && !errors.Is(end, io.EOF) {
			return fmt.Errorf("line %d: %w", n, end)
		}
		line, rows, bad := Row{Place: fmt.Sprintf("line %d", n), Text: bytes.TrimSpace(text)}, []Row(nil), error(nil)
		switch {
		case long:
			bad = &Error{"16 MiB at most were expected", "leave out what is not needed of it, or print its rows one a line: jq -c '.[]'"}
		case len(line.Text) > 0:
			rows, bad = m.rowsOf(ctx, line)
		}
		if bad != nil {
			rows = []Row{line}
		}
		for _, row := range rows {
			if err := take(row, bad); err != nil {
				return err
			}
		}
		if end != nil {
			return nil
		}
	}
}

// readLine reads a line; of one that is too long only the beginning is kept.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if room := maxLine - len(line); len(part) > room {
			part, long = part[:max(room, 0)], true
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

func (m *Mapping) rowsOf(ctx context.Context, line Row) ([]Row, error) {
	if ledger.TooDeep(line.Text) {
		return nil, &Error{"it is nested too deeply", ""}
	}
	data, err := expr.Decode(line.Text)
	if err != nil {
		return nil, &Error{"one JSON value was expected: " + err.Error(), "what goes over several lines is put on one by jq -c ."}
	}
	list, isList := data.([]any)
	if each := m.fields["each"]; each != nil && !isList {
		var found any
		v, err := each.Eval(ctx, expr.NewNames(func(string) (any, error) { return withoutNulls(data), nil }))
		if err == nil {
			found, err = v.Data()
		}
		if list, isList = found.([]any); err != nil || !isList {
			return nil, &Error{fmt.Sprintf("each: a list of rows was expected: %v", err), "is it the right mapping?"}
		}
	}
	if !isList {
		line.data = data
		return []Row{line}, nil
	}
	var rows []Row
	for i, data := range list {
		rows = append(rows, Row{fmt.Sprintf("%s, row %d", line.Place, i+1), ledger.EncodeJSON(data), expr.Exact(data)})
	}
	return rows, nil
}

// withoutNulls is data without the members that are null: for a mapping they are missing.
func withoutNulls(data any) any {
	switch x := data.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for name, value := range x {
			if value != nil {
				out[name] = withoutNulls(value)
			}
		}
		return out
	case []any:
		return ledger.Each(x, withoutNulls)
	}
	return data
}
