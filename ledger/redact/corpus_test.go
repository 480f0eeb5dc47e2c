package redact

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// TestI11_CorpusOfSecrets: of the usual ways to write a secret none is kept, and
// what only looks like one stays.
func TestI11_CorpusOfSecrets(t *testing.T) {
	corpus := need.Get(os.ReadFile("testdata/secrets.txt"))(t)
	digest := func(string) string { return "redacted:0123" }
	walked := func(text string, stand func(string) string) string {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var v any
		need.OK(t, dec.Decode(&v), text)
		out := need.Get(json.Marshal((&Walker{Stand: stand}).Value("", v)))(t)
		return string(out)
	}
	kept := map[string]func(string) string{
		"argv": func(s string) string {
			argv := strings.Fields(s)
			for i := range argv {
				argv[i] = strings.ReplaceAll(argv[i], "·", " ")
			}
			input, _ := json.Marshal(map[string]any{"argv": argv})
			return fmt.Sprintf("%q %s", Argv(argv, digest), walked(string(input), digest))
		},
		"json": func(s string) string { return walked(s, digest) + walked(s, Marked) },
		"text": func(s string) string { return Without(s, nil) },
	}
	secrets, harmless, missed, wrong := 0, 0, 0, 0
	for _, line := range strings.Split(string(corpus), "\n") {
		kind, text, ok := strings.Cut(line, "\t")
		if strings.HasPrefix(line, "#") || !ok || kind == "query" {
			continue
		}
		plain := strings.NewReplacer("«", "", "»", "").Replace(text)
		got := kept[kind](plain)
		if _, after, marked := strings.Cut(text, "«"); marked {
			secrets++
			hidden, _, _ := strings.Cut(after, "»")
			if strings.Contains(got, hidden) || strings.Contains(got, strings.Fields(hidden)[len(strings.Fields(hidden))-1]) {
				missed++
				t.Errorf("%s is kept: %s", line, got)
			}
			continue
		}
		if harmless++; strings.Contains(got, "redacted") {
			wrong++
			t.Errorf("%s is taken for a secret: %s", line, got)
		}
	}
	need.That(t, secrets >= 119 && harmless >= 73, "%d secrets and %d harmless texts are few", secrets, harmless)
	t.Logf("%d secrets, %d missed; %d harmless texts, %d taken for a secret", secrets, missed, harmless, wrong)
}
