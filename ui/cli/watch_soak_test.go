//go:build soak

package cli_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"indoubt/ledger/need"
)

// A terminal shows one list, and nothing is written while it stays as it is.
func TestE2E_AWatchIsDrawnInPlace(t *testing.T) {
	s := newSite(t)
	op := s.doubtful("post", "k1", `{"text":"one"}`)
	s.must(0, "confirm", seen(op), "--reason", "seen there")
	cmd := exec.Command(program, "list", "--watch", "state:uncertain")
	cmd.Env = s.env
	tty := need.Get(pty.StartWithSize(cmd, &pty.Winsize{Rows: 10, Cols: 70}))(t)
	defer tty.Close()
	screen := &heard{}
	gone := make(chan struct{})
	go func() {
		io.Copy(screen, tty)
		close(gone)
	}()
	s.eventually("it is drawn", func() bool { return strings.Contains(screen.String(), "0 operations") })
	time.Sleep(6 * time.Second) // it has looked again
	need.Equal(t, strings.Count(screen.String(), "0 operations"), 1, "times that it was drawn")
	for n := range 9 {
		s.doubtful("post", "m"+string(rune('0'+n)), `{"text":"more"}`)
	}
	s.eventually("it is drawn in place", func() bool {
		_, last, again := strings.Cut(screen.String(), "9 operations")
		return again && strings.Contains(last, "Ctrl-C ends") && strings.Contains(screen.String(), "\x1b[2A\r")
	})
	need.Contains(t, screen.String(), "… 4 more")
	tty.WriteString("\x03")
	need.OK(t, cmd.Wait())
	<-gone
}

// A ledger that goes away is missed aloud, and followed again when it is back: each event
// comes once.
func TestE2E_AWatchOutlivesTheLossOfItsLedger(t *testing.T) {
	s := newSite(t)
	first := s.doubtful("post", "k1", `{"text":"one"}`)
	rows, log := s.watches("list", "-w", "-o", "name"), s.watches("log", "--follow", "-o", "jsonl")
	both := []*watching{rows, log}
	rows.line(first.ID)
	log.line(first.ID, `"begin"`)
	log.line(first.ID, `"settle"`)
	away := filepath.Join(t.TempDir(), "away")
	need.OK(t, os.Rename(filepath.Dir(s.ledger), away))
	for _, w := range both {
		s.eventually("the loss is said", func() bool { return strings.Contains(w.said.String(), "the ledger is lost: ") })
	}
	need.OK(t, os.Rename(away, filepath.Dir(s.ledger)))
	for _, w := range both {
		s.eventually("the return is said", func() bool { return strings.Contains(w.said.String(), "the ledger is back") })
	}
	second := s.doubtful("post", "k2", `{"text":"two"}`)
	for rows.line("") != second.ID {
	}
	log.line(second.ID, `"begin"`)
	log.line(second.ID, `"settle"`)
	for _, w := range both {
		need.OK(t, w.cmd.Process.Signal(syscall.SIGTERM))
		w.ends()
		need.Equal(t, strings.Count(w.said.String(), "\n"), 2, "lines")
	}
}
