package policy

import (
	"fmt"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/expr"
)

// ask evaluates an expression on an input and an answer with that body.
func ask(t testing.TB, text, input, body string) (any, error) {
	t.Helper()
	a := &ledger.Answer{Via: "http", Status: 200, Body: []byte(body), Header: map[string][]string{"X-One": {"a", "b"}}}
	vars := (*Kind)(nil).variables(ledger.Record{Operation: ledger.Operation{Input: []byte(input)}}).withAnswer(a)
	e, problem := expr.Compile(text, expr.ForAnswer, expr.Any)
	if problem != nil {
		t.Fatalf("%s: %s", text, problem.Message)
	}
	v, err := e.Eval(t.Context(), vars.Names)
	if err != nil {
		return nil, err
	}
	return v.Data()
}

func TestAnErrorIsNeverFalseOrAbsent(t *testing.T) {
	for _, c := range []struct{ text, input, body, want string }{
		{"input.nope", `{}`, "", "input.nope: the input has no `nope`"},
		{"input.nope.deep == 1", `{"a":1}`, "", "the input has no `nope`"},
		{"input.a.deep == 1", `{"a":{}}`, "", "`input.a` has no `deep`"},
		{"input.l[0].x == input.y", `{"l":[{"x":1}]}`, "", "the input has no `y`"},
		{"input.l[1].x == 1", `{"l":[{"x":1},{}]}`, "", "`input.l[1]` has no `x`"},
		{"input.l.all(e, e.x == 1)", `{"l":[{}]}`, "", "an element of the list has no `x`"},
		{"input[input.k] == 1", `{"k":"z"}`, "", "a value in this expression has no `z`"},
		{"input.big / 100.0", `{"big":9007199254740993}`, "", "too large to calculate with"},
		{"input.huge * 2", `{"huge":123456789012345678901234567890}`, "", ""},
		{"input.a / input.b > 1", `{"a":"x","b":2}`, "", "no arithmetic"},
		{"1 / size(input.l)", `{"l":[]}`, "", "zero"},
		{"input.x", `not json`, "", "the recorded input is not JSON"},
		{"body.x", `{}`, "<html><body>login</body></html>", "answer is HTML, not JSON"},
		{"body.x", `{}`, "hello", "answer is not JSON"},
		{"body.x", `{}`, "   ", "answer is empty, not JSON"},
		{"body.x", `{}`, `{"x":1}{"x":2}`, "answer is several JSON values, not one"},
		{"body.x", `{}`, `{"y":1}`, "the answer has no `x`"},
		{"body.x || true", `{}`, "<html>", "answer is HTML, not JSON"},  // CEL alone says true
		{"body.x && false", `{}`, "<html>", "answer is HTML, not JSON"}, // CEL alone says false
		{"exit == 0", `{}`, `{}`, "there is no exit code"},
		{"rows", `{}`, `{}`, "has no `rows`"},
		{"isError", `{}`, `{}`, "has no `isError`"},
	} {
		got, err := ask(t, c.text, c.input, c.body)
		need.That(t, err != nil && strings.Contains(err.Error(), c.want), "%s on %s%s = %v, %v; want an error with %q", c.text, c.input, c.body, got, err, c.want)
	}
}

func TestHeaders(t *testing.T) {
	for text, want := range map[string]string{`header("x-one")`: "a, b", `header("X-One")`: "a, b", `header("Nope")`: "", `header("Nope") == ""`: "true"} {
		got, err := ask(t, text, `{}`, `{}`)
		need.That(t, err == nil && fmt.Sprint(got) == want, "%s = %v, %v", text, got, err)
	}
}
