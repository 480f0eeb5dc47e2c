package cli

import (
	"fmt"
	"maps"
	"slices"
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
	exitInProgress: "in progress",
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
		"redacted refused related throttled two_primaries",
	exitInDoubt:    "in_doubt",
	exitInProgress: "in_progress",
	exitKeyReused:  "key_reused",
	exitFinished:   "finished",
}

// exitTable are the codes of each command beyond 0, 1 and 2, and what they mean there
// where that is more than the word of all. The help and the manual print them.
func exitTable() map[string]map[int]string {
	changes := map[int]string{3: "", 4: "", 5: "", 8: "the idempotency key was used with another command"}
	decides := maps.Clone(changes)
	decides[exitInDoubt], decides[exitInProgress] = "", "another console carries it on"
	clients := map[int]string{3: "there is no such file or server", 4: "the file changed since it was shown", 5: "refused: no terminal and no --yes"}
	return map[string]map[int]string{
		"":              {3: "", 5: ""},
		"list":          {1: "error, or it was stopped", 3: "", 6: "with --exit-code: something listed needs you or is being checked"},
		"show":          {3: ""},
		"outage list":   {3: ""},
		"outage show":   {3: ""},
		"outage take":   changes,
		"report":        {3: ""},
		"log":           {1: "error, or it was stopped", 3: ""},
		"check":         {3: "", 4: "another engine has it", 5: "", 6: "what was named is still in doubt", 7: ""},
		"engine":        {3: "", 5: ""},
		"confirm":       decides,
		"deny":          decides,
		"retry":         {3: "", 4: "", 5: "", 6: "it was sent, and may have landed", 7: "", 8: decides[8], 9: ""},
		"runs":          {3: ""},
		"runs resume":   {3: "", 4: "", 5: "", 7: decides[7], 8: decides[8]},
		"runs stop":     changes,
		"abandon":       decides,
		"ack":           decides,
		"park":          decides,
		"undo":          decides,
		"note":          decides,
		"redact":        {3: "", 4: "", 5: "refused: in conflict, or not confirmed", 6: "", 7: "", 8: decides[8]},
		"hold":          changes,
		"release":       changes,
		"begin":         {0: "you, and only you, must send now", 3: "", 5: "", 6: "", 7: "", 8: "", 9: ""},
		"settle":        {3: "", 4: "", 5: "", 6: ""},
		"import":        {1: "error, a row is bad, or it was stopped", 3: "", 5: "", 8: ""},
		"mcp":           {1: "error, or the server cannot be started", 3: "", 5: ""},
		"mcp install":   clients,
		"mcp uninstall": clients,
		"http":          {3: "", 5: ""},
		"init":          {3: "", 5: ""},
		"adopt":         {3: "", 4: "", 5: ""},
		"backup":        {3: "", 4: "", 5: ""},
		"copy":          {1: "error: FROM is as it was", 3: "", 4: "", 5: "refused: read-only, or FROM has moved already", 7: "operations were still in flight after --wait: FROM is as it was"},
		"doctor":        {1: "error, or it found something wrong", 3: "", 5: ""},
		"policy":        nil,
		"policy apply":  {1: "the policy is broken, holds a secret, or a case of it fails", 3: "", 5: ""},
		"policy check":  {1: "the policy is broken"},
		"policy show":   {3: ""},
		"policy test":   {1: "the policy is broken, or a test fails", 3: ""},
		"policy try":    {1: "error, or the check cannot be used", 3: "", 5: ""},
		"policy init":   {3: "", 4: "conflict: a policy file is there already", 5: ""},
		"run": {0: "it landed, or had landed: the stored output is printed", 101: "", 102: "", 103: "", 104: "", 105: "", 106: "", 107: "", 108: "", 109: "finished already, and its output was not kept whole",
			126: "the command cannot be run; nothing was sent", 127: "there is no such command; nothing was sent"},
	}
}

// nameOf is a command without the program.
func nameOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()), " ")
}

// exitCodes are the lines about the exit codes of a command.
func exitCodes(cmd *cobra.Command) (lines []string) {
	own := exitTable()[nameOf(cmd)]
	for code := range 256 {
		word, listed := own[code]
		of := code % ownVerdict
		if !listed && (code > exitUsage || cmd.Name() == "run" && code > 0) {
			continue
		}
		if word == "" && of < len(exitWords) {
			word = exitWords[of]
		}
		lines = append(lines, fmt.Sprintf("%3d  %s", code, word))
	}
	if cmd.Name() == "run" {
		lines = slices.Insert(lines, 1, "  n  below 100: that of the command, where what became of it is known")
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
