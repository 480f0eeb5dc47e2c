// Package mapping reads dead letters, failed jobs and log lines of other systems as requests
// that were sent and given up. A mapping is data: fields, and an expression for each over
// one row. It may import ledger and the expressions of policy, and records nothing.
package mapping

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

//go:embed *.yaml
var files embed.FS

// Plain is the mapping of rows that have the fields under their own names.
const Plain = "plain"

// fields are what a mapping may say, with the type of each. each and headers are read
// before the others.
var fields = map[string]expr.Type{
	"each": expr.List, "headers": expr.Any, "skip": expr.Bool,
	"id": expr.Any, "kind": expr.Any, "key": expr.Any, "scope": expr.Any, "source": expr.Any, "run": expr.Any, "at": expr.Any,
	"input": expr.Any,
	"error": expr.Any, "proof": expr.Any, "token": expr.Any, "key_sent": expr.Bool,
}

func Fields() []string { return slices.Sorted(maps.Keys(fields)) }

// Mapping says what a row is as an operation. It never changes after it was made.
type Mapping struct {
	Name   string // the beginning of every id that it makes
	fields map[string]*expr.Expression
}

// Names are the mappings that come with the program, sorted.
func Names() []string {
	entries, _ := files.ReadDir(".") // embedded
	return ledger.Each(entries, func(e fs.DirEntry) string { return strings.TrimSuffix(e.Name(), ".yaml") })
}

// Error is what is wrong with a mapping or a row, and what to do.
type Error struct{ Message, Hint string }

func (e *Error) Error() string { return e.Message }

// Load makes a mapping of one that comes with the program, else of a file, with single fields
// said anew: "kind=row.class". Errors: *Error.
func Load(name string, over []string) (*Mapping, error) {
	text, err := files.ReadFile(name + ".yaml")
	if err != nil {
		if text, err = os.ReadFile(name); err != nil {
			return nil, &Error{fmt.Sprintf("there is no mapping %q, and no such file", name),
				"there is: " + strings.Join(Names(), ", ") + "; your own: --from FILE"}
		}
	}
	said := map[string]string{"name": strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))}
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&said); err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, &Error{"the mapping is not a list of `field: expression`: " + line, `as in: kind: '"mail." + row.class'`}
	}
	m := &Mapping{Name: strings.TrimSpace(said["name"]), fields: map[string]*expr.Expression{}}
	delete(said, "name")
	for _, one := range over {
		field, text, found := strings.Cut(one, "=")
		if !found {
			return nil, &Error{fmt.Sprintf("`%s` is not FIELD=EXPRESSION", one), `as in: --map kind='"mail." + row.class'`}
		}
		said[strings.TrimSpace(field)] = text
	}
	for field, text := range said {
		want, known := fields[field]
		if !known {
			return nil, &Error{fmt.Sprintf("a mapping has no field `%s`", field), "it has: name, " + strings.Join(Fields(), ", ")}
		}
		e, problem := expr.Compile(text, expr.ForRow, want)
		if problem != nil {
			return nil, &Error{fmt.Sprintf("%s: %s: %s", field, expr.Shorten(text, 60), problem.Message), problem.Hint}
		}
		m.fields[field] = e
	}
	if m.fields["kind"] == nil {
		return nil, &Error{"the mapping says no `kind`", "every row needs one: --map kind=EXPRESSION"}
	}
	return m, nil
}
