package policy

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"indoubt/ledger"
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
		if (p == nil) == (err == nil) {
			t.Fatal("neither a policy nor a problem")
		}
		if err != nil {
			list, ok := err.(Errors)
			if !ok || len(list) == 0 {
				t.Fatalf("not problems: %v", err)
			}
			for _, problem := range list {
				if problem.Message == "" || strings.ContainsAny(problem.Error(), "\x1b\u202e\u009b") {
					t.Fatalf("bad problem %q", problem.Error())
				}
			}
			return
		}
		again, err := Parse("other.yaml", text)
		if err != nil || again.Digest() != p.Digest() {
			t.Fatal("the digest is not of the content")
		}
		rec := doubt("k")
		for _, name := range append(p.Kinds(), "x") {
			k := p.Kind(name)
			k.Advise(rec, noon)
			k.Price(rec)
			p.Explain(name)
			if k.Read != nil {
				if _, err := k.Read.NeverSent(rec); err == nil && k.Read.Identity() == ByNothing {
					t.Fatal("something identifies nothing")
				}
				k.Read.Recognises()
				_, _ = k.Read.Judge(context.Background(), rec, ledger.Answer{Via: "http", Status: 200, Body: []byte(`{}`)})
			}
		}
	})
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"", "a", "${input.a}", "x ${input.a} y ${token}", "$${", "${", "${\"}\"}", "${'''", "${{}}", "}", "${input.a + }", "${1}${2}", "${r'\\'}"} {
		f.Add(seed)
	}
	vars := func() *variables {
		return newVariables(ledger.Record{Operation: ledger.Operation{Token: "tok", Input: []byte(`{"a":1}`)}})
	}
	f.Fuzz(func(t *testing.T, text string) {
		tm, problem := parseTemplate(text, scopeOperation)
		if problem != nil {
			if problem.message == "" || problem.inside && (problem.offset < 0 || problem.offset > len([]rune(text))) {
				t.Fatalf("%+v", problem)
			}
			return
		}
		r := &rendering{ctx: context.Background(), vars: vars()}
		if !strings.Contains(text, "${") {
			if got, err := r.text(tm), r.err; err != nil || got != text {
				t.Fatalf("plain text %q became %q, %v", text, got, err)
			}
		}
		if v, err := r.tree(&value{text: tm}), r.err; err == nil {
			if _, err := marshal(v); err != nil {
				t.Fatalf("%q gives what is no JSON: %v", text, err)
			}
		}
	})
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"", "a", "..", "a/../b", "%2e%2e", "\\", "a?b#c", "\x00", "@h", "é", "//", "a/./b"} {
		f.Add(seed)
	}
	tm, problem := parseTemplate("https://h.example/a/${input.v}/b?q=${input.v}", scopeRequest)
	if problem != nil {
		f.Fatal(problem)
	}
	f.Fuzz(func(t *testing.T, value string) {
		input, err := json.Marshal(map[string]any{"v": value})
		if err != nil {
			return
		}
		r := &rendering{ctx: context.Background(), vars: newVariables(ledger.Record{Operation: ledger.Operation{Input: input}})}
		got, err := r.url(tm), r.err
		if err != nil {
			return
		}
		u, err := url.Parse(got)
		if err != nil || u.Host != "h.example" || u.Fragment != "" || u.User != nil {
			t.Fatalf("%q leads to %q (%v)", value, got, err)
		}
		if parts := strings.Split(u.EscapedPath(), "/"); len(parts) != 4 || parts[1] != "a" || parts[3] != "b" {
			t.Fatalf("%q changes the path: %q", value, got)
		}
		for _, s := range strings.Split(u.Path, "/")[1:] {
			if s == "" || s == "." || s == ".." {
				t.Fatalf("%q walks: %q", value, got)
			}
		}
		if q := u.Query(); len(q) != 1 || q.Get("q") != string([]rune(value)) {
			t.Fatalf("%q changes the query: %q", value, got)
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
				found, err := p.Kind(kind).Read.Judge(context.Background(), rec, a)
				if err != nil && (found.Complete || found.Valid || len(found.Effects) > 0) {
					t.Fatal("an error with a finding")
				}
			}
		}
	})
}

func FuzzStatement(f *testing.F) {
	for _, seed := range []string{"SELECT a FROM t WHERE b = ${input.v}", "SELECT '${input.v}'", "INSERT INTO t VALUES (${input.v}, $x$;$x$)", "SELECT /* ${input.v} */ 1", "SELECT [a${input.v}]",
		"SELECT 1;DELETE FROM t", "WITH a AS (SELECT ${input.v}) SELECT 1 -- x", "SELECT \"a\"\"${input.v}\"", "SELECT E'\\'${input.v}", "$$", "#", "::", "?"} {
		for i := range sqlDrivers {
			f.Add(seed, i)
		}
	}
	vars := ledger.Record{Operation: ledger.Operation{Input: []byte(`{"v":"'; DROP TABLE t; --"}`)}}
	f.Fuzz(func(t *testing.T, text string, driver int) {
		db := &Downstream{Name: "d", sql: &sqlDatabase{driver: sqlDrivers[((driver%3)+3)%3], dsn: &template{parts: []part{{literal: "x"}}}}}
		query, problem := parseTemplate(text, scopeRequest)
		if problem != nil {
			return
		}
		scan, refused := scanSQL(query, db.sql.driver)
		if refused != "" || scan.notARead() != "" {
			return
		}
		s := &sqlRule{query: query, database: db}
		r := &rendering{ctx: context.Background(), vars: newVariables(vars)}
		got := s.render(r).SQL
		if r.err != nil {
			return
		}
		if strings.Contains(got.Query, "DROP TABLE") && !strings.Contains(text, "DROP TABLE") || len(got.Args) != len(query.expressions()) {
			t.Fatalf("%q becomes %q with %v", text, got.Query, got.Args)
		}
	})
}

func FuzzSavedAnswer(f *testing.F) {
	for _, seed := range []string{"", "HTTP/1.1 200 OK\r\n\r\n{}", "HTTP/1.1 301 x\r\nA: b\r\n\r\nHTTP/2 200\r\n\r\n", "HTTP/", "status: 200\nbody: {a: 1}", "{\"a\":1}", "[1]", "error: {code: -1}", "rows: 3", "HTTP/1 100\n\nHTTP/1 100\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseSavedAnswer("answer", text)
		if err != nil && err.Error() == "" {
			t.Fatal("an error that says nothing")
		}
		for _, via := range []string{"http", "command", "mcp", "sql"} {
			s.Answer(via)
		}
	})
}
