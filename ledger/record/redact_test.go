package record

import (
	"encoding/json"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/outcome"
)

// TestI11_SecretsAreNotStored looks for a secret in everything that an
// operation keeps of a request.
func TestI11_SecretsAreNotStored(t *testing.T) {
	const hidden = "hunter2-very-secret"
	cases := map[string]Request{
		"a stated path":      {Input: json.RawMessage(`{"card":{"number":"` + hidden + `"},"amount":1}`)},
		"every of a list":    {Input: json.RawMessage(`{"items":[{"pin":"a"},{"pin":"` + hidden + `"}]}`)},
		"a whole object":     {Input: json.RawMessage(`{"person":{"name":"` + hidden + `","age":3}}`)},
		"a known member":     {Input: json.RawMessage(`{"login":{"password":"` + hidden + `"}}`)},
		"a header":           {Input: json.RawMessage(`{"headers":{"Authorization":"Bearer ` + hidden + `"}}`)},
		"a list of them":     {Input: json.RawMessage(`{"password":["x","` + hidden + `"]}`)},
		"a name in brackets": {Input: json.RawMessage(`{"user[password]":"` + hidden + `","keys":{"secret[]":["` + hidden + `"]}}`)},
		"a secret path":      {Input: json.RawMessage(`{"query":{"sig":"` + hidden + `"}}`), Secret: []string{"query.sig"}},
		"inside a text":      {Input: json.RawMessage(`{"note":"use Authorization: Bearer ` + hidden + `"}`)},
		"a flag":             {Command: &ledger.Command{Argv: []string{"npm", "login", "--password", hidden}}},
		"a flag with =":      {Command: &ledger.Command{Argv: []string{"x", "--api-key=" + hidden}}},
		"a token flag":       {Command: &ledger.Command{Argv: []string{"gh", "--token", hidden}}},
		"a header argument":  {Command: &ledger.Command{Argv: []string{"curl", "-H", "Authorization: Bearer " + hidden}}},
		"curl's user":        {Command: &ledger.Command{Argv: []string{"curl", "-u", "me:" + hidden, "http://x"}}},
		"a variable":         {Command: &ledger.Command{Argv: []string{"env", "GITHUB_TOKEN=" + hidden, "make"}}},
		"a URL":              {Command: &ledger.Command{Argv: []string{"psql", "postgres://app:" + hidden + "@db/x"}}},
	}
	rule := KindRule{Redact: []string{"card.number", "items[*].pin", "person"}}
	for name, w := range cases {
		t.Run(name, func(t *testing.T) {
			if w.Input == nil {
				w.Input, _ = json.Marshal(map[string]any{"argv": w.Command.Argv})
			}
			r, store, _ := recorderOver(t, rule)
			res := begin(t, r, w)
			kept := need.Get(json.Marshal(recorded(t, store, res.Operation.ID)))(t)
			need.That(t, !strings.Contains(string(kept), hidden), "kept: %s", kept)
			need.That(t, res.Operation.Redacted, "not marked as redacted")
			need.Equal(t, begin(t, r, w).Operation.ID, res.Operation.ID, "the same request has another fingerprint")
			changed := w
			changed.Input = json.RawMessage(strings.ReplaceAll(string(w.Input), hidden, hidden+"x"))
			if other := begin(t, r, changed); other.Operation.ID == res.Operation.ID {
				t.Error("another secret has the same fingerprint")
			}
			// What the other side echoes is not stored either.
			settled := need.Get(r.Settle(t.Context(), ledger.SettleRequest{AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeUncertain,
				Error: "said " + hidden, Result: json.RawMessage(`{"echo":["` + hidden + `"],"n":9007199254740993}`)}))(t)
			if strings.Contains(settled.Attempt.Error+string(settled.Attempt.Result), hidden) || !strings.Contains(string(settled.Attempt.Result), "9007199254740993") {
				t.Errorf("kept of the answer: %s %s", settled.Attempt.Error, settled.Attempt.Result)
			}
		})
	}
}

// TestI11_NumbersAndRepeatedMembers: a password may be a number, and a second
// member of the same name does not hide the first.
func TestI11_NumbersAndRepeatedMembers(t *testing.T) {
	r, _, _ := recorderOver(t, KindRule{})
	res := begin(t, r, Request{Input: json.RawMessage(`{"pwd":8812345,"pass":12}`)})
	if got := string(res.Operation.Input); strings.Contains(got, "8812345") || !strings.Contains(got, `"pass":12`) || !res.Operation.Redacted {
		t.Errorf("kept %s", got)
	}
	for _, said := range []string{`{"password":"hunter2-x","password":"","n":1}`, `{"a":[{"b":{"api_key":"hunter2-x"},"b":{}}]}`, `{"password":[8812345,"hunter2-x"]}`} {
		kept := string(outcome.TidyResult(json.RawMessage(said), nil))
		need.That(t, !strings.Contains(kept, "hunter2-x") && !strings.Contains(kept, "8812345") && json.Valid([]byte(kept)), "%s: kept %s", said, kept)
	}
	for _, said := range []string{`{"a":{"x":1},"b":{"x":[{"y":"c:d"},{"y":"\":"}]}}`, `[]`, `"a:b"`, `{"pass":3,"fail":0}`} {
		need.Equal(t, string(outcome.TidyResult(json.RawMessage(said), nil)), said)
	}
}

// TestHarmlessInputStays: without a secret, an input is stored byte for byte,
// and placeholders are no secrets.
func TestHarmlessInputStays(t *testing.T) {
	r, _, _ := recorderOver(t, KindRule{Redact: []string{"absent"}})
	w := Request{Input: json.RawMessage(`{"token":"tok_visa", "n":1.50,"key":"k","user":"me"}`),
		Command: &ledger.Command{Argv: []string{"tool", "--token", "{{token}}", "--auth=${AUTH}", "-H", "Authorization: Bearer ${AUTH}", "--key", "{{key}}", "-u", "x", "a=b"}}}
	res := begin(t, r, w)
	if res.Operation.Redacted || string(res.Operation.Input) != string(w.Input) || strings.Join(res.Operation.Command.Argv, " ") != strings.Join(w.Command.Argv, " ") {
		t.Errorf("%v %s %q", res.Operation.Redacted, res.Operation.Input, res.Operation.Command.Argv)
	}
}

func TestPaths(t *testing.T) {
	for path, want := range map[string]string{
		"a": "a", "a.b": "a|b", "a[0].b": "a|0|b", "a[*]": "a|*", "input.a": "a", "a[0][1]": "a|0|1", `a["x"]`: "a|x", "[0].a": "0|a",
	} {
		steps, err := ledger.ParsePath(path)
		need.That(t, err == nil && strings.Join(steps, "|") == want, "%s: %v, %v", path, steps, err)
	}
	for _, path := range []string{"", ".", "a.", "a..b", "a[", "a[]", "a[0]b", ".a"} {
		if steps, err := ledger.ParsePath(path); err == nil {
			t.Errorf("%q: %q", path, steps)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add([]byte(`{"a":[{"password":"x"}],"argv":["a","--token","b"]}`), "a[*].password")
	f.Add([]byte(`"Authorization: Bearer abc"`), "*")
	f.Fuzz(func(t *testing.T, input []byte, path string) {
		r := redactor{secret: []byte("0123456789abcdef")}
		p, err := r.request(input, nil, []string{path})
		if err != nil || len(input) == 0 {
			return
		}
		need.Must(t, json.Valid(p.input), "%q became %q", input, p.input)
		need.Must(t, p.redacted || string(p.input) == string(input), "%q became %q without a secret", input, p.input)
		again := need.Get(r.request(p.input, nil, nil))(t)
		need.Must(t, !again.redacted, "%q was redacted once more: %q", p.input, again.input)
	})
}

func TestDigest(t *testing.T) {
	r, _, _ := recorderOver(t, KindRule{})
	a, err := r.Digest("Bearer one")
	b, _ := r.Digest("Bearer one")
	c, _ := r.Digest("Bearer two")
	need.That(t, err == nil && a == b && a != c && len(a) == 32 && !strings.Contains(a, "one"), "%q %q %q %v", a, b, c, err)
	if _, err := New(keyless{ledgertest.NewBreakable(nil)}, nil, Options{}).Digest("x"); err == nil {
		t.Error("a digest without a key")
	}
}
