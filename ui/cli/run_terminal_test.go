//go:build linux

package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// seat is a program at a terminal of its own, and what it has printed there.
type seat struct {
	*testing.T
	tty *os.File
	cmd *exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
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
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{T: t, tty: tty, cmd: cmd}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			s.mu.Lock()
			s.out.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); tty.Close() })
	return s
}

// sees waits until a text is on the screen.
func (s *seat) sees(text string) {
	s.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		seen := strings.Contains(s.out.String(), text)
		s.mu.Unlock()
		if seen {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Fatalf("%q never comes\n%s", text, s.out.String())
}

func (s *seat) types(keys string) {
	s.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		s.Fatal(err)
	}
}

// TestRunGivesTheTerminalToItsCommand, which asks there for what it needs, and
// takes it back for the script that goes on.
func TestRunGivesTheTerminalToItsCommand(t *testing.T) {
	dir := place(t)
	s := sit(t, dir, "sh", "-c", `indoubt run --kind k --key a -- sh -c 'echo asking; read word < /dev/tty; read next; echo "it said $word $next"'
		echo "exit $?"; read last; echo "then $last"`)
	s.sees("asking")
	s.types("hello\nworld\n")
	s.sees("it said hello world")
	s.sees("exit 0")
	s.types("more\n")
	s.sees("then more")
}

// TestRunInterruptedAtTheTerminal: the key reaches the command, and the script
// around it; what it leaves is in doubt, and the terminal as it was.
func TestRunInterruptedAtTheTerminal(t *testing.T) {
	dir := place(t)
	s := sit(t, dir, "sh", "-c", `trap 'echo the script heard it' INT
		indoubt run --kind k --key a -- sh -c 'stty -echo; echo asking; read word'
		echo "exit $?"; stty -a | tr ";" "\n" | grep -o -- "-*echo\>" | head -n 1; read last; echo "then $last"`)
	s.sees("asking")
	s.types("\x03")
	s.sees("exit 106")
	s.sees("the script heard it")
	s.types("more\n")
	s.sees("then more")
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(s.out.String(), "-echo\r\n") {
		t.Errorf("the terminal is left without echo\n%s", s.out.String())
	}
}

// TestRunStoppedAtTheTerminal: the whole job stops with its command, and goes on
// with it.
func TestRunStoppedAtTheTerminal(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
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
