package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ui/safe"
)

// formats are the forms that an answer may have. All but text are made from its JSON, so
// that a new command has them all.
var formats = []string{"text", "json", "jsonl"}

// lists are the lists that an answer may hold. Another object is a list of one.
var lists = []string{"operations", "events", "runs", "outages", "kinds"}

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

// rows prints data as JSON lines.
func (a *form) rows(w *safe.Writer, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	for _, row := range rowsOf(text) {
		if err := printJSON(w, row); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf are the rows of an answer: a list that is known, else the only one that it has,
// else itself.
func rowsOf(data []byte) []json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return nil
	}
	var other [][]json.RawMessage
	for name, value := range fields {
		var list []json.RawMessage
		if fields["id"] != nil || json.Unmarshal(value, &list) != nil { // what has an id has lists of its own
			continue
		}
		if slices.Contains(lists, name) {
			return list
		}
		if len(list) > 0 && list[0][0] == '{' {
			other = append(other, list)
		}
	}
	if len(other) == 1 {
		return other[0]
	}
	for _, value := range fields {
		if len(fields) == 1 && value[0] == '{' {
			return rowsOf(value)
		}
	}
	return []json.RawMessage{data}
}
