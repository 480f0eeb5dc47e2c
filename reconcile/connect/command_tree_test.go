//go:build linux

package connect

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// TestI3_WhatASenderHasStartedEndsWithIt: where the sender fails, and at its
// deadline, also what has left its group. What one that ends well leaves is
// counted and left alone.
func TestI3_WhatASenderHasStartedEndsWithIt(t *testing.T) {
	const leave = `setsid sh -c 'echo $$ > "$1.tmp"; mv "$1.tmp" "$1"; exec sleep 60' x "$1" >/dev/null 2>&1 & while [ ! -e "$1" ]; do sleep 0.01; done; `
	for name, c := range map[string]struct {
		then  string
		tree  ledger.Tree
		lives bool
	}{
		"it fails":        {"exit 1", ledger.TreeEmpty, false},
		"at its deadline": {"sleep 60", ledger.TreeEmpty, false},
		"it ends well":    {"exit 0", ledger.TreeOpen, true},
	} {
		file := filepath.Join(t.TempDir(), "pid")
		a := Command(t.Context(), CommandRequest{Argv: []string{"sh", "-c", leave + c.then, "x", file}, Deadline: time.Now().Add(2 * time.Second), Attempt: ledger.NewID()})
		text := need.Get(os.ReadFile(file))(t)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		lives := syscall.Kill(pid, 0) == nil && !zombie(pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
		need.That(t, a.Tree == c.tree && lives == c.lives, "%s: tree %q, lives %v", name, a.Tree, lives)
	}
	need.Equal(t, Command(t.Context(), CommandRequest{Argv: []string{"true"}, Attempt: ledger.NewID()}).Tree, ledger.TreeEmpty, "nothing left: tree")
	need.Equal(t, Command(t.Context(), CommandRequest{Argv: []string{"true"}}).Tree, ledger.TreeNone, "a check: tree")
}
