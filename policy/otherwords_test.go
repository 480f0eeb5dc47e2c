package policy

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/policy/file"
)

// Who writes a word that went is told what takes its place, where it stands.
func TestTheWordsThatWentLeadToOurs(t *testing.T) {
	for text, want := range map[string]string{
		"kinds: { pay: { read: { command: [cat, x], found: it.a } } }":    "`list:`, where the candidates are in the answer, and `mark:`",
		"kinds: { pay: { found: it.a } }":                                 "`read:`",
		"kinds: { pay: { supersedes: a } }":                               "effect: replaces",
		"kinds: { pay: { tittle: a } }":                                   "did you mean `title`?",
		"kinds: { pay: { read: { command: [cat, x], complet: \"a\" } } }": "did you mean `complete`?",
	} {
		_, err := Parse("policy.yaml", []byte("version: 1\n"+text+"\n"))
		var problems file.Errors
		need.Must(t, errors.As(err, &problems), "%s: %v", text, err)
		need.That(t, slices.ContainsFunc(problems, func(p file.Problem) bool { return p.Message == "unknown field" && strings.Contains(p.Hint, want) }), "%s: %v", text, err)
	}
}

// Each hint names a word that a mapping has, and is given there.
func TestEachOtherWordIsHintedAt(t *testing.T) {
	var mappings [][]string
	_, err := parse("policy.yaml", []byte(everything), func(_ string, known []string) {
		mappings = append(mappings, known)
	})
	need.OK(t, err)
	for _, theirs := range slices.Sorted(maps.Keys(otherWords)) {
		for _, w := range otherWords[theirs] {
			given := slices.ContainsFunc(mappings, func(known []string) bool {
				return !slices.Contains(known, theirs) && meantField(theirs, known) == w.hint
			})
			need.That(t, given, "%s is never hinted at by %s", theirs, w.hint)
			need.That(t, w.ours != "" || !slices.ContainsFunc(mappings, func(known []string) bool { return slices.Contains(known, theirs) }), "%s did not go", theirs)
		}
	}
}
