package policy

import (
	"context"
	"errors"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

const judged = `
version: 1
kinds:
  list:
    token: { into: t }
    read:
      http: { get: https://h.example/x, query: { after: "${cursor}" } }
      valid: status == 200 && body.object == "list"
      list: body.data
      mark: it.t
      complete: "!body.has_more"
      next: body.cursor
      same: it.amount == input.amount
      receipt: it.id
  plain:
    token: { into: t }
    read: { http: { get: https://h.example/x }, list: body.data, mark: it.t }
  notfound:
    token: { into: t }
    read: { http: { get: https://h.example/x }, valid: status == 200 || status == 404, list: "status == 404 ? [] : [body]", mark: it.t, complete: "true" }
  blind:
    token: { into: t }
    read: { http: { get: https://h.example/x }, valid: body.ok, list: body.data, mark: it.t }
  odd:
    token: { into: t }
    read: { http: { get: https://h.example/x }, list: body.data, mark: it.t, complete: body.done, receipt: it }
  command:
    effect: safe
    target: ${input.amount}
    read: { command: [tool, "${input.amount}"], state: json.effect == "noop" }
`

func TestI6_JudgeNeverTakesAnErrorForNone(t *testing.T) {
	p := must(t, judged)
	ok := func(body string) ledger.Answer { return ledger.Answer{Via: "http", Status: 200, Body: []byte(body)} }
	with := func(a ledger.Answer, name, value string) ledger.Answer {
		a.Header = map[string][]string{name: {value}}
		return a
	}
	status := func(n int, body string) ledger.Answer {
		return ledger.Answer{Via: "http", Status: n, Body: []byte(body)}
	}
	run := func(exit int, out string) ledger.Answer {
		return ledger.Answer{Via: "command", Exited: true, Exit: exit, Stdout: []byte(out)}
	}
	empty := `{"object":"list","has_more":false,"data":[]}`
	cases := []struct {
		name, kind string
		answer     ledger.Answer
		want       string // verdict, or the reason why it cannot tell
	}{
		{"found", "list", ok(`{"object":"list","has_more":false,"data":[{"t":"tok","amount":1,"id":"a"},{"t":"x","amount":1,"id":"b"}]}`), "landed"},
		{"none", "list", ok(empty), "none"},
		{"two", "list", ok(`{"object":"list","has_more":false,"data":[{"t":"tok","amount":1,"id":"a"},{"t":"tok","amount":1,"id":"b"}]}`), "twice"},
		{"other amount", "list", ok(`{"object":"list","has_more":false,"data":[{"t":"tok","amount":2,"id":"a"}]}`), "different"},
		{"more pages", "list", ok(`{"object":"list","has_more":true,"data":[],"cursor":"c"}`), "the list goes on after page 1"},
		{"more pages, no cursor", "list", ok(`{"object":"list","has_more":true,"data":[]}`), "the answer has no `cursor`"},
		{"HTML", "list", ok("<!DOCTYPE html><title>Log in</title>"), "answer is HTML, not JSON"},
		{"HTML by type", "list", with(ok("hello"), "Content-Type", "text/html; charset=utf-8"), "answer is HTML, not JSON"},
		{"text", "list", ok("maintenance"), "answer is not JSON"},
		{"empty", "list", ok(""), "answer is empty, not JSON"},
		{"broken JSON", "list", ok(`{"object":"list","da`), "answer is JSON that breaks off after 20 bytes"},
		{"several values", "list", ok(`{"object":"list"}{"object":"list"}`), "answer is several JSON values, not one"},
		{"XML", "list", ok(`<?xml version="1.0"?><list/>`), "answer is XML, not JSON"},
		{"not let in", "list", status(401, `{"object":"list"}`), "downstream answered 401: the check is not let in"},
		{"too often", "plain", status(429, `{"data":[]}`), "downstream answered 429: it is asked too often"},
		{"a field renamed", "plain", ok(`{"items":[]}`), "body.data: the answer has no `data`"},
		{"cut off", "list", ledger.Answer{Via: "http", Status: 200, Body: []byte(empty), Truncated: true}, "answer was cut off"},
		{"cached", "list", with(ok(empty), "Age", "600"), "answer came from a cache, 600 s old"},
		{"fresh", "list", with(ok(empty), "Age", "0"), "none"},
		{"odd age", "list", with(ok(empty), "Age", "soon"), "of unknown age"},
		{"no answer", "list", ledger.Answer{Via: "http", Err: errors.New("connection reset")}, "no answer: connection reset"},
		{"nothing at all", "list", ledger.Answer{Via: "http"}, "no answer came"},
		{"part", "list", status(206, empty), "only a part"},
		{"not modified", "list", status(304, ""), "not modified"},
		{"server error", "list", status(503, `{"error":1}`), "downstream answered 503"},
		{"server error in HTML", "plain", status(503, "<html>"), "downstream answered 503"},
		{"other object", "list", ok(`{"object":"error"}`), "the answer is not what the policy calls valid"},
		{"object missing", "list", ok(`{}`), "the answer has no `object`"},
		{"null list", "list", ok(`{"object":"list","has_more":false,"data":null}`), ""},
		{"list is a mapping", "list", ok(`{"object":"list","has_more":false,"data":{}}`), "not a list but a mapping"},
		{"effect without amount", "list", ok(`{"object":"list","has_more":false,"data":[{"t":"tok","id":"a"}]}`), "the candidate has no `amount`"},
		{"effect without receipt", "list", ok(`{"object":"list","has_more":false,"data":[{"t":"tok","amount":1}]}`), "the candidate has no `id`"},
		{"one without a mark", "list", ok(`{"object":"list","has_more":false,"data":[{"amount":1}]}`), "none"},
		{"list is text", "plain", ok(`{"data":"x"}`), "not a list but text"},
		{"complete not said", "plain", ok(`{"data":[]}`), "not known to be the whole list"},
		{"complete is text", "odd", ok(`{"data":[],"done":"yes"}`), "not true or false but text"},
		{"complete is null", "odd", ok(`{"data":[],"done":null}`), "not true or false but null"},
		{"receipt is a mapping", "odd", ok(`{"data":[{"t":"tok"}],"done":true}`), "no place inside text"},
		{"too many", "plain", ok(`{"data":[` + strings.Repeat("1,", maxCandidates) + `1]}`), "which looks too wide"},
		{"404 as an answer", "notfound", status(404, ""), "none"},
		{"500 is none", "notfound", status(500, ""), "downstream answered 500"},
		{"an error page that says ok", "blind", status(500, `{"ok":true,"data":[]}`), "downstream answered 500"},
		{"command", "command", run(0, `{"effect":"noop"}`), "landed"},
		{"command, not so", "command", run(0, `{"effect":"would_create"}`), "it is not so now"},
		{"command failed", "command", run(1, `{"effect":"would_create"}`), "the check ended with exit code 1"},
		{"command silent", "command", run(0, ""), "answer is empty, not JSON"},
		{"command killed", "command", ledger.Answer{Via: "command", Signal: "killed"}, "did not end by itself"},
	}
	rec := ledger.Record{Operation: ledger.Operation{Token: "tok", Input: []byte(`{"amount":1}`)}}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f, err := p.Kind(c.kind).Read.JudgePage(context.Background(), rec, nil, c.answer)
			got := ""
			if err != nil {
				got = err.Error()
				need.That(t, !f.Complete && !f.Valid && len(f.Effects) == 0, "an error with a finding %v", f)
			} else {
				got = verdictOf(p.Kind(c.kind), rec, c.answer)
			}
			need.That(t, strings.Contains(got, c.want) && (c.want != "" || err != nil), "got %q, want %q", got, c.want)
			need.That(t, !strings.ContainsAny(got, "\n"), "not one sentence: %q", got)
		})
	}
}

// verdictOf is what one page shows: a word of testWants, or why it cannot be told.
func verdictOf(k *Kind, rec ledger.Record, a ledger.Answer) string {
	t := k.Try(context.Background(), rec, noon, 1, func(int, transport.Request, error) (ledger.Answer, error) { return a, nil })
	if t.word == "cannot_tell" {
		return t.Reason
	}
	return t.word
}

func TestJudgeKeepsReceiptsAndCursor(t *testing.T) {
	p := must(t, judged)
	rec := ledger.Record{Operation: ledger.Operation{Token: "tok", Input: []byte(`{"amount":1}`)}}
	a := ledger.Answer{Via: "http", Status: 200, Body: []byte(`{"object":"list","has_more":true,"cursor":"c9","data":[{"t":"tok","amount":1,"id":9007199254740993}]}`)}
	f, err := p.Kind("list").Read.JudgePage(context.Background(), rec, nil, a)
	need.That(t, err == nil && f.Next == "c9" && len(f.Effects) == 1 && f.Effects[0].Receipt == "9007199254740993" && f.Effects[0].Same, "%+v %v", f, err)
	steps := p.Kind("list").Read.trace(context.Background(), rec, a)
	need.That(t, len(steps) == 8 && steps[1].Name == "list" && steps[3].Name == "own" && string(steps[3].Value) == "true" && string(steps[5].Value) == "9007199254740993", "%+v", steps)
}

func TestJudgeAnswer(t *testing.T) {
	p := must(t, `
version: 1
kinds:
  k:
    answer: { committed: body.status == "done", refused: status == 402, already: status == 409, receipt: body.id }
  silent: { deadline: 1m }
  both: { answer: { committed: "true", refused: "true" } }
  receipts:
    read: { http: { get: https://h.example/x }, list: body.list, receipt: it.id }
`)
	http := func(status int, body string) ledger.Answer {
		return ledger.Answer{Via: "http", Sent: true, Status: status, Body: []byte(body)}
	}
	first := ledger.Record{Attempts: []ledger.Attempt{{N: 1}}}
	second := ledger.Record{Attempts: []ledger.Attempt{{N: 1, Outcome: ledger.OutcomeUncertain}, {N: 2}}}
	for _, c := range []struct {
		name, kind string
		rec        ledger.Record
		answer     ledger.Answer
		want       ledger.Ruling
		err        string
	}{
		{"committed", "k", first, http(200, `{"status":"done","id":"x1"}`), ledger.Ruling{Decided: true, Outcome: ledger.OutcomeCommitted, Receipt: "x1"}, ""},
		{"success that is not it", "k", first, http(200, `{"status":"processing"}`), ledger.Ruling{Decided: true, Outcome: ledger.OutcomeUncertain}, ""},
		{"refused", "k", first, http(402, `{"status":"no"}`), ledger.Ruling{Decided: true, Outcome: ledger.OutcomeFailed, Proof: ledger.Refused}, ""},
		{"a rule errs", "k", first, http(200, `<html>`), ledger.Ruling{Decided: true, Outcome: ledger.OutcomeUncertain}, "answer is HTML"},
		{"a rule errs on a refusal too", "k", first, http(402, `<html>`), ledger.Ruling{Decided: true, Outcome: ledger.OutcomeUncertain}, "answered 402; answer is HTML"},
		{"already, but it is the first", "k", first, http(409, `{"status":"x"}`), ledger.Ruling{}, ""},
		{"already", "k", second, http(409, `{"status":"x","id":7}`), ledger.Ruling{Decided: true, Outcome: ledger.OutcomeCommitted, Already: true, Receipt: "7"}, ""},
		{"both", "both", first, http(200, `{}`), ledger.Ruling{Decided: true, Outcome: ledger.OutcomeUncertain}, "refused and that it is there"},
		{"nothing said", "silent", first, http(200, `{}`), ledger.Ruling{}, ""},
		{"no answer", "k", first, ledger.Answer{Via: "http", Err: errors.New("reset")}, ledger.Ruling{}, ""},
		{"receipt by the read's rule", "receipts", first, http(201, `{"id":"ch_1"}`), ledger.Ruling{Receipt: "ch_1"}, ""},
		{"no receipt of a list", "receipts", first, http(200, `[{"id":"ch_1"}]`), ledger.Ruling{}, ""},
		{"no receipt of a failure", "receipts", first, http(500, `{"id":"ch_1"}`), ledger.Ruling{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := p.Kind(c.kind).JudgeAnswer(context.Background(), c.rec, c.answer)
			need.That(t, got == c.want && (err == nil) == (c.err == "") && (err == nil || strings.Contains(err.Error(), c.err)), "got %+v, %v; want %+v, %q", got, err, c.want, c.err)
		})
	}
}

// What was found is found, also where the rest of the answer makes no sense.
func TestFoundEffectsOutliveABrokenComplete(t *testing.T) {
	p := must(t, `
version: 1
kinds:
  k:
    token: { into: ref }
    lands_within: 1s
    visible_within: 0s
    read:
      http: { get: "https://pay.example/charges" }
      list: body.data
      mark: it.ref
      complete: "!body.more"
      receipt: it.id
`)
	rec := ledger.Record{Operation: ledger.Operation{Kind: "k", Token: "t-1"}}
	answer := func(body string) ledger.Answer { return ledger.Answer{Via: "http", Status: 200, Body: []byte(body)} }
	f, err := p.Kind("k").Read.JudgePage(context.Background(), rec, nil, answer(`{"data":[{"id":"a","ref":"t-1"}]}`))
	need.That(t, err == nil && len(f.Effects) == 1 && !f.Complete, "%+v %v", f, err)
	f, err = p.Kind("k").Read.JudgePage(context.Background(), rec, nil, answer(`{"data":[]}`))
	need.That(t, err != nil, "none, and not whole: %+v", f)
}

const complaining = `
version: 1
kinds:
  list:
    read: { command: [tool], list: json.items, complete: "true" }
  strict:
    read: { command: [tool], valid: '!stderr.contains("warning")', list: json.items }
  told:
    read: { command: [tool], valid: 'exit == 0 || exit == 4 && stderr.contains("nothing there")', list: 'exit == 4 ? [] : json.items', complete: "true" }
  written:
    answer: { refused: 'exit == 7 && stderr.startsWith("refused: ")' }
`

// TestReasonsTellWhatACheckComplainedOf: a command says on standard error what is
// wrong; the reason repeats it on one line and bounded. What shows a reason makes it safe.
func TestReasonsTellWhatACheckComplainedOf(t *testing.T) {
	p := must(t, complaining)
	long := strings.Repeat("word ", 1000)
	for _, c := range []struct {
		name, kind, stdout, stderr string
		exit                       int
		want                       string
	}{
		{"a failure", "list", "", "\nlogin expired:\trun tool login\n\n", 3, "the check ended with exit code 3: login expired: run tool login"},
		{"a silent failure", "list", "", " \n", 3, "the check ended with exit code 3"},
		{"no JSON", "list", "", "login expired\n", 0, "answer is empty, not JSON: login expired"},
		{"text instead of JSON", "list", "Log in first", "no ticket", 0, "answer is not JSON: no ticket"},
		{"not valid by the policy", "strict", `{"items":[]}`, "warning: old data\n", 0, "the answer is not what the policy calls valid: warning: old data"},
		{"escapes", "list", "", "\x1b]0;x\x07 \x1b[31mred\u202e\x00", 1, "the check ended with exit code 1: \x1b]0;x\x07 \x1b[31mred\u202e\x00"},
		{"not UTF-8", "list", "", "caf\xe9", 1, "the check ended with exit code 1: caf\uFFFD"},
		{"a secret", "list", "", "Authorization: Bearer hunter2-very-secret", 1, "the check ended with exit code 1: Authorization: Bearer [redacted]"},
		{"what does not fit whole is left out", "list", "", "ghp_abcdefghijklmnopqrstuvwxyz0123456789\n" + strings.Repeat("x", transport.MaxComplaint-8), 1, "the check ended with exit code 1: … " + strings.Repeat("x", transport.MaxComplaint-8)},
		{"one endless word", "list", "", strings.Repeat("x", 10*transport.MaxComplaint), 1, "the check ended with exit code 1"},
	} {
		_, err := p.Kind(c.kind).Read.JudgePage(t.Context(), operation(c.kind, `{}`), nil, ledger.Answer{Via: "command", Exited: true, Exit: c.exit, Stdout: []byte(c.stdout), Stderr: []byte(c.stderr)})
		need.That(t, err != nil && err.Error() == c.want, "%s: %v\nwant %s", c.name, err, c.want)
	}
	_, err := p.Kind("list").Read.JudgePage(t.Context(), operation("list", `{}`), nil, ledger.Answer{Via: "command", Exited: true, Exit: 1, Stderr: []byte(long + "\nthe last line\n")})
	need.That(t, err != nil && len(err.Error()) <= transport.MaxComplaint+100 && strings.HasSuffix(err.Error(), "word word the last line") && !strings.Contains(err.Error(), "wordword"), "a long line: %v", err)
}

// TestRulesSeeStandardError: in the rules of a check and of a write, and nowhere
// where there is none.
func TestRulesSeeStandardError(t *testing.T) {
	p := must(t, complaining)
	said := func(exit int, stderr string) ledger.Answer {
		return ledger.Answer{Via: "command", Exited: true, Exit: exit, Stderr: []byte(stderr)}
	}
	f, err := p.Kind("told").Read.JudgePage(t.Context(), operation("told", `{}`), nil, said(4, "there is nothing there\n"))
	need.That(t, err == nil && f.Complete && len(f.Effects) == 0, "%+v, %v", f, err)
	if _, err := p.Kind("told").Read.JudgePage(t.Context(), operation("told", `{}`), nil, said(4, "no route to host")); err == nil {
		t.Error("another complaint was taken for none found")
	}
	for stderr, want := range map[string]ledger.Outcome{"refused: no such account": ledger.OutcomeFailed, "timeout": ""} {
		r, err := p.Kind("written").JudgeAnswer(t.Context(), operation("written", `{}`), said(7, stderr))
		need.That(t, err == nil && r.Outcome == want, "%s: %+v, %v", stderr, r, err)
	}
	if r, err := p.Kind("written").JudgeAnswer(t.Context(), operation("written", `{}`), ledger.Answer{Via: "http", Status: 200}); err == nil || r.Outcome != ledger.OutcomeUncertain {
		t.Errorf("an answer without standard error: %+v, %v", r, err)
	}
}
