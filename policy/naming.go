package policy

import (
	"context"
	"encoding/json"
	"sort"
	"strings"

	"indoubt/ledger"
)

const maxTitle = 200

// Title is the operation in a few words. Where the policy gives none, or it
// cannot be computed, the title is made of the command or of the input.
func (k *Kind) Title(op ledger.Operation) string {
	if text, ok := k.named(k.title, op); ok && strings.TrimSpace(text) != "" {
		return shorten(text, maxTitle)
	}
	if op.Command != nil && len(op.Command.Argv) > 0 {
		return shorten(strings.Join(op.Command.Argv, " "), maxTitle)
	}
	words := append([]string{op.Kind}, someValues(op.Input, 3)...)
	return shorten(strings.Join(words, " "), maxTitle)
}

// Target is the thing acted on, "" where the kind names none.
func (k *Kind) Target(op ledger.Operation) string {
	text, ok := k.named(k.target, op)
	if !ok {
		return ""
	}
	return shorten(text, maxTitle)
}

func (k *Kind) named(t *template, op ledger.Operation) (string, bool) {
	if t == nil {
		return "", false
	}
	r := &rendering{ctx: context.Background(), vars: newVariables(ledger.Record{Operation: op})}
	text, err := r.text(t)
	return text, err == nil
}

// Link is where a person looks the operation up; "" where the kind has none, or
// where a value in it is empty or not known: the link would lead to something
// else. A token that is not known to have been sent counts as empty.
func (k *Kind) Link(op ledger.Operation) string {
	if k.link == nil {
		return ""
	}
	if !op.TokenSent {
		op.Token = ""
	}
	r := &rendering{ctx: context.Background(), vars: newVariables(ledger.Record{Operation: op}), full: true}
	text, err := r.url(k.link)
	if err != nil {
		return ""
	}
	return text
}

// someValues takes the first few plain values of an input, in the order of
// their names, so that two operations without a title can be told apart.
func someValues(input json.RawMessage, n int) []string {
	data, err := decodeWire(input)
	object, ok := data.(map[string]any)
	if err != nil || !ok {
		return nil
	}
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	sort.Strings(names)
	var out []string
	for _, name := range names {
		text, err := formatNative(object[name])
		if err != nil || text == "" || strings.HasPrefix(text, digestPrefix) {
			continue
		}
		if out = append(out, name+"="+shorten(text, 40)); len(out) == n {
			break
		}
	}
	return out
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
