//go:build soak && linux

package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/wire/procgroup"
)

func init() {
	leaving["in a group of its own"] = `set -m; ` + worker + ` & set +m; `
	leaving["in a session of its own"] = `setsid ` + worker + ` & `
	leaving["forked twice, without a word of whose it is"] = `(setsid env -i PATH="$PATH" ` + worker + ` &) ; `
	leaving["stopped"] = worker + ` & sleep 0.3; kill -STOP $(cat "$1"); `
	guarded = append(guarded, "in a session of its own", "stopped")
	shell = "/bin/bash"
}

// TestI3_ADeadlineEndsWhatHasLeftTheGroup: so does the deadline, when the command
// itself goes on too.
func TestI3_ADeadlineEndsWhatHasLeftTheGroup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "here", "ledger.db")
	cmd, pid, said := runTree(t, role{name: "run", ledger: path, key: "k", deadline: "1s", guard: true}, leaving["in a session of its own"]+`sleep 60`)
	until(t, "the worker lives", func() bool { _, err := os.Stat(pid); return err == nil })
	if err := os.RemoveAll(filepath.Dir(path)); err != nil { // no heartbeat reaches the ledger any more
		t.Fatal(err)
	}
	need.Equal(t, code(cmd.Wait()), 106, said, "exit")
	need.That(t, !lives(t, pid), "the worker lives on")
}

// TestI3_TheGuardOfAStoppedRunEndsItsTree: also what only the stopped one is the
// parent of. Once it goes on, it says that nothing is left.
func TestI3_TheGuardOfAStoppedRunEndsItsTree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	cmd, pid, said := runTree(t, role{name: "run", ledger: path, key: "k", deadline: "2s", guard: true},
		leaving["forked twice, without a word of whose it is"]+`exec sleep 60`)
	until(t, "the worker lives", func() bool { _, err := os.Stat(pid); return err == nil })
	need.OK(t, cmd.Process.Signal(syscall.SIGSTOP))
	gone(t, pid)
	need.That(t, alive(cmd.Process.Pid), "the guard has ended the run too")
	_ = cmd.Process.Signal(syscall.SIGCONT)
	need.Equal(t, code(cmd.Wait()), 106, said, "exit")
	need.Equal(t, attemptOf(t, path).Tree, ledger.TreeEmpty, "tree")
}

// TestACommandThatEndsWellMayLeaveADaemon: it committed, and what it leaves is
// its own business.
func TestACommandThatEndsWellMayLeaveADaemon(t *testing.T) {
	for _, how := range []string{"in its group", "in a session of its own", "forked twice, without a word of whose it is"} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		cmd, pid, said := runTree(t, role{name: "run", ledger: path, key: "k", deadline: "30s", guard: true}, `{ `+leaving[how]+`} >/dev/null 2>&1; `+untilItLives)
		need.Equal(t, code(cmd.Wait()), 0, how, said, "exit")
		time.Sleep(200 * time.Millisecond) // the guard has gone too
		need.That(t, lives(t, pid), "%s: it was ended", how)
		if a := attemptOf(t, path); a.Outcome != ledger.OutcomeCommitted {
			t.Errorf("%s: %+v", how, a)
		}
	}
}

// TestI6_AnotherAccountCannotTell: nor can one that may not look.
func TestI6_AnotherAccountCannotTell(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be another account for once")
	}
	a := ledger.Attempt{ID: ledger.NewID(), StartedAt: time.Now(), Place: procgroup.Here()}
	out, err := asNobody(t, a)
	need.That(t, err != nil && strings.Contains(out, "another account"), "%q, %v", out, err)
	a.UID = 65534
	if out, err = asNobody(t, a); err != nil {
		t.Errorf("its own account: %q, %v", out, err)
	}
}

// asNobody traces under another account.
func asNobody(t *testing.T, a ledger.Attempt) (string, error) {
	t.Helper()
	self := need.Get(os.Executable())(t)
	binary := filepath.Join("/tmp", fmt.Sprintf("indoubt-trace-%d", os.Getpid())) // where every account may read
	data, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(binary, data, 0o755)
	}
	need.OK(t, err)
	defer os.Remove(binary)
	cmd := exec.Command(binary)
	cmd.Dir = "/"
	cmd.Env = []string{"INDOUBT_TEST_ROLE=trace", "T_KEY=" + a.ID, "T_UID=" + strconv.Itoa(a.UID)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
