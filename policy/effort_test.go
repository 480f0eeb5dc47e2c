package policy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
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
		e, p := compile(text, scopeAnswer, wantAny)
		if p != nil {
			t.Fatal(text, p.message)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := e.eval(context.Background(), newVariables(ledger.Record{}).withAnswer(&ledger.Answer{Via: "http", Status: 200, Body: body}))
			ended <- err
		}()
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), errStopped.Error()) {
				t.Errorf("%s: %v", text, err)
			}
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
		e, p := compile(text, scopeAnswer, wantBool)
		if p != nil {
			t.Fatal(text, p.message)
		}
		got, err := e.truth(t.Context(), newVariables(ledger.Record{}).withAnswer(&ledger.Answer{Via: "http", Status: 200, Body: []byte(`{"id":"ch_17","pre":"ch"}`)}))
		if err != nil || got != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	e, p := compile(`"a".matches("(")`, scopeAnswer, wantBool)
	if p == nil {
		if _, err := e.truth(t.Context(), newVariables(ledger.Record{})); err == nil || errors.Is(err, errStopped) {
			t.Errorf("a pattern that is none: %v", err)
		}
	}
}

// CEL's own JSON would round what is compared.
func TestNoOtherWayToReadJSON(t *testing.T) {
	for _, text := range []string{`json.parse(stdout)`, `yaml.parse(stdout)`, `body.?data`} {
		if _, p := compile(text, scopeAnswer, wantAny); p == nil {
			t.Errorf("%s compiles", text)
		}
	}
}
