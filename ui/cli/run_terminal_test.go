//go:build linux

package cli_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// seat is a program at a terminal of its own.
type seat struct {
	*testing.T
	*screen
}

func sit(t *testing.T, dir string, argv ...string) *seat {
	t.Helper()
	// A test that was started to ignore the key would hand that down.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, os.Interrupt)
	t.Cleanup(func() { signal.Stop(heard) })
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(binary(dir).Env, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "PS1=$ ")
	return &seat{T: t, screen: onScreen(t, cmd, 80)}
}

// sees waits until a text is on the screen.
func (s *seat) sees(text string) {
	s.Helper()
	eventually(s.T, text, func() bool { return strings.Contains(s.drawn(), text) })
}

func (s *seat) types(keys string) {
	s.Helper()
	need.Get(s.tty.WriteString(keys))(s)
}

// TestRunGivesTheTerminalToItsCommand, which asks there for what it needs, and
// takes it back for the script that goes on. No key reaches the command alone: a witness
// is in its group before it. It leads that group as under a shell: from another one timeout
// would take itself out of the foreground.
func TestRunGivesTheTerminalToItsCommand(t *testing.T) {
	dir := place(t)
	need.OK(t, os.WriteFile(filepath.Join(dir, "probe"), []byte(`cat /proc/[0-9]*/stat > stats 2>/dev/null
		while read -r pid _ _ _ group _; do
			[ $pid = $$ ] || [ $group != $$ ] || case $(tr "\0" " " < /proc/$pid/cmdline) in *" --witness ") exit 0 ;; esac
		done < stats; echo alone; exit 1`), 0o600))
	s := sit(t, dir, "sh", "-c", `indoubt run --kind k --key a -- sh probe; echo "probe $?"
		indoubt run --kind k --key b -- ./probe; echo "probe $?"; indoubt run --kind k --key c -- ./none; echo "none $?"
		indoubt run --kind k --key d -- timeout 60 sh -c 'echo asking; read word < /dev/tty; read next; echo "it said $word $next"'
		echo "exit $?"; read last; echo "then $last"`)
	s.sees("asking")
	s.types("hello\nworld\n")
	s.sees("it said hello world")
	s.sees("exit 0")
	s.types("more\n")
	s.sees("then more")
	need.Lacks(t, s.drawn(), "alone")
	need.Contains(t, s.drawn(), "probe 0", "probe: permission denied", "probe 126", "none: no such file or directory", "none 127")
}

// TestRunInterruptedAtTheTerminal: the key reaches the command, and the script
// around it; what it leaves is in doubt, and the terminal as it was.
func TestRunInterruptedAtTheTerminal(t *testing.T) {
	dir := place(t)
	s := sit(t, dir, "sh", "-c", `trap 'echo the script heard it' INT
		indoubt run --kind k --key a -- sh -c 'stty -echo; echo asking; read word'
		echo "exit $?"; case $(stty -a) in *" -echo "*) echo "left with -echo" ;; esac; read last; echo "then $last"`)
	s.sees("asking")
	s.types("\x03")
	s.sees("exit 106")
	s.sees("the script heard it")
	s.types("more\n")
	s.sees("then more")
	need.Lacks(t, s.drawn(), "-echo\r\n")
}
