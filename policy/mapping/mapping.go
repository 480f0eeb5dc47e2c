// Package mapping reads the rows of other systems, such as dead letters, failed jobs and
// log lines, as requests that were sent and given up. A mapping is a few expressions of
// the policy's language over one row; those of well-known systems are files of this
// package.
//
// It may import ledger, for its ids and rules of JSON, and the expressions of policy.
// It records nothing.
package mapping

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"indoubt/policy/expr"
)

//go:embed *.yaml
var files embed.FS

// Plain is the mapping of rows that have the fields under their own names.
const Plain = "plain"

// fields are what a mapping may say, with the type of each.
var fields = map[string]expr.Type{
	"each": expr.List, "headers": expr.Any, "skip": expr.Bool,
	"id": expr.Any, "kind": expr.Any, "key": expr.Any, "scope": expr.Any, "source": expr.Any, "run": expr.Any, "at": expr.Any, "input": expr.Any,
	"error": expr.Any, "error_class": expr.Any, "outcome": expr.Any, "proof": expr.Any, "token": expr.Any, "key_sent": expr.Bool,
}

// ofDocument are the fields that are read before there is a row of their own.
const eachField, headersField = "each", "headers"

// Fields are the names of all fields.
func Fields() []string { return slices.Sorted(maps.Keys(fields)) }

// Mapping says what a row is as an operation. It never changes after it was made.
type Mapping struct {
	Name   string // the beginning of every id that it makes
	fields map[string]*expr.Expression
}

// Names are the mappings that come with the program, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // embedded
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return out
}

// Text is a mapping that comes with the program, as its file.
func Text(name string) (text []byte, ok bool) {
	if !slices.Contains(Names(), name) {
		return nil, false
	}
	text, err := files.ReadFile(name + ".yaml")
	return text, err == nil
}

// Error is what is wrong with a mapping, and what to do.
type Error struct{ Message, Hint string }

func (e *Error) Error() string { return e.Message }

// Load makes a mapping from one that comes with the program or from a file, with
// single fields said anew: "kind=row.class". Errors: *Error.
func Load(name, file string, over []string) (*Mapping, error) {
	text, ok := Text(name)
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return nil, &Error{"the mapping cannot be read: " + err.Error(), "say which file: --mapping FILE"}
		}
		name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	} else if !ok {
		return nil, &Error{fmt.Sprintf("there is no mapping %q", name), "there is: " + strings.Join(Names(), ", ") + "; your own: --mapping FILE"}
	}
	said := map[string]string{}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.DisallowUnknownField()).Decode(&said); err != nil {
		return nil, &Error{"the mapping is not a list of `field: expression`: " + firstLine(err), "see one: indoubt import --from sidekiq --show"}
	}
	if other := strings.TrimSpace(said["name"]); other != "" {
		name = other
	}
	delete(said, "name")
	for _, one := range over {
		field, text, found := strings.Cut(one, "=")
		if !found {
			return nil, &Error{fmt.Sprintf("`%s` is not FIELD=EXPRESSION", one), `as in: --map kind='"mail." + row.class'`}
		}
		said[strings.TrimSpace(field)] = text
	}
	m := &Mapping{Name: name, fields: map[string]*expr.Expression{}}
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
	for _, needed := range []string{"kind", "at"} {
		if m.fields[needed] == nil {
			return nil, &Error{"the mapping says no `" + needed + "`", "every row needs one: --map " + needed + "=EXPRESSION"}
		}
	}
	return m, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
