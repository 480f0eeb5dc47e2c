//go:build unix

package cli

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"

	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
	"indoubt/ui/cli/base"
)

// A terminal that cannot move its cursor, as that of an editor, is no place for a console.
func TestADumbTerminalGetsTheList(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "other", charge)
	for _, line := range []string{"list", "", "kind:other"} {
		out := b.onDumb(strings.Fields(line)...)
		need.That(t, strings.Contains(out, id(1)[:13]) && !strings.Contains(out, "\x1b"), "indoubt %s:\n%q", line, out)
	}
}

// onDumb runs a command line on a terminal that can only print.
func (b *bench) onDumb(args ...string) string {
	b.Helper()
	screen, tty, err := pty.Open()
	need.OK(b, err)
	defer screen.Close()
	need.OK(b, pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 120}))
	seen := make(chan string)
	go func() {
		all, _ := io.ReadAll(screen) // ends with EIO, when the other end is closed
		seen <- string(all)
	}()
	a := base.NewApp(strings.NewReader(""), tty, tty)
	a.Clock, a.Steady = b.clock, hostclock.With(b.clock)
	a.Env = func(name string) string {
		return map[string]string{"INDOUBT_LEDGER": b.ledger, "INDOUBT_POLICY": b.policy, "INDOUBT_ACTOR": "maya", "TERM": "dumb"}[name]
	}
	run(context.Background(), a, args)
	tty.Close()
	return <-seen
}
