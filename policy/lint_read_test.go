package policy

import (
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// A read that takes something else for the effect, or that can never tell that there is
// none, is warned of; the author can say that it is meant.
func TestI6_AReadIsAskedForWhatItLacks(t *testing.T) {
	const kind = `version: 1
downstreams: { d: { base: "https://d.example" } }
kinds:
  a:
    downstream: d
    token: { into: ref }
    key: { from: [order] }
    lands_within: 1s
    visible_within: 0s
    read: { http: { get: /x }, list: body.data, mark: it.ref, final: "it.status == \"done\"", complete: "true" }
`
	const final = `, final: "it.status == \"done\""`
	for name, tc := range map[string]struct{ old, new, want string }{
		"nothing lacks":                      {"", "", ""},
		"an object for each try":             {final, "", "without `final`"},
		"whatever is there has landed":       {`"it.status == \"done\""`, `"true"`, ""},
		"a text that people write":           {"it.ref", "it.text", `{ it.text: "<!-- ${token} -->" }`},
		"a text below":                       {"it.ref", "it.issue.Body", "`issue.Body` is free text"},
		"in a form":                          {"mark: it.ref", `mark: { it.text: "<!-- ${token} -->" }`, ""},
		"only what is open":                  {"get: /x", "get: /x, query: { status: open }", "visible_for"},
		"only what is open, in the path":     {"get: /x", `get: "/x?state=pending&n=9"`, "visible_for"},
		"only what is open, in a search":     {"get: /x", `get: /x, query: { q: "is:open label:x" }`, "visible_for"},
		"another word":                       {"get: /x", "get: /x, query: { status: all, sort: opening }", ""},
		"one customer":                       {"get: /x", `get: /x, query: { customer: "${input.customer}" }`, `"created[gte]": "${op.started}"`},
		"one customer, and it is documented": {"get: /x }", `get: /x, query: { customer: "${input.customer}" } }, consistent: true`, ""},
		"one customer, and its token":        {"get: /x", `get: /x, query: { customer: "${input.customer}", ref: "${token}" }`, ""},
		"by time":                            {"get: /x", `get: /x, query: { since: "${op.started}" }`, ""},
		"a name":                             {"mark: it.ref", "name: it.ref", "looks for a name and not for the token"},
		"a name, which is meant":             {"mark: it.ref" + final + `, complete: "true"`, `name: it.ref, final: "true", complete: "false"`, ""},
		"no bound":                           {"    lands_within: 1s\n", "", "`lands_within` is not stated"},
	} {
		said := ""
		for _, w := range must(t, strings.Replace(kind, tc.old, tc.new, 1)).Warnings() {
			said += w.Error() + "\n"
		}
		need.That(t, said != "" == (tc.want != "") && strings.Contains(said, tc.want), "%s: %q", name, said)
	}
}

// A list by time begins ten minutes before the operation was first sent.
func TestAListByTimeBeginsEarly(t *testing.T) {
	k := must(t, `version: 1
downstreams: { d: { base: "https://d.example" } }
kinds:
  a: { downstream: d, read: { http: { get: /x, query: { "created[gte]": "${op.started}" } }, list: body.data } }
`).Kind("a")
	rec := operation("a", `{}`)
	rec.Operation.CreatedAt, rec.Operation.StartedAt = caseTime.Add(1), caseTime
	req := need.Get(k.Read.Request(rec, nil))(t)
	need.That(t, strings.HasSuffix(req.HTTP.URL, "created%5Bgte%5D=1767225000"), req.HTTP.URL)
}
