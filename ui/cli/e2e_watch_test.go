//go:build unix

package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"indoubt/ledger/need"
)

// watching is a list that is watched in a pipe.
type watching struct {
	*testing.T
	cmd   *exec.Cmd
	out   io.ReadCloser
	lines chan string
	said  *heard
}

// heard is what a process has said until now.
type heard struct {
	sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.Lock()
	defer h.Unlock()
	return h.text.Write(p)
}

func (h *heard) String() string {
	h.Lock()
	defer h.Unlock()
	return h.text.String()
}

func (s *site) watches(args ...string) *watching {
	s.Helper()
	w := &watching{T: s.T, cmd: exec.Command(program, args...), lines: make(chan string, 100), said: &heard{}}
	w.cmd.Env, w.cmd.Stderr = s.env, w.said
	w.out = need.Get(w.cmd.StdoutPipe())(s)
	need.OK(s, w.cmd.Start())
	s.Cleanup(func() { w.cmd.Process.Kill() })
	go func() {
		for in := bufio.NewScanner(w.out); in.Scan(); {
			w.lines <- in.Text()
		}
		close(w.lines)
	}()
	return w
}

// line is the next line, which holds all of these.
func (w *watching) line(all ...string) string {
	w.Helper()
	select {
	case line := <-w.lines:
		need.Contains(w, line, all...)
		return line
	case <-time.After(patience):
		w.Fatalf("no line with %q; it said %s", all, w.said)
		return ""
	}
}

// ends waits for its clean end.
func (w *watching) ends() {
	w.Helper()
	stuck := time.AfterFunc(patience, func() { w.cmd.Process.Kill() })
	defer stuck.Stop()
	need.OK(w, w.cmd.Wait())
}

// Each row is printed when it changes, also as it leaves the list, and no other row is.
func TestE2E_AListIsWatched(t *testing.T) {
	s := newSite(t)
	first := s.doubtful("post", "k1", `{"text":"one"}`)
	rows, incidents, ids := s.watches("list", "--watch", "state:uncertain", "-o", "jsonl"), s.watches("incident", "list", "-w", "--json"), s.watches("list", "-w", "-o", "name")
	table, sheet := s.watches("list", "-w"), s.watches("list", "-w", "-o", "csv", "--columns", "id,state")
	rows.line(first.ID, `"uncertain"`)
	ids.line(first.ID)
	head := table.line("ID@VERSION", "STATE")
	table.line(first.ID, "uncertain")
	sheet.line("id,state")
	sheet.line(first.ID + ",uncertain")
	second := s.doubtful("post", "k2", `{"text":"two"}`)
	var row struct{ ID, State string }
	for row.ID != second.ID || row.State != "uncertain" { // it may be seen before
		need.OK(t, json.Unmarshal([]byte(rows.line(second.ID)), &row))
	}
	s.must(0, "confirm", seen(first), "--reason", "seen there")
	rows.line(first.ID, `"committed"`)
	for line := table.line(""); !strings.Contains(line, "committed"); line = table.line("") {
		need.That(t, !strings.Contains(line, "STATE") && strings.Index(line, "uncertain")+strings.Index(line, "pending") == strings.Index(head, "STATE")-1, "%s\n%s", head, line)
	}
	s.must(0, "hold", "--all", "--reason", "changes no row")
	for _, w := range []*watching{rows, incidents, ids, table, sheet} {
		need.OK(t, w.cmd.Process.Signal(os.Interrupt))
		if w == rows {
			for line := range w.lines {
				t.Errorf("a row that has not changed: %s", line)
			}
		}
		w.ends()
		need.Equal(t, w.said.String(), "", "what it said")
	}
	s.must(2, "list", "--watch", "--exit-code")
	s.must(2, "list", "--watch", "--after", "x")
}

// It ends when no one reads it any more, without a word and before it has more to print.
func TestE2E_AWatchEndsWithItsPipe(t *testing.T) {
	s := newSite(t)
	s.doubtful("post", "k1", `{"text":"one"}`)
	for _, line := range []string{"list -w", "list -w -o jsonl", "log --follow"} {
		w := s.watches(strings.Fields(line)...)
		w.line("")
		need.OK(t, w.out.Close())
		w.ends()
		need.Equal(t, w.said.String(), "", line)
	}
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
