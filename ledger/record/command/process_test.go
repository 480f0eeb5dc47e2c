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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
	"indoubt/ledger/record/command/standby"
	"indoubt/ledger/wire/procgroup"
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

// traceRole looks for the processes of an attempt that was made here.
func traceRole() int {
	a := ledger.Attempt{ID: os.Getenv("T_KEY"), StartedAt: time.Now(), Place: procgroup.Here()}
	a.UID, _ = strconv.Atoi(os.Getenv("T_UID"))
	found, err := procgroup.Trace(a)
	if err != nil || len(found) > 0 {
		fmt.Println(found, err)
		return 1
	}
	return 0
}

// beginRole is a process of its own that begins once and leaves.
func beginRole() int {
	store, err := open.Create(context.Background(), os.Getenv("T_LEDGER"), open.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer store.Close()
	r := record.New(store, oneRule(record.KindRule{KeyStrategy: record.KeyFields, KeyFrom: []string{"n"}, Window: time.Hour}), record.Options{})
	res, err := r.Begin(context.Background(), record.Request{Kind: "post", Key: os.Getenv("T_KEY"), Input: json.RawMessage(`{"n":1}`)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch res.Answer {
	case ledger.AnswerBegun:
		return 0
	case ledger.AnswerInProgress:
		return 7
	}
	return 1
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

// TestI3_SixteenProcessesOneKey: with a given key and with one made from
// fields, one process may send and fifteen are told.
func TestI3_SixteenProcessesOneKey(t *testing.T) {
	for _, key := range []string{"k1", ""} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		need.OK(t, need.Get(open.Create(t.Context(), path, open.Options{}))(t).Close()) // on a busy machine that takes as long as one waits for a lock
		var mu sync.Mutex
		codes := map[int]int{}
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				out, err := role{name: "begin", ledger: path, key: key}.command(t).CombinedOutput()
				mu.Lock()
				defer mu.Unlock()
				codes[code(err)]++
				if c := code(err); c != 0 && c != 7 {
					t.Errorf("%s", out)
				}
			})
		}
		wg.Wait()
		need.That(t, codes[0] == 1 && codes[7] == 15, "key %q: exit codes %v", key, codes)
	}
}

// TestI3_RaceAtExpiry: of many processes that come for a key whose operation has
// just given it up, one begins the new operation.
func TestI3_RaceAtExpiry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	store := need.Get(open.Create(t.Context(), path, open.Options{}))(t)
	defer store.Close()
	r := record.New(store, oneRule(record.KindRule{TTL: time.Millisecond}), record.Options{})
	for round := range 3 {
		key := fmt.Sprint("k", round)
		old := begin(t, r, record.Request{Kind: "post", Key: key, Input: json.RawMessage(`{"n":1}`)})
		applied := need.Get(r.Settle(t.Context(), ledger.SettleRequest{AttemptID: old.Attempt.ID, Outcome: ledger.OutcomeCommitted}))(t)
		settled := applied.After.SettledAt
		until(t, "it expires", func() bool { return time.Now().After(settled.Add(5 * time.Millisecond)) })
		commands := make([]*exec.Cmd, 6)
		for i := range commands {
			commands[i] = role{name: "begin", ledger: path, key: key}.command(t)
			need.OK(t, commands[i].Start())
		}
		exits := map[int]int{}
		for _, cmd := range commands {
			exits[code(cmd.Wait())]++
		}
		need.That(t, exits[0] == 1 && exits[7] == len(commands)-1, "round %d: exit codes %v", round, exits)
	}
}

// TestI10_KilledRunner: kill -9 of the runner ends the command with all it has
// started, and the operation is in doubt after its deadline.
func TestI10_KilledRunner(t *testing.T) {
	dir := t.TempDir()
	path, effects, pid := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "effects"), filepath.Join(dir, "pid")
	p := role{name: "run", ledger: path, key: "k", deadline: "1500ms", guard: true}
	// The grandchild would go on acting; the parent-death signal does not reach it.
	cmd := p.command(t, "/bin/sh", "-c", `sh -c 'while :; do echo x >> "$1"; sleep 0.05; done' x "$1" & echo $! > "$2.tmp"; mv "$2.tmp" "$2"; wait`, "x", effects, pid)
	need.OK(t, cmd.Start())
	until(t, "the command acts", func() bool { _, err := os.Stat(pid); return err == nil && lines(effects) > 0 })
	need.OK(t, cmd.Process.Kill())
	_ = cmd.Wait()
	gone(t, pid)
	acted := lines(effects)
	store := openLedger(t, path)
	rec := need.Get(store.Read(t.Context(), ledger.Locator{Kind: "post", Key: "k"}))(t)
	until(t, "the deadline", func() bool { return time.Now().After(rec.Operation.DeadlineAt.Add(20 * time.Millisecond)) })
	out, err := p.command(t, "/bin/sh", "-c", `echo again >> "$1"`, "x", effects).CombinedOutput()
	if code(err) != 106 || lines(effects) != acted {
		t.Errorf("exit %d, %d effects after %d: %s", code(err), lines(effects), acted, out)
	}
	if rec, err = store.Read(t.Context(), ledger.Locator{ID: rec.Operation.ID}); err != nil || rec.Operation.State != ledger.Uncertain || rec.Operation.ErrorClass != ledger.ClassDeadline {
		t.Errorf("%s, class %q, %v", rec.Operation.State, rec.Operation.ErrorClass, err)
	}
}

// TestI3_StoppedRunnerSendsNothingAfterItsDeadline: while the runner is stopped
// nobody extends the deadline, so that the guard ends the command at it.
func TestI3_StoppedRunnerSendsNothingAfterItsDeadline(t *testing.T) {
	dir := t.TempDir()
	path, effects := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "effects")
	p := role{name: "run", ledger: path, key: "k", deadline: "4s", guard: true} // the guard has a tenth of it for the end of the command
	cmd := p.command(t, "/bin/sh", "-c", `while :; do date +%s%N >> "$1"; sleep 0.02; done`, "x", effects)
	var said bytes.Buffer
	cmd.Stderr = &said
	need.OK(t, cmd.Start())
	until(t, "the command acts", func() bool { return lines(effects) > 0 })
	need.OK(t, cmd.Process.Signal(syscall.SIGSTOP))
	store := openLedger(t, path)
	rec := need.Get(store.Read(t.Context(), ledger.Locator{Kind: "post", Key: "k"}))(t)
	deadline := rec.Operation.DeadlineAt
	until(t, "the deadline", func() bool { return time.Now().After(deadline.Add(300 * time.Millisecond)) })
	need.OK(t, cmd.Process.Signal(syscall.SIGCONT))
	need.Equal(t, code(cmd.Wait()), 106, "exit", &said)
	text := need.Get(os.ReadFile(effects))(t)
	all := strings.Fields(string(text))
	last, err := strconv.ParseInt(all[len(all)-1], 10, 64)
	if err != nil || time.Unix(0, last).After(deadline) {
		t.Errorf("an effect %s after the deadline", time.Unix(0, last).Sub(deadline))
	}
	if rec, err = store.Read(t.Context(), ledger.Locator{ID: rec.Operation.ID}); err != nil || rec.Operation.StateAt(rec.Now) != ledger.Uncertain {
		t.Errorf("%s, %v", rec.Operation.State, err)
	}
}

// TestI9_LateAnswerBelongsToItsAttempt: the command finished while its runner
// was stopped and the deadline passed; its answer comes late, is recorded
// against its own attempt, and settles the doubt.
func TestI9_LateAnswerBelongsToItsAttempt(t *testing.T) {
	dir := t.TempDir()
	path, mark := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "mark")
	p := role{name: "run", ledger: path, key: "k", deadline: "1s", guard: true}
	cmd := p.command(t, "/bin/sh", "-c", `touch "$1"; sleep 0.3; echo '{"id":"p1"}'`, "x", mark)
	need.OK(t, cmd.Start())
	until(t, "the command runs", func() bool { _, err := os.Stat(mark); return err == nil })
	need.OK(t, cmd.Process.Signal(syscall.SIGSTOP))
	store := openLedger(t, path)
	rec, err := store.Read(t.Context(), ledger.Locator{Kind: "post", Key: "k"})
	need.OK(t, err)
	first := rec.Operation.LiveAttempt
	until(t, "the deadline", func() bool { return time.Now().After(rec.Operation.DeadlineAt.Add(100 * time.Millisecond)) })
	if out, err := p.command(t, "/bin/sh", "-c", "echo twice").CombinedOutput(); code(err) != 106 {
		t.Errorf("while it is in doubt: exit %d: %s", code(err), out)
	}
	need.OK(t, cmd.Process.Signal(syscall.SIGCONT))
	need.Equal(t, code(cmd.Wait()), 0, "exit")
	if rec, err = store.Read(t.Context(), ledger.Locator{ID: rec.Operation.ID}); err != nil {
		t.Fatal(err)
	}
	a := rec.Attempt(first)
	if rec.Operation.State != ledger.Committed || len(rec.Attempts) != 1 || a.Outcome != ledger.OutcomeUncertain || a.LateOutcome != ledger.OutcomeCommitted {
		t.Errorf("%s, %d attempts, %+v", rec.Operation.State, len(rec.Attempts), a)
	}
	out, err := p.command(t, "/bin/sh", "-c", "echo twice").Output()
	if code(err) != 0 || string(out) != "{\"id\":\"p1\"}\n" {
		t.Errorf("exit %d, %q", code(err), out)
	}
}

// TestRunForwardsSignals: a signal to the runner is the command's to answer,
// and its answer is recorded.
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
	if c := code(cmd.Wait()); c != 0 || out.String() != "cleaned\n" {
		t.Errorf("exit %d, %q", c, &out)
	}
}

// TestRunSurvivesAClosedPipe: `indoubt run … | head -1` records the outcome.
func TestRunSurvivesAClosedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	p := role{name: "run", ledger: path, key: "k", deadline: "10s"}
	cmd := p.command(t, "/bin/sh", "-c", `for i in 1 2 3 4 5 6; do echo $i; sleep 0.05; done`)
	pipe := need.Get(cmd.StdoutPipe())(t)
	need.OK(t, cmd.Start())
	need.Get(pipe.Read(make([]byte, 1)))(t)
	pipe.Close()
	need.Equal(t, code(cmd.Wait()), 0, "exit")
	rec, err := openLedger(t, path).Read(t.Context(), ledger.Locator{Kind: "post", Key: "k"})
	need.That(t, err == nil && rec.Operation.State == ledger.Committed, "%s, %v", rec.Operation.State, err)
}

// TestI3_ARemovedLedgerEndsTheRun: a heartbeat that reaches nobody is none, and
// an outcome that nobody can read is not recorded.
func TestI3_ARemovedLedgerEndsTheRun(t *testing.T) {
	dir := t.TempDir()
	path, pid := filepath.Join(dir, "here", "ledger.db"), filepath.Join(dir, "pid")
	cmd := role{name: "run", ledger: path, key: "k", deadline: "1s"}.command(t, "/bin/sh", "-c", `echo $$ > "$1"; sleep 60`, "x", pid)
	var said bytes.Buffer
	cmd.Stderr = &said
	need.OK(t, cmd.Start())
	until(t, "the command runs", func() bool { return lines(pid) == 1 })
	need.OK(t, os.RemoveAll(filepath.Dir(path)))
	if c := code(cmd.Wait()); c != 106 || !strings.Contains(said.String(), "removed or replaced") {
		t.Errorf("exit %d: %s", c, &said)
	}
	gone(t, pid)
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
	res := runOver(t, r, Request{Request: record.Request{Key: "k"}, Argv: append(sh(`echo $$ > "$1"; kill -STOP $$; echo went on`), "x", file), Signals: signals, Timeout: time.Minute})
	need.That(t, res.Outcome.Error == "killed by SIGINT" && res.out == "", "%q %q", res.Outcome.Error, res.out)
}
