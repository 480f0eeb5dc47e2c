package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"indoubt/ledger/need"
	"indoubt/ui/cli/base"
)

// Each command has a manual page with its exit codes. A release leaves them in the
// directory that INDOUBT_TEST_MANUAL names (`make pages`): the program itself makes none.
func TestEachCommandHasAManualPage(t *testing.T) {
	dir := cmp.Or(os.Getenv("INDOUBT_TEST_MANUAL"), t.TempDir())
	root := newRootCommand(base.NewApp(strings.NewReader(""), nil, nil), nil)
	root.DisableAutoGenTag = true
	var each func(*cobra.Command)
	each = func(cmd *cobra.Command) {
		cmd.Long = cmp.Or(cmd.Long, cmd.Short+".") + "\n\n# EXIT CODES\n" + strings.Join(base.ExitCodes(cmd), "\n\n")
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	each(root)
	root.Long += "\n\n# ENVIRONMENT\nINDOUBT_LEDGER, INDOUBT_POLICY, INDOUBT_ACTOR, INDOUBT_DIGEST_KEY_FILE, NO_COLOR." +
		"\n\n# FILES\n$XDG_STATE_HOME/indoubt/ledger.db, the ledger; $XDG_CONFIG_HOME/indoubt/policy.yaml, the policy; $XDG_CONFIG_HOME/indoubt/config.yaml, how the console looks."
	need.OK(t, doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "indoubt"}, dir))
	page := string(need.Get(os.ReadFile(filepath.Join(dir, "indoubt-outage-show.1")))(t))
	need.Contains(t, page, ".SH EXIT CODES", base.Exits[base.ExitNotFound].Means)
}
