package mapping

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

// Row is one row of a source.
type Row struct {
	Place string // "line 12", or "row 12" of a document
	Text  []byte
	Data  any
}

const (
	maxLine     = 16 << 20
	maxDocument = 256 << 20
)

// Rows reads a source row by row: JSON lines, one list, or, where the mapping says
// `each`, documents with lists in them. An error with a row is that row's (*RowError),
// and reading goes on behind it; one without is the end.
func (m *Mapping) Rows(ctx context.Context, source io.Reader) iter.Seq2[Row, error] {
	in := bufio.NewReaderSize(source, 1<<16)
	first := skipSpace(in)
	if m.fields[eachField] != nil || first == '[' {
		return m.documents(ctx, in, first == '[')
	}
	return lines(in)
}

// skipSpace leaves a byte-order mark and white space out, and returns what follows.
func skipSpace(in *bufio.Reader) byte {
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	for {
		b, err := in.Peek(1)
		if err != nil {
			return 0
		}
		if b[0] != ' ' && b[0] != '\t' && b[0] != '\r' {
			return b[0]
		}
		_, _ = in.Discard(1)
	}
}

func lines(in *bufio.Reader) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for n := 1; ; n++ {
			line, long, err := readLine(in)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Row{}, fmt.Errorf("line %d: %w", n, err))
				return
			}
			row, bad := Row{Place: fmt.Sprintf("line %d", n), Text: bytes.TrimSpace(line)}, error(nil)
			switch {
			case long:
				bad = &RowError{"longer than 16 MiB", "leave out what is not needed of it before it is imported"}
			case len(row.Text) > 0:
				row.Data, bad = decoded(row.Text)
			}
			if (len(row.Text) > 0 || long) && !yield(row, bad) || err != nil {
				return
			}
		}
	}
}

// readLine reads a line; of one that is too long only the beginning is kept.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if room := maxLine - len(line); len(part) > room {
			part, long = part[:max(room, 0)], true
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

func decoded(text []byte) (any, error) {
	if ledger.TooDeep(text) {
		return nil, &RowError{"it is nested too deeply", ""}
	}
	data, err := expr.Decode(text)
	if err != nil {
		return nil, &RowError{"it is not JSON: " + err.Error(), "one JSON value a line is read; of another form, make that first (jq -c, or a small script)"}
	}
	return data, nil
}

// documents reads whole JSON values, one after the other, or the elements of one list.
func (m *Mapping) documents(ctx context.Context, in io.Reader, list bool) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		limited := &io.LimitedReader{R: in}
		d := json.NewDecoder(limited)
		limited.N = maxDocument
		if list {
			if _, err := d.Token(); err != nil {
				yield(Row{}, err)
				return
			}
		}
		n := 0
		for !list || d.More() {
			limited.N = maxDocument
			var text json.RawMessage
			err := d.Decode(&text)
			switch {
			case errors.Is(err, io.EOF) && !list:
				return
			case err != nil && limited.N == 0:
				err = fmt.Errorf("a document is longer than %d MiB: ask for smaller pages", maxDocument>>20)
			case err != nil:
				err = fmt.Errorf("it is not JSON behind row %d: %w", n, err)
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
			for row, err := range m.rowsOf(ctx, text) {
				n++
				row.Place = fmt.Sprintf("row %d", n)
				if !yield(row, err) {
					return
				}
			}
		}
		if _, err := d.Token(); err != nil { // the list is cut
			yield(Row{}, fmt.Errorf("the list ends too early, behind row %d", n))
		}
	}
}

// rowsOf are the rows in a document.
func (m *Mapping) rowsOf(ctx context.Context, text []byte) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		data, err := decoded(text)
		each := m.fields[eachField]
		if err != nil || each == nil {
			yield(Row{Text: text, Data: data}, err)
			return
		}
		v, err := each.Eval(ctx, expr.NewNames(func(string) (any, error) { return data, nil }))
		var list any
		if err == nil {
			list, err = v.Data()
		}
		rows, ok := list.([]any)
		if err != nil || !ok {
			yield(Row{Text: text}, &RowError{fmt.Sprintf("each: it gives no list of rows: %v", err), "is it the right mapping? see it with --show"})
			return
		}
		for _, data := range rows {
			text, err := expr.Encode(data)
			if err != nil {
				err = &RowError{err.Error(), ""}
			}
			if !yield(Row{Text: text, Data: expr.Exact(data)}, err) {
				return
			}
		}
	}
}
