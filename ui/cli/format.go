package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ui/safe"
)

// formats are the forms that an answer may have. All but text are made from its JSON, so
// that a column is a field of the page, and a new command has them all.
var formats = []string{"text", "json", "jsonl", "csv"}

// lists are the lists that an answer may hold, and their columns in CSV. Another object is
// a list of one.
var lists = []struct{ field, columns string }{
	{"operations", "id@version created_at state lane kind title source.pipeline cost.duplicate cost.miss advice.verb receipt"},
	{"events", "seq at operation verb from to actor.name reason"},
	{"runs", "id created_at state verb size left actor reason"},
	{"outages", "id first_at last_at phase title errors account taken_by"},
	{"kinds", ""},
}

// form is the form of an answer.
type form struct {
	format string // one of formats
	json   bool   // it is json
}

// formatted checks what --output asks for.
func (a *form) formatted(cmd *cobra.Command) error {
	if a.json && (a.format == "text" || a.format == "json") {
		a.format = "json"
	}
	a.json = a.format == "json"
	switch {
	case !slices.Contains(formats, a.format):
		return usage(fmt.Sprintf("--output `%s` is none of %s%s", a.format, strings.Join(formats, ", "), meant(a.format, formats)), "write -o json, or see `indoubt "+"list --help`")
	case cmd.Flags().Changed("json") && !a.json:
		return usage("--json is -o json: "+a.format+" is another one", "leave one of the two out")
	}
	return nil
}

// rows prints data as JSON lines or CSV.
func (a *form) rows(w *safe.Writer, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	rows, columns := rowsOf(text)
	if a.format == "csv" {
		return writeCSV(w, tabled(rows, columns))
	}
	for _, row := range rows {
		if err := printJSON(w, row); err != nil {
			return err
		}
	}
	return nil
}

// tabled puts the columns of rows in lines, under their names. An operation begins with
// what the deciding commands take.
func tabled(rows []json.RawMessage, columns []string) [][]string {
	lines := [][]string{nil}
	for _, row := range rows {
		cells := map[string]string{}
		order := flatten(cells, "", row)
		if cells["id"] != "" {
			cells["id@version"] = cells["id"] + "@" + cells["version"]
		}
		if len(columns) == 0 {
			columns = order
		}
		line := make([]string, len(columns))
		for i, name := range columns {
			line[i] = safe.Of(cells[name]).String()
		}
		lines = append(lines, line)
	}
	if len(columns) == 0 {
		return nil
	}
	lines[0] = columns
	return lines
}

// writeCSV writes rows (RFC 4180). A spreadsheet would run text that begins as a formula:
// an apostrophe stands before it.
func writeCSV(w *safe.Writer, rows [][]string) error {
	out := csv.NewWriter(w)
	for _, row := range rows {
		for i, cell := range row {
			if number := json.Valid([]byte(cell)); !number && strings.ContainsAny(cell[:min(1, len(cell))], "=+-@") {
				row[i] = "'" + cell
			}
		}
		if err := out.Write(row); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
	}
	out.Flush()
	return out.Error()
}

// rowsOf are the rows of an answer, and their usual columns: a list that is known, else the
// only one that it has, else itself.
func rowsOf(data []byte) (rows []json.RawMessage, columns []string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return nil, nil
	}
	if fields["lane"] != nil {
		return []json.RawMessage{data}, strings.Fields(lists[0].columns)
	}
	var other [][]json.RawMessage
	for name, value := range fields {
		var list []json.RawMessage
		if fields["id"] != nil || json.Unmarshal(value, &list) != nil { // what has an id has lists of its own
			continue
		}
		for _, l := range lists {
			if l.field == name {
				return list, strings.Fields(l.columns)
			}
		}
		if len(list) > 0 && list[0][0] == '{' {
			other = append(other, list)
		}
	}
	if len(other) == 1 {
		return other[0], nil
	}
	for _, value := range fields {
		if len(fields) == 1 && value[0] == '{' {
			return rowsOf(value)
		}
	}
	return []json.RawMessage{data}, nil
}

// flatten puts the fields of an object under their paths, and gives those that hold no
// others in their order. What holds others is there as JSON, too.
func flatten(into map[string]string, path string, value json.RawMessage) (order []string) {
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		var text string
		switch {
		case string(value) == "null":
		case json.Unmarshal(value, &text) != nil:
			text = string(value)
		}
		into[path] = text
		return []string{path}
	}
	if path != "" {
		into[path] = string(value)
	}
	for dec.More() {
		name, err := dec.Token()
		var inner json.RawMessage
		if err != nil || dec.Decode(&inner) != nil {
			return order
		}
		below := flatten(into, strings.TrimPrefix(fmt.Sprintf("%s.%s", path, name), "."), inner)
		if len(below) == 1 && (len(inner) == 0 || inner[0] != '{') && inner[0] != '[' {
			order = append(order, below...)
		}
	}
	return order
}
