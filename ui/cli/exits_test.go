package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"indoubt/ledger/need"
)

// ended are the exit codes of commands that are not told of, as the tests have seen them.
var ended struct {
	sync.Mutex
	root   *cobra.Command
	untold map[string]bool
}

// Ended notes how a command line ended.
func Ended(args []string, exit int) {
	ended.Lock()
	defer ended.Unlock()
	if ended.root == nil {
		ended.root, ended.untold = newRootCommand(newApp(strings.NewReader(""), nil, nil), nil), map[string]bool{}
	}
	if line := untold(ended.root, args, exit); line != "" {
		ended.untold[line] = true
	}
}

func untold(root *cobra.Command, args []string, exit int) string {
	cmd, _, err := root.Find(beforeDashes(args))
	if err != nil || exit <= exitUsage || cmd.Name() == "run" && exit < ownVerdict { // of its command
		return ""
	}
	if _, told := exitTable()[nameOf(cmd)][exit]; told {
		return ""
	}
	return fmt.Sprintf("indoubt %s exits %d, which exits.go does not tell: %q", nameOf(cmd), exit, args)
}

// Untold are the lines about codes that the help does not tell of.
func Untold() []string { return slices.Sorted(maps.Keys(ended.untold)) }

// Each page tells the codes of its command, and each command is in the table.
func TestEachCommandTellsItsExitCodes(t *testing.T) {
	b := newBench(t)
	var names []string
	var each func(*cobra.Command)
	each = func(cmd *cobra.Command) {
		names = append(names, nameOf(cmd))
		need.Lacks(t, cmd.Long, "Exit codes") // the table tells of them
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	each(newRootCommand(newApp(strings.NewReader(""), nil, nil), nil))
	for name := range exitTable() {
		need.That(t, slices.Contains(names, name), "exits.go tells of `%s`, which is no command", name)
		words := strings.Fields(name)
		for code, word := range exitTable()[name] {
			if word == "" {
				word = exitWords[code%ownVerdict]
			}
			line := fmt.Sprintf("%3d  %s", code, word)
			need.Contains(t, b.want(0, append(words, "--help")...), line)
		}
	}
	need.Lacks(t, b.want(0, "show", "--help"), "  6  ")
	b.want(3, "runs", "resume", "zz")
	root := newRootCommand(newApp(strings.NewReader(""), nil, nil), nil)
	need.Equal(t, untold(root, []string{"show", "x"}, 3), "")
	need.Contains(t, untold(root, []string{"show", "x"}, 6), "indoubt show exits 6")
	need.Contains(t, untold(root, []string{"run", "--kind", "k", "--", "x"}, 110), "indoubt run exits 110")
}
