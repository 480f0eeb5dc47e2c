package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
	"indoubt/ui/cli/care"
	"indoubt/ui/cli/rules"
)

const rootLong = `indoubt keeps every write of your pipelines in a ledger with three outcomes
instead of two (committed, failed, uncertain), asks the other side whether an
uncertain one landed, and puts what is left in front of a person.

Without a command it opens the console, on one operation or on a filter:
  indoubt                             everything
  indoubt 'source:billing since:30m'
  indoubt 0198c1de                    one operation, by id or the beginning of it

Opening it sends nothing: it asks the other side what landed.`

type verb struct {
	name string
	make func(*base.App) *cobra.Command
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
	{"init", care.NewInit}, {"engine", newEngineCommand}, {"adopt", care.NewAdopt},
	{"backup", care.NewBackup}, {"copy", care.NewCopy}, {"prune", care.NewPrune},
	{"doctor", care.NewDoctor}, {"policy", rules.NewCommand}, {"completion", newCompletionCommand},
}

// newRootCommand builds what a command line needs of the tree: the command that it
// begins with, or everything. Each takes its time at every start.
func newRootCommand(a *base.App, args []string) *cobra.Command {
	root := newConsoleCommand(a)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(base.FlagFailure)
	globalFlags(a, root)
	root.AddGroup(
		&cobra.Group{ID: base.GroupLook, Title: "Look:"},
		&cobra.Group{ID: base.GroupDecide, Title: "Decide:"},
		&cobra.Group{ID: base.GroupRecord, Title: "Record:"},
		&cobra.Group{ID: base.GroupCare, Title: "Set up and look after:"},
	)
	root.SetHelpCommand(newHelpCommand())
	base.TellExits(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.Prepare(cmd) }

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

func globalFlags(a *base.App, root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&a.LedgerPath, "ledger", "", "the ledger: a file, or postgres://… (INDOUBT_LEDGER)")
	f.StringVar(&a.PolicyPath, "policy", "", "the policy file (INDOUBT_POLICY)")
	f.StringVar(&a.As, "as", "", "your name in the history (INDOUBT_ACTOR)")
	f.BoolVar(&a.ReadOnly, "read-only", false, "look only: change nothing, check nothing")
	f.BoolVar(&a.JSON, "json", false, "print one JSON object")
}

func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND…]", GroupID: base.GroupCare, Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, _ := cmd.Root().Find(args)
			if len(rest) > 0 {
				name := strings.TrimPrefix(of.CommandPath()+" "+rest[0], of.Root().Name()+" ")
				return base.Usage(fmt.Sprintf("there is no command `%s`%s", name, base.Meant(rest[0], base.CommandNames(of))), "see `"+of.CommandPath()+" --help`")
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

func newCompletionCommand(a *base.App) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", GroupID: base.GroupCare,
		Short:   "Print completion for a shell: commands and options",
		Long:    "Print completion for a shell: commands and options. bash needs the package\nbash-completion; zsh needs compinit to have run.",
		Example: "  source <(indoubt completion bash)\n  indoubt completion fish > ~/.config/fish/completions/indoubt.fish",
		Args:    base.Exactly("one of " + strings.Join(shells, ", ")), ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			write := map[string]func(io.Writer) error{
				"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
				"zsh":        root.GenZshCompletion,
				"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
				"powershell": root.GenPowerShellCompletionWithDesc,
			}[args[0]]
			if write == nil {
				return base.Usage(fmt.Sprintf("there is no completion for %q", args[0]), "there is: "+strings.Join(shells, " "))
			}
			return write(a.Out)
		},
	}
}
