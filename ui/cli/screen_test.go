//go:build unix

package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"indoubt/ledger/need"
)

// screen is a program on a terminal, and all it has drawn.
type screen struct {
	cmd *exec.Cmd
	tty *os.File
	mu  sync.Mutex
	raw bytes.Buffer
}

func (s *site) console(args ...string) *screen {
	s.Helper()
	cmd := s.command(args...)
	cmd.Env, cmd.Dir = append(s.env, "TERM=xterm-256color"), s.dir
	return onScreen(s.T, cmd, 160)
}

// onScreen starts a program on a terminal so many columns wide.
func onScreen(t *testing.T, cmd *exec.Cmd, columns uint16) *screen {
	t.Helper()
	tty := need.Get(pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns}))(t)
	c := &screen{cmd: cmd, tty: tty}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait(); tty.Close() })
	go func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := tty.Read(buf)
			c.mu.Lock()
			c.raw.Write(buf[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return c
}

// drawn is all that was drawn since a text was found.
func (c *screen) drawn() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw.String()
}

// shown reports whether a text was drawn since the last time one was found.
func (c *screen) shown(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := bytes.Contains(c.raw.Bytes(), []byte(text))
	if found {
		c.raw.Reset()
	}
	return found
}

func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(status), ") Z ")
}
