package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/policy"
	"indoubt/ui/cli/base"
)

// budget is how much of each part a user may have to learn at most. A number only goes down.
var budget = map[string]int{
	"commands": 49, "options": 168, "exit codes": 10, "error codes": 49, "problems": 17, "filter words": 20, "policy words": 110, "JSON fields": 79, "metrics": 19,
}

// What people and scripts can name is in one golden file, and no part of it grows unseen.
func TestTheSurfaceIsHeld(t *testing.T) {
	surface := map[string][]string{"filter words": ledger.FilterFields, "exit codes": nil}
	given := map[string]bool{}
	root := newRootCommand(base.NewApp(strings.NewReader(""), nil, nil), []string{cobra.ShellCompRequestCmd})
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		name := strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), "indoubt"))
		if cmd.Runnable() {
			surface["commands"] = append(surface["commands"], "indoubt "+name)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				surface["options"] = append(surface["options"], strings.TrimSpace(name+" --"+f.Name))
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for code, exit := range base.Exits {
		surface["exit codes"] = append(surface["exit codes"], fmt.Sprint(code, " ", exit.Means))
	}
	var schema any
	need.OK(t, json.Unmarshal(policy.Schema(), &schema))
	surface["policy words"] = propertiesOf(schema)
	for name, of := range map[string]any{"list": base.OperationJSON{}, "show": base.ShowJSON{}, "log": ledger.Event{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) { // also those of what it embeds
			if field, _, _ := strings.Cut(f.Tag.Get("json"), ","); field != "" && field != "-" {
				surface["JSON fields"] = append(surface["JSON fields"], name+" "+field)
			}
		}
	}
	var mcp string
	metric := regexp.MustCompile(`"(indoubt_[a-z_]+)"`)
	need.OK(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text := need.Get(os.ReadFile(path))(t)
		if strings.Contains(path, "mcpproxy") {
			mcp += string(text)
		}
		for _, m := range errorCode.FindAllSubmatch(text, -1) {
			code := string(bytes.Join(m[1:], nil))
			if strings.Contains(path, "httpproxy") {
				surface["problems"] = append(surface["problems"], fmt.Sprint(code, " ", newKey(t, code)))
				continue
			}
			given[code] = true
			exit := (&base.Failure{Code: code}).Exit()
			need.That(t, exit > 0, "%s gives the error code %s, and exits has no exit code for it", path, code)
		}
		if filepath.Base(path) == "metrics.go" {
			for _, m := range metric.FindAllSubmatch(text, -1) {
				surface["metrics"] = append(surface["metrics"], string(m[1]))
			}
		}
		return nil
	}))
	for _, m := range regexp.MustCompile(`(?:codedAs\(|c\.failure\(code\w+, |c\.about\(o, )"([a-z_]+)"`).FindAllStringSubmatch(mcp, -1) {
		newKey(t, m[1])
	}
	need.That(t, strings.Count(mcp, "c.failure(code")+strings.Count(mcp, "codedAs(\"") > 8, "the MCP proxy's errors have no codes")
	for exit, of := range base.Exits {
		for code := range strings.FieldsSeq(of.Words) {
			need.That(t, given[code], "nothing gives the error code %s", code)
			surface["error codes"] = append(surface["error codes"], fmt.Sprint(code, " ", exit))
		}
	}
	var out strings.Builder
	for _, part := range slices.Sorted(maps.Keys(surface)) {
		words := slices.Compact(slices.Sorted(slices.Values(surface[part])))
		fmt.Fprintf(&out, "%s: %d\n  %s\n\n", part, len(words), strings.Join(words, "\n  "))
		need.That(t, len(words) == budget[part], "there are %d %s, and the budget says %d: it only goes down", len(words), part, budget[part])
	}
	golden(t, "surface.txt", []byte(out.String()))
}

// newKey says whether the same under a new key is safe after an error of a recorder's.
func newKey(t *testing.T, code string) string {
	_, known := record.SafeNewKey[code]
	need.That(t, known, "record.SafeNewKey lacks the code %s", code)
	if record.FactsOf(code, "", nil).SafeNewKey {
		return "yes"
	}
	return "no"
}

// errorCode is how a floor gives an error its word for programs.
var errorCode = regexp.MustCompile(`(?:Code: |Trouble\{|\b(?:no|refuse|wrong|noAnswer|newProblem)\(|\.Code(?:, [^=\n]+)? = )"([a-z_]+)"|\{"([a-z_]+)", "[^"]*%s`)

// The pages have a row for each error code, with its exit code, and for no other.
func TestThePagesTellTheErrorCodes(t *testing.T) {
	surface := string(need.Get(os.ReadFile("testdata/surface.txt"))(t))
	for file, heading := range map[string]string{"../README.md": "error codes", "../../ledger/record/README.md": "problems"} {
		_, words, _ := strings.Cut(surface, heading+": ")
		words, _, _ = strings.Cut(words, "\n\n")
		want := strings.Split(words, "\n  ")[1:]
		var told []string
		page := string(need.Get(os.ReadFile(file))(t))
		_, page, _ = strings.Cut(page, map[string]string{"error codes": "## Exit codes\n", "problems": "## What comes back\n"}[heading])
		page, _, _ = strings.Cut(page, "\n## ")
		for _, row := range regexp.MustCompile("\\| ((?:`[a-z_]+` )+)\\| ([0-9 ]+) \\|(?: (yes|no) \\|)?").FindAllStringSubmatch(page, -1) {
			for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
				if heading == "error codes" {
					row[3] = row[2]
				}
				told = append(told, m[1]+" "+row[3])
			}
		}
		slices.Sort(told)
		need.Equal(t, strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
}

// propertiesOf are the names that a schema gives members.
func propertiesOf(schema any) (out []string) {
	switch x := schema.(type) {
	case map[string]any:
		if names, ok := x["properties"].(map[string]any); ok {
			out = slices.Collect(maps.Keys(names))
		}
		for _, inner := range x {
			out = append(out, propertiesOf(inner)...)
		}
	case []any:
		for _, inner := range x {
			out = append(out, propertiesOf(inner)...)
		}
	}
	return out
}
