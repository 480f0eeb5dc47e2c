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
	search     string // ref, key: compared here; asked-: left to the other side; exact-; content, asked-content, narrow, part; judged-by-ref
	paging     string // "", cursor, link, offset
	window     string // "", op, attempt
	filters    bool   // out what it found from before the operation
	same       bool
	bounded    bool
	forgets    bool // visible_for
	blind      bool // control: off
	idempotent bool
	keys       bool // the downstream remembers keys, by promise
	send, auto string
	target     bool
}

func (s form) byToken() bool {
	return s.search == "ref" || s.search == "asked-ref" || s.search == "exact-ref" || s.search == "told-ref"
}
func (s form) byKey() bool { return strings.HasSuffix(s.search, "key") }
func (s form) byContent() bool {
	return !s.byToken() && !s.byKey()
}
func (s form) theirSearch() bool {
	return strings.HasPrefix(s.search, "asked") || s.search == "told-ref" || strings.HasPrefix(s.search, "exact")
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
func odds(r *rand.Rand, n int) bool      { return r.IntN(n) == 0 }

// anyForm makes one up.
func anyForm(r *rand.Rand, name, via string, m manners) form {
	s := form{name: name, via: via}
	s.search = one(r, "ref", "ref", "ref", "asked-ref", "asked-ref", "key", "asked-key", "content", "asked-content", "narrow", "part", "judged-by-ref")
	if via == "http" {
		s.search = one(r, s.search, s.search, s.search, "exact-ref", "exact-key")
		s.paging = one(r, "", "", "cursor", "link", "offset")
	}
	if via == "command" {
		s.search = one(r, s.search, s.search, "told-ref")
	}
	if m.silent && (s.search == "ref" || s.search == "key" || s.search == "judged-by-ref") {
		s.search = one(r, "asked-ref", "asked-key")
	}
	if strings.HasPrefix(s.search, "exact") {
		s.paging = ""
	} else {
		s.window = one(r, "", "", "op", "attempt")
	}
	if s.search == "asked-ref" || s.search == "asked-content" {
		s.filters = odds(r, 3)
	}
	s.same, s.bounded = !odds(r, 3), !odds(r, 4)
	s.forgets, s.blind = odds(r, 6), odds(r, 8)
	s.idempotent, s.target = odds(r, 7), odds(r, 3)
	s.keys = m.keys && via == "http"
	if odds(r, 2) {
		s.send, s.auto = via, one(r, "never", "absent", "absent", "key_safe")
		if via == "command" {
			s.send, s.auto = "", "never"
		}
	}
	return s
}

// policyOf writes the policy of some forms. look tells apart two policies that
// mean the same.
func policyOf(program, base, table string, forms []form, look int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\ndefaults: { deadline: 5s, look: %d }\ndownstreams:\n", look)
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
	if s.blind {
		line(2, "control: off")
	}
	if s.idempotent {
		line(2, "idempotent: true")
	}
	if s.target {
		line(2, "target: ${input.to}")
	}
	line(2, "recheck_after: 1m")
	line(2, "retry: { max: 3, backoff: 1ms..1ms }")
	doc := map[string]string{"http": "body", "command": "json", "mcp": "structured", "sql": "rows"}[s.via]
	list, valid, complete := doc+".data", doc+`.object == "list"`, "!"+doc+".more"
	if s.via == "sql" {
		list, valid, complete = "rows", "", "true"
	}
	ask := map[string]string{}
	found := list
	where := "1 = 1"
	switch s.search {
	case "ref":
		found = list + ".filter(x, x.ref == token)"
	case "key":
		found = list + ".filter(x, x.key == key)"
	case "asked-ref":
		ask["ref"], where = "${token}", "ref = ${token}"
	case "asked-key":
		ask["key"], where = "${key}", "key LIKE ${key} || '%'"
	case "content":
		found = list + ".filter(x, x.to == input.to && x.amount == input.amount)"
	case "asked-content":
		ask["to"], where = "${input.to}", `"to" = ${input.to}`
	case "narrow":
		found = list + ".filter(x, x.to == input.to)"
	case "part":
		found = list + ".filter(x, x.to.contains(input.to) && x.amount == input.amount)"
	case "judged-by-ref":
		found = list + ".filter(x, x.to == input.to && x.amount == input.amount)"
	}
	if s.filters && s.via != "sql" {
		found = list + fmt.Sprintf(".filter(x, x.created >= int(op.created_at) - %d)", int(wideMargin.Seconds()))
	}
	switch s.window {
	case "op":
		ask["since"] = fmt.Sprintf("${string(int(op.created_at) - %d)}", int(wideMargin.Seconds()))
	case "attempt":
		ask["since"] = "${string(int(attempt.started_at))}"
	}
	line(2, "read:")
	switch {
	case strings.HasPrefix(s.search, "exact"):
		name := strings.TrimPrefix(s.search, "exact-")
		line(3, `http: { get: "/things/%s/${%s}" }`, name, map[string]string{"ref": "token", "key": "key"}[name])
		valid = `status == 404 || status == 200 && body.object == "thing"`
		found, complete = "status == 404 ? [] : [body]", "true"
	case s.via == "http":
		next := ""
		if s.paging != "" {
			ask["limit"] = "3"
		}
		switch s.paging {
		case "cursor":
			ask["after"], next = "${cursor}", "body.data[size(body.data) - 1].id"
		case "link":
			next = "link"
		case "offset":
			ask["offset"], next = "${cursor}", "{ offset: 3 }"
		}
		line(3, "http: { get: /things, query: { %s } }", pairs(ask))
		if next != "" {
			line(3, "next: %s", next)
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
		if since := ask["since"]; since != "" {
			where += " AND created >= CAST(" + since + " AS INTEGER)"
		}
		line(3, `sql: { query: %q }`, `SELECT id, ref, key, "to", amount FROM things WHERE `+where)
	}
	if valid != "" {
		line(3, "valid: %s", quoted(valid))
	}
	line(3, "found: %s", quoted(found))
	line(3, "complete: %s", quoted(complete))
	switch {
	case s.search == "judged-by-ref":
		line(3, "same: it.ref == token")
	case s.same:
		line(3, "same: it.amount == input.amount && it.to == input.to")
	}
	line(3, "receipt: it.id")
	switch s.send {
	case "http":
		line(2, `send: { http: { post: /things, json: "${input}", headers: { X-Op: "${op.id}" } } }`)
	case "sql":
		line(2, "send: { sql: { query: %q } }", `INSERT INTO sent (op, ref, key, "to", amount) VALUES (${op.id}, ${token}, ${key}, ${input.to}, ${input.amount})`)
	case "mcp":
		line(2, `send: { mcp: { tool: write, arguments: { op: "${op.id}", ref: "${token}", key: "${key}", to: "${input.to}", amount: "${input.amount}" } } }`)
	}
	if s.auto != "" {
		line(2, "auto: { retry: %s }", s.auto)
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
