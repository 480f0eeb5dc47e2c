package pgtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Bouncer puts a pgbouncer before the shared cluster, which lends a session to one
// transaction at a time, and gives the addresses of databases behind it.
func Bouncer(t testing.TB) (behind func(url string) string) {
	t.Helper()
	bouncer, err := exec.LookPath("pgbouncer")
	if err != nil {
		bouncer = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(bouncer); err != nil {
		t.Skip("pgbouncer is not installed")
	}
	c := Shared(t)
	dir, err := os.MkdirTemp("", "indoubt-bouncer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port, err := Port()
	if err != nil {
		t.Fatal(err)
	}
	settings, users := filepath.Join(dir, "bouncer.ini"), filepath.Join(dir, "users")
	text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = trust\nauth_file = %s\n"+
		"pool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 500\nlogfile = %s\n", c.Port, port, users, filepath.Join(dir, "log"))
	for path, what := range map[string]string{settings: text, users: "\"postgres\" \"\"\n"} {
		if err := os.WriteFile(path, []byte(what), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := hand(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bouncer, "-q", settings)
	cmd.SysProcAttr = attributes()
	ended, err := launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	at := fmt.Sprint("127.0.0.1:", port)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", at)
		if err == nil {
			_ = conn.Close()
			return func(url string) string { return strings.Replace(url, fmt.Sprint("127.0.0.1:", c.Port), at, 1) }
		}
		if time.Now().After(end) {
			t.Fatalf("pgbouncer does not listen: %v", err)
		}
	}
}
