package expr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// given are the names of an operation with a token and that input, and of an answer
// with that body.
func given(input, body string) *Names {
	return NewNames(func(name string) (any, error) {
		switch name {
		case "token":
			return "tok", nil
		case "receipt":
			return "pi_1", nil
		case "input":
			return Decode([]byte(input))
		case "body":
			return Decode([]byte(body))
		}
		return nil, fmt.Errorf("there is no %s", name)
	})
}

// ask evaluates an expression on an input.
func ask(t testing.TB, text, input string) (any, error) {
	t.Helper()
	e, problem := Compile(text, ForOperation, Any)
	if problem != nil {
		t.Fatalf("%s: %s", text, problem.Message)
	}
	v, err := e.Eval(t.Context(), given(input, ""))
	if err != nil {
		return nil, err
	}
	return v.Data()
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
			"huge":123456789012345678901234567890,"small":0.1,"million":1e6,"list":[1,2],"name":"cus_9"}`)
		need.That(t, err == nil && fmt.Sprint(got) == want, "%s = %v, %v; want %s", text, got, err, want)
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
			_, err := ask(t, text, `{"l":`+list+`}`)
			need.That(t, errors.Is(err, ErrStopped), "got %v", err)
		})
	}
}

func TestCancelledExpressionStops(t *testing.T) {
	e, problem := Compile("input.l.all(a, input.l.all(b, a + b > 0))", ForOperation, Bool)
	need.Must(t, problem == nil, "%v", problem)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := e.Eval(ctx, given(`{"l":[`+strings.Repeat("1,", 500)+`1]}`, ""))
	need.That(t, err != nil, "went on after the context ended")
}

func TestTemplates(t *testing.T) {
	names := given(`{"n":42000,"half":0.5,"big":9007199254740993,"s":"a b","o":{"x":[1,"y"]},"nil":null,"t":true}`, "")
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
		tm, problem := ParseTemplate(text, ForOperation)
		if problem != nil {
			t.Errorf("%s: %s", text, problem.Message)
			continue
		}
		r := &Rendering{Names: names}
		if out := ledger.EncodeJSON(r.Tree(&Tree{Text: tm})); string(out) != want || r.Err() != nil {
			t.Errorf("%s = %s, %v; want %s", text, out, r.Err(), want)
		}
	}
	for text, want := range map[string]string{
		"a ${input.nil}":  "the value is null",
		"a ${input.o}":    "a list or mapping has no place inside text",
		"a ${input.nope}": "the input has no `nope`",
		"a ${1.0 / 0.0}":  "not a finite number",
	} {
		tm, problem := ParseTemplate(text, ForOperation)
		need.Must(t, problem == nil, "%v", problem)
		r := &Rendering{Names: names}
		got, err := r.Text(tm), r.Err()
		need.That(t, err != nil && strings.Contains(err.Error(), want), "%s = %q, %v; want an error with %q", text, got, err, want)
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
		tm, problem := ParseTemplate(c.template, ForRequest)
		need.Must(t, problem == nil, "%v", problem)
		input := ledger.EncodeJSON(map[string]any{"v": c.value})
		r := &Rendering{Names: given(string(input), "")}
		got, err := r.URL(tm), r.Err()
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s with %q = %q, %v; want %q %q", c.template, c.value, got, err, c.want, c.err)
		}
	}
}
