//go:build unix

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
	"indoubt/ledger/record/command/standby"
)

// runRole is a process of its own that runs one command over a real ledger.
func runRole() int {
	store, err := open.Create(context.Background(), os.Getenv("T_LEDGER"), open.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 101
	}
	defer store.Close()
	deadline, err := time.ParseDuration(os.Getenv("T_DEADLINE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 102
	}
	req := Request{Request: record.Request{Kind: "post", Key: os.Getenv("T_KEY"), Deadline: deadline, Input: json.RawMessage(`{"n":1}`)},
		Argv: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Alone: true, Note: func(s string) { fmt.Fprintln(os.Stderr, s) }}
	if os.Getenv("T_GUARD") != "" {
		self, err := os.Executable()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 101
		}
		req.Guard = append([]string{"/usr/bin/env", "INDOUBT_TEST_ROLE=guard", self}, standby.Args...)
	}
	signals, stop := Forwarded()
	defer stop()
	req.Signals = signals
	res, err := Run(context.Background(), record.New(store, nil, record.Options{}), req)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 101
	}
	os.Stdout.Write(res.Stored)
	return res.ExitCode
}

// guardSaw records what the guard has seen.
func guardSaw(attempt string) {
	store, err := open.Open(context.Background(), os.Getenv("T_LEDGER"), open.Options{})
	if err != nil {
		return
	}
	defer store.Close()
	_, _ = ledger.SeeTreeEmpty(context.Background(), store, ledger.TreeRequest{ChangeID: ledger.NewID(), AttemptID: attempt, Actor: ledger.Actor{Name: "guard", Machine: true}})
}

// role starts this test binary in a role.
type role struct {
	name, ledger, key, deadline string
	guard                       bool
}

func (p role) command(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	self := need.Get(os.Executable())(t)
	cmd := exec.Command(self, argv...)
	cmd.Env = append(os.Environ(), "INDOUBT_TEST_ROLE="+p.name, "T_LEDGER="+p.ledger, "T_KEY="+p.key, "T_DEADLINE="+p.deadline)
	if p.guard {
		cmd.Env = append(cmd.Env, "T_GUARD=1")
	}
	return cmd
}

func openLedger(t *testing.T, path string) ledger.Store {
	t.Helper()
	store := need.Get(open.Open(t.Context(), path, open.Options{}))(t)
	t.Cleanup(func() { store.Close() })
	return store
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: never", what)
}

func lines(path string) int {
	text, _ := os.ReadFile(path)
	return bytes.Count(text, []byte("\n"))
}

func code(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// TestRunForwardsSignals: a signal to the runner is the command's to answer. Its exit
// code 0 does not say how far it got.
func TestRunForwardsSignals(t *testing.T) {
	dir := t.TempDir()
	path, mark := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "mark")
	p := role{name: "run", ledger: path, key: "k", deadline: "5s"}
	cmd := p.command(t, "/bin/sh", "-c", `trap 'echo cleaned; exit 0' TERM; touch "$1"; while :; do sleep 0.02; done`, "x", mark)
	var out bytes.Buffer
	cmd.Stdout = &out
	need.OK(t, cmd.Start())
	until(t, "the command runs", func() bool { _, err := os.Stat(mark); return err == nil })
	need.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	if c := code(cmd.Wait()); c != 106 || out.String() != "cleaned\n" {
		t.Errorf("exit %d, %q", c, &out)
	}
}

// TestRunSurvivesAClosedPipe: `indoubt run … | head -1` records the outcome.
func TestRunSurvivesAClosedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	p := role{name: "run", ledger: path, key: "k", deadline: "10s"}
	closed := path + ".closed"
	cmd := p.command(t, "/bin/sh", "-c", `echo 1; while [ ! -e "$1" ]; do sleep 0.01; done; echo 2; echo 3`, "x", closed)
	pipe := need.Get(cmd.StdoutPipe())(t)
	need.OK(t, cmd.Start())
	need.Get(pipe.Read(make([]byte, 1)))(t)
	pipe.Close()
	need.OK(t, os.WriteFile(closed, nil, 0o600))
	need.Equal(t, code(cmd.Wait()), 0, "exit")
	rec, err := openLedger(t, path).Read(t.Context(), ledger.Locator{Kind: "post", Key: "k"})
	need.That(t, err == nil && rec.Operation.State == ledger.Committed, "%s, %v", rec.Operation.State, err)
}

// TestASignalEndsAStoppedCommand: one that asks a terminal from the background is stopped
// by the kernel, and would be in flight until a person finds it.
func TestASignalEndsAStoppedCommand(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("there is no /proc here")
	}
	notIgnored(t, syscall.SIGINT)
	r, _ := real(t, record.KindRule{})
	file := filepath.Join(t.TempDir(), "pid")
	signals := make(chan os.Signal, 1)
	go func() {
		for {
			pid, _ := os.ReadFile(file)
			if stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); err == nil && strings.Contains(string(stat), ") T ") {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		signals <- syscall.SIGINT
	}()
	res := runOver(t, r, Request{Request: record.Request{Key: "k"}, Argv: append(sh(`echo $$ > "$1"; kill -STOP $$; echo went on`), "x", file), Signals: signals})
	need.That(t, res.Outcome.Error == "killed by SIGINT" && res.out == "", "%q %q", res.Outcome.Error, res.out)
}
