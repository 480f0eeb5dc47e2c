package postgres

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"indoubt/ledger/store"
)

var patternEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`)

// said is a statement as the server reads it, and what is bound to it.
func said(query string, args []any) (string, []any) {
	text, bound := store.PostgreSQL(query, args), values(args)
	if n := len(args); n > 0 && !strings.Contains(text, fmt.Sprint("$", n)) {
		bound = bound[:n-1]
	}
	return text, bound
}

// values are what is bound, as the server takes it.
func values(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case store.Pattern:
			out[i] = patternEscaper.Replace(string(v))
		case store.JSON:
			out[i] = utf8Text(readable(string(v)))
		default:
			if r := reflect.ValueOf(arg); r.IsValid() && r.Kind() == reflect.String {
				out[i] = utf8Text(r.String())
			} else {
				out[i] = arg
			}
		}
	}
	return out
}

// utf8Text is a text as PostgreSQL takes it: it has no zero byte and is UTF-8. What is not is
// written as \x and its digits.
func utf8Text(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	var to []byte
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == 0 || r == utf8.RuneError && size == 1 {
			to = fmt.Appendf(to, `\x%02x`, s[0])
		} else {
			to = append(to, s[:size]...)
		}
		s = s[size:]
	}
	return string(to)
}

// found are the rows of a query.
type found struct {
	answer
	at int
}

func (f *found) Next() bool {
	f.at++
	return f.at < len(f.rows)
}

func (f *found) Err() error   { return nil }
func (f *found) Close() error { return nil }

// Scan takes the values of a row.
func (f *found) Scan(dest ...any) error {
	row := f.rows[f.at]
	for i, v := range row {
		switch v := v.(type) {
		case int32:
			row[i] = int64(v)
		case pgtype.Numeric:
			n, err := v.Int64Value()
			if err != nil {
				return err
			}
			row[i] = n.Int64
		case string:
			row[i] = asWritten(v)
		case bool:
			row[i] = map[bool]int64{true: 1}[v]
		}
		if !store.Take(dest[i], row[i]) {
			return fmt.Errorf("column %s is %T and not a %T", f.names[i], row[i], dest[i])
		}
	}
	return nil
}
