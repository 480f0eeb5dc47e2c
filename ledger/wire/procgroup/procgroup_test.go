package procgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// TestMain is also the commands of the tests: a parent and its child, so that
// the same tests run wherever there is no shell.
func TestMain(m *testing.M) {
	switch os.Getenv("PROCGROUP_ROLE") {
	case "parent": // starts a child and shares its output with it
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "PROCGROUP_ROLE=child")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // until told to go
		os.Exit(3)
	case "child":
		fmt.Println("child")
		for { // until ended, or the reader is gone
			if _, err := fmt.Println("."); err != nil {
				os.Exit(0)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	os.Exit(m.Run())
}

// family is a parent with a child that has begun to speak. Its output ends when
// both have ended.
type family struct {
	cmd   *exec.Cmd
	group *Group
	in    io.Closer
	out   *bufio.Reader
}

func start(t *testing.T) family {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROCGROUP_ROLE=parent")
	in := need.Get(cmd.StdinPipe())(t)
	r, w, err := os.Pipe()
	need.OK(t, err)
	cmd.Stdout = w
	Prepare(cmd)
	group := need.Get(Start(cmd))(t)
	w.Close()
	t.Cleanup(func() { in.Close(); r.Close() })
	f := family{cmd, group, in, bufio.NewReader(r)}
	if line, err := f.out.ReadString('\n'); strings.TrimSpace(line) != "child" {
		t.Fatalf("%q, %v", line, err)
	}
	return f
}

// silent reads until no process is left that could write.
func (f family) silent(t *testing.T) {
	t.Helper()
	over := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, f.out)
		over <- err
	}()
	select {
	case err := <-over:
		need.That(t, err == nil, "%v", err)
	case <-time.After(3 * time.Minute):
		t.Error("what the command has started lives on")
	}
}

func TestI3_KillEndsWhatTheCommandHasStarted(t *testing.T) {
	f := start(t)
	_, exited := f.group.Exit()
	need.That(t, !exited, "it is taken for one that has ended")
	f.group.Kill()
	waited := f.group.AwaitExit(nil)
	_, exited = f.group.Exit()
	need.That(t, !waited || exited, "it is taken for one that lives")
	_ = f.cmd.Wait()
	need.Equal(t, f.group.EndedBy(f.cmd.ProcessState), "SIGKILL", "ended by")
	f.silent(t)
}

// TestI3_KillEndsWhatOutlivesTheCommand: the command has ended by itself, and
// what it has started has not.
func TestI3_KillEndsWhatOutlivesTheCommand(t *testing.T) {
	f := start(t)
	f.in.Close()
	f.group.AwaitExit(nil)
	f.group.Kill()
	_ = f.cmd.Wait()
	if by := f.group.EndedBy(f.cmd.ProcessState); by != "" || f.cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("ended by %q, exit code %d", by, f.cmd.ProcessState.ExitCode())
	}
	f.silent(t)
}

// TestReleaseLeavesTheRestAlone: what a command leaves behind on purpose may go
// on.
func TestReleaseLeavesTheRestAlone(t *testing.T) {
	f := start(t)
	f.in.Close()
	_ = f.cmd.Wait()
	for range 20 {
		line, err := f.out.ReadString('\n')
		need.Must(t, err == nil, "it has ended: %q, %v", line, err)
	}
}

func TestTerminateAsksTheCommandToEnd(t *testing.T) {
	f := start(t)
	f.group.Terminate()
	unheard := time.AfterFunc(time.Minute, f.group.Kill)
	_ = f.cmd.Wait()
	if !unheard.Stop() {
		t.Error("it did not hear that it was to end")
	}
	need.That(t, f.group.EndedBy(f.cmd.ProcessState) != "", "it ended by itself: %v", f.cmd.ProcessState)
	f.group.Kill()
	f.silent(t)
}

func TestStartRefuses(t *testing.T) {
	_, err := Start(exec.Command(os.Args[0]))
	need.That(t, errors.Is(err, errNotOwn), "%v", err)
	cmd := exec.Command("/nowhere/tool")
	Prepare(cmd)
	_, err = Start(cmd)
	need.That(t, err != nil, "a command that is not there was started")
}
