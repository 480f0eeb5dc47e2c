//go:build unix

package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

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
