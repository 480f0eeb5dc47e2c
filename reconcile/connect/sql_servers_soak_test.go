//go:build soak && unix

package connect

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
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

// toItsCommit sends with longer and longer timeouts, until the COMMIT was sent, which no
// one answers.
func toItsCommit(t *testing.T, s *SQL, r SQLRequest) ledger.Answer {
	for r.Timeout = 400 * time.Millisecond; ; r.Timeout *= 2 {
		if a := s.Send(t.Context(), r); a.Sent || r.Timeout > time.Minute {
			return a
		}
	}
}

// cutting is a relay in front of a server that cuts a connection once the client
// has said a word: before the server hears it, or after it has answered. Or it
// never passes the word on, and holds the connection.
type cutting struct {
	addr   string
	word   []byte
	before bool
	hangs  bool
	cuts   atomic.Int64
}

func newHanging(t *testing.T, server, word string) string {
	t.Helper()
	c := newCutting(t, server, true, word)
	c.hangs = true
	return c.addr
}

func newCutting(t *testing.T, server string, before bool, word string) *cutting {
	t.Helper()
	l := need.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	c := &cutting{addr: l.Addr().String(), word: []byte(word), before: before}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.relay(client, server)
		}
	}()
	return c
}

func (c *cutting) relay(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	var said atomic.Bool
	go func() {
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil || said.Load() { // what it answered is lost
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], c.word) {
			c.cuts.Add(1)
			if c.hangs {
				_, _ = io.Copy(io.Discard, client)
			}
			if c.before {
				return
			}
			said.Store(true)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
		if said.Load() {
			_, _ = io.Copy(io.Discard, client) // until the other half hangs up
			return
		}
	}
}

func must(t *testing.T, s *SQL, q SQLRequest, query string) {
	t.Helper()
	q.Query, q.Args = query, nil
	db, err := s.database(q)
	need.OK(t, err)
	_, err = db.(*postgres).pool.Exec(t.Context(), query)
	need.OK(t, err, query)
}

func rowsOf(t *testing.T, s *SQL, q SQLRequest, query string) string {
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

func within(dsn, from, to string) string { return strings.Replace(dsn, from, to, 1) }

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
