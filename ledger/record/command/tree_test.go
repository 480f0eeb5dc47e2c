//go:build linux

package command

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/boot"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/procgroup"
)

// worker is a process that lives long, and writes its id to the file $1.
const worker = `/bin/sh -c 'echo $$ > "$1.tmp"; mv "$1.tmp" "$1"; exec sleep 60' x "$1"`

// leaving are the ways in which a command leaves a worker behind; it waits until
// the worker lives.
// The soak lane knows more of them, for which it needs another shell and more programs.
var (
	leaving = map[string]string{
		"in its group": worker + ` & `,
		"deaf to TERM": `/bin/sh -c 'trap "" TERM; echo $$ > "$1.tmp"; mv "$1.tmp" "$1"; while :; do sleep 60; done' x "$1" & `,
	}
	guarded = []string{"in its group"}
	shell   = "/bin/sh"
)

const untilItLives = `while [ ! -e "$1" ]; do sleep 0.01; done; `

// runTree runs a script with the place for a worker's id as $1.
func runTree(t *testing.T, p role, script string) (cmd *exec.Cmd, pid string, said *bytes.Buffer) {
	t.Helper()
	pid, said = filepath.Join(t.TempDir(), "pid"), new(bytes.Buffer)
	cmd = p.command(t, shell, "-c", script, "x", pid)
	cmd.Stdout, cmd.Stderr = said, said
	need.OK(t, cmd.Start())
	t.Cleanup(func() { killed(pid) })
	return cmd, pid, said
}

// killed ends a worker that lives on.
func killed(file string) {
	if text, err := os.ReadFile(file); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func lives(t *testing.T, file string) bool {
	t.Helper()
	text := need.Get(os.ReadFile(file))(t)
	pid := need.Get(strconv.Atoi(strings.TrimSpace(string(text))))(t)
	return alive(pid)
}

func attemptOf(t *testing.T, path string) ledger.Attempt {
	t.Helper()
	rec := need.Get(openLedger(t, path).Read(t.Context(), ledger.Locator{Kind: "post", Key: "k"}))(t)
	return rec.Attempts[0]
}

// TestI3_AFailedCommandLeavesNobodyBehind: what it had started is ended with it,
// wherever it has gone.
func TestI3_AFailedCommandLeavesNobodyBehind(t *testing.T) {
	for name, start := range leaving {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.db")
			cmd, pid, said := runTree(t, role{name: "run", ledger: path, key: "k", deadline: "30s", guard: true}, start+untilItLives+`exit 1`)
			need.Equal(t, code(cmd.Wait()), 106, said, "exit")
			need.That(t, !lives(t, pid), "the worker lives on")
			a := attemptOf(t, path)
			need.That(t, a.Tree == ledger.TreeEmpty && !a.TreeAt.IsZero() && a.Place == procgroup.Here() && a.PID == cmd.Process.Pid, "%+v", a)
		})
	}
}

// TestI10_TheGuardOfAKilledRunEndsItsTree and says so in the ledger.
func TestI10_TheGuardOfAKilledRunEndsItsTree(t *testing.T) {
	for _, how := range guarded {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.db")
			cmd, pid, _ := runTree(t, role{name: "run", ledger: path, key: "k", deadline: "30s", guard: true}, leaving[how]+`sleep 60`)
			until(t, "the worker lives", func() bool { _, err := os.Stat(pid); return err == nil })
			need.OK(t, cmd.Process.Kill())
			_ = cmd.Wait()
			gone(t, pid)
			until(t, "the guard has said so", func() bool { return attemptOf(t, path).Tree == ledger.TreeEmpty })
		})
	}
}

// TestI6_KilledWithItsGuard: nobody has ended what is left, and whoever looks
// finds it for as long as it lives.
func TestI6_KilledWithItsGuard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	cmd, pid, _ := runTree(t, role{name: "run", ledger: path, key: "k", deadline: "30s"}, leaving["in its group"]+`exec sleep 60`) // as if it had none
	until(t, "the worker lives", func() bool { _, err := os.Stat(pid); return err == nil })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	a := attemptOf(t, path)
	found, err := procgroup.Trace(a)
	need.Must(t, a.Tree == ledger.TreeOpen && err == nil && len(found) != 0, "%s, found %v, %v", a.Tree, found, err)
	for what, change := range map[string]func(*ledger.Attempt){
		"another process namespace":     func(a *ledger.Attempt) { a.PIDNamespace = "pid:[1]" },
		"another host":                  func(a *ledger.Attempt) { a.BootID, a.Host = "other", "other" },
		"another host of the same name": func(a *ledger.Attempt) { a.BootID = "other" },
		"not recorded":                  func(a *ledger.Attempt) { a.Place = ledger.Place{} },
	} {
		b := a
		change(&b)
		if found, err := procgroup.Trace(b); err == nil || len(found) > 0 || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v, %v", what, found, err)
		}
	}
	old := a
	old.BootID, old.StartedAt = "before", time.UnixMilli(1_000_000_000_000)
	if found, err := procgroup.Trace(old); (err != nil) != (boot.Machine() == "") || len(found) > 0 {
		t.Errorf("before this host was started anew: %v, %v", found, err)
	}
	// A host is not told by its name: pods and clones share one.
	for _, namespace := range []string{"pid:[4026532711]", "pid:[4026531836]", "pid:[4026531836] of another"} {
		old.PIDNamespace = namespace
		if found, err := procgroup.Trace(old); err == nil {
			t.Errorf("in %s of a host of this name, before this one was started: %v", namespace, found)
		}
	}
	killed(pid)
	until(t, "nothing is found any more", func() bool {
		found, err := procgroup.Trace(a)
		return err == nil && len(found) == 0
	})
}

// TestI6_AStoppedRunMayStartItsCommandYet: the one that recorded the attempt
// counts while it is stopped.
func TestI6_AStoppedRunMayStartItsCommandYet(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	need.OK(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	a := ledger.Attempt{ID: ledger.NewID(), PID: cmd.Process.Pid, StartedAt: time.Now(), Place: procgroup.Here()}
	if found, err := procgroup.Trace(a); err != nil || len(found) > 0 {
		t.Fatalf("%v, %v", found, err)
	}
	_ = cmd.Process.Signal(syscall.SIGSTOP)
	until(t, "it counts", func() bool { found, err := procgroup.Trace(a); return err == nil && len(found) == 1 })
}

// TestI6_ANestedRunBelongsToBoth: what the inner run has started is the outer
// one's too.
func TestI6_ANestedRunBelongsToBoth(t *testing.T) {
	env := procgroup.Environ(procgroup.Environ(procgroup.Environ([]string{"A=b"}, "outer"), "middle"), "inner")
	cmd := exec.Command("sleep", "60")
	cmd.Env = env
	need.OK(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for _, id := range []string{"outer", "middle", "inner"} {
		until(t, "it carries "+id, func() bool {
			found, err := procgroup.Trace(ledger.Attempt{ID: id, StartedAt: time.Now(), Place: procgroup.Here()})
			return err == nil && len(found) == 1
		})
	}
	if found, err := procgroup.Trace(ledger.Attempt{ID: "out", StartedAt: time.Now(), Place: procgroup.Here()}); err != nil || len(found) > 0 {
		t.Errorf("part of an id: %v, %v", found, err)
	}
}

// TestI2_ARefusalIsNoProofWhileAProcessIsLeft: whatever the answer says.
func TestI2_ARefusalIsNoProofWhileAProcessIsLeft(t *testing.T) {
	r := record.New(ledgertest.NewBreakable(nil), oneRule(record.KindRule{Judge: func(context.Context, ledger.Record, ledger.Answer) (ledger.Ruling, error) {
		return ledger.Ruling{Decided: true, Outcome: ledger.OutcomeFailed}, nil
	}}), record.Options{})
	left := runOver(t, r, Request{Request: record.Request{Key: "left"}, Argv: sh(`sleep 60 >/dev/null 2>&1 & echo $!`)})
	pid, _ := strconv.Atoi(strings.TrimSpace(left.out))
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	if left.Operation.State != ledger.Uncertain || left.Attempt.Tree != ledger.TreeOpen || !alive(pid) {
		t.Errorf("with a process left: %s, tree %q, alive %v", left.Operation.State, left.Attempt.Tree, alive(pid))
	}
	none := runOver(t, r, Request{Request: record.Request{Key: "none"}, Argv: sh(`:`)})
	need.That(t, none.Operation.State == ledger.Failed && none.Attempt.Tree == ledger.TreeEmpty, "with none: %s, tree %q", none.Operation.State, none.Attempt.Tree)
}
