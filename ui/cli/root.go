package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"indoubt/ledger"
)

const rootLong = `indoubt keeps every write of your pipelines in a ledger with three outcomes
instead of two (committed, failed, uncertain), asks the other side whether an
uncertain one landed, and puts what is left in front of a person.

Without a command it opens the console, on one operation or on a filter:
  indoubt                             everything
  indoubt 'source:billing since:30m'
  indoubt 0198c1de                    one operation, by id or the beginning of it

Opening it sends nothing: it asks the other side what landed.`

// The groups of the help text.
const (
	groupLook   = "look"
	groupDecide = "decide"
	groupRecord = "record"
	groupCare   = "care"
)

type verb struct {
	name string
	make func(*app) *cobra.Command
}

// commands are the whole tree, each made when it is needed. A new command is added
// here and nowhere else.
var commands = []verb{
	{"list", newListCommand}, {"show", newShowCommand}, {"outage", newOutageCommand}, {"report", newReportCommand}, {"log", newLogCommand},
	{"check", newCheckCommand},
	{"confirm", newDecision(ledger.VerbConfirm)}, {"deny", newDecision(ledger.VerbDeny)}, {"retry", newRetryCommand}, {"runs", newRunsCommand},
	{"abandon", newDecision(ledger.VerbAbandon)}, {"redact", newRedactCommand}, {"ack", newDecision(ledger.VerbAck)}, {"park", newDecision(ledger.VerbPark)},
	{"undo", newDecision(ledger.VerbUndo)}, {"note", newDecision(ledger.VerbNote)}, {"hold", newHoldCommand}, {"release", newReleaseCommand},
	{"run", newRunCommand}, {"begin", newBeginCommand}, {"settle", newSettleCommand}, {"import", newImportCommand}, {"mcp", newMCPCommand}, {"http", newHTTPCommand},
	{"demo", newDemoCommand},
	{"init", newInitCommand}, {"engine", newEngineCommand}, {"adopt", newAdoptCommand},
	{"backup", newBackupCommand}, {"copy", newCopyCommand}, {"prune", newPruneCommand},
	{"doctor", newDoctorCommand}, {"policy", newPolicyCommand}, {"completion", newCompletionCommand},
}

// newRootCommand builds what a command line needs of the tree: the command that it
// begins with, or everything. Each takes its time at every start.
func newRootCommand(a *app, args []string) *cobra.Command {
	root := newConsoleCommand(a)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagFailure)
	globalFlags(a, root)
	root.AddGroup(
		&cobra.Group{ID: groupLook, Title: "Look:"},
		&cobra.Group{ID: groupDecide, Title: "Decide:"},
		&cobra.Group{ID: groupRecord, Title: "Record:"},
		&cobra.Group{ID: groupCare, Title: "Set up and look after:"},
	)
	root.SetHelpCommand(newHelpCommand())
	tellExits(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) }

	one := alone(args)
	for _, c := range commands {
		if one == "" || one == c.name {
			root.AddCommand(c.make(a))
		}
	}
	return root
}

// alone is the first word of a command line that needs no other command than that,
// or "".
func alone(args []string) string {
	switch {
	case len(args) == 0 || args[0] == "completion":
	case args[0] == "--version" || slices.ContainsFunc(commands, func(c verb) bool { return c.name == args[0] }):
		return args[0]
	}
	return ""
}

// release is the version that the build has set, with `-ldflags -X`.
var release string

// version names the build: a release by its tag, any other by its commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	built := cmp.Or(release, info.Main.Version)
	if built == "" || built == "(devel)" {
		built = "development build"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				built += " of " + s.Value[:min(len(s.Value), 12)]
			}
		}
	}
	return fmt.Sprintf("%s, %s, %s/%s", built, info.GoVersion, runtime.GOOS, runtime.GOARCH)
}

func globalFlags(a *app, root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&a.ledgerPath, "ledger", "", "the ledger: a file, or postgres://… (INDOUBT_LEDGER)")
	f.StringVar(&a.policyPath, "policy", "", "the policy file (INDOUBT_POLICY)")
	f.StringVar(&a.as, "as", "", "your name in the history (INDOUBT_ACTOR)")
	f.BoolVar(&a.readOnly, "read-only", false, "look only: change nothing, check nothing")
	f.BoolVar(&a.json, "json", false, "print one JSON object")
}
