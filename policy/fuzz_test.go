package policy

import (
	"context"
	"errors"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/file"
	"indoubt/policy/verdict"
)

func FuzzParse(f *testing.F) {
	f.Add(Example())
	f.Add([]byte(everything))
	f.Add([]byte(connected))
	for _, seed := range []string{"", "version: 1", "version: 1\nkinds: {a: {title: \"${x\"}}", "- [", "a: !b c", "version: 1\n---\n", "version: 1\nkinds:\n  k: {cost: {miss: 7/2}}",
		"a: &x [*x]", "\t", "? a\n: b", "version: 1\nkinds: {k: {read: {http: {get: [a]}, list: [x]}}}", "%YAML 1.2\n---\nversion: 1", "{", "\"", "'", "|", ">", "version: |\n 1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<14 {
			return
		}
		p, err := Parse("policy.yaml", text)
		need.Must(t, (p == nil) != (err == nil), "neither a policy nor a problem")
		if err != nil {
			var list file.Errors
			need.Must(t, errors.As(err, &list) && len(list) != 0, "not problems: %v", err)
			for _, problem := range list {
				if problem.Message == "" || strings.ContainsAny(problem.Error(), "\x1b\u202e\u009b") {
					t.Fatalf("bad problem %q", problem.Error())
				}
			}
			return
		}
		again, err := Parse("other.yaml", text)
		need.Must(t, err == nil && again.Digest() == p.Digest(), "the digest is not of the content")
		rec := doubt("k")
		for _, name := range append(p.Kinds(), "x") {
			k := p.Kind(name)
			k.Advise(rec, noon)
			k.Price(rec)
			p.Explain(name)
			if k.Read != nil {
				_, err := k.Read.NeverSent(rec)
				need.Must(t, err != nil || k.Read.Identity() != verdict.ByNothing, "something identifies nothing")
				k.Read.Recognises()
				_, _ = k.Read.JudgePage(context.Background(), rec, nil, ledger.Answer{Via: "http", Status: 200, Body: []byte(`{}`)})
			}
		}
	})
}

func FuzzJudge(f *testing.F) {
	p := must(f, judged)
	for _, seed := range []string{"", "{}", "[]", "null", `{"object":"list","has_more":false,"data":[]}`, `{"object":"list","has_more":false,"data":[{"t":"tok"}]}`, `{"data":1e999}`, "<html>", `{"data":{"a":[]}}`} {
		f.Add([]byte(seed), 200)
	}
	rec := ledger.Record{Operation: ledger.Operation{Token: "tok", Input: []byte(`{"amount":1}`)}}
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		for _, kind := range p.Kinds() {
			for _, a := range []ledger.Answer{
				{Via: "http", Status: status, Body: body, Header: map[string][]string{"Link": {string(body)}}},
				{Via: "mcp", RPC: &ledger.RPCAnswer{Result: body}},
				{Via: "sql", Rows: body},
			} {
				found, err := p.Kind(kind).Read.JudgePage(context.Background(), rec, nil, a)
				need.Must(t, err == nil || !found.Complete && !found.Valid && len(found.Effects) <= 0, "an error with a finding")
			}
		}
	})
}
