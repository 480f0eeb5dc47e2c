package policy

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// render writes every expression as the driver's placeholder and its value as
// an argument, so that nothing computed is ever read as SQL (I11).
func (s *sqlRule) render(r *rendering) (*SQLRequest, error) {
	db := s.database.sql
	out := &SQLRequest{Database: s.database.Name, Driver: db.driver}
	var err error
	if out.DSN, err = r.text(db.dsn); err != nil {
		return nil, fmt.Errorf("database %s: %w", out.Database, err)
	}
	if !r.show {
		r.vars.secrets.parts(out.DSN, inDSN)
	}
	var query strings.Builder
	for _, p := range s.query.parts {
		if p.expr == nil {
			query.WriteString(p.literal)
			continue
		}
		v, name, err := r.value(p.expr)
		if err != nil {
			return nil, fmt.Errorf("query: %w", err)
		}
		var argument any = name
		if name == "" {
			data, err := native(v)
			if err == nil {
				argument, err = bound(data)
			}
			if err != nil {
				return nil, fmt.Errorf("query: %s: %w", shorten(p.expr.text, 60), err)
			}
		}
		out.Args = append(out.Args, argument)
		if db.driver == "postgres" {
			fmt.Fprintf(&query, "$%d", len(out.Args))
		} else {
			query.WriteByte('?')
		}
	}
	out.Query = strings.TrimSpace(query.String())
	return out, nil
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
