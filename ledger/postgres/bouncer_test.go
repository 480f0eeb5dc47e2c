//go:build soak

package postgres

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// bouncer puts a pgbouncer before the shared cluster, which lends a session to one
// transaction at a time, and gives the addresses of databases behind it.
func bouncer(t testing.TB) (behind func(url string) string) {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("pgbouncer is not installed")
	}
	c, dir, port := pgtest.Shared(t), need.Get(os.MkdirTemp("", "indoubt-bouncer"))(t), need.Get(pgtest.Port())(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	settings, users := filepath.Join(dir, "bouncer.ini"), filepath.Join(dir, "users")
	text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = trust\nauth_file = %s\n"+
		"pool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 500\nlogfile = %s\n", c.Port, port, users, filepath.Join(dir, "log"))
	for path, what := range map[string]string{settings: text, users: "\"postgres\" \"\"\n"} {
		need.OK(t, os.WriteFile(path, []byte(what), 0o644))
	}
	pgtest.Beside(t, dir, program, "-q", settings)
	at := fmt.Sprint("127.0.0.1:", port)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", at)
		if err == nil {
			_ = conn.Close()
			return func(url string) string { return strings.Replace(url, fmt.Sprint("127.0.0.1:", c.Port), at, 1) }
		}
		need.Must(t, time.Now().Before(end), "pgbouncer does not listen: %v", err)
	}
}
