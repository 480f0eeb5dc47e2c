package cli

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// formats are the forms that an answer may have. All but text are made from its JSON, so
// that a column is a field of the page, and a new command has them all.
var formats = []string{"text", "json", "jsonl", "csv", "wide", "name"}

// lists are the lists that an answer may hold, and the columns of wide and csv, of which
// the first is printed by name. Another object is a list of one.
var lists = []struct{ field, columns string }{
	{"operations", "id version created_at state lane kind title source.pipeline cost.duplicate cost.miss advice.verb receipt"},
	{"events", "seq at operation verb from to actor.name reason"},
	{"runs", "id created_at state verb size left actor reason"},
	{"incidents", "id first_at last_at phase title errors account taken_by"},
	{"kinds", ""},
}

// aliases are the heads of the list for fields that have another name.
var aliases = map[string]string{"what": "title", "pipeline": "source.pipeline", "twice": "cost.duplicate", "never": "cost.miss", "do": "advice.verb", "landed": "odds.p", "error": "error_class", "by": "actor"}

// form is the form of an answer.
type form struct {
	format  string   // one of formats
	json    bool     // it is json
	columns []string // of wide and csv
	sparse  bool     // a column that no row has is empty, and not a mistake
}

// formatted checks what --output and --columns ask for.
func (a *form) formatted(cmd *cobra.Command) error {
	if a.json && (a.format == "text" || a.format == "json") {
		a.format = "json"
	}
	a.json = a.format == "json"
	changes := cmd.Flags().Lookup("dry-run") != nil || cmd.Flags().Lookup("idempotency-key") != nil
	switch {
	case !slices.Contains(formats, a.format):
		return usage(fmt.Sprintf("--output `%s` is none of %s%s", a.format, strings.Join(formats, ", "), meant(a.format, formats)), "write -o json, or see `indoubt "+"list --help`")
	case cmd.Flags().Changed("json") && !a.json:
		return usage("--json is -o json: "+a.format+" is another one", "leave one of the two out")
	case len(a.columns) > 0 && (a.json || a.format == "jsonl" || a.format == "name"):
		return usage("--columns does not go with -o "+a.format, "write -o csv or -o wide")
	case len(a.columns) > 0 && changes:
		return usage("--columns goes with commands that only look", "leave it out, or see `indoubt list --help`")
	case a.format == "text" && len(a.columns) > 0:
		a.format = "wide"
	}
	return nil
}

// rows prints data in a form of rows.
func (a *form) rows(w *safe.Writer, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	rows, want := rowsOf(text)
	if a.format == "jsonl" {
		for _, row := range rows {
			if err := printJSON(w, row); err != nil {
				return err
			}
		}
		return nil
	}
	if len(a.columns) > 0 {
		want = a.columns
	}
	cells := make([]map[string]string, len(rows))
	known := map[string]bool{}
	for i, row := range rows {
		cells[i] = map[string]string{}
		order := flatten(cells[i], "", row)
		if i == 0 && len(want) == 0 {
			want = order
		}
		for name := range cells[i] {
			known[name] = true
		}
	}
	if len(want) == 0 {
		return nil
	}
	if a.format == "name" {
		want = want[:min(1, len(want))]
	}
	paths := make([]string, len(want))
	for i, name := range want {
		if paths[i] = name; !known[name] {
			paths[i] = cmp.Or(aliases[name], name)
		}
		above, _, _ := strings.Cut(paths[i], ".") // which may be null in all rows
		if !a.sparse && len(a.columns) > 0 && len(rows) > 0 && !known[paths[i]] && !known[above] {
			names := slices.DeleteFunc(slices.Sorted(maps.Keys(known)), func(s string) bool { return strings.HasPrefix(s, "input.") })
			return usage(fmt.Sprintf("there is no column `%s`%s", name, meant(name, slices.Concat(names, slices.Sorted(maps.Keys(aliases))))), "there are: "+strings.Join(names, " "))
		}
	}
	out := [][]string{want}
	for _, row := range cells {
		line := make([]string, len(paths))
		for i, path := range paths {
			line[i] = safe.Of(row[path]).String()
		}
		out = append(out, line)
	}
	switch a.format {
	case "name":
		for _, line := range out[1:] {
			w.Println(strings.Join(line, ""))
		}
		return nil
	case "csv":
		return writeCSV(w, out)
	}
	for i, name := range want {
		out[0][i] = strings.ToUpper(name)
	}
	grid{cells: out, gap: 2}.write(w)
	return nil
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

// completeColumns offers the columns of operations, of which lists are mostly made.
func completeColumns(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	text, _ := json.Marshal(operationJSON{Odds: &oddsJSON{}, Advice: &adviceJSON{}, Source: ledger.Source{Pipeline: "p", Run: "r", Host: "h", PID: 1}})
	cells := map[string]string{}
	flatten(cells, "", text)
	before := toComplete[:strings.LastIndexByte(toComplete, ',')+1]
	var out []string
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(aliases)), slices.Sorted(maps.Keys(cells))) {
		if strings.HasPrefix(name, toComplete[len(before):]) {
			out = append(out, before+name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
