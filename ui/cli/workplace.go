package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger/lazyregexp"
)

// workplace is a context of the configuration: a ledger with its policy, and how it is
// looked at.
type workplace struct {
	Ledger   string `yaml:"ledger"`
	Policy   string `yaml:"policy"`
	Filter   string `yaml:"filter"`
	ReadOnly bool   `yaml:"read_only"`
}

var namesContexts = lazyregexp.New(`(?m)^["']?contexts?["']?\s*:`)

// enter takes the ledger and the policy from a context: of --context, else, where nothing
// names a ledger, of INDOUBT_CONTEXT or of the configuration. A configuration that names
// contexts and cannot be read is refused: another ledger than the one that is meant looks
// like an all-clear.
func (a *app) enter(cmd *cobra.Command) error {
	path := configPath(a.env)
	said := a.context != ""
	switch {
	case said && a.ledgerPath != "":
		return usage("--context and --ledger both name a ledger", "leave one of the two out")
	case !said && (a.ledgerPath != "" || a.env("INDOUBT_LEDGER") != ""):
		return nil
	case !said:
		a.context = a.env("INDOUBT_CONTEXT")
	}
	if a.context == "" {
		if text, err := os.ReadFile(path); err != nil || !namesContexts.Match(text) {
			return nil
		}
	}
	c, err := readConfig(path)
	if err != nil {
		return &failure{Code: "bad_config", Message: err.Error(), Hint: "mend it, or name the ledger with --ledger"}
	}
	if a.context == "" {
		a.context = c.Context
	}
	if a.context == "" {
		return nil
	}
	one, names := c.Contexts[a.context], slices.Sorted(maps.Keys(c.Contexts))
	if one.Ledger == "" {
		hint := "there are: " + strings.Join(names, ", ")
		if len(names) == 0 {
			hint = "write one under contexts: in " + short(path)
		}
		return usage(fmt.Sprintf("there is no context `%s`%s", a.context, meant(a.context, names)), hint)
	}
	a.ledgerPath = atHome(one.Ledger, filepath.Dir(path))
	if !cmd.Flags().Changed("policy") && one.Policy != "" {
		a.policyPath = atHome(one.Policy, filepath.Dir(path))
	}
	a.readOnly, a.lookOnly, a.filter = a.readOnly || one.ReadOnly, one.ReadOnly, one.Filter
	return nil
}

// atHome is a path of the configuration: ~ is the home directory, and one that is relative
// begins at the file.
func atHome(path, dir string) string {
	home, err := os.UserHomeDir()
	switch rest, ok := strings.CutPrefix(path, "~/"); {
	case ok && err == nil:
		return filepath.Join(home, rest)
	case filepath.IsAbs(path) || strings.Contains(path, "://"):
		return path
	}
	return filepath.Join(dir, path)
}

// contexts offers those of the configuration.
func (c completion) contexts(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	wanted, _ := readConfig(configPath(c.env)) // completion is silent about what goes wrong
	return offer(slices.Sorted(maps.Keys(wanted.Contexts)), toComplete), cobra.ShellCompDirectiveNoFileComp
}
