package postgres

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// result is the answer to one statement, read to its end: the connection is free for
// the next. It is the Rows of a query.
type result struct {
	values  [][]byte // row after row
	columns int
	types   []uint32
	at      int // the row after the current one
	tag     pgconn.CommandTag
	room    []byte // that the next values are copied into
}

// keep copies a row.
func (r *result) keep(row [][]byte) {
	size := 0
	for _, v := range row {
		size += len(v)
	}
	if len(r.room) < size {
		room := size
		if len(r.values) > 0 { // more may follow
			room = max(size, 4096)
		}
		r.room = make([]byte, room)
	}
	r.values = slices.Grow(r.values, len(row))
	for _, v := range row {
		if v == nil {
			r.values = append(r.values, nil)
			continue
		}
		n := copy(r.room, v)
		r.values = append(r.values, r.room[:n:n])
		r.room = r.room[n:]
	}
}

func (r *result) Next() bool {
	if r.columns == 0 || r.at*r.columns >= len(r.values) {
		return false
	}
	r.at++
	return true
}

func (r *result) Err() error   { return nil }
func (r *result) Close() error { return nil }

// Scan copies the columns of the current row.
func (r *result) Scan(dest ...any) error {
	if r.at == 0 || len(dest) != r.columns {
		return fmt.Errorf("scan %d values of a row of %d", len(dest), r.columns)
	}
	row := r.values[(r.at-1)*r.columns : r.at*r.columns]
	for i, d := range dest {
		err := error(nil)
		if v, ok := d.(*any); ok {
			*v, err = own(r.types[i], row[i])
		} else {
			err = assign(d, row[i])
		}
		if err != nil {
			return fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return nil
}

var errNull = errors.New("it is NULL")

// assign reads one value, as database/sql does.
func assign(dest any, text []byte) error {
	switch d := dest.(type) {
	case *[]byte:
		*d = nil
		if text != nil {
			*d = append([]byte{}, text...)
		}
		return nil
	case sql.Scanner:
		if text == nil {
			return d.Scan(nil)
		}
		return d.Scan(string(text))
	}
	if text == nil {
		return errNull
	}
	switch d := dest.(type) {
	case *string:
		*d = string(text)
		return nil
	case *int64:
		var err error
		*d, err = strconv.ParseInt(string(text), 10, 64)
		return err
	case *int:
		var err error
		*d, err = strconv.Atoi(string(text))
		return err
	case *bool:
		return yesNo(d, text)
	case *float64:
		var err error
		*d, err = strconv.ParseFloat(string(text), 64)
		return err
	}
	return assignKind(dest, text)
}

// own is a value of the type that PostgreSQL gives it: a number, or text.
func own(oid uint32, text []byte) (any, error) {
	if text == nil {
		return nil, nil
	}
	switch oid {
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return strconv.ParseInt(string(text), 10, 64)
	case pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID:
		return strconv.ParseFloat(string(text), 64)
	case pgtype.BoolOID:
		return map[bool]int64{true: 1}[string(text) == "t"], nil
	}
	return string(text), nil
}

// yesNo reads a boolean, or a number that is one.
func yesNo(d *bool, text []byte) error {
	switch string(text) {
	case "t", "1", "true":
		*d = true
	case "f", "0", "false":
		*d = false
	default:
		return fmt.Errorf("%q is not a flag", text)
	}
	return nil
}

// assignKind reads a value of a type that only its kind is known of.
func assignKind(dest any, text []byte) error {
	v := reflect.ValueOf(dest)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("%T is not a pointer", dest)
	}
	switch v = v.Elem(); v.Kind() {
	case reflect.String:
		v.SetString(string(text))
	case reflect.Bool:
		var b bool
		if err := yesNo(&b, text); err != nil {
			return err
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return err
		}
		v.SetInt(n)
	case reflect.Uint64:
		n, err := strconv.ParseUint(string(text), 10, 64)
		if err != nil {
			return err
		}
		v.SetUint(n)
	case reflect.Float32, reflect.Float64:
		n, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return err
		}
		v.SetFloat(n)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			return fmt.Errorf("cannot read into %T", dest)
		}
		v.SetBytes(append([]byte{}, text...))
	default:
		return fmt.Errorf("cannot read into %T", dest)
	}
	return nil
}

// roomFor is how much room a value needs, mostly.
func roomFor(v any) int {
	switch x := v.(type) {
	case nil:
		return 0
	case bool:
		return len("false")
	case string:
		return len(x)
	case []byte:
		return len(x)
	}
	return len(time.RFC3339Nano)
}

// bound appends a value as text, or tells that it is NULL.
func bound(to []byte, v any) (out []byte, null bool, err error) {
	switch x := v.(type) {
	case nil:
		return to, true, nil
	case string:
		return utf8Text(to, x), false, nil
	case []byte: // JSON: the ledger has no binary columns
		if x == nil {
			return to, true, nil
		}
		return append(to, bytes.ReplaceAll(bytes.ToValidUTF8(x, []byte("\uFFFD")), []byte{0}, []byte("\uFFFD"))...), false, nil
	case int64:
		return strconv.AppendInt(to, x, 10), false, nil
	case int:
		return strconv.AppendInt(to, int64(x), 10), false, nil
	case bool:
		return strconv.AppendBool(to, x), false, nil
	case float64:
		return strconv.AppendFloat(to, x, 'g', -1, 64), false, nil
	case time.Time:
		return x.UTC().AppendFormat(to, time.RFC3339Nano), false, nil
	case sql.NullString:
		if !x.Valid {
			return to, true, nil
		}
		return utf8Text(to, x.String), false, nil
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.String:
		return utf8Text(to, r.String()), false, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(to, r.Int(), 10), false, nil
	case reflect.Bool:
		return strconv.AppendBool(to, r.Bool()), false, nil
	case reflect.Pointer:
		if r.IsNil() {
			return to, true, nil
		}
		return bound(to, r.Elem().Interface())
	case reflect.Slice:
		if r.Type().Elem().Kind() == reflect.Uint8 {
			return bound(to, r.Bytes())
		}
	}
	return to, false, fmt.Errorf("cannot bind %T", v)
}

// utf8Text appends a text as PostgreSQL takes it: it has no zero byte and is UTF-8. What
// is not becomes visible, and two that differ stay two.
func utf8Text(to []byte, s string) []byte {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return append(to, s...)
	}
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == 0 || r == utf8.RuneError && size == 1 {
			to = fmt.Appendf(to, `\x%02x`, s[0])
		} else {
			to = append(to, s[:size]...)
		}
		s = s[size:]
	}
	return to
}
