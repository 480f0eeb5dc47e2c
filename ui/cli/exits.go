package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// exitWords are the exit codes, which mean the same for every command.
var exitWords = [...]string{
	exitDone:       "done, or nothing was to be done",
	exitError:      "error",
	exitUsage:      "usage: the command line is wrong",
	exitNotFound:   "not found: no ledger, or nothing of that name in it",
	exitConflict:   "conflict: it moved, or is decided already",
	exitRefused:    "refused: by the policy, a hold, --read-only, or for want of a person",
	exitInDoubt:    "in doubt",
	exitInProgress: "in progress, or begins are held: nothing was sent, come again",
	exitKeyReused:  "the key was used with another input",
	exitFinished:   "finished already",
}

// codes are the words of errors for programs, by the exit code that each always has.
// ui/README.md says what each means.
var codes = [...]string{
	exitDone: "",
	exitError: "bad_config bad_policy bad_row damaged did_not_land digest_key disk_full error gone guard io_error locked lost moving no_file " +
		"not_a_ledger not_local other_schema permission stopped timeout unknown_commit unwell",
	exitUsage:    "usage",
	exitNotFound: "former no_ledger not_found",
	exitConflict: "exists moved",
	exitRefused: "conflict copied failover hold incomplete moved_away no_check no_person over quitting read_only " +
		"redacted refused related throttled",
	exitInDoubt:    "in_doubt",
	exitInProgress: "held in_progress",
	exitKeyReused:  "key_reused",
	exitFinished:   "finished",
}

// exitCodes are the lines about the exit codes of a command, for its help and its manual page.
func exitCodes(cmd *cobra.Command) (lines []string) {
	of := 0
	if cmd.Name() == "run" {
		of = ownVerdict
		lines = []string{"  0  it landed, or had landed: the stored output is printed", "  n  below 100: that of the command, where what became of it is known",
			"126  the command cannot be run; nothing was sent", "127  there is no such command; nothing was sent"}
	}
	for code, word := range exitWords {
		if of > 0 && code == exitFinished {
			word += ", and its output was not kept whole"
		}
		if of == 0 || code > exitDone {
			lines = append(lines, fmt.Sprintf("%3d  %s", of+code, word))
		}
	}
	return lines
}

// shortValue is the value of a switch whose help says no [=true|false].
type shortValue struct{ pflag.Value }

// tellExits puts the exit codes of a command below its help.
func tellExits(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				f.Value = shortValue{f.Value}
			}
		})
		help(cmd, args)
		fmt.Fprintf(cmd.OutOrStdout(), "\nExit codes:\n  %s\n", strings.Join(exitCodes(cmd), "\n  "))
	})
}
