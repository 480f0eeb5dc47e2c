//go:build unix

package connect

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

func TestMain(m *testing.M) {
	if url := os.Getenv("CONNECT_TEST_SENDER"); url != "" {
		stoppedSender(url)
		return
	}
	if mode := os.Getenv("CONNECT_TEST_MCP"); mode != "" {
		serveMCP(mode)
		return
	}
	os.Exit(m.Run())
}

// stoppedSender connects, says so, and sends; whoever started it stops it in
// between.
func stoppedSender(url string) {
	h := &HTTP{Dial: func(_ context.Context, network, address string) (net.Conn, error) {
		c, err := net.Dial(network, address)
		fmt.Println("connected")
		_, _ = os.Stdin.Read(make([]byte, 1)) // it is stopped here
		return c, err
	}}
	q := post(url)
	q.Deadline = time.Now().Add(600 * time.Millisecond) // where that passes before, nothing is sent either
	a := h.Send(context.Background(), q)
	fmt.Println("sent", a.Sent)
}

func TestCommand(t *testing.T) {
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script} }
	for name, tc := range map[string]struct {
		q     transport.CommandRequest
		check func(a ledger.Answer) bool
	}{
		"exit 0": {transport.CommandRequest{Argv: []string{"cat"}, Stdin: []byte(`{"a":1}`)},
			func(a ledger.Answer) bool {
				return a.Sent && a.Exited && a.Exit == 0 && string(a.Stdout) == `{"a":1}` && a.Err == nil
			}},
		"exit 3": {transport.CommandRequest{Argv: sh("echo no >&2; exit 3")},
			func(a ledger.Answer) bool {
				return a.Sent && a.Exited && a.Exit == 3 && string(a.Stderr) == "no\n" && a.Err == nil
			}},
		"not found": {transport.CommandRequest{Argv: []string{"/nowhere/tool"}},
			func(a ledger.Answer) bool { return !a.Sent && !a.Exited && a.Err != nil }},
		"none": {transport.CommandRequest{}, func(a ledger.Answer) bool { return !a.Sent && a.Err != nil }},
		"killed by somebody": {transport.CommandRequest{Argv: sh("kill -9 $$")},
			func(a ledger.Answer) bool {
				return a.Sent && !a.Exited && a.Signal == "SIGKILL" && a.Class == ledger.ClassKilled
			}},
		"not started after the deadline": {transport.CommandRequest{Argv: sh("true"), Limits: transport.Limits{Deadline: time.Now().Add(-time.Second)}},
			func(a ledger.Answer) bool { return !a.Sent && a.Class == ledger.ClassDeadline }},
		"much output": {transport.CommandRequest{Argv: sh("yes | head -c 3000000; echo end"), Limits: transport.Limits{Max: 1000}},
			func(a ledger.Answer) bool {
				return a.Truncated && len(a.Stdout) == 1000 && strings.HasSuffix(string(a.Stdout), "y\nend\n")
			}},
		"no shell": {transport.CommandRequest{Argv: []string{"echo", "$HOME; true"}},
			func(a ledger.Answer) bool { return string(a.Stdout) == "$HOME; true\n" }},
		"environment": {transport.CommandRequest{Argv: sh("echo $FOO"), Env: []string{"FOO=bar"}},
			func(a ledger.Answer) bool { return string(a.Stdout) == "bar\n" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := Command(t.Context(), tc.q)
			need.That(t, tc.check(a), "%+v", a)
		})
	}
}

// caught runs a command with later and later deadlines, until one finds that it has
// written a file.
func caught(t *testing.T, q transport.CommandRequest, file string) ledger.Answer {
	t.Helper()
	for in := 100 * time.Millisecond; ; in *= 2 {
		q.Deadline = time.Now().Add(in)
		a := Command(t.Context(), q)
		if written, _ := os.ReadFile(file); len(written) > 0 {
			return a
		}
		need.Must(t, in < time.Minute, "it writes nothing: %+v", a)
	}
}

func TestI3_TheWholeGroupEndsAtTheDeadline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	a := caught(t, transport.CommandRequest{Argv: []string{"/bin/sh", "-c", "sleep 600 & echo $! >" + file + "; wait"}}, file)
	need.Must(t, a.Sent && !a.Exited && a.Class == ledger.ClassTimeout, "%+v", a)
	pid := strings.TrimSpace(string(need.Get(os.ReadFile(file))(t)))
	until(t, "the grandchild ends at the deadline", func() bool { return !alive(pid) })
}

// zombie reports whether a process is dead and only waits for being reaped.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(b), ") Z ")
}
