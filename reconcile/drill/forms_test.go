package drill

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// The promises that every bounded form makes of the market, which it keeps.
const (
	wideLands   = 20 * time.Second
	wideVisible = 10 * time.Second
	wideForgets = 30 * time.Minute
	wideMargin  = 10 * time.Minute // of the windows, for clocks that differ
)

// form is one way to write a kind's check.
type form struct {
	name, via  string // http, sql, command, mcp
	search     string // of searches
	paging     string // "", cursor, link, offset
	window     string // "", op, attempt
	same       bool
	bounded    bool
	forgets    bool // visible_for
	idempotent bool
	keys       bool // the downstream remembers keys, by promise
	target     bool
	fields     bool // its key is made of where it goes
}

// search is by what a check recognises an effect, and what it asks for.
type search struct {
	by    string // token, key, name, state; "": nothing, evidence for a person
	mark  string // or name, as the policy says it
	rest  string // beside it
	ask   string // the parameter of the question: ref, key, to
	where string // the same in SQL
}

var searches = map[string]search{
	"ref":         {by: "token", mark: "mark: it.ref"},
	"asked-ref":   {by: "token", mark: "mark: it.ref", ask: "ref", where: "ref = ?"},
	"blind-ref":   {by: "token", mark: "mark: asked", ask: "ref", where: "ref = ?"},
	"exact-ref":   {by: "token", mark: "mark: it.ref", ask: "ref"},
	"told-ref":    {by: "token", mark: "mark: it.ref"},
	"note":        {by: "token", mark: `mark: { it.note: "<!-- ${token} -->" }`},
	"key":         {by: "key", mark: "name: it.key"},
	"asked-key":   {by: "key", mark: "name: it.key", ask: "key", where: "key LIKE ? || '%'"},
	"exact-key":   {by: "key", mark: "name: it.key", ask: "key"},
	"name":        {by: "name", mark: `name: { it.to: "${input.to}" }`, rest: "created: it.created"},
	"asked-name":  {by: "name", mark: `name: { it.to: "${input.to}" }`, rest: "created: it.created", ask: "to", where: `"to" = ?`},
	"state":       {by: "state"},
	"asked-state": {by: "state", ask: "to", where: `"to" = ?`},
	"nothing":     {},
}

func (s form) by() string  { return searches[s.search].by }
func (s form) exact() bool { return strings.HasPrefix(s.search, "exact") }

// carries reports whether the question holds what the mark is compared with, so that
// an echo of it may be taken for an effect.
func (s form) carries() bool { return searches[s.search].ask != "" || s.search == "told-ref" }

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
func odds(r *rand.Rand, n int) bool      { return r.IntN(n) == 0 }

// anyForm makes one up.
func anyForm(r *rand.Rand, name, via string, m manners) form {
	s := form{name: name, via: via}
	kinds := []string{"ref", "ref", "asked-ref", "asked-ref", "key", "asked-key", "name", "asked-name", "state", "asked-state", "nothing"}
	if m.match != "prefix" && m.match != "part" { // such a search cannot be trusted to find no other, and shows nothing
		kinds = append(kinds, "blind-ref", "blind-ref")
	}
	switch via {
	case "http":
		kinds = append(kinds, "exact-ref", "exact-key", "note")
		s.paging = one(r, "", "", "cursor", "link", "offset")
	case "command":
		kinds = append(kinds, "told-ref", "note")
	case "mcp":
		kinds = append(kinds, "note")
	}
	s.search = one(r, kinds...)
	if m.silent && s.by() == "token" && m.match == "exact" {
		s.search = "blind-ref"
	}
	if s.exact() || s.by() == "state" {
		s.paging = ""
	} else {
		s.window = one(r, "", "", "op", "attempt")
	}
	s.same, s.bounded = !odds(r, 3), !odds(r, 4)
	s.forgets = odds(r, 6)
	s.idempotent, s.target, s.fields = odds(r, 7) || s.by() == "state", odds(r, 3), odds(r, 3)
	s.keys = m.keys && via == "http"
	return s
}

// policyOf writes the policy of some forms. look tells apart two policies that
// mean the same.
func policyOf(program, base, table string, forms []form, look int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nwords: { unused: %d }\ndefaults: { deadline: 5s }\ndownstreams:\n", look)
	keys := ""
	if forms[0].keys {
		keys = ", key: { header: Idempotency-Key, remembers: 1h }"
	}
	fmt.Fprintf(&b, "  http: { base: %q%s }\n  sql: { sql: { sqlite: %q } }\n  mcp: { mcp: { command: [%q, serve, %q] } }\nkinds:\n", base, keys, table, program, base)
	for _, s := range forms {
		b.WriteString(s.yaml(program, base))
	}
	return b.String()
}

func (s form) yaml(program, base string) string {
	var b strings.Builder
	line := func(indent int, format string, args ...any) {
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", indent), fmt.Sprintf(format, args...))
	}
	line(1, "%s:", s.name)
	if s.via != "command" {
		line(2, "downstream: %s", s.via)
	}
	line(2, "token: { into: ref }")
	if s.bounded {
		line(2, "lands_within: %s", wideLands)
		line(2, "visible_within: %s", wideVisible)
	}
	if s.forgets {
		line(2, "visible_for: %s", wideForgets)
	}
	if s.idempotent {
		line(2, "effect: safe")
	}
	if s.target {
		line(2, "target: ${input.to}")
	}
	if s.fields {
		line(2, "key: { from: [to] }")
	}
	line(2, "verify: 1m")
	line(2, "retry: { max: 3, backoff: 1ms..1ms }")
	doc := map[string]string{"http": "body", "command": "json", "mcp": "structured", "sql": "rows"}[s.via]
	list, valid, complete := doc+".data", doc+`.object == "list"`, "!"+doc+".more"
	if s.via == "sql" {
		list, valid, complete = "rows", "", "true"
	}
	how := searches[s.search]
	ask, where := map[string]string{}, "1 = 1"
	if how.ask != "" && !s.exact() {
		ask[how.ask], where = map[string]string{"ref": "${token}", "key": "${key}", "to": "${input.to}"}[how.ask], how.where
	}
	switch s.window {
	case "op":
		ask["since"] = fmt.Sprintf("${string(int(op.created_at) - %d)}", int(wideMargin.Seconds()))
	case "attempt":
		ask["since"] = "${string(int(attempt.started_at))}"
	}
	line(2, "read:")
	switch {
	case s.exact():
		line(3, `http: { get: "/things/%s/${%s}" }`, how.ask, map[string]string{"ref": "token", "key": "key"}[how.ask])
		valid = `status == 404 || status == 200 && body.object == "thing"`
		list, complete = "status == 404 ? [] : [body]", "true"
	case s.via == "http":
		next := ""
		if s.paging != "" {
			ask["limit"] = "3"
		}
		switch s.paging {
		case "cursor":
			ask["after"], next = "${cursor}", "body.data[size(body.data) - 1].id"
		case "link":
			next = `link("next")`
		case "offset":
			ask["offset"], next = "${cursor}", "body.offset + 3"
		}
		line(3, "http: { get: /things, query: { %s } }", pairs(ask))
		if next != "" {
			line(3, "next: %s", quoted(next))
			line(3, "stable: %t", s.paging != "offset")
		}
	case s.via == "command":
		args := ""
		if s.search == "told-ref" {
			args = ", '-'"
		}
		for _, name := range []string{"ref", "key", "to", "since"} {
			if v := ask[name]; v != "" {
				args += fmt.Sprintf(", %q", name+"="+v)
			}
		}
		line(3, "command: [%q, find, %q%s]", program, base, args)
	case s.via == "mcp":
		line(3, "mcp: { tool: find, arguments: { %s } }", pairs(ask))
	case s.via == "sql":
		var args []string
		for _, name := range []string{how.ask, "since"} {
			if v := ask[name]; v != "" {
				args = append(args, fmt.Sprintf("%q", v))
			}
		}
		if ask["since"] != "" {
			where += " AND created >= CAST(? AS INTEGER)"
		}
		line(3, `sql: { query: %q, args: [%s] }`, `SELECT id, ref, key, "to", amount, created FROM things WHERE `+where, strings.Join(args, ", "))
	}
	if valid != "" {
		line(3, "valid: %s", quoted(valid))
	}
	if how.by == "state" {
		line(3, "state: %s", quoted(list+".exists(x, x.to == input.to && x.amount == input.amount)"))
	} else {
		line(3, "list: %s", quoted(list))
		for _, l := range []string{how.mark, how.rest} {
			if l != "" {
				line(3, "%s", l)
			}
		}
		line(3, "complete: %s", quoted(complete))
		if s.same {
			line(3, "same: it.amount == input.amount && it.to == input.to")
		}
		line(3, "receipt: it.id")
	}
	return b.String()
}

func pairs(of map[string]string) string {
	var out []string
	for _, name := range []string{"ref", "key", "to", "since", "limit", "after", "offset"} {
		if v, ok := of[name]; ok {
			out = append(out, fmt.Sprintf("%s: %s", name, quoted(v)))
		}
	}
	return strings.Join(out, ", ")
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
