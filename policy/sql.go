package policy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"indoubt/policy/expr"
)

// sqlDatabase is how a database is reached.
type sqlDatabase struct {
	driver string
	dsn    *expr.Template
}

// sqlRule is one statement. Everything between ${ and } becomes one bound
// parameter. database is resolved once all fields are read.
type sqlRule struct {
	at       place
	name     string // of the downstream; "": the kind's own
	query    *expr.Template
	queryAt  place
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
	fine := d.fields(n, field{"database", d.text(&s.name)}, field{"query", func(n *node) { s.query, s.queryAt = d.template(n, expr.ForRequest), n.place }})
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
		d.fail(s.queryAt, problem, scan.hint)
	}
}

func (s *sqlRule) questions() []*expr.Template { return []*expr.Template{s.query} }
func (s *sqlRule) besides() []pair             { return nil }

// render writes every expression as the driver's placeholder and its value as
// an argument, so that nothing computed is ever read as SQL (I11).
func (s *sqlRule) render(r *rendering) Request {
	db := s.database.sql
	out := &SQLRequest{Database: s.database.Name, Driver: db.driver}
	out.DSN = r.At("database " + out.Database).Text(db.dsn)
	r.keep(out.DSN, inDSN)
	var query strings.Builder
	r.At("query")
	for _, p := range s.query.Parts {
		if p.Expr == nil {
			query.WriteString(p.Literal)
			continue
		}
		data, named := r.Data(p.Expr)
		if !named {
			var err error
			data, err = bound(data)
			r.Fail(p.Expr.About(err))
		}
		out.Args = append(out.Args, data)
		if db.driver == "postgres" {
			fmt.Fprintf(&query, "$%d", len(out.Args))
		} else {
			query.WriteByte('?')
		}
	}
	out.Query = strings.TrimSpace(query.String())
	return Request{SQL: out}
}

// bound is a value as a driver takes it. A list or mapping is bound as JSON text.
func bound(data any) (any, error) {
	switch x := data.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(string(x), 10, 64); err == nil {
			return i, nil
		}
		f, err := x.Float64()
		if err != nil || !strings.ContainsAny(string(x), ".eE") {
			return string(x), nil // too large for a number: the database reads its digits
		}
		return f, nil
	case string:
		if strings.ContainsRune(x, 0) {
			return nil, fmt.Errorf("the text has a zero byte")
		}
	case map[string]any, []any:
		text, err := expr.Encode(x)
		return string(text), err
	}
	return data, nil
}

// text is the statement as a person reads it, with what is bound below it.
func (s *SQLRequest) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "SQL %s (%s)\n%s", s.Database, s.Driver, s.Query)
	for i, a := range s.Args {
		text, err := expr.Encode(a)
		if err != nil {
			text = []byte(fmt.Sprint(a))
		}
		fmt.Fprintf(&b, "\n  %d: %s", i+1, text)
	}
	return b.String()
}

func (s *SQLRequest) parts() []any { return []any{"sql", s.Database, s.Driver, s.DSN, s.Query, s.Args} }

func (s *SQLRequest) leaving(*transport) []string {
	texts := []string{s.Query}
	for _, arg := range s.Args {
		if text, ok := arg.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// sqlScan is what a statement says outside of its strings and comments.
type sqlScan struct {
	words []string // upper case, and single signs; boundHere for a parameter
	hint  string
}

// boundHere stands for a parameter in the text that is scanned.
const boundHere = "\x00"

// scanSQL walks over a statement and refuses what a bound parameter cannot stand
// in for: text in quotes, names, and a second statement. It knows enough of each
// dialect to tell where a string ends; where it could not, the statement is refused.
func scanSQL(t *expr.Template, driver string) (*sqlScan, string) {
	x := &sqlScan{}
	text := ""
	for _, p := range t.Parts {
		switch {
		case p.Expr != nil:
			text += boundHere
		case strings.Contains(p.Literal, boundHere):
			return x, "holds a zero byte"
		default:
			text += p.Literal
		}
	}
	for at := 0; at < len(text); {
		n, problem := x.token(text, at, driver)
		if problem != "" {
			return x, problem
		}
		at += n
	}
	for len(x.words) > 0 && x.words[len(x.words)-1] == ";" {
		x.words = x.words[:len(x.words)-1]
	}
	switch {
	case slices.Contains(x.words, ";"):
		return x, "holds more than one statement"
	case len(x.words) == 0:
		return x, "is empty"
	}
	return x, ""
}

// token reads the string, comment, word or sign at a place, and gives its length.
func (x *sqlScan) token(text string, at int, driver string) (n int, problem string) {
	s := text[at:]
	if end, begin := opened(s, driver); begin > 0 {
		return x.quoted(s, begin, end, driver)
	}
	n = 1
	switch c := s[0]; {
	case s[:1] == boundHere:
		if problem = x.parameter(text, at); problem != "" {
			return n, problem
		}
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

// nameFollows are the words after which SQL expects a name, never a value.
var nameFollows = map[string]bool{"FROM": true, "JOIN": true, "INTO": true, "UPDATE": true, "TABLE": true, "AS": true, "BY": true, ".": true, "::": true}

// parameter says why no value can be bound at a place outside of quotes.
func (x *sqlScan) parameter(text string, at int) string {
	last, distinct := "", false
	if n := len(x.words); n > 0 {
		last = x.words[n-1]
		distinct = n > 1 && last == "FROM" && x.words[n-2] == "DISTINCT" // a comparison
	}
	switch {
	case nameFollows[last] && !distinct:
		x.hint = "names of tables and columns are written out"
		return "a parameter stands where a name belongs, and a name cannot be bound"
	case at > 0 && (wordByte(text[at-1]) || text[at-1:at] == boundHere), at+1 < len(text) && wordByte(text[at+1]):
		x.hint = "join texts inside: ${input.a + input.b}"
		return "a parameter touches a word or another parameter"
	}
	return ""
}

func wordByte(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// quoted reads a string or comment whose beginning is so long and that end closes.
func (x *sqlScan) quoted(s string, begin int, end, driver string) (n int, problem string) {
	inner, _, closed := strings.Cut(s[begin:], end)
	comment := end == "*/" || end == "\n"
	switch bound := strings.Contains(inner, boundHere); {
	case driver == "mysql" && (strings.HasPrefix(s, "/*!") || strings.HasPrefix(s, "/*+")):
		return 0, "a comment that MySQL runs as SQL is not allowed"
	case bound && comment:
		return 0, "a parameter stands inside a comment"
	case bound:
		x.hint = `write it without the quotes; to search for a part: LIKE ${"%" + input.name + "%"}`
		return 0, "a parameter stands inside quotes, where nothing is bound"
	case driver != "sqlite" && (end == "'" || end == `"`) && strings.HasSuffix(inner, `\`):
		x.hint = "bind the text instead: ${'…'}"
		return 0, "a backslash before a quote: it cannot be told where the string ends"
	case end == "*/" && strings.Contains(inner, "/*"):
		return 0, "a comment inside a comment: it cannot be told where it ends"
	case !closed && end == "*/":
		return 0, "a comment is not closed"
	case !closed && !comment:
		return 0, "a string or quoted name is not closed"
	}
	return min(begin+len(inner)+len(end), len(s)), ""
}

// opened is what ends the string or comment that s begins with, and how long its
// beginning is; 0 where s begins with neither.
func opened(s, driver string) (end string, begin int) {
	switch c := s[0]; {
	case c == '\'' || c == '"' || c == '`':
		end = s[:1] // a doubled quote closes and opens again
	case c == '[' && driver == "sqlite":
		return "]", 1
	case strings.HasPrefix(s, "--"), c == '#' && driver == "mysql":
		return "\n", 1
	case strings.HasPrefix(s, "/*"):
		return "*/", 2
	case driver == "postgres":
		end = dollarTag.FindString(s)
	}
	return end, len(end)
}

// dollarTag is the quote $tag$ of PostgreSQL.
var dollarTag = regexp.MustCompile(`^\$(?:[A-Za-z_\x{80}-\x{10FFFF}][\w\x{80}-\x{10FFFF}]*)?\$`)

// ownPlaceholder is what each driver takes for a parameter.
var ownPlaceholder = map[string]*regexp.Regexp{
	"sqlite":   regexp.MustCompile(`^(?:\?|[:@$][\w\x{80}-\x{10FFFF}])`),
	"mysql":    regexp.MustCompile(`^\?`),
	"postgres": regexp.MustCompile(`^\$[0-9]`),
}

// placeholder reports whether the driver would take what s begins with for a
// parameter of its own.
func placeholder(s, driver string) bool { return ownPlaceholder[driver].MatchString(s) }

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
