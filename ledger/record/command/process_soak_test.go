//go:build soak && unix

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/procgroup"
)

func init() {
	roles["begin"], roles["trace"] = beginRole, traceRole
}

// beginRole is a process of its own that begins once and leaves.
func beginRole() int {
	store, err := open.Create(context.Background(), os.Getenv("T_LEDGER"), open.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer store.Close()
	request, rule := record.Request{Kind: "post", Key: os.Getenv("T_KEY"), Input: json.RawMessage(`{"n":1}`)}, record.KindRule{}
	if request.Key == "" {
		rule.KeyFrom = []string{"n"}
	}
	r := record.New(store, oneRule(rule), record.Options{})
	res, err := r.Begin(context.Background(), request)
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

// TestI3_ARemovedLedgerEndsTheRun: a heartbeat that reaches nobody is none, and
// an outcome that nobody can read is not recorded.
func TestI3_ARemovedLedgerEndsTheRun(t *testing.T) {
	dir := t.TempDir()
	path, pid := filepath.Join(dir, "here", "ledger.db"), filepath.Join(dir, "pid")
	cmd := role{name: "run", ledger: path, key: "k", deadline: "3s"}.command(t, "/bin/sh", "-c", `echo $$ > "$1"; sleep 60`, "x", pid)
	var said bytes.Buffer
	cmd.Stderr = &said
	need.OK(t, cmd.Start())
	until(t, "the command runs", func() bool { return lines(pid) == 1 })
	need.OK(t, os.Rename(filepath.Dir(path), filepath.Join(dir, "away"))) // at once: a heartbeat may make files
	if c := code(cmd.Wait()); c != 106 || !strings.Contains(said.String(), "removed or replaced") {
		t.Errorf("exit %d: %s", c, &said)
	}
	gone(t, pid)
}

// TestI3_HeartbeatKeepsTheAttemptLive: a command may take longer than its
// deadline while its runner lives.
func TestI3_HeartbeatKeepsTheAttemptLive(t *testing.T) {
	store := ledgertest.NewBreakable(nil)
	r := record.New(store, nil, record.Options{})
	res := runOver(t, r, Request{Request: record.Request{Key: "k", Deadline: 2 * time.Second}, Argv: sh("sleep 4.5; echo done"), Guard: guardArgv(t)})
	need.That(t, res.ExitCode == 0 && !res.Operation.Doubted && res.out == "done\n", "exit %d, doubted %v, %q, %s", res.ExitCode, res.Operation.Doubted, res.out, res.notes)
}

// TestI3_WithoutHeartbeatTheGroupEnds: before the deadline, so that whoever
// comes next is alone.
func TestI3_WithoutHeartbeatTheGroupEnds(t *testing.T) {
	store := ledgertest.NewBreakable(nil)
	r := record.New(store, nil, record.Options{})
	file := filepath.Join(t.TempDir(), "pid")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := os.Stat(file); err == nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		store.Break(errors.New("disk I/O error"))
		time.Sleep(2 * time.Second)
		store.Break(nil)
	}()
	began := time.Now()
	res := runOver(t, r, Request{Request: record.Request{Key: "k", Deadline: time.Second}, Argv: append(sh(`trap '' TERM; sh -c "trap '' TERM; sleep 60; sleep 60" & echo $! > "$1"; while :; do wait; done`), "x", file)})
	gone(t, file)
	<-done
	need.That(t, res.ExitCode == 106 && res.Operation.ErrorClass == ledger.ClassDeadline && res.Recorded,
		"exit %d, class %q, recorded %v: %s", res.ExitCode, res.Operation.ErrorClass, res.Recorded, res.Why)
	if ended := res.Attempt.EndedAt.Sub(began); ended > 4*time.Second {
		t.Errorf("ended after %s", ended)
	}
}

// TestI3_AnAttemptThatIsNotLiveEnds: somebody settled it meanwhile.
func TestI3_AnAttemptThatIsNotLiveEnds(t *testing.T) {
	store := ledgertest.NewBreakable(nil)
	r := record.New(store, nil, record.Options{})
	go func() {
		for {
			if rec, err := store.Read(t.Context(), ledger.Locator{Kind: "post", Key: "k"}); err == nil {
				_, _ = r.Settle(t.Context(), ledger.SettleRequest{AttemptID: rec.Operation.LiveAttempt, Outcome: ledger.OutcomeUncertain})
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	began := time.Now()
	res := runOver(t, r, Request{Request: record.Request{Key: "k", Deadline: time.Second}, Argv: []string{"sleep", "60"}})
	if res.ExitCode != 106 || time.Since(began) > 50*time.Second || !strings.Contains(res.notes, "no longer lets it go on") {
		t.Errorf("exit %d after %s: %s", res.ExitCode, time.Since(began), res.notes)
	}
}

// TestRunOfCurl is the story of the page: a server that commits and cuts.
func TestRunOfCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	var effects atomic.Int32
	var mode atomic.Value
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		effects.Add(1)
		switch mode.Load() {
		case "cut":
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Close()
		case "reset":
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		case "slow":
			<-req.Context().Done()
		case "202", "302", "400", "500":
			status, _ := strconv.Atoi(mode.Load().(string))
			w.WriteHeader(status)
		default:
			fmt.Fprint(w, `{"id":"p1"}`)
		}
	})}
	listener := need.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go server.Serve(listener)
	defer server.Close()
	url := "http://" + listener.Addr().String()
	r := record.New(ledgertest.NewBreakable(nil), nil, record.Options{})
	run := func(how, key, url string) ran {
		mode.Store(how)
		return runOver(t, r, Request{Request: record.Request{Key: key}, Argv: []string{"curl", "-s", "--fail-with-body", "--max-time", "1", "--noproxy", "*",
			"-w", `%{stderr}%{http_code}`, "-d", "x={{key}}", url}})
	}
	for how, class := range map[string]ledger.ErrorClass{"302": "3xx", "202": "2xx", "cut": ledger.ClassEOF, "reset": ledger.ClassReset, "slow": ledger.ClassTimeout, "500": ledger.ClassExit, "400": ledger.ClassExit} {
		if res := run(how, "key-"+how, url); res.ExitCode != 106 || res.Operation.State != ledger.Uncertain || res.Operation.ErrorClass != class {
			t.Errorf("%s: exit %d, %s, class %q (%s)", how, res.ExitCode, res.Operation.State, res.Operation.ErrorClass, res.Outcome.Error)
		}
	}
	t.Setenv("HOME", t.TempDir())
	for range 2 {
		if res := run("", "nobody", "http://127.0.0.1:1"); res.ExitCode != 7 || res.Operation.State != ledger.Failed || res.Attempt.Proof != ledger.NeverSent {
			t.Errorf("refused connection: exit %d, %s %s", res.ExitCode, res.Operation.State, res.Attempt.Proof)
		}
	}
	effects.Store(0)
	first := run("cut", "k1", url)
	if again := run("", "k1", url); again.ExitCode != 106 || again.Ran {
		t.Errorf("in doubt: exit %d, ran %v", again.ExitCode, again.Ran)
	}
	need.Get(r.Settle(t.Context(), ledger.SettleRequest{AttemptID: first.Attempt.ID, Outcome: ledger.OutcomeCommitted, Receipt: "p1", Result: json.RawMessage(`{"id":"p1"}`)}))(t)
	if again := run("", "k1", url); again.ExitCode != 0 || again.Ran || string(again.Stored) != `{"id":"p1"}` || effects.Load() != 1 {
		t.Errorf("committed: exit %d, ran %v, %q, %d effects", again.ExitCode, again.Ran, again.Stored, effects.Load())
	}
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
