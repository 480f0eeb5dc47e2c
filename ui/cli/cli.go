// Package cli is the command line of indoubt, one file a command.
//
// It wires the ground floors together: it opens the ledger, loads the policy,
// makes the engine and hands them to a command or to the console. It may import
// everything; nothing may import it but main. A command returns an error or
// calls app.done once; what is printed, where, and with which exit code is
// decided here, so that every command speaks alike.
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
)

// Main runs one command line and returns its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, func() { // the first signal asks, the second one kills
		procgroup.Asked()
		stop()
	})
	return newApp(stdin, stdout, stderr).run(ctx, args)
}

// outlivePipes keeps a closed standard output or error from ending this process:
// what it is about to record must be recorded all the same. Writes to them err
// then. Processes it starts are not affected.
func outlivePipes() (stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}

// run parses and carries out one command line.
func (a *app) run(ctx context.Context, args []string) int {
	defer a.close()
	root := newRootCommand(a, args)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errOut)
	a.json = a.json || slices.Contains(beforeDashes(args), "--json") // a command line that cannot be parsed is still answered as asked
	exit := exitDone
	if cmd, err := root.ExecuteContextC(ctx); err != nil && !errors.Is(err, a.out.Err()) {
		err = nextStep(cmd.CommandPath(), err)
		if name := cmd.Name(); name == "begin" || name == "run" {
			err = asVerdict(name, err)
		}
		exit = a.fail(err)
	}
	if lost := a.out.Err(); lost != nil && !errors.Is(lost, syscall.EPIPE) { // who reads no further wanted no more
		a.say(asFailure(lost))
		exit = cmp.Or(exit, exitError)
	}
	return exit
}

// beforeDashes is the part of a command line that is ours: what follows "--"
// belongs to a wrapped command.
func beforeDashes(args []string) []string {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i]
	}
	return args
}
