//go:build soak

package cli_test

import (
	"testing"

	"indoubt/ledger/need"
)

// TestRunStoppedAtTheTerminal: the whole job stops with its command, and goes on
// with it.
func TestRunStoppedAtTheTerminal(t *testing.T) {
	need.Program(t, "bash")
	s := sit(t, place(t), "bash", "--norc", "--noprofile", "-i")
	s.types("indoubt run --kind k --key a -- sh -c 'echo ask\"\"ing; read word; echo \"it said $word\"'\n")
	s.sees("asking")
	s.types("\x1a")
	s.sees("Stopped")
	s.types("echo still \"\"here\n")
	s.sees("still here")
	s.types("fg\n")
	s.types("hello\n")
	s.sees("it said hello")
	s.types("echo exit=$?\n")
	s.sees("exit=0")
}
