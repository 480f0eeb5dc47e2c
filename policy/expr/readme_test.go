package expr

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// Every name and every function of the expressions is on the page, with the
// members of `op` and `attempt`.
func TestThePageNamesEveryNameAndFunction(t *testing.T) {
	text := string(need.Get(os.ReadFile("../README.md"))(t))
	say := func(section, name string) {
		t.Helper()
		_, rest, _ := strings.Cut(text, "\n## "+section+"\n")
		rest, _, _ = strings.Cut(rest, "\n## ")
		need.That(t, regexp.MustCompile("`[^`\n]*\\b"+regexp.QuoteMeta(name)+"\\b[^`\n]*`").MatchString(rest), "section %q does not name %s", section, name)
	}
	names, functions := vocabulary()
	for _, name := range names {
		say("Names", name)
	}
	for _, name := range []string{"id", "kind", "scope", "session", "fingerprint", "source", "created_at", "started", "started_at", "ended_at", "attempts",
		"n", "deadline_at", "outcome", "class"} { // of `op` and of `attempt`
		say("Names", name)
	}
	for _, name := range functions {
		say("Functions", name)
	}
	need.That(t, len(functions) >= 50, "only %d functions were looked for", len(functions))
}

// vocabulary is every name that some scope knows, and every function and macro of the
// language without its operators.
func vocabulary() (names, functions []string) {
	for s, known := range scopeNames {
		names = append(names, known...)
		for name := range s.environment().Functions() {
			if c := name[0]; c >= 'a' && c <= 'z' && !strings.Contains(name, "@") {
				functions = append(functions, name)
			}
		}
		for _, macro := range s.environment().Macros() {
			if name := macro.Function(); !slices.Contains(calledNames, name) {
				functions = append(functions, name)
			}
		}
	}
	slices.Sort(names)
	slices.Sort(functions)
	return slices.Compact(names), slices.Compact(functions)
}
