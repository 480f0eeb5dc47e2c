// Command test runs `go test` with the arguments it is given. It prints a line for
// each package as it ends, with its seconds beside its budget, and the output of each
// test that fails. At the end come the skipped tests with their reasons, the packages
// over their budget, the flaky tests, and the lines of `go test`. Temporary files go to
// a directory that is removed at the end.
//
// Before the arguments of `go test` it takes:
//
//	-again  run a test that failed once more; one that passes then is flaky, is named,
//	        and does not fail the run
//
// A package over its budget does not fail: how long it takes depends on the machine.
// What a test may do is counted in ui/house.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	again := len(args) > 0 && args[0] == "-again"
	if again {
		args = args[1:]
	}
	// Sockets are made in here too, and their paths must be short.
	dir, err := os.MkdirTemp("", "it")
	if err != nil {
		return err
	}
	defer removeAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // some tests start programs as another user
		return err
	}
	fmt.Println("Compiling; the first time takes some minutes. Each package is named when its tests have ended.")
	r := newReport()
	err = goTest(ctx, dir, args, r)
	if err != nil && again && ctx.Err() == nil {
		err = r.repeat(err, func(name, pattern string) (*report, error) {
			once := newReport()
			return once, goTest(ctx, dir, append(flagsOf(args), "-count=1", "-run", pattern, name), once)
		})
	}
	r.end(dir)
	return err
}

// goTest runs `go test` and reports its events.
func goTest(ctx context.Context, dir string, args []string, r *report) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "TMUX_TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, err)
			}
			break
		}
	}
	return cmd.Wait()
}

// flagsOf returns the arguments of `go test` before the packages.
func flagsOf(args []string) []string {
	end := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "./") })
	if end < 0 {
		end = len(args)
	}
	return slices.Clone(args[:end])
}

// removeAll removes a tree in which tests have taken away their own rights.
func removeAll(dir string) {
	if os.RemoveAll(dir) != nil {
		_ = exec.Command("chmod", "-R", "u+rwX", dir).Run()
		_ = os.RemoveAll(dir)
	}
}

// event is a line of `go test -json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

func (e *event) parse(text string) bool { return json.Unmarshal([]byte(text), e) == nil }
