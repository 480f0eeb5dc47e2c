package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
)

// ask evaluates an expression on an input and, if body is not empty, an answer.
func ask(t testing.TB, text, input, body string) (any, error) {
	t.Helper()
	s := scopeOperation
	vars := newVariables(ledger.Record{Operation: ledger.Operation{Input: []byte(input), Token: "tok", Key: "k-1"}})
	if body != "" {
		s = scopeAnswer
		vars.withAnswer(&ledger.Answer{Via: "http", Status: 200, Body: []byte(body), Header: map[string][]string{"X-One": {"a", "b"}}})
	}
	e, problem := compile(text, s, wantAny)
	if problem != nil {
		t.Fatalf("%s: %s", text, problem.message)
	}
	v, err := e.eval(context.Background(), vars)
	if err != nil {
		return nil, err
	}
	return native(v)
}

func TestArithmetic(t *testing.T) {
	for text, want := range map[string]string{
		"input.amount / 100":     "420.5",
		"input.amount / 100 * 2": "841",
		"2 * input.amount / 100": "841",
		"input.amount - 50":      "42000",
		"1 + input.amount":       "42051",
		"input.big":              "9007199254740993",
		"input.huge":             "123456789012345678901234567890",
		"input.small * 3":        "0.30000000000000004",
		"input.million":          "1000000",
		"size(input.list) * 1.5": "3",
		"size(input.list) / 2":   "1",
		"input.amount > 42049 && input.amount < 42051.0": "true",
		"input.amount == 42050":                          "true",
		"input.big == 9007199254740993":                  "true",
		"input.big == 9007199254740992":                  "false",
		"input.twin == 9007199254740992":                 "true",
		"input.twin == input.big":                        "false",
		"input.pointed == input.big":                     "true",
		"input.huge == input.huge":                       "true",
		"input.huge == 1":                                "false",
		"input.amount == \"42050\"":                      "false",
		"'a' + input.name":                               "acus_9",
		"input.list + [3]":                               "[1 2 3]",
		"duration('90s') + duration('1s')":               "91",
	} {
		got, err := ask(t, text, `{"amount":42050,"big":9007199254740993,"twin":9007199254740992,"pointed":9007199254740993.0,
			"huge":123456789012345678901234567890,"small":0.1,"million":1e6,"list":[1,2],"name":"cus_9"}`, "")
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s = %v, %v; want %s", text, got, err, want)
		}
	}
}

func TestAnErrorIsNeverFalseOrAbsent(t *testing.T) {
	for _, c := range []struct{ text, input, body, want string }{
		{"input.nope", `{}`, "", "there is no `nope` in it"},
		{"input.nope.deep == 1", `{"a":1}`, "", "there is no `nope` in it"},
		{"input.big / 100.0", `{"big":9007199254740993}`, "", "too large to calculate with"},
		{"input.huge * 2", `{"huge":123456789012345678901234567890}`, "", ""},
		{"input.a / input.b > 1", `{"a":"x","b":2}`, "", "no arithmetic"},
		{"1 / size(input.l)", `{"l":[]}`, "", "zero"},
		{"input.x", `not json`, "", "the recorded input is not JSON"},
		{"body.x", `{}`, "<html><body>login</body></html>", "answer is HTML, not JSON"},
		{"body.x", `{}`, "hello", "answer is not JSON"},
		{"body.x", `{}`, "   ", "answer is empty, not JSON"},
		{"body.x", `{}`, `{"x":1}{"x":2}`, "answer is several JSON values, not one"},
		{"body.x", `{}`, `{"y":1}`, "there is no `x` in it"},
		{"body.x || true", `{}`, "<html>", "answer is HTML, not JSON"},  // CEL alone says true
		{"body.x && false", `{}`, "<html>", "answer is HTML, not JSON"}, // CEL alone says false
		{"exit == 0", `{}`, `{}`, "there is no exit code"},
		{"rows", `{}`, `{}`, "has no `rows`"},
		{"isError", `{}`, `{}`, "has no `isError`"},
	} {
		got, err := ask(t, c.text, c.input, c.body)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on %s%s = %v, %v; want an error with %q", c.text, c.input, c.body, got, err, c.want)
		}
	}
}

func TestHeaders(t *testing.T) {
	for text, want := range map[string]string{`header("x-one")`: "a, b", `header("X-One")`: "a, b", `header("Nope")`: "", `header("Nope") == ""`: "true"} {
		if got, err := ask(t, text, `{}`, `{}`); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s = %v, %v", text, got, err)
		}
	}
}

func TestRunawayExpressionsAreStopped(t *testing.T) {
	list := "[" + strings.Repeat("1,", 9999) + "1]"
	for name, text := range map[string]string{
		"nested loops": "input.l.all(a, input.l.all(b, input.l.all(c, input.l.all(d, a + b + c + d > 0))))",
		"long text":    "input.l.map(a, 'xxxxxxxxxxxxxxxxxxxxxxxx' + string(a)).exists(x, input.l.exists(y, x.contains(string(y) + 'zz')))",
		"matches":      "input.l.all(a, input.l.all(b, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'.matches('(a+)+$') || true))",
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := ask(t, text, `{"l":`+list+`}`, "")
			if !errors.Is(err, errStopped) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > 2*evalTimeout {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestCancelledExpressionStops(t *testing.T) {
	e, problem := compile("input.l.all(a, input.l.all(b, a + b > 0))", scopeOperation, wantBool)
	if problem != nil {
		t.Fatal(problem)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	vars := newVariables(ledger.Record{Operation: ledger.Operation{Input: []byte(`{"l":[` + strings.Repeat("1,", 500) + `1]}`)}})
	if _, err := e.eval(ctx, vars); err == nil {
		t.Error("went on after the context ended")
	}
}

func TestTemplates(t *testing.T) {
	rec := ledger.Record{Operation: ledger.Operation{Token: "tok", Receipts: []string{"pi_1"},
		Input: []byte(`{"n":42000,"half":0.5,"big":9007199254740993,"s":"a b","o":{"x":[1,"y"]},"nil":null,"t":true}`)}}
	r := &rendering{ctx: context.Background(), vars: newVariables(rec)}
	for text, want := range map[string]string{
		"":                                  `""`,
		"plain":                             `"plain"`,
		"${input.n}":                        `42000`,
		"x${input.n}":                       `"x42000"`,
		"${input.n / 100} and ${input.big}": `"420 and 9007199254740993"`,
		"${money(input.n / 100)}":           `"420.00"`,
		"USD ${money(input.n * 1000)}":      `"USD 42,000,000.00"`,
		"${input.o}":                        `{"x":[1,"y"]}`,
		"${input.nil}":                      `null`,
		"${input.t}":                        `true`,
		"$${input.n} ${token}":              `"${input.n} tok"`,
		"cost: $5 {a} }":                    `"cost: $5 {a} }"`,
		`${"}" + token + '}'}`:              `"}tok}"`,
		`${{"a": token}}`:                   `{"a":"tok"}`,
		`${r"\}" + receipt}`:                `"\\}pi_1"`,
		"${'''it's }'''}":                   `"it's }"`,
	} {
		tm, problem := parseTemplate(text, scopeOperation)
		if problem != nil {
			t.Errorf("%s: %s", text, problem.message)
			continue
		}
		r.err = nil
		got, err := r.tree(&value{text: tm}), r.err
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if out, _ := marshal(got); string(out) != want {
			t.Errorf("%s = %s, want %s", text, out, want)
		}
	}
	for text, want := range map[string]string{
		"a ${input.nil}":  "the value is null",
		"a ${input.o}":    "a list or mapping has no place inside text",
		"a ${input.nope}": "there is no `nope` in it",
		"a ${1.0 / 0.0}":  "not a finite number",
	} {
		tm, problem := parseTemplate(text, scopeOperation)
		if problem != nil {
			t.Fatal(problem)
		}
		r.err = nil
		if got, err := r.text(tm), r.err; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %q, %v; want an error with %q", text, got, err, want)
		}
	}
}

func TestI11_ValuesInAnAddressStayValues(t *testing.T) {
	for _, c := range []struct{ template, value, want, err string }{
		{"/a/${input.v}", "x", "/a/x", ""},
		{"/a/${input.v}/b", "x y/z?q=1#f%2e", "/a/x%20y%2Fz%3Fq=1%23f%252e/b", ""},
		{"/a/${input.v}", "ü\u202e\n", "/a/%C3%BC%E2%80%AE%0A", ""},
		{"/a/pre-${input.v}", "..", "/a/pre-..", ""},
		{"/a/${input.v}", "", "", "empty"},
		{"/a/${input.v}/", "", "", "empty"},
		{"/a/${input.v}?x=1", "", "", "empty"},
		{"/a/${input.v}", ".", "", "leads elsewhere"},
		{"/a/${input.v}/b", "..", "", "leads elsewhere"},
		{"/a/.${input.v}", ".", "", "leads elsewhere"},
		{"/a/${input.v}", "../admin", "", "leads elsewhere"},
		{"/a/${input.v}", `..\admin`, "", "leads elsewhere"},
		{"/a/${input.v}", "/", "", "empty"},
		{"/a?q=${input.v}", "1&admin=true#x", "/a?q=1%26admin%3Dtrue%23x", ""},
		{"/a?q=${input.v}", "..", "/a?q=..", ""},
		{"https://h.example/${input.v}", "@evil.example/", "", "empty"},
		{"https://h.example/${input.v}", "@evil.example", "https://h.example/@evil.example", ""},
	} {
		tm, problem := parseTemplate(c.template, scopeRequest)
		if problem != nil {
			t.Fatal(problem)
		}
		input, _ := marshal(map[string]any{"v": c.value})
		r := &rendering{ctx: context.Background(), vars: newVariables(ledger.Record{Operation: ledger.Operation{Input: input}})}
		r.err = nil
		got, err := r.url(tm), r.err
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s with %q = %q, %v; want %q %q", c.template, c.value, got, err, c.want, c.err)
		}
	}
}
