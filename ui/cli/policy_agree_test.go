package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/policy"
)

const agreePolicy = `version: 1
downstreams: { shop: { base: "%s" } }
kinds:
  order:
    downstream: shop
    token: { into: token }
    read:
      http: { get: "/orders/${input.case}", query: { after: "${cursor}" } }
      valid: status == 200 || status == 404 || status == 403
      list: 'status == 200 ? body.data : []'
      mark: it.t
      complete: status == 200 && !body.more
      next: body.next
      same: it.amount == input.amount
      receipt: 'has(it.id) ? it.id : ""'
`

// What `policy try` and the cases of a policy say of an answer is what the
// engine makes of it: one evaluator, and the same rules around it.
func TestTryingAPolicySaysWhatTheEngineSays(t *testing.T) {
	type page struct {
		status int
		header string // "Name: value"
		body   string
	}
	ok := func(bodies ...string) (out []page) {
		for _, b := range bodies {
			out = append(out, page{200, "", b})
		}
		return out
	}
	one := func(data string) string { return `{"data":[` + data + `],"more":false,"next":null}` }
	more := func(data, next string) string { return `{"data":[` + data + `],"more":true,"next":"` + next + `"}` }
	const a, b2, other, nameless = `{"t":"TOKEN","id":"a","amount":1}`, `{"t":"TOKEN","id":"b","amount":1}`, `{"t":"TOKEN","id":"a","amount":2}`, `{"t":"TOKEN","amount":1}`
	cases := []struct {
		name  string
		pages []page
		want  string
	}{
		{"one", ok(one(a)), "landed"},
		{"two", ok(one(a + "," + b2)), "twice"},
		{"one twice on a page", ok(one(a + "," + a)), "landed"},
		{"one on two pages", ok(more(a, "1"), one(a)), "landed"},
		{"one without a receipt on two pages", ok(more(nameless, "1"), one(nameless)), "landed"},
		{"two without a receipt on a page", ok(one(nameless + "," + nameless)), "twice"},
		{"on the second page", ok(more("", "1"), one(a)), "landed"},
		{"one on each of two pages", ok(more(a, "1"), one(b2)), "twice"},
		{"another amount", ok(one(other)), "different"},
		{"another amount, and the second page is broken", append(ok(more(other, "1")), page{500, "", ""}), "cannot_tell"},
		{"another amount, out of a cache", []page{{200, "Age: 9", one(other)}}, "cannot_tell"},
		{"found, out of a cache", []page{{200, "Age: 9", one(a)}}, "landed"},
		{"none, out of a cache", []page{{200, "X-Cache: HIT", one("")}}, "cannot_tell"},
		{"found, and the second page is broken", append(ok(more(a, "1")), page{503, "", ""}), "landed"},
		{"none", ok(one("")), "cannot_tell"},
		{"not let in, which the policy calls valid", []page{{403, "", `{}`}}, "cannot_tell"},
		{"in circles", ok(more("", "0")), "cannot_tell"},
		{"without end", ok(more("", "+")), "cannot_tell"},
	}
	b := newBench(t)
	downstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/orders/"))
		after, _ := strconv.Atoi(r.URL.Query().Get("after"))
		p := cases[n].pages[min(after, len(cases[n].pages)-1)]
		if name, value, ok := strings.Cut(p.header, ": "); ok {
			w.Header().Set(name, value)
		}
		w.WriteHeader(p.status)
		fmt.Fprint(w, strings.NewReplacer(`"+"`, strconv.Quote(strconv.Itoa(after+1)), "TOKEN", b.token(n+1)).Replace(p.body))
	}))
	defer downstream.Close()
	b.policy = b.file("agree.yaml", fmt.Sprintf(agreePolicy, downstream.URL))
	for i, c := range cases {
		b.doubt(i+1, "order", fmt.Sprintf(`{"case":%d,"amount":1}`, i))
		var tried struct{ Verdict, Problem string }
		need.OK(t, json.Unmarshal(b.json(0, "policy", "try", "order", "--op", id(i+1)).Data, &tried))
		b.run("check", id(i+1))
		reads := b.rec(i + 1).Reads
		need.Must(t, len(reads) == 1, "%s: %d reads", c.name, len(reads))
		if engine := string(reads[0].Verdict); tried.Verdict != c.want || engine != c.want {
			t.Errorf("%s: tried %s (%s), the engine says %s (%s); want %s", c.name, tried.Verdict, tried.Problem, engine, reads[0].Reason, c.want)
		}
	}
}

func TestPolicyTryFollowsPages(t *testing.T) {
	var asked []string
	downstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		if r.URL.Query().Get("after") == "" {
			fmt.Fprint(w, `{"data":[],"more":true,"next":"p2"}`)
			return
		}
		fmt.Fprint(w, `{"data":[{"t":"tok-1","id":"a","amount":1}],"more":false}`)
	}))
	defer downstream.Close()
	b := newBench(t)
	b.policy = b.file("agree.yaml", fmt.Sprintf(agreePolicy, downstream.URL))
	out := b.want(0, "policy", "try", "order", "--token", "tok-1", "--input", `{"case":1,"amount":1}`)
	for _, want := range []string{"REQUEST   page 1", "REQUEST   page 2", "after=p2", `NEXT      body.next` + "\n  \"p2\"", "VERDICT   landed"} {
		need.That(t, strings.Contains(out, want), "%q is missing:\n%s", want, out)
	}
	need.Equal(t, len(asked), 2, asked, "asked")
	// The expressions stand in the order in which they are asked.
	at := -1
	for _, name := range []string{"VALID", "LIST", "MARK", "OWN", "SAME", "RECEIPT", "COMPLETE"} {
		last := strings.LastIndex(out, "\n"+name)
		need.That(t, last >= at, "%s is out of order:\n%s", name, out)
		at = last
	}
	var j struct {
		Pages []struct {
			Request string
			Status  int
			Steps   []struct{ Name string }
		}
	}
	if err := json.Unmarshal(b.json(0, "policy", "try", "order", "--token", "tok-1", "--input", `{"case":1,"amount":1}`).Data, &j); err != nil || len(j.Pages) != 2 || j.Pages[1].Status != 200 || len(j.Pages[1].Steps) == 0 {
		t.Errorf("%+v %v", j, err)
	}
}

func TestPolicyTryBoundsWhatItShows(t *testing.T) {
	b := newBenchAlone(t)
	t.Setenv("STRIPE_KEY", "sk_test_1")
	b.answering(nil, `{"object":"list","has_more":false,"data":[],"x":"`+strings.Repeat("z", 1<<20)+`"}`)
	out := b.want(0, "policy", "try", "stripe.charge", "--input", charge)
	need.That(t, len(out) <= 20<<10 && strings.Contains(out, "bytes more; --json has them") && strings.Contains(out, "none found"), "%d bytes", len(out))
	if data := b.json(0, "policy", "try", "stripe.charge", "--input", charge).Data; len(data) < 1<<20 {
		t.Errorf("%d bytes of JSON", len(data))
	}
}

func TestPolicyTryWantsAnOperationOfTheKind(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "legacy.charge", charge)
	e := b.json(2, "policy", "try", "stripe.charge", "--op", id(1)).Error
	need.That(t, strings.Contains(e.Message, "is a legacy.charge, not a stripe.charge"), "%+v", e)
}

func TestPolicyTryNamesTheSecretThatIsMissing(t *testing.T) {
	t.Setenv("STRIPE_KEY", "")
	b := newBenchAlone(t)
	e := b.json(1, "policy", "try", "stripe.charge", "--input", charge).Error
	need.That(t, e.Code == "bad_policy" && strings.Contains(e.Hint, "export STRIPE_KEY"), "%+v", e)
}

func TestPolicyCommandsKnowTheirKinds(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{{"try", "stripe.chrage", "--input", "{}"}, {"test", "stripe.chrage"}} {
		e := b.json(3, append([]string{"policy"}, args...)...).Error
		need.That(t, e.Code == "not_found" && strings.Contains(e.Hint, "stripe.charge"), "%v: %+v", args, e)
	}
	b.failing(5, "no_check", "policy", "try", "legacy.charge", "--input", "{}")
}

func TestPolicyTestShowsWhatAFailingCaseEvaluates(t *testing.T) {
	b := newBench(t)
	b.policy = b.file("cases.yaml", fmt.Sprintf(agreePolicy, "http://127.0.0.1:9")+`    tests:
      - { name: renamed, input: { case: 1, amount: 1 }, answer: { body: { data: [{ t: indoubt-test, id: a, amounts: 1 }], more: false } }, want: landed }
      - { name: somebody else's, input: { case: 1, amount: 1 }, answer: { body: { data: [{ t: indoubt-test, id: a, amount: 2 }], more: false } }, want: landed }
`)
	_, out, _ := b.run("policy", "test")
	for _, want := range []string{"        wanted landed, got cannot_tell: it.amount == input.amount: the candidate has no `amount`",
		"same     it.amount == input.amount", "→ error:", "→ false", `list     status == 200 ? body.data : []`, `→ [{"amount":2,"id":"a","t":"indoubt-test"}]`} {
		need.That(t, strings.Contains(out, want), "%q is missing:\n%s", want, out)
	}
	need.Contains(t, string(b.json(1, "policy", "test").Data), `"steps":[{"name":"valid"`)
}

func TestPolicyShowListsTheDownstream(t *testing.T) {
	b := newBench(t)
	b.policy = b.file("example.yaml", string(policy.Example()))
	out := b.want(0, "policy", "show", "stripe.charge")
	need.Contains(t, out, "base: https://api.stripe.com")
	need.Contains(t, string(b.json(0, "policy", "show", "stripe.charge").Data), `"downstream":"stripe"`)
}
