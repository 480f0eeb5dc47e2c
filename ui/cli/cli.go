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

	"golang.org/x/sys/unix"

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
	ours := args
	if i := slices.Index(args, "--"); i >= 0 { // what follows belongs to a wrapped command
		ours = args[:i]
	}
	a.json = a.json || slices.Contains(ours, "--json") // a command line that cannot be parsed is still answered as asked
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

// tellInterrupt has the script that this is a part of hear of the interrupt too.
func tellInterrupt() {
	signal.Ignore(syscall.SIGINT)
	_ = syscall.Kill(0, syscall.SIGINT)
}

// whileRead is ctx until the other end of a pipe or terminal is closed; a write to it errs then.
func whileRead(ctx context.Context, out io.Writer) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(ctx)
	dies := outlivePipes()
	stop := func() { end(); dies() }
	if f, ok := out.(*os.File); ok {
		fds := []unix.PollFd{{Fd: int32(f.Fd())}}
		go func() {
			for ctx.Err() == nil {
				if n, _ := unix.Poll(fds, 1000); n > 0 {
					if fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
						end()
					}
					return
				}
			}
		}()
	}
	return ctx, stop
}
