package reconcile

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy"
	"indoubt/policy/transport"
)

// What the other side repeats of our secrets is kept nowhere: not in the
// evidence, not in the reason, under whatever name it was sent.
func TestI11_RepeatedSecretsAreNotKept(t *testing.T) {
	t.Setenv("PAY_PIN", "pin 7/7+hush")
	for name, body := range map[string]string{
		"a valid answer":      `{"object":"list","data":[],"more":false,"next":0,"asked":{"k":"pin 7/7+hush","url":"/charges?k=pin+7%2F7%2Bhush"}}`,
		"an answer of no use": `{"object":"pin 7/7+hush"}`,
		"no JSON":             `who is pin 7/7+hush?`,
		"a wrong type":        `{"object":"list","data":["pin 7/7+hush"],"more":false,"next":0}`,
		"a name":              `{"object":"list","data":[],"more":false,"next":0,"asked":{"pin 7/7+hush":1}}`,
		"a path":              `{"object":"list","data":[],"more":false,"next":0,"asked":"/k/pin%207%2F7+hush"}`,
		"a receipt":           `{"object":"list","data":[{"id":"pin 7/7+hush","ref":"TOKEN","amount":420}],"more":false,"next":0}`,
		"what differs":        `{"object":"list","data":[{"id":"ch_1","ref":"TOKEN","amount":"pin 7/7+hush"}],"more":false,"next":0}`,
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer(`after: "${cursor}"`, `after: "${cursor}", k: "${env.PAY_PIN}"`,
				`list: body.data`, `list: "body.data.map(x, {'a': true}[x])"`).Replace(payPolicy)
			if name != "a wrong type" {
				text = strings.Replace(payPolicy, `after: "${cursor}"`, `after: "${cursor}", k: "${env.PAY_PIN}"`, 1)
			}
			w := newWorldAlone(t, text)
			o := w.doubt("pay", 420)
			w.side.onList = func(_ *side, rw http.ResponseWriter, r *http.Request) bool {
				need.Equal(t, r.URL.Query().Get("k"), "pin 7/7+hush", "the secret was not sent")
				_, _ = rw.Write([]byte(strings.ReplaceAll(body, "TOKEN", o.Token)))
				return true
			}
			r := w.read(o.ID).Read
			rec := w.get(o.ID)
			events, _ := w.store.History(w.ctx, ledger.HistoryQuery{Operation: o.ID, Limit: 100})
			kept, _ := json.Marshal([]any{rec.Reads, rec.Operation, rec.Attempts, events})
			for _, form := range []string{"hush", "7%2F7"} {
				need.That(t, !strings.Contains(string(kept)+r.Reason, form), "%s is kept: %s", form, kept)
			}
			readable := strings.HasPrefix(body, `{"object":"list","data":[]`) // of which only what was found is kept
			need.That(t, readable || strings.Contains(string(kept), "redacted"), "nothing was taken out: %s", kept)
		})
	}
}

// What a check that is a command says on standard error is in the reason, without
// the secrets that it was given, also where it was killed.
func TestI11_ReasonsTellStandardErrorWithoutSecrets(t *testing.T) {
	t.Setenv("PAY_PIN", "pin 7/7+hush")
	for script, want := range map[string]string{
		`echo "login with $PIN expired" >&2; exit 3`: "the check ended with exit code 3: login with [redacted] expired",
		`echo "$PIN is not JSON" >&2; echo Hello`:    "answer is not JSON: [redacted] is not JSON",
		`echo "killed with $PIN" >&2; kill -9 $$`:    "the check got no answer: killed: killed with [redacted]",
	} {
		t.Run(want, func(t *testing.T) {
			w := newWorldAlone(t, payPolicy)
			w.policy("version: 1\nkinds:\n  pay:\n    read:\n      command: { argv: [/bin/sh, -c, '" + script + "'], env: { PIN: \"${env.PAY_PIN}\" } }\n      list: json.items\n")
			o := w.doubt("pay", 420)
			r := w.read(o.ID).Read
			kept, _ := json.Marshal(w.get(o.ID).Reads)
			need.That(t, r.Verdict == ledger.CannotTell && r.Reason == want && !strings.Contains(string(kept), "hush"), "%s: %s\nkept %s", r.Verdict, r.Reason, kept)
		})
	}
}

// What a server of MCP says as it ends is told of its downstream without the secrets that it
// was given.
func TestI11_AServerThatEndsTellsNoSecret(t *testing.T) {
	t.Setenv("PAY_PIN", "pin 7/7+hush")
	w := newWorldAlone(t, payPolicy)
	w.policy(`version: 1
downstreams:
  notes: { mcp: { command: [/bin/sh, -c, 'echo "bad key $PIN" >&2; exit 1'], env: { PIN: "${env.PAY_PIN}" } } }
kinds:
  pay:
    downstream: notes
    token: { into: token }
    read: { mcp: { tool: find, arguments: { token: "${token}" } }, list: structured.items, mark: it.token }
`)
	o := w.doubt("pay", 420)
	r := w.read(o.ID).Read
	said, _ := json.Marshal([]any{r, w.engine.Health(), w.get(o.ID).Reads})
	need.Contains(t, string(said), "bad key [redacted]")
	need.Lacks(t, string(said), "hush")
}

func kept(c *cleaner, text string) string {
	return string(c.excerpt([]byte(text)))
}

// A text that is cut keeps no part of a secret at its end, and one that begins
// with another is taken out whole. What stands there by its name stays.
func TestI11_NoPartOfASecretIsKept(t *testing.T) {
	short, long := "sekrit-0815", "sekrit-0815-and-more-of-it-so-that-it-is-long"
	var c cleaner
	c.learn(new(policy.Kind), transport.Request{Secrets: []string{short, long}})
	for shift := range len(long) {
		got := kept(&c, strings.Repeat("x", shift)+strings.Repeat(long, 200))
		need.Must(t, !strings.Contains(got, "sek") && !strings.Contains(got, "more"), "shifted by %d: %s", shift, got)
	}
	need.Equal(t, kept(&c, `{"n":12345678,"a":"`+long+`"}`), `{"a":"[redacted]","n":12345678}`)
	c.learn(new(policy.Kind), transport.Request{Secrets: []string{"12345678"}})
	need.Equal(t, kept(&c, `{"n":12345678}`), `{"n":"[redacted]"}`)
	for text, want := range map[string]string{
		"Authorization: Bearer ${env.PAY_KEY}":        "Authorization: Bearer ${env.PAY_KEY}",
		`Authorization: token ${file("/run/secret")}`: `Authorization: token ${file("/run/secret")}`,
		"X-Api-Key: ${env.PAY_KEY}":                   "X-Api-Key: ${env.PAY_KEY}",
		"Authorization: Bearer literal":               "Authorization: Bearer [redacted]",
		"Authorization: Bearer":                       "Authorization: [redacted]",
		"X-Api-Key: literal":                          "X-Api-Key: [redacted]",
		"password=${hunter2}":                         "password=[redacted]",
	} {
		need.Equal(t, c.text(text), want, text)
	}
}

// What was found is given to its caller whole or not at all.
func TestWholeEffects(t *testing.T) {
	var c cleaner
	c.learn(new(policy.Kind), transport.Request{Secrets: []string{"sesame-key"}})
	big := `{"note":"` + strings.Repeat("x", 10*maxExcerpt) + `"}`
	for text, want := range map[string]string{
		`{"id":"1","n":9007199254740993}`: `{"id":"1","n":9007199254740993}`, ` [1, {"a": 2}]`: `[1,{"a":2}]`, big: big,
		`{"password":"hunter2"}`: "", `{"note":"it is sesame-key"}`: "", `"text"`: "", `7`: "", `null`: "", ``: "", `{`: "", `{} {}`: "",
		`{"note":"` + strings.Repeat("x", maxAnswer) + `"}`: "",
	} {
		got := c.whole([]byte(text))
		need.That(t, string(got) == want, "%.60s: %.60q, want %.60q", text, got, want)
	}
}
