// Command test runs `go test` with the arguments it is given. It prints a line for
// each package as it ends and the output of each test that fails, then what was
// skipped and why, then the lines of `go test`. Temporary files go to a directory
// that is removed at the end.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
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
	// Sockets are made in here too, and their paths must be short.
	dir, err := os.MkdirTemp("", "it")
	if err != nil {
		return err
	}
	defer removeAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // some tests start programs as another user
		return err
	}
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
	r := report{began: time.Now(), output: map[[2]string][]string{}, tests: map[string]int{}}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line)
		}
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	r.end(dir)
	return err
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

type report struct {
	began   time.Time
	output  map[[2]string][]string // by package and test
	tests   map[string]int         // that have ended, by package
	skipped []string
	summary []string // the lines of go test
}

func (r *report) line(text string) {
	var e event
	if json.Unmarshal([]byte(text), &e) != nil {
		fmt.Print(text)
		return
	}
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Print(e.Output)
	case "output":
		r.output[key] = append(r.output[key], e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			r.packageEnded(e)
			return
		}
		r.tests[e.Package]++
		switch e.Action {
		case "fail":
			fmt.Print(strings.Join(r.output[key], ""))
		case "skip":
			r.skipped = append(r.skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(r.output[key])))
		}
		delete(r.output, key)
	}
}

func (r *report) packageEnded(e event) {
	for _, line := range r.output[[2]string{e.Package, ""}] {
		if word, _, ok := strings.Cut(line, "\t"); ok && slices.Contains([]string{"ok  ", "?   ", "FAIL", "---"}, word) {
			r.summary = append(r.summary, line)
		} else if e.Action == "fail" {
			fmt.Print(line)
		}
	}
	for key, lines := range r.output {
		if key[0] == e.Package && key[1] != "" { // it has not come to its end
			fmt.Print(strings.Join(lines, ""))
		}
		if key[0] == e.Package {
			delete(r.output, key)
		}
	}
	if r.tests[e.Package] > 0 {
		fmt.Printf("%4.0f s  %s: %s, %d tests in %.1f s\n", time.Since(r.began).Seconds(), e.Package, e.Action, r.tests[e.Package], e.Elapsed)
	}
}

var place = regexp.MustCompile(`^\s+\w+\.go:\d+: `)

// reason is what a test that was skipped said last.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if place.MatchString(line) {
			return strings.TrimSpace(place.ReplaceAllString(line, ""))
		}
	}
	return "it does not say why"
}

func (r *report) end(dir string) {
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		fmt.Println("Left in the temporary folder, and removed:")
		for _, e := range entries {
			fmt.Println("  " + e.Name())
		}
	}
	fmt.Printf("Skipped: %d\n", len(r.skipped))
	slices.Sort(r.skipped)
	for _, line := range r.skipped {
		fmt.Println("  " + line)
	}
	slices.SortFunc(r.summary, func(a, b string) int {
		_, a, _ = strings.Cut(a, "\t")
		_, b, _ = strings.Cut(b, "\t")
		return strings.Compare(a, b)
	})
	fmt.Print(strings.Join(r.summary, ""))
}
