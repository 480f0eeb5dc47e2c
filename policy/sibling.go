package policy

import (
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy/transport"
)

// Sighted is a check of an operation that may find others of its kind.
type Sighted struct {
	*Kind
	Record ledger.Record
}

// Fits reports whether another operation of the kind, whose effect a check shows, tells
// that the check would show the effect of this one: the same caller made it, and its token
// stood as far in, where the other side may cut a text.
func (k Sighted) Fits(other ledger.Operation) bool {
	o := k.Record.Operation
	return other.ID != o.ID && other.Kind == o.Kind && k.Downstream.SameCaller(o, other) && k.Token.depth(other) >= k.Token.depth(o)
}

// Consistent reports whether the policy says that the read shows every write that was
// answered before it.
func (k Sighted) Consistent() bool { return k.Read.consistent }

// depth is how many bytes stand before the token in the text that carries it.
func (t TokenRule) depth(o ledger.Operation) (n int) {
	note := func(text, token string) { n = max(n, strings.LastIndex(text, token)) }
	if o.Command != nil {
		for _, word := range o.Command.Argv {
			note(word, "{{token}}")
		}
	}
	input := o.Input
	if !strings.Contains(string(input), o.Token) {
		if made, err := t.Insert(input, o.Token); err == nil {
			input = made
		}
	}
	for _, text := range transport.JSONTexts(input) {
		note(text, o.Token)
	}
	return n
}

var tokenWord = lazyregexp.New(`indoubt-[0-9A-Za-z]+`)

// TokensIn are the texts in marks that may be tokens of operations.
func TokensIn(marks []string) (tokens []string) {
	for _, m := range marks {
		tokens = append(tokens, m)
		for _, word := range tokenWord.FindAllStringSubmatch(m, 4) {
			tokens = append(tokens, word[0])
		}
	}
	slices.Sort(tokens)
	return slices.Compact(tokens)
}

// Shows reports whether one of the marks is another operation's own.
func (k Sighted) Shows(marks []string, other ledger.Record) bool {
	expected, err := k.Read.expected(other)
	return err == nil && slices.ContainsFunc(marks, func(m string) bool { return k.Read.owns(m, expected) })
}

// Asks reports whether the request changes with the token, so that it may be made for
// another operation.
func (k Sighted) Asks() bool {
	return k.Read.Proves() && (k.Read.carries(tokenPart) || k.Read.carriesUnnamed(k.Record))
}

// For is the read with nothing but the token replaced by a sibling's.
func (k Sighted) For(token string) (Control, error) {
	made, err := k.Read.without(tokenPart, k.Record, 0, func(string) string { return token })
	if err != nil {
		return Control{}, err
	}
	key, err := k.Read.requestKey(made)
	return Control{key, func() (ledger.Record, error) { return made, nil }}, err
}
