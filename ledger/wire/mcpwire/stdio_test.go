//go:build unix

package mcpwire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger/need"
)

func start(t *testing.T, script string) Conn { return startFor(t, script, time.Minute) }

// startFor starts a server that Close waits for.
func startFor(t *testing.T, script string, grace time.Duration) Conn {
	t.Helper()
	c := need.Get(Start(context.Background(), StdioOptions{Argv: []string{"/bin/sh", "-c", script}, Grace: grace}))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestLinesPassAsTheyAre(t *testing.T) {
	c := start(t, "cat; printf last")
	for _, line := range []string{
		"{ \"id\" : 12345678901234567890 }\r\n", "\n", "log noise\n", "\xff\xfe\x00\n", strings.Repeat("long ", 1<<18) + "\n",
	} {
		sent := make(chan error, 1)
		go func() {
			ok, err := c.Send(context.Background(), []byte(line))
			if !ok {
				err = errors.Join(err, errors.New("nothing was sent"))
			}
			sent <- err
		}()
		got, err := recv(t, c)
		need.Must(t, err == nil && got == line, "%.80q came back as %.80q, %v", line, got, err)
		need.OK(t, <-sent)
	}
	send(t, c, "without its end")
	if got, err := recv(t, c); got != "without its end\n" || err != nil {
		t.Fatal(got, err)
	}
	go c.Close()
	got, err := recv(t, c)
	need.Must(t, got == "last" && err == nil, "a last line without its newline: %q, %v", got, err)
	if _, err := recv(t, c); !errors.Is(err, io.EOF) && !errors.Is(err, ErrClosed) {
		t.Fatal("after the last line:", err)
	}
	if sent, err := c.Send(context.Background(), []byte("x\n")); sent || !errors.Is(err, ErrClosed) {
		t.Fatal("after the end:", sent, err)
	}
}

func TestALineThatNeverEndsEndsTheConnection(t *testing.T) {
	c := startFor(t, "exec cat /dev/zero", 50*time.Millisecond)
	_, err := recv(t, c)
	need.Must(t, errors.Is(err, ErrLineTooLong), "%v", err)
	if sent, err := c.Send(context.Background(), make([]byte, MaxLine+1)); sent || !errors.Is(err, ErrLineTooLong) {
		t.Fatal(sent, err)
	}
}

// TestAServerThatEndsByItselfSaysHow: to who sends and to who receives, whichever
// comes first. One that was asked to end does so in order.
func TestAServerThatEndsByItselfSaysHow(t *testing.T) {
	for script, want := range map[string]string{"exit 3": "exit status 3", "kill -9 $$": "SIGKILL"} {
		c := start(t, script)
		_, err := recv(t, c)
		need.That(t, errors.Is(err, ErrEnded) && strings.Contains(err.Error(), want), "%s: received %v", script, err)
		sent, err := c.Send(context.Background(), []byte("x\n"))
		need.That(t, !sent && errors.Is(err, ErrEnded) && strings.Contains(err.Error(), want), "%s: sent %v, %v", script, sent, err)
	}
	c := start(t, "cat; exit 4")
	go c.Close()
	_, err := recv(t, c)
	need.That(t, !errors.Is(err, ErrEnded), "it was asked to end: %v", err)
}

func TestAServerThatCannotBeStarted(t *testing.T) {
	for _, argv := range [][]string{nil, {"/does/not/exist"}, {os.TempDir()}} {
		if c, err := Start(context.Background(), StdioOptions{Argv: argv}); err == nil {
			c.Close()
			t.Errorf("%q was started", argv)
		}
	}
}

func TestStandardErrorAndSurroundings(t *testing.T) {
	dir := t.TempDir()
	var noise bytes.Buffer
	c, err := Start(context.Background(), StdioOptions{
		Argv: []string{"/bin/sh", "-c", `echo "$A" >&2; pwd`}, Dir: dir, Env: []string{"A=b c", "PATH=" + os.Getenv("PATH")}, Stderr: &noise,
	})
	need.OK(t, err)
	got, err := recv(t, c)
	here, _ := filepath.EvalSymlinks(dir)
	need.That(t, err == nil && strings.TrimSpace(got) == here, "it runs in %q, %v", got, err)
	c.Close()
	need.That(t, noise.String() == "b c\n", "it said %q", noise.String())
}

// A server that never reads must not keep a sender past its deadline, and what
// is said not to be sent never arrives.
func TestI3_NoByteAfterTheDeadline(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	c := start(t, "until [ -e "+gate+" ]; do sleep 0.02; done; exec cat")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	line := []byte(strings.Repeat("x", pipeAtom-1) + "\n")
	for n := 0; ; n++ { // until the pipe is full
		if sent, err := c.Send(ctx, line); err != nil {
			need.Must(t, !sent, "a line was cut")
			need.Must(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
			break
		}
		need.Must(t, n <= 1<<20, "the pipe is never full")
	}
	canceled, stop := context.WithCancel(context.Background())
	stop()
	if sent, err := c.Send(canceled, []byte("late\n")); sent || err == nil {
		t.Fatal(sent, err)
	}
	// The connection is whole: once the server reads, what was sent arrives as it
	// was, and the late line is not there.
	need.OK(t, os.WriteFile(gate, nil, 0o600))
	send(t, c, "next\n")
	for {
		got := need.Get(recv(t, c))(t)
		if got == "next\n" {
			return
		}
		need.Must(t, got == string(line), "%.40q came out", got)
	}
}

func TestCloseTakesTheWholeGroup(t *testing.T) {
	for name, script := range map[string]string{
		"goes by itself":     `sleep 600 & echo $!; cat`,
		"ignores the end":    `sleep 600 & echo $!; while :; do sleep 1; done`,
		"ignores the signal": `trap '' TERM; sleep 600 & echo $!; while :; do sleep 1; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startFor(t, script, map[bool]time.Duration{true: time.Minute, false: 50 * time.Millisecond}[name == "goes by itself"])
			line := need.Get(recv(t, c))(t)
			child := need.Get(strconv.Atoi(strings.TrimSpace(line)))(t)
			c.Close()
			need.That(t, c.Close() == nil, "closed twice")
			for until := time.Now().Add(3 * time.Minute); syscall.Kill(child, 0) == nil && !isZombie(child); time.Sleep(5 * time.Millisecond) {
				need.Must(t, !time.Now().After(until), "what the server had started still runs")
			}
			_, err := recv(t, c)
			need.That(t, err != nil, "a closed connection still gives lines")
		})
	}
}

// isZombie reports whether a process has ended and was not collected.
func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}
