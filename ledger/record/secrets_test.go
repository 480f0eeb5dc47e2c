package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/redact"
)

// TestI11_CorpusOfSecrets: of the usual ways to write a secret none is kept, and
// what only looks like one stays.
func TestI11_CorpusOfSecrets(t *testing.T) {
	corpus, err := os.ReadFile("testdata/secrets.txt")
	if err != nil {
		t.Fatal(err)
	}
	r := redactor{secret: bytes.Repeat([]byte("s"), 32)}
	kept := map[string]func(string) string{
		"argv": func(s string) string {
			argv := strings.Fields(s)
			for i := range argv {
				argv[i] = strings.ReplaceAll(argv[i], "·", " ")
			}
			p, err := r.wish(encode(map[string]any{"argv": argv}), &ledger.Command{Argv: argv}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%q %s", p.command.Argv, p.input)
		},
		"json": func(s string) string {
			p, err := r.wish(json.RawMessage(s), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v", s, err)
			}
			return string(p.input) + string(tidyResult(json.RawMessage(s), nil))
		},
		"query": func(s string) string {
			u := &url.URL{Scheme: "http", Host: "h", Path: "/x", RawQuery: s}
			in, err := inputOf(&http.Request{Method: "POST", URL: u, Header: http.Header{}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			p, err := r.wish(in, nil, secretsIn(s))
			if err != nil {
				t.Fatal(err)
			}
			return string(p.input)
		},
		"text": func(s string) string { return redact.Without(s, nil) },
	}
	secrets, harmless, missed, wrong := 0, 0, 0, 0
	for _, line := range strings.Split(string(corpus), "\n") {
		kind, text, ok := strings.Cut(line, "\t")
		if strings.HasPrefix(line, "#") || !ok {
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
	if secrets < 100 || harmless < 75 {
		t.Errorf("%d secrets and %d harmless texts are few", secrets, harmless)
	}
	t.Logf("%d secrets, %d missed; %d harmless texts, %d taken for a secret", secrets, missed, harmless, wrong)
}
