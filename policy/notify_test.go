package policy

import (
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

const notifying = `
version: 1
defaults: { redact: [text], retry: { max: 0 } }
downstreams: { hooks: { base: https://hooks.example, headers: { Authorization: "Bearer ${env.HOOK_KEY}" }, key: { header: Once } } }
notify:
  oncall: { downstream: hooks, http: { post: /page }, only: [pay.*] }
  chat: { on: [over, twice], command: [say, "${input.text}"] }
kinds:
  "*": { resend: here }
`

func notifier(p *Policy, name string) *Notifier {
	return p.notifiers[slices.IndexFunc(p.notifiers, func(n *Notifier) bool { return n.Name == name })]
}

func TestWhatANotifierIsSent(t *testing.T) {
	p := must(t, notifying)
	w := p.Warnings()
	need.That(t, len(w) <= 0 || !strings.Contains(w.Error(), "notify"), "%v", w)
	t.Setenv("HOOK_KEY", "sesame-hook")
	notice := []byte(`{"text":"it's down","errors":7}`)
	req, err := notifier(p, "oncall").Request("inc/opened", notice)
	if err != nil || req.HTTP.URL != "https://hooks.example/page" || string(req.HTTP.Body) != `{"errors":7,"text":"it's down"}` || req.HTTP.Header["Once"][0] != "inc/opened" {
		t.Errorf("%+v %v", req.HTTP, err)
	}
	need.That(t, !strings.Contains(req.Shown, "sesame") && strings.Contains(req.Shown, "HOOK_KEY"), "shown: %s", req.Shown)
	if req, err := notifier(p, "chat").Request("inc/over", notice); err != nil || req.Command.Argv[1] != "it's down" {
		t.Errorf("%+v %v", req.Command, err)
	}
}

func TestMoneyHasItsCurrency(t *testing.T) {
	need.Equal(t, must(t, "version: 1\ncurrency: EUR").Money(4210), "4,210 EUR")
}

func TestWhatANotifierWants(t *testing.T) {
	p := must(t, notifying)
	for _, c := range []struct {
		name, event string
		kinds       []string
		want        bool
	}{
		{"oncall", NotifyOpened, []string{"mail", "pay.card"}, true}, {"oncall", NotifyOpened, []string{"mail"}, false}, {"oncall", NotifyUnchecked, nil, true},
		{"chat", NotifyOver, []string{"mail"}, true}, {"chat", NotifyOpened, []string{"mail"}, false},
	} {
		need.Equal(t, notifier(p, c.name).Wants(c.event, c.kinds...), c.want, c.name, c.event, c.kinds)
	}
}

func TestANotifierThatIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"on: [opend], http: { post: https://h.example/ }":  "opened",
		"http: { get: https://h.example/ }":                "not sent by get",
		"http: { post: https://h.example/ }, command: [x]": "exclude each other",
		"on: over":              "says nothing to ask with",
		"http: recorded":        "must be a mapping",
		"http: { post: /page }": "needs a downstream",
		"http: { post: https://h.example/, json: \"${input.tekst}\" }": "a notice has no tekst",
		"command: [x], read: { command: [x], list: json }":             "unknown field",
		"command: [x]\n  \"a b\": { command: [x] }":                    "not the name of a notifier",
	} {
		list := refused(t, "version: 1\nnotify:\n  oncall: { "+strings.Replace(text, "\n", " }\n", 1)+map[bool]string{false: " }"}[strings.Contains(text, "\n")])
		need.That(t, strings.Contains(list.Error(), want), "%s: %v", text, list)
	}
	w := refused(t, "version: 1\nnotify: { a: { http: { post: https://h.example/, headers: { Authorization: Bearer sesame-open-2026 } } } }")
	need.That(t, !strings.Contains(w.Error(), "sesame"), "a secret that is written out: %v", w)
}
