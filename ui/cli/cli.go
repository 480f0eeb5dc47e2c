// Package cli is the command line of indoubt, one file a command.
//
// It wires the ground floors together: it opens the ledger, loads the policy,
// makes the engine and hands them to a command or to the console. It may import
// everything; nothing may import it but main. A command returns an error or
// calls App.Done once; what is printed, where, and with which exit code is
// decided in ui/cli/base, so that every command speaks alike.
package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"indoubt/ledger/wire/procgroup"
	"indoubt/ui/cli/base"
)

// Main runs one command line and returns its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, func() { // the first signal asks, the second one kills
		procgroup.Asked()
		stop()
	})
	return run(ctx, base.NewApp(stdin, stdout, stderr), args)
}

// run parses and carries out one command line.
func run(ctx context.Context, a *base.App, args []string) int {
	defer a.Close()
	root := newRootCommand(a, args)
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.ErrOut)
	ours := args
	if i := slices.Index(args, "--"); i >= 0 { // what follows belongs to a wrapped command
		ours = args[:i]
	}
	a.JSON = a.JSON || slices.Contains(ours, "--json") // a command line that cannot be parsed is still answered as asked
	exit := base.ExitDone
	if cmd, err := root.ExecuteContextC(ctx); err != nil && !errors.Is(err, a.Out.Err()) {
		err = base.NextStep(cmd.CommandPath(), err)
		if name := cmd.Name(); name == "begin" || name == "run" {
			err = asVerdict(name, err)
		}
		exit = a.Fail(err)
	}
	if lost := a.Out.Err(); lost != nil && !errors.Is(lost, syscall.EPIPE) { // who reads no further wanted no more
		a.Say(base.AsFailure(lost))
		exit = cmp.Or(exit, base.ExitError)
	}
	return exit
}
