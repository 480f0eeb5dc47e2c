package policy

import (
	"context"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

const casing = `
version: 1
downstreams:
  web: { base: https://h.example, key: { header: K, remembers: 1d } }
  server: { mcp: { command: [x] } }
  books: { sql: { sqlite: x } }
kinds:
  list:
    downstream: web
    cost: { duplicate: 800, miss: 400 }
    token: { into: t }
    lands_within: 2m
    visible_within: 30s
    read:
      http: { get: /x, query: { t: "${token}", after: "${cursor}" } }
      list: body.data
      mark: it.t
      complete: "!body.more"
      next: body.next
      stable: true
      same: it.amount == input.amount
      receipt: it.id
    retry: { max: 1 }
    tests:
      - name: on the second page
        input: { amount: 1 }
        pages: [{ body: { data: [], more: true, next: c } }, { body: { data: [{ t: indoubt-test, amount: 1, id: a }], more: false } }]
        want: landed
      - { name: once on two pages that shifted, input: { amount: 1 }, want: landed, pages: [{ body: { data: [{ t: indoubt-test, amount: 1, id: a }], more: true, next: c } }, { body: { data: [{ t: indoubt-test, amount: 1, id: a }], more: false } }] }
      - { name: twice, input: { amount: 1 }, answer: { body: { data: [{ t: indoubt-test, amount: 1, id: a }, { t: indoubt-test, amount: 1, id: b }], more: false } }, want: twice }
      - { name: other amount, input: { amount: 1 }, answer: { body: { data: [{ t: indoubt-test, amount: 2, id: a }], more: false } }, want: different }
      - { name: none late enough, answer: { body: { data: [], more: false } }, want: not_there }
      - { name: none too early, after: 1m, answer: { body: { data: [], more: false } }, want: none }
      - { name: none on the first of two pages, answer: { body: { data: [], more: true, next: c } }, want: cannot_tell }
      - { name: busy, after: 30m, answer: { status: 503, body: busy }, want: cannot_tell }
      - { name: a general answer, answer: { status: 503 }, want: uncertain, after: 1s }
      - { name: a success, answer: { status: 200 }, want: committed }
      - { name: refused, answer: { status: 422 }, want: failed }
  tool:
    downstream: server
    token: { append: l }
    read: { mcp: { tool: f, arguments: { q: "${token}" } }, list: structured.l, mark: it.t }
    tests:
      - { name: there, answer: { structured: { l: [{ t: [about indoubt-test] }] } }, want: landed }
      - { name: it failed, answer: { isError: true, content: [{ type: text, text: no disk }] }, want: cannot_tell }
      - { name: no such tool, answer: { error: { code: -32601, message: nope } }, want: cannot_tell }
  row:
    token: { into: t }
    read: { sql: { database: books, query: "SELECT id, t FROM x WHERE t = ?", args: ["${token}"] }, list: rows, mark: it.t, complete: "true", receipt: it.id }
    tests:
      - { name: there, answer: { rows: [{ id: 1, t: indoubt-test }] }, want: landed }
      - { name: not there, answer: { rows: [] }, want: none }
  generous:
    downstream: web
    token: { into: t }
    lands_within: 1m
    visible_within: 0s
    read: { http: { get: /x, query: { t: "${token}" } }, valid: status > 0, list: "status == 200 ? body.data : []", mark: it.t, complete: "true" }
    tests:
      - { name: a server that is down, answer: { status: 503 }, want: cannot_tell }
      - { name: not let in, answer: { status: 403 }, want: cannot_tell }
      - { name: asked too often, answer: { status: 429 }, want: cannot_tell }
      - { name: sent elsewhere, answer: { status: 302 }, want: cannot_tell }
      - { name: a plain no, answer: { status: 404 }, want: not_there }
  pipeline:
    answer: { committed: structured.ok }
    tests:
      - { name: an answer of a tool, answer: { structured: { ok: true } }, want: committed }
`

func TestCases(t *testing.T) {
	p := must(t, casing)
	general := func(_ context.Context, _ *Kind, _ ledger.Record, a ledger.Answer) ledger.Outcome {
		switch a.Status {
		case 200:
			return ledger.OutcomeCommitted
		case 422:
			return ledger.OutcomeFailed
		}
		return ledger.OutcomeUncertain
	}
	for _, name := range p.Kinds() {
		results := p.Kind(name).RunTests(context.Background(), general)
		need.That(t, len(results) != 0, "%s: no results", name)
		for _, r := range results {
			need.That(t, r.OK, "%s, %q: got %s (%s); want %s", name, r.Test.Name, r.Got, r.Why, r.Test.Want)
		}
	}
}

func TestCasesThatFailSayWhy(t *testing.T) {
	p := must(t, casing)
	k := p.Kind("list")
	for _, c := range []struct {
		test     Test
		got, why string
	}{
		{Test{Want: "landed", pages: []ledger.Answer{{Body: []byte(`{"data":[],"more":false}`)}, {}}}, "cannot_tell", "only 1 of 2 pages are asked for"},
		{Test{Want: "landed", pages: []ledger.Answer{{Body: []byte(`{"data":[],"more":true}`)}}}, "cannot_tell", "the answer has no `next`"},
		{Test{Want: "failed", pages: []ledger.Answer{{Status: 503}}}, "undecided", "the general rule says so"},
		{Test{Want: "landed", Token: ""}, "cannot_tell", "answer is empty"},
		{Test{Want: "not_there", pages: []ledger.Answer{{Body: []byte(`{"data":[],"more":false}`)}}}, "none", "its token is not known to have been sent"},
		{Test{Want: "confirm", Token: "t", pages: []ledger.Answer{{Body: []byte(`{"data":[{"t":"t","amount":1,"id":"a"}],"more":false}`)}}, Input: map[string]any{"amount": 1}}, "landed", ""},
	} {
		r := k.runTest(context.Background(), c.test, undecided)
		need.That(t, !r.OK && r.Got == c.got && strings.Contains(r.Why, c.why), "%+v: %s (%s)", c.test, r.Got, r.Why)
	}
	for text, want := range map[string]string{
		"[{ answer: {} }]":                            "does not say what it wants",
		"[{ want: landet }]":                          "did you mean `landed`",
		"[{ want: none, answer: { body: 1, foo: 2}}]": "unknown field",
		"[{ want: none, pages: {} }]":                 "must be a list of answers",
		"[{ want: none, answer: { rows: {} } }]":      "must be a list",
		"{}":                                          "must be a list of cases",
	} {
		err := refused(t, "version: 1\nkinds: { k: { tests: "+text+" } }\n")
		need.That(t, strings.Contains(err.Error(), want), "%s: %v", text, err)
	}
}
