//go:build soak && unix

package connect

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

// account is whom a database server of a test runs as: it refuses root. It
// gives its own files to it.
type account struct{ cred *syscall.Credential }

func unprivileged(t *testing.T, names ...string) account {
	t.Helper()
	if os.Getuid() != 0 {
		return account{}
	}
	for _, name := range append(names, "nobody") {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}
	}
	t.Skip("there is no user a database server could run as")
	return account{}
}

// dir makes a directory of the account's, which is gone after the test.
func (a account) dir(t *testing.T) string {
	t.Helper()
	dir := need.Get(os.MkdirTemp("", "connect"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if a.cred != nil {
		need.OK(t, os.Chown(dir, int(a.cred.Uid), int(a.cred.Gid)))
	}
	return dir
}

func (a account) command(dir, name string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd, log := exec.Command(name, args...), &bytes.Buffer{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.cred, Setpgid: true}
	return cmd, log
}

func (a account) run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd, log := a.command(dir, name, args...)
	err := cmd.Run()
	need.Must(t, err == nil, "%s: %v\n%s", name, err, log)
}

// serve starts a server, which is ended after the test, and waits until it
// takes connections.
func (a account) serve(t *testing.T, ready func() error, dir, name string, args ...string) {
	t.Helper()
	cmd, log := a.command(dir, name, args...)
	need.OK(t, cmd.Start())
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-gone:
		case <-time.After(5 * time.Second):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-gone
		}
	})
	var err error
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case <-gone:
			t.Fatalf("%s ended at once:\n%s", name, log)
		default:
		}
		if err = ready(); err == nil {
			return
		}
	}
	t.Fatalf("%s takes no connections: %v", name, err)
}

func must(t *testing.T, s *SQL, q transport.SQLRequest, query string) {
	t.Helper()
	q.Query, q.Args = query, nil
	db, err := s.database(q)
	need.OK(t, err)
	_, err = db.(*postgres).pool.Exec(t.Context(), query)
	need.OK(t, err, query)
}

func rowsOf(t *testing.T, s *SQL, q transport.SQLRequest, query string) string {
	t.Helper()
	q.Query, q.Args = query, nil
	a := s.Read(t.Context(), q)
	need.Must(t, a.Err == nil, "%s: %v", query, a.Err)
	return string(a.Rows)
}

func newest(pattern string) string {
	found, _ := filepath.Glob(pattern)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
