package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

const paged = `
version: 1
downstreams: { d: { base: https://d.example/api, headers: { Authorization: "${env.TEST_KEY}" } } }
kinds:
  link: { downstream: d, token: { into: t }, read: { http: { get: /x, query: { t: "${token}", key: "${env.TEST_KEY}" } }, list: body.data, mark: it.t, complete: body.last, next: 'link("next")' } }
  url: { downstream: d, token: { into: t }, read: { http: { get: /x, query: { t: "${token}" } }, list: body.data, mark: it.t, complete: body.last, next: body.next, stable: true } }
  cursor: { downstream: d, token: { into: t }, read: { http: { get: /x, query: { t: "${token}", page: "${cursor}" } }, list: body.data, mark: it.t, complete: body.last, next: body.next } }
  after: { downstream: d, token: { into: t }, read: { http: { get: /x, query: { t: "${token}", after: "${cursor}" } }, list: body.data, mark: it.t, complete: body.last, next: body.next, stable: true } }
`

func TestI6_PagesThatMayShiftNeverProveAbsence(t *testing.T) {
	p := must(t, paged)
	rec := operation("x", `{}`)
	answer := func(body, link string) ledger.Answer {
		a := ledger.Answer{Via: "http", Status: 200, Body: []byte(body)}
		if link != "" {
			a.Header = map[string][]string{"Link": {link}}
		}
		return a
	}
	more, last := `{"data":[],"last":false,"next":NEXT}`, `{"data":[],"last":true,"next":null}`
	for _, c := range []struct {
		kind, next, link string // of the first page
		want             string
		stable           bool
	}{
		{"link", "null", `<https://d.example/api/x?after=c9>; rel="next", <https://d.example/x>; rel="prev"`, "https://d.example/api/x?after=c9", false},
		{"link", "null", `<https://d.example/x>; rel="prev first"; title="a, b", </api/x?page=2>; rel=next`, "/api/x?page=2", false},
		{"url", `"?after=c9"`, "", "?after=c9", true},
		{"cursor", `"b3BhcXVl"`, "", "b3BhcXVl", false},
		{"cursor", `2`, "", "2", false},
		{"after", `"b3BhcXVl"`, "", "b3BhcXVl", true},
	} {
		r := p.Kind(c.kind).Read
		f, err := r.JudgePage(context.Background(), rec, nil, answer(strings.Replace(more, "NEXT", c.next, 1), c.link))
		if err != nil || plain(f.Next) != c.want || !f.Paged || f.Complete || !r.Pages() {
			t.Errorf("%s: %+v, %v", c.kind, f, err)
			continue
		}
		f, err = r.JudgePage(context.Background(), rec, f.Next, answer(last, ""))
		need.That(t, err == nil && f.Next == nil && f.Complete == c.stable && f.Paged, "%s, last page: %+v, %v", c.kind, f, err)
		f, err = r.JudgePage(context.Background(), rec, nil, answer(last, ""))
		need.That(t, err == nil && f.Complete && !f.Paged, "%s, one page is the whole list: %+v, %v", c.kind, f, err)
	}
}

func plain(v any) string {
	return strings.ReplaceAll(strings.Trim(string(ledger.EncodeJSON(v)), `"`), `\u0026`, "&")
}

func TestI11_AFollowingPageIsOfTheSameHost(t *testing.T) {
	t.Setenv("TEST_KEY", "sk_live_1")
	k := must(t, paged).Kind("link")
	rec := operation("link", `{}`)
	for address, want := range map[string]string{
		"https://d.example/api/x?after=c9&key=sk_live_1#top": "https://d.example/api/x?after=c9&key=sk_live_1",
		"/y?after=c9":                         "https://d.example/y?after=c9",
		"?after=c9":                           "https://d.example/api/x?after=c9",
		"https://evil.example/api/x?after=c9": "", "//evil.example/x": "", "http://d.example/api/x": "", "https://a@d.example/api/x": "", "https://d.example:8443/x": "", "::": "",
	} {
		got, err := k.Read.Request(rec, address)
		if want == "" {
			need.That(t, err != nil, "%s is asked: %+v", address, got.HTTP)
			continue
		}
		if err != nil || got.HTTP.URL != want || got.HTTP.Header["Authorization"][0] != "sk_live_1" || strings.Contains(got.Shown, "sk_live") {
			t.Errorf("%s: %+v %v", address, got.HTTP, err)
		}
	}
}

func TestNextThatIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{ http: { get: https://h.example/x, query: { a: "${cursor}" } }, list: body, next: 'link("next")' }`: "uses `cursor` too",
		`{ http: { post: https://h.example/x }, list: body, next: 'link("next")' }`:                           "followed by get only",
	} {
		err := refused(t, "version: 1\nkinds: { k: { read: "+text+" } }\n")
		need.That(t, strings.Contains(err.Error(), want), "%s\n%v", text, err)
	}
}

func TestKindForIsThePatternWithTheMostLetters(t *testing.T) {
	p := must(t, `
version: 1
kinds:
  charge: { match: POST /v1/charges }
  refund: { match: ["POST /v1/charges/*/refund", "POST,PUT other.example/r/**"] }
  other: { match: /v1/** }
  eu: { match: POST eu.example/v1/charges }
  list: { match: GET /v1/charges }
  root: { match: POST / }
`)
	for request, want := range map[string]string{
		"POST api.example /v1/charges":             "charge",
		"post API.example:443 /v1/charges":         "charge",
		"POST eu.example:8443 /v1/charges":         "eu",
		"GET api.example /v1/charges":              "list",
		"PUT api.example /v1/charges":              "other",
		"POST api.example /v1/charges/ch_1/refund": "refund",
		"POST api.example /v1/charges//refund":     "other",
		"POST api.example /v1/charges/":            "other",
		"POST api.example /v1":                     "other",
		"PUT other.example /r/a/b":                 "refund",
		"PUT api.example /r/a/b":                   "",
		"POST api.example /":                       "root",
		"GET api.example /v1/x":                    "",
	} {
		f := strings.Fields(request)
		got, ok := p.KindFor(f[0], f[1], f[2])
		need.That(t, got == want && ok == (want != ""), "%s is %q, want %q", request, got, want)
	}
	var patterns []string
	for i := range 40 {
		patterns = append(patterns, fmt.Sprintf("POST /%03d/%s", i, strings.Repeat("x", 40)))
	}
	many := strings.Join(patterns, ", ")
	for text, want := range map[string]string{
		"a: { match: POST /x }\n  b: { match: POST /x }":          "is the pattern of a, too",
		"a*: { match: POST /x }":                                  "a pattern for many",
		"a: { match: POST x }":                                    "is not a path",
		"a: { match: post /x }":                                   "are not methods",
		"a: { match: POST /x*/y }":                                "one whole segment",
		"a: { match: POST /**/y }":                                "one whole segment",
		"a: { match: POST /x?y }":                                 "is not a path",
		"a: { match: POST PUT /x }":                               "is not a pattern",
		"a: { match: POST /x }\n  b: { match: POST h.example/x }": "",
		"a: { match: [POST /x, /x] }\n  b: { match: /y }":         "",
		"a: { match: [" + many + "], key: { from: [x] } }":        "too long for one",
		"a: { match: [" + many + "] }":                            "",
	} {
		_, err := Parse("policy.yaml", []byte("version: 1\nkinds:\n  "+text+"\n"))
		says(t, err, want, text)
	}
}

// A relative address is meant as it stands on its page, not on the first one.
func TestPagesFollowRelativeAddresses(t *testing.T) {
	t.Setenv("TEST_KEY", "x")
	r := must(t, paged).Kind("url").Read
	rec := operation("x", `{}`)
	for _, c := range []struct{ first, second, want string }{
		{"?after=1", "?after=2", "https://d.example/api/x?after=2"},
		{"y", "z", "https://d.example/api/z"},
		{"/more/y", "z?n=a", "https://d.example/more/z?n=a"},
		{"/more/y?after=1", "?after=2", "https://d.example/more/y?after=2"},
		{"https://d.example/more/y", "z", "https://d.example/more/z"},
		{"/more/y", "/z", "https://d.example/z"},
		{"/more/y", "https://d.example/z", "https://d.example/z"},
		{"/more/y", "//other.example/z", ""},
		{"/more/y", "https://other.example/z", ""},
	} {
		next := func(cursor any, address string) any {
			a := ledger.Answer{Via: "http", Status: 200, Body: []byte(`{"data":[],"last":false,"next":"` + address + `"}`)}
			f := need.Get(r.JudgePage(t.Context(), rec, cursor, a))(t)
			return f.Next
		}
		req, err := r.Request(rec, next(next(nil, c.first), c.second))
		if (err != nil) != (c.want == "") || err == nil && req.HTTP.URL != c.want {
			t.Errorf("%s then %s: %+v %v, want %s", c.first, c.second, req.HTTP, err, c.want)
		}
	}
}
