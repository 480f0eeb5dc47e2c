//go:build soak && linux

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
	"indoubt/policy/transport"
)

// TestI3_WhatASenderHasStartedEndsWithIt: where the sender fails, and at its
// deadline, also what has left its group. What one that ends well leaves is
// counted and left alone.
func TestI3_WhatASenderHasStartedEndsWithIt(t *testing.T) {
	const leave = `setsid sh -c 'echo $$ > "$1.tmp"; mv "$1.tmp" "$1"; exec sleep 600' x "$1" >/dev/null 2>&1 & while [ ! -e "$1" ]; do sleep 0.01; done; `
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
		q := transport.CommandRequest{Argv: []string{"sh", "-c", leave + c.then, "x", file}, Attempt: ledger.NewID(), Limits: transport.Limits{Timeout: time.Minute}}
		var a ledger.Answer
		if name == "at its deadline" {
			a = caught(t, q, file)
		} else {
			a = Command(t.Context(), q)
		}
		pid := strings.TrimSpace(string(need.Get(os.ReadFile(file))(t)))
		need.That(t, a.Tree == c.tree, "%s: tree %q", name, a.Tree)
		if c.lives {
			need.That(t, alive(pid), "%s: it was ended", name)
			n, _ := strconv.Atoi(pid)
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
		until(t, name+": it ends", func() bool { return !alive(pid) }) // one that was killed takes a moment
	}
	need.Equal(t, Command(t.Context(), transport.CommandRequest{Argv: []string{"true"}, Attempt: ledger.NewID()}).Tree, ledger.TreeEmpty, "nothing left: tree")
	need.Equal(t, Command(t.Context(), transport.CommandRequest{Argv: []string{"true"}}).Tree, ledger.TreeNone, "a check: tree")
}
