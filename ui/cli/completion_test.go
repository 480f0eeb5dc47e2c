package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"indoubt/ledger/need"
	"indoubt/ui/cli/base"
)

func TestCompletion(t *testing.T) {
	b := newBench(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := b.want(0, "completion", shell); !strings.Contains(out, "indoubt") {
			t.Errorf("%s: %s", shell, out)
		}
	}
	b.json(2, "completion", "tcsh")
	b.json(2, "completion")
	need.Contains(t, b.want(0, "--help"), "Decide:", "Set up and look after:")
}

func TestEveryCommandHasHelp(t *testing.T) {
	root := newRootCommand(base.NewApp(strings.NewReader(""), nil, nil), nil)
	for _, cmd := range root.Commands() {
		if cmd.Short == "" || !cmd.Hidden && cmd.GroupID == "" && cmd.Name() != "help" {
			t.Errorf("%s lacks a line or a group", cmd.Name())
		}
		if strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: its line ends with a full stop", cmd.Name())
		}
	}
}

// A command that is built alone is the one of the whole tree.
func TestACommandAlone(t *testing.T) {
	build := func(args ...string) *cobra.Command {
		return newRootCommand(base.NewApp(strings.NewReader(""), nil, nil), args)
	}
	whole := build()
	for _, c := range commands {
		root := build(c.name)
		if n := len(root.Commands()); n != 1 && c.name != "completion" {
			t.Errorf("indoubt %s builds %d commands", c.name, n)
		}
		one, _, err := root.Find([]string{c.name})
		of, _, errOf := whole.Find([]string{c.name})
		if err != nil || errOf != nil || one.Name() != c.name || one.UsageString() != of.UsageString() {
			t.Errorf("indoubt %s is another one alone: %v %v\n%s", c.name, err, errOf, one.UsageString())
		}
	}
	for _, args := range [][]string{{}, {"help", "run"}, {"--json", "run"}, {"lst"}, {cobra.ShellCompRequestCmd, ""}} {
		if got, want := len(build(args...).Commands()), len(whole.Commands()); got != want {
			t.Errorf("indoubt %s knows %d of %d commands", strings.Join(args, " "), got, want)
		}
	}
}

func TestTheVersionIsTheReleases(t *testing.T) {
	release = "v1.2.3"
	t.Cleanup(func() { release = "" })
	if got := version(); !strings.HasPrefix(got, "v1.2.3, go") {
		t.Error(got)
	}
	build, err := os.ReadFile("../../Makefile")
	need.That(t, err == nil && strings.Contains(string(build), "-X indoubt/ui/cli.release=$(VERSION)"), "the build does not set the variable: %v", err)
}
