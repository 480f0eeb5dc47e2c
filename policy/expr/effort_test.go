package expr

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// A single call may take more than its arguments are long, and the other side
// says how long they are: it is refused before it begins.
func TestCallsOverHugeAnswersAreStopped(t *testing.T) {
	list := make([]any, 50_000)
	for i := range list {
		list[i] = map[string]any{"id": i}
	}
	body, _ := json.Marshal(map[string]any{"data": list, "a": strings.Repeat("a", 1_000_000), "b": strings.Repeat("a", 500_000) + "b", "one": "(a{0,100}){0,10}b"})
	for _, text := range []string{
		`body.data.distinct()`,
		`body.data.hasAll(body.data)`, `body.data.hasAny(body.data)`, `body.data.hasOnly(body.data)`, `body.data.hasExactly(body.data)`,
		`body.a.indexOf(body.b)`, `body.a.lastIndexOf(body.b)`, `body.a.indexOf(body.b, 1)`,
		`body.a.matches(body.one)`, `body.a.matches(body.b)`, `body.a.matches("(a{0,100}){0,10}b")`,
		`body.data.map(x, "%s".format([body]))`,
	} {
		e, p := Compile(text, ForAnswer, Any)
		if p != nil {
			t.Fatal(text, p.Message)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := e.Eval(context.Background(), given("{}", string(body)))
			ended <- err
		}()
		select {
		case err := <-ended:
			need.That(t, errors.Is(err, ErrStopped), "%s: %v", text, err)
		case <-time.After(time.Minute):
			t.Fatalf("%s does not end", text)
		}
	}
}

func TestCallsThatAreBoundedStillWork(t *testing.T) {
	for text, want := range map[string]bool{
		`[1, 1, 2].distinct() == [1, 2]`:                                    true,
		`["a", "b"].hasAll(["b"]) && !["a"].hasOnly(["b"])`:                 true,
		`"abcabc".indexOf("c") == 2 && "abcabc".indexOf("c", 3) == 5`:       true,
		`"abcabc".lastIndexOf("b") == 4`:                                    true,
		`body.id.matches("^ch_[0-9]+$") && !body.id.matches("^pi_")`:        true,
		`["ch_1", "pi_1"].filter(x, x.matches("^" + body.pre)).size() == 1`: true,
	} {
		e, p := Compile(text, ForAnswer, Bool)
		if p != nil {
			t.Fatal(text, p.Message)
		}
		got, err := e.Truth(t.Context(), given("{}", `{"id":"ch_17","pre":"ch"}`))
		need.That(t, err == nil && got == want, "%s: %v %v", text, got, err)
	}
	e, p := Compile(`"a".matches("(")`, ForAnswer, Bool)
	if p == nil {
		_, err := e.Truth(t.Context(), given("{}", "{}"))
		need.That(t, err != nil && !errors.Is(err, ErrStopped), "a pattern that is none: %v", err)
	}
}

// CEL's own JSON would round what is compared.
func TestNoOtherWayToReadJSON(t *testing.T) {
	for _, text := range []string{`json.parse(stdout)`, `yaml.parse(stdout)`, `body.?data`} {
		_, p := Compile(text, ForAnswer, Any)
		need.That(t, p != nil, "%s compiles", text)
	}
}

// Nothing that an answer says makes an expression cost more than its bound.
func TestExpressionsStayBoundedOverHostileAnswers(t *testing.T) {
	long := strings.Repeat("a", 2<<20)
	for name, tc := range map[string]struct{ list, body string }{
		"range":         {`lists.range(int(body.n))`, `{"n":2000000000}`},
		"replace":       {`[body.s.replace("", body.s)]`, `{"s":"` + long + `"}`},
		"matches":       {`body.l.filter(x, x.matches("(a*)*b(a?){50}c"))`, `{"l":["` + long + `"]}`},
		"join":          {`[body.l.map(x, body.l.map(y, x + y).join()).join()]`, `{"l":[` + strings.TrimSuffix(strings.Repeat(`"`+long[:20000]+`",`, 300), ",") + `]}`},
		"replace a few": {`[body.s.replace("", body.s, 100)]`, `{"s":"` + long + `"}`},
		"separator":     {`[body.l.join(body.s)]`, `{"s":"` + long + `","l":[` + strings.Repeat(`"",`, 1000) + `""]}`},
		"doubling":      {`["a"]` + strings.Repeat(`.map(x, x + x)`, 40), `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			e, problem := Compile(tc.list, ForList, List)
			need.Must(t, problem == nil, "%v", problem)
			began := time.Now()
			_, err := e.Eval(t.Context(), given("{}", tc.body))
			took := time.Since(began)
			switch stopped := errors.Is(err, ErrStopped); {
			case name == "matches" && err == nil: // within its bound, on a machine that is fast enough
			case name == "matches" && !stopped, err == nil:
				t.Errorf("after %s: %v", took, err)
			}
		})
	}
}

func TestBoundedTextsAreThoseOfTheLanguage(t *testing.T) {
	for text, want := range map[string]string{
		`"a-b-c".replace("-", "+")`: "a+b+c", `"a-b-c".replace("-", "+", 1)`: "a+b-c", `"a-b-c".replace("-", "", 0)`: "a-b-c",
		`"ab".replace("", ".")`: ".a.b.", `["a", "b"].join()`: "ab", `["a", "b"].join("-")`: "a-b", `[].join(",")`: "",
	} {
		v, err := ask(t, text, "{}")
		need.That(t, err == nil && v == want, "%s: %v %v, want %q", text, v, err, want)
	}
}
