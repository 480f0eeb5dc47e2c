package policy

import (
	"reflect"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/expr"
	"indoubt/policy/transport"
)

const maxTitle = 200

// Title is the operation in a few words. Where the policy gives none, or it
// cannot be computed, the title is made of the command, behind the key that it was
// given, or of the input.
func (k *Kind) Title(op ledger.Operation) string {
	if text, ok := named(k, k.title, op); ok && strings.TrimSpace(text) != "" {
		return expr.Shorten(text, maxTitle)
	}
	if op.Command != nil && len(op.Command.Argv) > 0 {
		words := op.Command.Argv
		if op.Key != "" && !ledger.MadeKey(op.Key) {
			words = append([]string{op.Key}, words...)
		}
		return expr.Shorten(strings.Join(words, " "), maxTitle)
	}
	return expr.Shorten(madeTitle(op), maxTitle)
}

// Target is the thing acted on, "" where the kind names none.
func (k *Kind) Target(op ledger.Operation) string {
	text, ok := named(k, k.target, op)
	if !ok {
		return ""
	}
	return expr.Shorten(text, maxTitle)
}

func named(k *Kind, t *expr.Template, op ledger.Operation) (string, bool) {
	if t == nil {
		return "", false
	}
	r := k.variables(ledger.Record{Operation: op}).rendering()
	text := r.Text(t)
	return text, r.Err() == nil
}

// Link is where a person looks the operation up; "" where the kind has none, or where a
// value in it is empty: the link would lead elsewhere. A token that is not known to
// have been sent counts as empty.
func (k *Kind) Link(op ledger.Operation) string {
	if k.link == nil {
		return ""
	}
	if !op.TokenSent {
		op.Token = ""
	}
	r := k.variables(ledger.Record{Operation: op}).rendering()
	r.Full = true
	if address := r.URL(k.link); r.Err() == nil {
		return address
	}
	return ""
}

// madeTitle names an operation by what is plain in its input: "invoice.post
// customer=cus_9 amount=4200", "POST /v1/charges amount=4200" for a request that
// the HTTP proxy recorded, "memory create_entities name=Ana" for a tool's call. Where
// nothing is plain, the key that it was given tells it from the others.
func madeTitle(op ledger.Operation) string {
	data, _ := ledger.DecodeJSON(op.Input)
	name := op.Kind
	if rest, ok := strings.CutPrefix(op.Kind, "mcp."); ok {
		name = strings.Replace(rest, ".", " ", 1)
	}
	builtin := strings.HasPrefix(op.Kind, "http.")
	if request, ok := data.(map[string]any); ok && (builtin || op.Request != nil) {
		method, isText := request["method"].(string)
		if path, ok := request["path"].(string); ok && isText {
			data = request["body"]
			if builtin {
				name = method + " " + path
			}
		}
	}
	values := someValues("", data, 3)
	if len(values) == 0 && name == op.Kind && op.Key != "" && !ledger.MadeKey(op.Key) {
		values = []string{op.Key}
	}
	return strings.Join(append([]string{name}, values...), " ")
}

// someValues takes the first few plain values of an input, in the order of
// their names and outer ones first, so that two operations without a title can
// be told apart.
func someValues(name string, data any, n int) []string {
	var out []string
	switch data := data.(type) {
	case map[string]any:
		names := sortedNames(data)
		for _, inner := range []bool{false, true} {
			for _, name := range names {
				if nested(data[name]) == inner && len(out) < n {
					out = append(out, someValues(name, data[name], n-len(out))...)
				}
			}
		}
	case []any:
		for i := 0; i < len(data) && len(out) < n; i++ {
			out = append(out, someValues(name, data[i], n-len(out))...)
		}
	case nil:
	default:
		if text, err := expr.FormatData(data); err == nil && text != "" && name != "" && !strings.HasPrefix(text, transport.DigestPrefix) {
			out = append(out, name+"="+expr.Shorten(text, 40))
		}
	}
	return out
}

func nested(data any) bool {
	switch data.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// Renamed are the kinds whose requests this policy does not name as another one does, where either tells that a second
// send would do harm: their kind, key, token or caller may be another one, or they may be sent for longer than it says.
func (p *Policy) Renamed(was *Policy, harmless func(*Kind) bool) (names []string) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(p.Kinds(), was.Kinds()...)))) {
		from, to := was.Kind(name), p.Kind(name)
		if !(harmless(from) && harmless(to)) && !(from.Known && to.Known && to.namesAs(from)) {
			names = append(names, name)
		}
	}
	return names
}

func (k *Kind) namesAs(was *Kind) bool {
	caller := func(k *Kind) transport.Downstream {
		if k.Downstream == nil {
			return transport.Downstream{}
		}
		return transport.Downstream{Name: k.Downstream.Name, KeyHeader: k.Downstream.KeyHeader, Callers: k.Downstream.Callers,
			SameAccount: k.Downstream.SameAccount}
	}
	return reflect.DeepEqual([]any{k.Key.From, k.Match, k.Input, k.Token, caller(k)},
		[]any{was.Key.From, was.Match, was.Input, was.Token, caller(was)}) && k.Deadline >= was.Deadline
}
