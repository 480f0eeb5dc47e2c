//go:build unix

package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
)

// What is longer than the terminal goes through the pager, and nothing else does.
func TestLongTextIsPaged(t *testing.T) {
	b := newBench(t)
	for n := 1; n <= 12; n++ {
		b.doubt(n, "other", strings.Replace(charge, "1042", id(n)[34:], 1))
	}
	pagerOf := filepath.Join(b.dir, "pager")
	need.OK(t, os.WriteFile(pagerOf, []byte("#!/bin/sh\necho PAGED $LESS\ncat\n"), 0o700))
	for line, want := range map[string]bool{
		"list": true, "log": true, "show " + id(1): true, "list --limit 2": false, "list --no-pager": false, "log -o jsonl": false, "list -o name": false, "deny " + b.at(1) + " --reason r --yes": false,
	} {
		out := b.onPages(pagerOf, 14, strings.Fields(line)...)
		need.That(t, strings.Contains(out, "PAGED FRX") == want && strings.Contains(out, "\n"), "indoubt %s:\n%s", line, out)
	}
	need.Contains(t, b.onPages("/none/less -R", 14, "list"), id(12)[:13])
	b.env["TERM"] = "dumb" // as of an editor: it has no pages, and no place for a console
	for _, line := range []string{"list", "", "kind:other"} {
		out := b.onPages(pagerOf, 14, strings.Fields(line)...)
		need.That(t, strings.Contains(out, id(12)[:13]) && !strings.Contains(out, "PAGED") && !strings.Contains(out, "\x1b"), "indoubt %s:\n%q", line, out)
	}
}

// onPages runs a command line on a terminal that many lines high.
func (b *bench) onPages(pager string, rows uint16, args ...string) string {
	b.Helper()
	screen, tty, err := pty.Open()
	need.OK(b, err)
	defer screen.Close()
	need.OK(b, pty.Setsize(tty, &pty.Winsize{Rows: rows, Cols: 120}))
	seen := make(chan string)
	go func() {
		all, _ := io.ReadAll(screen) // ends with EIO, when the other end is closed
		seen <- string(all)
	}()
	a := newApp(strings.NewReader(""), tty, tty)
	a.clock, a.steady = b.clock, hostclock.With(b.clock)
	a.env = func(name string) string {
		return map[string]string{"INDOUBT_LEDGER": b.ledger, "INDOUBT_POLICY": b.policy, "INDOUBT_ACTOR": "maya", "PAGER": pager, "TERM": b.env["TERM"]}[name]
	}
	a.run(context.Background(), args)
	tty.Close()
	return <-seen
}
