package rules

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/policy"
	"indoubt/policy/recipes"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
)

func newPolicyInitCommand(a *base.App) *cobra.Command {
	var dryRun, listed bool
	cmd := &cobra.Command{
		Use:   "init [RECIPE…] [FILE]",
		Short: "Write a policy to begin with, from an example or from recipes",
		Long: `Write a policy to begin with: an example, explained line by line, or the recipes
that are named, for an MCP server also by its package. Each recipe brings cases that ` + "`indoubt policy test`" + ` runs. A file
that exists is left as it is.`,
		Example: "  indoubt policy init\n  indoubt policy init --list\n  indoubt policy init stripe github ./policy.yaml\n" +
			"  indoubt policy init @modelcontextprotocol/server-github",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return recipes.Names(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if listed {
				return listRecipes(a)
			}
			path, names, err := whatToInit(a, args)
			if err != nil {
				return err
			}
			text, err := policyFrom(names)
			if err != nil {
				return err
			}
			data := map[string]any{"path": path, "recipes": base.List(names)}
			if there, err := os.ReadFile(path); err == nil {
				if bytes.Equal(there, text) {
					return a.Done(base.EffectNoop, data, func(w *safe.Writer) { w.Println(base.Short(path) + " is there already") })
				}
				return &base.Failure{Code: "exists", Message: base.Short(path) + " exists and is another policy",
					Hint: "name another file, and take over from it what is missing here: indoubt policy init " +
						strings.Join(append(slices.Clone(names), "./new.yaml"), " ")}
			}
			if dryRun {
				return a.Done(base.EffectWouldCreate, data, func(w *safe.Writer) { w.Println("would write " + base.Short(path)) })
			}
			if err := a.MayChange("write a policy"); err != nil {
				return err
			}
			if err := writeNew(path, text); err != nil {
				return err
			}
			return a.Done(base.EffectCreated, data, func(w *safe.Writer) {
				next := "indoubt policy check"
				if len(names) > 0 {
					next += " && indoubt policy test"
				}
				w.Println("wrote " + base.Short(path))
				for _, name := range names {
					if r, _ := recipes.Get(name); r.FillIn() != "" {
						w.Printf("fill in for %s: %s\n", name, r.FillIn())
					}
				}
				w.Println("next: " + next)
			})
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would happen and change nothing")
	cmd.Flags().BoolVar(&listed, "list", false, "list the recipes")
	return cmd
}

// whatToInit tells the recipes from the file: a file has a slash or ends in
// .yaml.
func whatToInit(a *base.App, args []string) (path string, names []string, err error) {
	path, _ = a.PolicyFile()
	files := 0
	for _, arg := range args {
		switch ext, recipe := filepath.Ext(arg), recipes.ForServer(arg); {
		case recipe != "" && strings.HasPrefix(arg, "@"): // the package of an MCP server
			names = append(names, recipe)
		case ext == ".yaml", ext == ".yml", strings.ContainsRune(arg, filepath.Separator):
			path, files = arg, files+1
		default:
			names = append(names, arg)
		}
	}
	if files > 1 {
		return "", nil, base.Usage("policy init writes one file", "name one file, and any number of recipes")
	}
	return path, names, nil
}

func policyFrom(names []string) ([]byte, error) {
	if len(names) == 0 {
		return policy.Example(), nil
	}
	text, err := recipes.Merge(names...)
	if err != nil {
		return nil, base.Usage(err.Error(), "there are: "+strings.Join(recipes.Names(), ", "))
	}
	return text, nil
}

func listRecipes(a *base.App) error {
	rows := base.Each(recipes.Names(), func(name string) map[string]any {
		r, _ := recipes.Get(name)
		return map[string]any{"name": r.Name, "title": r.Title}
	})
	return a.Done("", map[string]any{"recipes": rows}, func(w *safe.Writer) {
		for _, r := range rows {
			w.Println(fmt.Sprintf("%-22s %s", r["name"], r["title"]))
		}
	})
}

func newPolicySchemaCommand(a *base.App) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of policy files, for editors",
		Example: "  indoubt policy schema > policy.schema.json",
		Args:    base.MaxArgs(0),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.Write(policy.Schema()) // it is JSON itself, so --json changes nothing
			return err
		},
	}
}

// writeNew makes a file that must not exist yet, with its directory.
func writeNew(path string, content []byte) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	}
	if err == nil {
		_, err = f.Write(content)
		err = cmp.Or(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", base.Short(path), err)
	}
	return nil
}
