package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// Which names a field may use is what it may know: what says which operation an effect belongs to
// knows the operation, or the candidate, and never both.
func TestTheNamesThatAFieldMayUse(t *testing.T) {
	operation := []string{"input", "token", "key", "op", "attempt", "receipt"}
	answers := []string{"status", "body", `header("A")`, `link("next")`, "rows", "exit", "stdout", "json", "content", "structured", "isError"}
	secrets := []string{"env.A", `file("/a")`, "cursor"}
	every := slices.Concat(operation, answers, secrets, []string{"it"})
	for field, c := range map[string]struct {
		with  string // the rest of the read; NAME stands for the name
		names []string
	}{
		"list":     {"list: '[NAME]'", answers},
		"mark":     {"list: body, mark: '[it, NAME]'", append(answers, "it")},
		"created":  {"list: body, mark: it.t, created: '[it, NAME]'", append(answers, "it")},
		"final":    {"list: body, mark: it.t, final: '[it] == [NAME]'", append(answers, "it")},
		"name":     {"list: body, unique: true, name: { it.t: '${string(NAME)}' }", []string{"input", "key"}},
		"form":     {"list: body, mark: { it.t: '<${token}${string(NAME)}>' }", []string{"token"}},
		"state":    {"state: '[NAME] == [input]'", append(operation, answers...)},
		"valid":    {"list: body, valid: '[NAME] == [NAME]'", append(operation, answers...)},
		"complete": {"list: body, complete: '[NAME] == [NAME]'", append(operation, answers...)},
		"same":     {"list: body, same: '[it] == [NAME]'", slices.Concat(operation, answers, []string{"it"})},
		"receipt":  {"list: body, receipt: '[NAME]'", slices.Concat(operation, answers, []string{"it"})},
		"reply":    {"list: body, reply: '[NAME]'", slices.Concat(operation, answers, []string{"it"})},
	} {
		for _, name := range every {
			if (field == "name" || field == "form") && slices.Contains([]string{"op", "attempt"}, name) {
				continue // mappings, which text cannot hold
			}
			text := "version: 1\nkinds: { k: { effect: safe, target: x, token: { into: t }, read: { http: { get: 'https://h.example/${token}' }, " +
				strings.ReplaceAll(strings.ReplaceAll(c.with, "NAME", name), "'", "\x00") + " } } }\n"
			text = requote(text)
			_, err := Parse("p.yaml", []byte(text))
			allowed := slices.Contains(c.names, name)
			need.That(t, (err == nil) == allowed, "`%s` in `%s`: %v, want allowed %v", name, field, err, allowed)
		}
	}
}

// requote writes what stands between zero bytes as quoted text.
func requote(text string) string {
	parts := strings.Split(text, "\x00")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = quoteJSON(parts[i])
	}
	return strings.Join(parts, "")
}

func TestReadsThatIdentifyNoEffect(t *testing.T) {
	const list = "list: body, "
	for _, c := range []struct{ kind, read, want string }{
		{"", "mark: it.t", "does not say what it finds"},
		{"", "complete: body.last", "does not say what it finds"},
		{"effect: safe, target: x, ", "state: body.v == input.v, list: body", "exclude each other"},
		{"effect: safe, target: x, ", "state: body.v == input.v, mark: it.t", "exclude each other"},
		{"effect: safe, target: x, ", "state: body.v == input.v, mark: asked", "exclude each other"},
		{"", "state: body.v == input.v", "safe to repeat"},
		{"effect: safe, target: x, ", "state: body.ok", "neither the request nor `state`"},
		{"", list + "name: asked", "there is no `asked`"},
		{"", list + "mark: { asked: '<${token}>' }", "there is no `asked`"},
		{"", list + "mark: {}", "one place"},
		{"", list + "name: { it.t: '${input.n}', it.u: '${input.n}' }, unique: true", "one place"},
		{"", list + "mark: it.t, name: it.k", "exclude each other"},
		{"", list + "mark: asked, name: it.k", "exclude each other"},
		{"", list + "name: it.k, mark: it.t", "exclude each other"},
		{"", list + "name: { it.t: '${input.n}' }", "nothing tells an older effect"},
		{"", list + "name: { it.t: '${input.n}' }, unique: false", "nothing tells an older effect"},
		{"", list + "name: { it.t: '${input.n}' }, unique: true", ""},
		{"", list + "name: { it.t: '${input.n}' }, created: it.at", ""},
		{"", list + "name: it.t", ""},
		{"", list + "name: { it.t: '${key}' }", "nothing tells an older effect"}, // the bare word is the key
		{"", list + "name: { it.t: INV-1 }, unique: true", "the same for every operation"},
		{"", list + "mark: { it.t: hello }", "the same for every operation"},
		{"", list + "mark: { it.t: '${size(token)}' }", "the same for every operation"},
		{"", list + "mark: { it.t: '${token.substring(0, 8)}' }", "the same for every operation"},
		{"", list + "mark: { it.t: '${token == \"x\" ? token : \"y\"}' }", "the same for every operation"},
		{"", list + "mark: { it.t: '${token.lowerAscii()}' }", ""},
		{"", list + "mark: body.t", "does not look at `it`"},
		{"", list + "mark: '\"indoubt\"'", "does not look at `it`"},
		{"", list + "mark: it.t, created: body.at", "does not look at `it`"},
		{"", list + "mark: it.t, final: status == 200", "does not look at `it`"},
		{"", list + "mark: it.t == token", "`token` may not stand here"},
		{"", list + "mark: it.t, unique: true", "`unique` says"},
		{"", list + "unique: true", "`unique` says"},
		{"", list + "mark: asked", "the request does not hold it"},
		{"", "list: 'body.filter(x, x.t == token)', mark: it.t", "`token` may not stand here"},
		{"", "list: 'body.filter(x, x.n == input.n)'", "`input` may not stand here"},
		{"", "list: body.data.size()", "must give a list of candidates"},
		{"", list + "mark: it.t, final: size(it.l)", "must give true or false"},
		{"", list + "found: body", "unknown field"},
	} {
		text := requote("version: 1\nkinds: { k: { " + c.kind + "token: { into: t }, read: { http: { get: https://h.example/x }, " + strings.ReplaceAll(c.read, "'", "\x00") + " } } }\n")
		_, err := Parse("p.yaml", []byte(text))
		says(t, err, c.want, c.kind, c.read)
	}
	without := "version: 1\nkinds: { k: { read: { http: { get: https://h.example/x }, %s } } }\n"
	for read, want := range map[string]string{
		list + "mark: it.t": "where the token goes", list + "same: it.t == token": "where the token goes", list + "name: it.t": "",
	} {
		_, err := Parse("p.yaml", []byte(fmt.Sprintf(without, read)))
		need.That(t, (want == "") == (err == nil) && (err == nil || strings.Contains(err.Error(), want)), "%s: %v, want %q", read, err, want)
	}
}

// A kind whose check settles nothing although its token goes out says so.
func TestAReadWithoutAMarkIsWarnedOf(t *testing.T) {
	for text, want := range map[string]string{
		"token: { into: t }, read: { http: { get: https://h.example/x }, list: body }":                  "evidence for a person",
		"read: { http: { get: https://h.example/x }, list: body }":                                      "",
		"effect: safe, target: x, read: { command: [a, '${input.v}'], state: json.v, receipt: json.r }": "`receipt` says nothing of a `state`",
		"effect: safe, target: x, read: { command: [a, '${input.v}'], state: json.v }":                  "",
	} {
		p := must(t, "version: 1\nkinds: { k: { "+text+" } }\n")
		got := ""
		for _, w := range p.Warnings() {
			got += w.Message
		}
		need.That(t, (want != "" || got == "") && strings.Contains(got, want), "%s: %q, want %q", text, got, want)
	}
}

func TestARequestThatNamesWhatIsWantedMakesAState(t *testing.T) {
	must(t, "version: 1\nkinds: { k: { effect: safe, target: x, read: { http: { get: 'https://h.example/${input.v}' }, state: body.ok } } }\n")
}
