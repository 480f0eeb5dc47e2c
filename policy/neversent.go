package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"indoubt/ledger"
	"indoubt/policy/expr"
	"indoubt/policy/transport"
	"indoubt/policy/verdict"
)

// part is a piece of what an own effect is recognised by: the token, the key, or what stands at a
// path of the input, "" for all of it.
type part struct{ name, path string }

var tokenPart = part{name: "token"}

// replaces is everything that an own effect is recognised by.
func (r *Read) replaces() []part {
	switch r.Identity() {
	case verdict.ByToken, verdict.ByAsking:
		return []part{tokenPart}
	case verdict.ByName:
		if r.markKey {
			return []part{{name: "key"}}
		}
		return usedBy(r.markIs.Expressions())
	case verdict.ByState:
		if out := usedBy([]*expr.Expression{r.state}); len(out) > 0 {
			return out
		}
		return usedBy(r.requestExpressions())
	}
	return nil
}

func usedBy(expressions []*expr.Expression) (out []part) {
	for _, p := range []part{tokenPart, {name: "key"}} {
		if slices.ContainsFunc(expressions, p.in) {
			out = append(out, p)
		}
	}
	for _, e := range expressions {
		for _, path := range e.Inputs() {
			if p := (part{"input", path}); !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

func (p part) in(e *expr.Expression) bool {
	if p.name != "input" {
		return e.Uses(p.name)
	}
	return slices.ContainsFunc(e.Inputs(), func(path string) bool {
		return path == "" || p.path == "" || overlaps(path, p.path)
	})
}

// NeedsNegativeControl reports whether what the read finds counts only if the same
// request for something that was never sent finds nothing: the request holds what
// the mark is compared with, so that an echo of it would be taken for an effect;
// or nothing in the answer shows which operation it belongs to.
func (r *Read) NeedsNegativeControl(rec ledger.Record) bool {
	switch r.Identity() {
	case verdict.ByNothing:
		return false
	case verdict.ByAsking, verdict.ByState:
		return true
	}
	return r.carries(r.replaces()...) || r.carriesUnnamed(rec)
}

// carries reports whether the request holds any of these; a command without
// `stdin` of its own is given all of them.
func (r *Read) carries(parts ...part) bool {
	return r.operationOnStdin() || anyIn(transport.Templates(r.way), parts)
}

// asks reports whether the question names any of these; a header is none.
func (r *Read) asks(parts ...part) bool { return anyIn(r.way.Questions(), parts) }

func anyIn(templates []*expr.Template, parts []part) bool {
	for _, t := range templates {
		for _, p := range parts {
			if slices.ContainsFunc(t.Expressions(), p.in) {
				return true
			}
		}
	}
	return false
}

// Control is one question of the negative control: for an operation that was
// never sent.
type Control struct {
	Key    string                        // of the request apart from what is replaced; its result may be believed for others
	Record func() (ledger.Record, error) // with other random values each time
}

// NeverSent is what the negative control asks: the record with what an own effect
// is recognised by replaced by random values of the same type and length. Each part is
// replaced alone: where all are, an echo of one of them beside true values of the
// others would not show, and a place that does not exist has nothing to echo. An error means that no such request can be made.
func (r *Read) NeverSent(rec ledger.Record) ([]Control, error) {
	parts := r.replaces()
	if r.Identity() == verdict.ByName && r.carries(parts...) { // what is not asked for cannot be echoed
		parts = slices.DeleteFunc(parts, func(p part) bool { return !r.carries(p) })
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("nothing of the operation is in the check, so there is nothing to leave out")
	}
	var out []Control
	for _, part := range parts {
		fixed, err := r.without(part, rec, 1, func(string) string { return "never-sent" })
		if err != nil {
			return nil, err
		}
		key, err := r.requestKey(fixed)
		if err != nil {
			return nil, err
		}
		out = append(out, Control{key, func() (ledger.Record, error) {
			return r.without(part, rec, float64(1e9+rand.IntN(1e9)), alike)
		}})
	}
	return out, nil
}

// alike is random text of the form of another one: letters for letters, digits for digits,
// in a path only in its last part. A token is like any other token.
func alike(was string) string {
	if strings.HasPrefix(was, "indoubt-") || was == "" {
		return ledger.NewToken()
	}
	from := strings.LastIndex(strings.TrimRight(was, "/"), "/") + 1
	for range 100 {
		made := was[:from] + strings.Map(func(c rune) rune {
			switch {
			case '0' <= c && c <= '9':
				return '0' + rand.Int32N(10)
			case 'a' <= c && c <= 'z':
				return 'a' + rand.Int32N(26)
			case unicode.IsUpper(c):
				return 'A' + rand.Int32N(26)
			case unicode.IsLetter(c):
				return 'a' + rand.Int32N(26)
			}
			return c
		}, was[from:])
		if made != was {
			return made
		}
	}
	return ledger.NewToken() // nothing in it is a letter or a digit
}

// requestKey names the request of a record: two requests with the same key are sent
// alike, to the same place and with the same secrets.
func (r *Read) requestKey(rec ledger.Record) (string, error) {
	if err := r.askable(rec.Operation); err != nil {
		return "", err
	}
	as := r.kind.variables(rec).rendering()
	req, err := r.render(&as)
	if err != nil {
		return "", err
	}
	return req.Sum()
}

// without is the record with a part of it replaced, also where the same value
// stands under another name.
func (r *Read) without(p part, rec ledger.Record, number float64, text func(string) string) (ledger.Record, error) {
	made, err := r.replace(p, rec, number, text)
	if err != nil {
		return rec, err
	}
	return r.rename(made, r.name(rec), r.name(made))
}

// carriesUnnamed reports whether the request holds the value that the mark is
// compared with, though it does not name it: in an input that has the same.
func (r *Read) carriesUnnamed(rec ledger.Record) bool {
	was, err := r.requestKey(rec)
	if err != nil {
		return true
	}
	other, err := r.replace(part{}, rec, 0, nil)
	if err == nil {
		other, err = r.rename(other, r.name(rec), "never-sent")
	}
	now, err2 := r.requestKey(other)
	return err != nil || err2 != nil || was != now
}

// name is what tells the operation from others: the token, or its name.
func (r *Read) name(rec ledger.Record) string {
	if r.Identity() != verdict.ByName {
		return rec.Operation.Token
	}
	name, err := r.expected(rec)
	if err != nil {
		return ""
	}
	return name
}

// rename puts another name wherever the operation has its own in its key or input:
// the token that a pipeline wrote into its input, a key that is an invoice's number.
func (r *Read) rename(rec ledger.Record, was, now string) (ledger.Record, error) {
	if r.Identity() == verdict.ByState || was == "" {
		return rec, nil
	}
	other := func(v any) any {
		text, err := expr.NewValue(v).Format()
		switch {
		case err != nil:
		case text == was:
			return now
		case r.Identity() != verdict.ByName && strings.Contains(text, was):
			return strings.ReplaceAll(text, was, now)
		}
		return v
	}
	o := &rec.Operation
	o.Key = fmt.Sprint(other(o.Key))
	_, err := r.kind.reinput(o, nil, other)
	return rec, err
}

func (r *Read) replace(p part, rec ledger.Record, number float64, text func(string) string) (ledger.Record, error) {
	fresh := func(was any) any {
		if yes, ok := was.(bool); ok {
			return !yes
		}
		if expr.IsNumber(was) {
			return json.Number(strconv.FormatFloat(number, 'f', -1, 64))
		}
		old, _ := was.(string)
		return text(old)
	}
	o := &rec.Operation
	o.Receipts, o.Fingerprint = nil, ""
	switch p.name {
	case "token":
		o.Token = fmt.Sprint(fresh(o.Token))
	case "key":
		o.Key = fmt.Sprint(fresh(o.Key))
	case "input":
		found, err := r.kind.reinput(o, expr.InputPath(p.path), fresh)
		if err == nil && !found {
			err = fmt.Errorf("the operation has no input.%s", p.path)
		}
		return rec, err
	}
	return rec, nil
}
