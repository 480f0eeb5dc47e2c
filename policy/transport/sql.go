package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy/expr"
	"indoubt/policy/file"
)

type sqlDatabase struct {
	driver string
	dsn    *expr.Template
}

// sqlRule is one statement as the driver reads it, and what is bound to its
// placeholders. database is resolved once all fields are read.
type SQL struct {
	at       file.Place
	name     string // of the downstream; "": the kind's own
	query    string
	queryAt  file.Place
	args     []*expr.Tree
	database *Downstream
}

var sqlDrivers = []string{"sqlite", "postgres"}

// readDatabase reads `sql:` of a downstream.
func readDatabase(d *file.Decoder, ds *Downstream, n *file.Node) {
	s := &sqlDatabase{}
	known := file.Table{}
	for _, driver := range sqlDrivers {
		known[driver] = func(n *file.Node) {
			if s.driver != "" {
				d.Fail(n.Place, fmt.Sprintf("a database is one thing, and this one is %s already", s.driver), "make two downstreams of it")
				return
			}
			s.driver, s.dsn = driver, readSettled(d, n)
			if n.Kind == file.Scalar && n.Text == "" {
				d.Fail(n.Place, "is empty", sqlHint)
			}
		}
	}
	if d.Fields(n, known) && s.driver == "" {
		d.Fail(n.Place, "does not say which database", sqlHint)
	}
	ds.sql = s
	ds.is(d, n, "sql")
}

const sqlHint = `sqlite: /var/lib/books.db or postgres: "${env.BOOKS_DSN}"; another database is read by a command`

// readStatement reads `sql:` of a read.
func readStatement(d *file.Decoder, n *file.Node) *SQL {
	const hint = `query: "SELECT id FROM charges WHERE token = ?", args: ["${token}"]; postgres numbers them: $1, $2`
	s := &SQL{at: n.Place}
	fine := d.Fields(n, file.Table{
		"database": d.Text(&s.name),
		"query": func(n *file.Node) {
			s.queryAt = n.Place
			if d.Text(&s.query)(n); strings.Contains(n.Text, "${") {
				d.Fail(n.Place, "nothing is computed in a statement", hint)
			}
		},
		"args": func(n *file.Node) {
			d.Each(n, "a list", hint, func(item *file.Node) { s.args = append(s.args, d.Value(item)) })
		},
	})
	if fine && s.query == "" {
		d.Fail(n.Place, "says no query", hint)
	}
	return s
}

func (s *SQL) Attach(d *file.Decoder, known Reach) {
	s.database = known.named(d, s.name, "database", "sql", s.at)
	if s.query == "" || s.database == nil {
		return
	}
	if problem, hint := s.refused(); problem != "" {
		d.Fail(s.queryAt, problem, hint)
	}
}

func (s *SQL) Questions() (out []*expr.Template) {
	for _, a := range s.args {
		out = append(out, a.Templates()...)
	}
	return out
}

func (s *SQL) Via() string { return "sql" }

func (s *SQL) beside() []*expr.Template {
	if s.database == nil { // the file is wrong
		return nil
	}
	return []*expr.Template{s.database.sql.dsn}
}

// render leaves the statement as it is written: nothing computed is ever read as
// SQL (I11).
func (s *SQL) render(r *Rendering) Request {
	db := s.database.sql
	out := &SQLRequest{Database: s.database.Name, Driver: db.driver, Query: strings.TrimSpace(s.query)}
	out.DSN = r.At("database " + out.Database).Text(db.dsn)
	r.keep(out.DSN)
	for i, a := range s.args {
		data, err := bound(r.At(fmt.Sprintf("argument %d", i+1)).Tree(a))
		r.Fail(err)
		out.Args = append(out.Args, data)
	}
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
		return string(ledger.EncodeJSON(x)), nil
	}
	return data, nil
}

// text is the statement as a person reads it, with what is bound below it.
func (s *SQLRequest) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "SQL %s (%s)\n%s", s.Database, s.Driver, s.Query)
	for i, a := range s.Args {
		fmt.Fprintf(&b, "\n  %d: %s", i+1, ledger.EncodeJSON(a))
	}
	return b.String()
}

func (s *SQLRequest) Leaving() []string { return nil } // nothing is sent over it

var beginsWith = lazyregexp.New(`^(?s:\s|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]+)`)

// refused is why a statement cannot be a read, "" where it may be. It does not parse
// SQL: the database does, in a transaction that only reads.
func (s *SQL) refused() (problem, hint string) {
	first := ""
	if m := beginsWith.FindStringSubmatch(s.query); m != nil {
		first = strings.ToUpper(m[1])
	}
	switch {
	case strings.Contains(strings.TrimRight(s.query, "; \t\r\n"), ";"):
		return "holds more than one statement", "a text that holds a semicolon goes into `args`"
	case first == "":
		return "is empty", ""
	case first != "SELECT" && first != "WITH":
		return "a read cannot begin with " + first, "a read is one SELECT, or WITH … SELECT"
	}
	return "", ""
}

type overSQL struct{}

func (overSQL) complete(*ledger.Answer)                      {}
func (overSQL) whole(*ledger.Answer) bool                    { return false } // nothing is written over it
func (overSQL) succeeded(*ledger.Answer, bool) (bool, error) { return true, nil }
func (overSQL) refusal(*ledger.Answer, bool) error           { return nil }

func (overSQL) usable(a *ledger.Answer) error {
	switch {
	case a.Truncated:
		return errCutRows
	case a.Rows == nil:
		return errNoRows
	}
	return nil
}

func (overSQL) document(*ledger.Answer) (any, error) {
	return nil, errors.New("a database answers with `rows`")
}

var (
	errCutRows = errors.New("more rows came than are kept")
	errNoRows  = errors.New("no rows came back")
)

// rowsOf is `rows` of a database's answer.
func rowsOf(a *ledger.Answer) (any, error) {
	_, rowed := by(a).(overSQL)
	switch {
	case !rowed:
		return nil, errors.New("an answer of this kind has no `rows`")
	case a.Truncated:
		return nil, errCutRows
	case len(bytes.TrimSpace(a.Rows)) == 0:
		return nil, errNoRows
	}
	doc, err := expr.Decode(a.Rows)
	rows, ok := doc.([]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("the rows cannot be read")
	}
	return rows, nil
}
