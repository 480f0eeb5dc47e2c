package policy

import (
	"context"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
)

// What was found is found, also where the rest of the answer makes no sense.
func TestFoundEffectsOutliveABrokenComplete(t *testing.T) {
	p, err := Parse("p.yaml", []byte(`
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
`))
	if err != nil {
		t.Fatal(err)
	}
	rec := ledger.Record{Operation: ledger.Operation{Kind: "k", Token: "t-1"}}
	answer := func(body string) ledger.Answer { return ledger.Answer{Via: "http", Status: 200, Body: []byte(body)} }
	f, err := p.Kind("k").Read.Judge(context.Background(), rec, answer(`{"data":[{"id":"a","ref":"t-1"}]}`))
	if err != nil || len(f.Effects) != 1 || f.Complete {
		t.Errorf("%+v %v", f, err)
	}
	if f, err = p.Kind("k").Read.Judge(context.Background(), rec, answer(`{"data":[]}`)); err == nil {
		t.Errorf("none, and not whole: %+v", f)
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
			e, problem := compile(tc.list, scopeList, wantList)
			if problem != nil {
				t.Skipf("cannot be written: %v", problem)
			}
			began := time.Now()
			a := ledger.Answer{Via: "http", Status: 200, Body: []byte(tc.body)}
			_, err := e.eval(context.Background(), newVariables(ledger.Record{}).withAnswer(&a))
			took := time.Since(began)
			switch stopped := err != nil && strings.Contains(err.Error(), errStopped.Error()); {
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
		e, problem := compile(text, scopeOperation, wantAny)
		if problem != nil {
			t.Fatal(problem)
		}
		if v, err := e.eval(context.Background(), newVariables(ledger.Record{})); err != nil || v.Value() != want {
			t.Errorf("%s: %v %v, want %q", text, v, err, want)
		}
	}
}
