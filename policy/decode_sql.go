package policy

import (
	"fmt"
	"strings"
)

// sqlDatabase is how a database is reached.
type sqlDatabase struct {
	driver string
	dsn    *template
}

// sqlRule is one statement. Everything between ${ and } becomes one bound
// parameter. database is resolved once all fields are read.
type sqlRule struct {
	at       place
	name     string // of the downstream; "": the kind's own
	query    *template
	database *Downstream
}

var sqlDrivers = []string{"sqlite", "postgres", "mysql"}

// sqlDatabase reads `sql:` of a downstream.
func (d *decoder) sqlDatabase(ds *Downstream, n *node) {
	s := &sqlDatabase{}
	var known []field
	for _, driver := range sqlDrivers {
		known = append(known, field{driver, func(n *node) {
			if s.driver != "" {
				d.fail(n.place, fmt.Sprintf("a database is one thing, and this one is %s already", s.driver), "make two downstreams of it")
				return
			}
			s.driver, s.dsn = driver, d.settled(n)
			if n.kind == scalarNode && n.text == "" {
				d.fail(n.place, "is empty", sqlHint)
			}
		}})
	}
	if d.fields(n, known...) && s.driver == "" {
		d.fail(n.place, "does not say which database", sqlHint)
	}
	ds.sql = s
	d.is(ds, n, "sql")
}

const sqlHint = `sqlite: /var/lib/books.db, postgres: "${env.BOOKS_DSN}" or mysql: "${env.BOOKS_DSN}"`

// statement reads `sql:` of a read or a send.
func (d *decoder) statement(n *node) *sqlRule {
	s := &sqlRule{at: n.place}
	fine := d.fields(n, field{"database", d.text(&s.name)}, field{"query", d.filled(&s.query, scopeRequest)})
	if fine && s.query == nil {
		d.fail(n.place, "says no query", `query: "SELECT id FROM charges WHERE token = ${token}"`)
	}
	return s
}

// finishSQL checks a statement once its database, and so its dialect, is known.
func (d *decoder) finishSQL(s *sqlRule, read bool) {
	if s.query == nil || s.database == nil || s.database.sql.driver == "" {
		return
	}
	scan, problem := scanSQL(s.query, s.database.sql.driver)
	if problem == "" && read {
		problem = scan.notARead()
	} else if problem == "" {
		problem = scan.notASend()
	}
	if problem != "" {
		d.fail(s.query.place, problem, scan.hint)
	}
}

// sqlScan is what a statement says outside of its strings and comments.
type sqlScan struct {
	words []string // upper case, and single signs
	hint  string
}

// scanSQL walks over a statement and refuses what a bound parameter cannot stand
// in for: text in quotes, names, and a second statement. It knows enough of each
// dialect to tell where a string ends; where it could not, the statement is refused.
func scanSQL(t *template, driver string) (*sqlScan, string) {
	x := &sqlScan{}
	mode := "" // what ends the string or comment that is open
	for i, p := range t.parts {
		if p.expr != nil {
			if problem := x.parameter(mode, before(t, i), after(t, i)); problem != "" {
				return x, problem
			}
			x.words = append(x.words, "${}")
			continue
		}
		var problem string
		if mode, problem = x.literal(p.literal, mode, driver); problem != "" {
			return x, problem
		}
	}
	switch mode {
	case "", "\n":
	case "*/":
		return x, "a comment is not closed"
	default:
		return x, "a string or quoted name is not closed"
	}
	for len(x.words) > 0 && x.words[len(x.words)-1] == ";" {
		x.words = x.words[:len(x.words)-1]
	}
	for _, w := range x.words {
		if w == ";" {
			return x, "holds more than one statement"
		}
	}
	if len(x.words) == 0 {
		return x, "is empty"
	}
	return x, ""
}

func before(t *template, i int) string {
	if i == 0 {
		return ""
	}
	return t.parts[i-1].literal
}

func after(t *template, i int) string {
	if i+1 == len(t.parts) {
		return ""
	}
	return t.parts[i+1].literal
}

// nameFollows are the words after which SQL expects a name, never a value.
var nameFollows = map[string]bool{"FROM": true, "JOIN": true, "INTO": true, "UPDATE": true, "TABLE": true, "AS": true, "BY": true, ".": true, "::": true}

func (x *sqlScan) parameter(mode, left, right string) string {
	switch mode {
	case "":
	case "*/", "\n":
		return "a parameter stands inside a comment"
	default:
		x.hint = `write it without the quotes; to search for a part: LIKE ${"%" + input.name + "%"}`
		return "a parameter stands inside quotes, where nothing is bound"
	}
	last, distinct := "", false
	if n := len(x.words); n > 0 {
		last = x.words[n-1]
		distinct = n > 1 && last == "FROM" && x.words[n-2] == "DISTINCT" // a comparison
	}
	switch {
	case nameFollows[last] && !distinct:
		x.hint = "names of tables and columns are written out"
		return "a parameter stands where a name belongs, and a name cannot be bound"
	case left != "" && wordByte(left[len(left)-1]), right != "" && wordByte(right[0]), left == "" && last == "${}":
		x.hint = "join texts inside: ${input.a + input.b}"
		return "a parameter touches a word or another parameter"
	}
	return ""
}

func wordByte(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// literal reads one stretch of SQL, beginning and ending inside mode.
func (x *sqlScan) literal(s, mode, driver string) (end, problem string) {
	for s != "" && problem == "" {
		if mode != "" {
			s, mode, problem = x.quoted(s, mode, driver)
			continue
		}
		n := 1
		if mode, n = opened(s, driver); n == 0 {
			n, problem = x.word(s, driver)
		} else if driver == "mysql" && (strings.HasPrefix(s, "/*!") || strings.HasPrefix(s, "/*+")) {
			problem = "a comment that MySQL runs as SQL is not allowed"
		}
		s = s[n:]
	}
	return mode, problem
}

// quoted goes on inside a string or comment that mode ends. rest is what follows.
func (x *sqlScan) quoted(s, mode, driver string) (rest, still, problem string) {
	inner, rest, closed := strings.Cut(s, mode)
	switch {
	case driver != "sqlite" && (mode == "'" || mode == `"`) && strings.HasSuffix(inner, `\`):
		x.hint = "bind the text instead: ${'…'}"
		return "", mode, "a backslash before a quote: it cannot be told where the string ends"
	case mode == "*/" && strings.Contains(inner, "/*"):
		return "", mode, "a comment inside a comment: it cannot be told where it ends"
	case !closed:
		return "", mode, ""
	}
	return rest, "", ""
}

// opened is what ends the string or comment that s begins with, and how long its
// beginning is; 0 where s begins with neither.
func opened(s, driver string) (mode string, n int) {
	switch c := s[0]; {
	case c == '\'' || c == '"' || c == '`':
		return s[:1], 1 // a doubled quote closes and opens again
	case c == '[' && driver == "sqlite":
		return "]", 1
	case strings.HasPrefix(s, "--"), c == '#' && driver == "mysql":
		return "\n", 1
	case strings.HasPrefix(s, "/*"):
		return "*/", 2
	case c == '$' && driver == "postgres":
		mode = dollarTag(s)
	}
	return mode, len(mode)
}

// word notes the word or sign that s begins with, and gives its length.
func (x *sqlScan) word(s, driver string) (n int, problem string) {
	n = 1
	switch c := s[0]; {
	case placeholder(s, driver):
		x.hint = "write ${…} where a value belongs; the driver's own placeholder is made of it"
		return n, fmt.Sprintf("%q is a placeholder of the driver", s[:1])
	case strings.HasPrefix(s, "::"):
		n = 2
	case wordByte(c):
		for n < len(s) && (wordByte(s[n]) || s[n] == '$') {
			n++
		}
	case c <= ' ':
		return n, ""
	}
	x.words = append(x.words, strings.ToUpper(s[:n]))
	return n, ""
}

// dollarTag is the quote $tag$ that s begins with, "" when it begins with none.
func dollarTag(s string) string {
	end := strings.IndexByte(s[1:], '$')
	if end < 0 || end > 0 && s[1] >= '0' && s[1] <= '9' {
		return ""
	}
	for _, c := range []byte(s[1 : 1+end]) {
		if !wordByte(c) {
			return ""
		}
	}
	return s[:end+2]
}

// placeholder reports whether the driver would take what s begins with for a
// parameter of its own.
func placeholder(s, driver string) bool {
	next := byte(0)
	if len(s) > 1 {
		next = s[1]
	}
	switch driver {
	case "sqlite":
		return s[0] == '?' || strings.IndexByte(":@$", s[0]) >= 0 && wordByte(next)
	case "mysql":
		return s[0] == '?'
	}
	return s[0] == '$' && next >= '0' && next <= '9'
}

// changing are the words that make a statement one that writes.
var changing = map[string]bool{"INSERT": true, "UPDATE": true, "DELETE": true, "MERGE": true, "REPLACE": true, "INTO": true,
	"CREATE": true, "ALTER": true, "DROP": true, "TRUNCATE": true, "ATTACH": true, "PRAGMA": true, "CALL": true, "LOCK": true}

// writes is the first word that changes something. replace(…) and the like are
// functions, and a word after a dot or before one is a name.
func (x *sqlScan) writes() string {
	for i, w := range x.words {
		next, last := "", ""
		if i+1 < len(x.words) {
			next = x.words[i+1]
		}
		if i > 0 {
			last = x.words[i-1]
		}
		if changing[w] && next != "(" && next != "." && last != "." {
			return w
		}
	}
	return ""
}

func (x *sqlScan) notARead() string {
	if first := x.words[0]; first != "SELECT" && first != "WITH" {
		x.hint = "a read is one SELECT, or WITH … SELECT"
		return fmt.Sprintf("a read cannot begin with %s", first)
	}
	if w := x.writes(); w != "" {
		x.hint = "a column of that name is written in quotes"
		return fmt.Sprintf("a read does not %s", w)
	}
	return ""
}

func (x *sqlScan) notASend() string {
	x.hint = "a send is one INSERT, UPDATE, DELETE or MERGE"
	switch first := x.words[0]; first {
	case "INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "CALL":
	case "WITH":
		if x.writes() == "" {
			return "only reads, and a send changes something"
		}
	default:
		return fmt.Sprintf("a send cannot begin with %s", first)
	}
	return ""
}
