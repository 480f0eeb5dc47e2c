package policy

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

func page(t *testing.T) string {
	t.Helper()
	text := need.Get(os.ReadFile("README.md"))(t)
	return string(text)
}

// fieldsOn are the fields in the tables of a section of the page.
func fieldsOn(page, section string) []string {
	_, rest, found := strings.Cut(page, "\n### "+section+"\n")
	if !found {
		return nil
	}
	if end := strings.Index(rest, "\n#"); end >= 0 {
		rest = rest[:end]
	}
	var out []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(rest, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			out = append(out, name[1])
		}
	}
	slices.Sort(out)
	return out
}

// Every mapping of the schema has a section, and every field of it a row there.
func TestThePageNamesEveryField(t *testing.T) {
	text := page(t)
	sections := map[string]string{"": "top", "costs": "cost", "savedAnswer": "saved answer",
		"savedAnswer.error": "rpc error", "downstream.mcp": "mcp server", "downstream.sql": "database", "downstream.key": "downstream key"}
	seen := 0
	var walk func(path string, v any)
	walk = func(path string, v any) {
		s, is := v.(object)
		if !is {
			return
		}
		if properties, _ := s["properties"].(object); properties != nil && path != "defaults" && s["additionalProperties"] == false {
			section, named := sections[path]
			if !named {
				section = path
			}
			seen++
			want := slices.Sorted(maps.Keys(properties))
			got := fieldsOn(text, section)
			need.That(t, slices.Equal(got, want), "section %q has\n%q\nand the schema\n%q", section, got, want)
			for name, one := range properties {
				walk(strings.TrimPrefix(path+"."+name, "."), one)
			}
		}
		for _, word := range []string{"anyOf", "allOf"} {
			list, _ := s[word].([]any)
			for _, one := range list {
				walk(path, one)
			}
		}
	}
	root := schemaObject(t)
	walk("", root)
	for name, def := range root["$defs"].(object) {
		walk(name, def)
	}
	need.That(t, seen >= 15, "only %d mappings were compared", seen)
}
