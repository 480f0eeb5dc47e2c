//go:build unix

package cli_test

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// following is a history that is followed in a pipe.
type following struct {
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

func (s *site) follows(args ...string) *following {
	s.Helper()
	w := &following{T: s.T, cmd: exec.Command(program, append([]string{"log", "--follow"}, args...)...), lines: make(chan string, 100), said: &heard{}}
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
func (w *following) line(all ...string) string {
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
func (w *following) ends() {
	w.Helper()
	stuck := time.AfterFunc(patience, func() { w.cmd.Process.Kill() })
	defer stuck.Stop()
	need.OK(w, w.cmd.Wait())
}

// It ends when no one reads it any more, without a word and before it has more to print.
func TestE2E_FollowingEndsWithItsPipe(t *testing.T) {
	s := newSite(t)
	s.doubtful("post", "k1", `{"text":"one"}`)
	w := s.follows()
	w.line("")
	need.OK(t, w.out.Close())
	w.ends()
	need.Equal(t, w.said.String(), "")
}
