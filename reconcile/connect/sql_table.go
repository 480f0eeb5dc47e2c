package connect

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"indoubt/ledger"
)

// table collects rows as a JSON array of objects, to its limits and no further.
type table struct {
	maxBody int64

	names []string // quoted
	buf   bytes.Buffer
	rows  int
	cut   bool
}

// columns names what every row holds.
func (t *table) columns(names []string) error {
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		if seen[n] {
			return fmt.Errorf("two columns are called %q; give one of them another name with AS", n)
		}
		seen[n] = true
		t.names = append(t.names, string(jsonText(n)))
	}
	return nil
}

// add takes one row and reports whether to go on.
func (t *table) add(value func(i int) []byte) bool {
	begin := t.buf.Len()
	if begin > 0 {
		t.buf.WriteByte(',')
	}
	t.buf.WriteByte('{')
	for i, name := range t.names {
		if i > 0 {
			t.buf.WriteByte(',')
		}
		t.buf.WriteString(name)
		t.buf.WriteByte(':')
		t.buf.Write(value(i))
	}
	t.buf.WriteByte('}')
	if t.rows == maxRows || int64(t.buf.Len())+2 > t.maxBody {
		t.buf.Truncate(begin)
		t.cut = true
		return false
	}
	t.rows++
	return true
}

// json is the array, nil where the statement gives no rows at all.
func (t *table) json() json.RawMessage {
	if t.names == nil {
		return nil
	}
	out := make([]byte, 0, t.buf.Len()+2)
	out = append(append(append(out, '['), t.buf.Bytes()...), ']')
	return out
}

// take reads the rows of a database/sql driver.
func (t *table) take(rows *sql.Rows) error {
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range names {
		into[i] = &values[i]
	}
	if len(names) > 0 {
		if err := t.columns(names); err != nil {
			return err
		}
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if !t.add(func(i int) []byte { return jsonValue(values[i]) }) {
			return nil
		}
	}
	return rows.Err()
}

// jsonValue makes JSON of a value as a driver gives it.
func jsonValue(v any) []byte {
	switch x := v.(type) {
	case nil:
		return []byte("null")
	case bool:
		return strconv.AppendBool(nil, x)
	case int64:
		return strconv.AppendInt(nil, x, 10)
	case float64:
		return jsonNumber(strconv.FormatFloat(x, 'g', -1, 64))
	case time.Time:
		return jsonText(x.Format(time.RFC3339Nano))
	case []byte:
		return jsonBytes(x)
	case string:
		return jsonBytes([]byte(x))
	}
	return jsonText(fmt.Sprint(v))
}

// jsonNumber is a number with the digits it has; what JSON has no number for
// (NaN) is text.
func jsonNumber(text string) []byte {
	if len(text) > 0 && text[0] != '"' && json.Valid([]byte(text)) {
		return []byte(text)
	}
	return jsonText(text)
}

// jsonBytes is text where the bytes are UTF-8, else base64.
func jsonBytes(b []byte) []byte {
	if utf8.Valid(b) {
		return jsonText(string(b))
	}
	return jsonText(base64.StdEncoding.EncodeToString(b))
}

// jsonMoment is a moment in the layout a database writes it in. What is none,
// such as PostgreSQL's infinity, stays text.
func jsonMoment(text string, layouts ...string) []byte {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return jsonText(at.Format(time.RFC3339Nano))
		}
	}
	return jsonText(text)
}

// jsonDocument is JSON that the database keeps as such.
func jsonDocument(text []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, text) != nil {
		return jsonBytes(text)
	}
	return out.Bytes()
}

func jsonText(s string) []byte { return ledger.EncodeJSON(s) }
