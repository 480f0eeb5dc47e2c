package policy

import (
	"encoding/json"
	"fmt"
	"strconv"
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

func (s *sqlRule) questions() []*template { return []*template{s.query} }
func (s *sqlRule) besides() []pair        { return nil }

// render writes every expression as the driver's placeholder and its value as
// an argument, so that nothing computed is ever read as SQL (I11).
func (s *sqlRule) render(r *rendering) Request {
	db := s.database.sql
	out := &SQLRequest{Database: s.database.Name, Driver: db.driver}
	out.DSN = r.at("database " + out.Database).text(db.dsn)
	r.keep(out.DSN, inDSN)
	var query strings.Builder
	r.at("query")
	for _, p := range s.query.parts {
		if p.expr == nil {
			query.WriteString(p.literal)
			continue
		}
		data, named := r.data(p.expr)
		if !named {
			var err error
			data, err = bound(data)
			r.fail(p.expr.about(err))
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
		text, err := marshal(x)
		return string(text), err
	}
	return data, nil
}

// text is the statement as a person reads it, with what is bound below it.
func (s *SQLRequest) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "SQL %s (%s)\n%s", s.Database, s.Driver, s.Query)
	for i, a := range s.Args {
		text, err := marshal(a)
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
