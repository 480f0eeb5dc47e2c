package pgtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options are how a cluster is made.
type Options struct {
	Durable  bool              // with fsync, as in earnest
	Settings map[string]string // of postgresql.conf
	From     *Cluster          // a standby of this one
	By       string            // the address at which the standby reaches it; its own when empty
}

// Cluster is a running PostgreSQL.
type Cluster struct {
	Dir  string // its socket; its data is in data
	Port int

	options Options
	server  *exec.Cmd
	ended   chan struct{} // closed when the server has ended
}

// Start gives a test a cluster of its own, which is removed at its end.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if _, err := programs(); err != nil {
		t.Skip(err)
	}
	c, err := start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Remove)
	return c
}

// programs is the directory of PostgreSQL's programs, the newest where there are several.
func programs() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		path, err = filepath.EvalSymlinks(path) // the other programs lie beside it
		return filepath.Dir(path), err
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if len(found) == 0 {
		return "", errors.New("PostgreSQL is not installed: no postgres in PATH or /usr/lib/postgresql/*/bin")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// start makes a cluster and waits until it answers.
func start(o Options) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "indoubt-pg")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, options: o}
	if err := c.begin(); err != nil {
		c.Remove()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) begin() (err error) {
	if err := hand(c.Dir); err != nil {
		return err
	}
	if c.Port, err = Port(); err != nil {
		return err
	}
	if from := c.options.From; from != nil {
		err = c.run("pg_basebackup", "-D", c.Data(), "-d", cmp.Or(c.options.By, from.URL("postgres")), "-R", "-c", "fast", "--no-sync")
	} else {
		err = c.run("initdb", "-D", c.Data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	}
	if err != nil {
		return err
	}
	return c.Up()
}

// Data is the cluster's data directory.
func (c *Cluster) Data() string { return filepath.Join(c.Dir, "data") }

// URL is a database of the cluster by its loopback port, as the superuser.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", c.Port, database)
}

// SocketURL is a database of the cluster by its Unix socket.
func (c *Cluster) SocketURL(database string) string {
	return fmt.Sprintf("postgres://postgres@/%s?host=%s&port=%d&sslmode=disable", database, c.Dir, c.Port)
}

// Up starts the server and waits until it answers.
func (c *Cluster) Up() error {
	settings := map[string]string{ // a vacuum of its own accord keeps what a test vacuums from being visible to all
		"port": strconv.Itoa(c.Port), "listen_addresses": "127.0.0.1", "unix_socket_directories": c.Dir,
		"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "500",
		"shared_buffers": "64MB", "max_wal_size": "2GB", "jit": "off", "autovacuum": "off", "log_min_messages": "fatal", "log_min_error_statement": "panic",
	}
	if c.options.Durable {
		settings["fsync"], settings["synchronous_commit"], settings["full_page_writes"] = "on", "on", "on"
	}
	for name, value := range c.options.Settings {
		settings[name] = value
	}
	args := []string{"-D", c.Data()}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	cmd, err := c.command("postgres", args...)
	if err != nil {
		return err
	}
	said := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	c.server = cmd
	if c.ended, err = launch(cmd); err != nil {
		return err
	}
	for patience := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		conn, err := pgx.Connect(ctx, c.SocketURL("postgres"))
		if err == nil {
			err = conn.Close(ctx)
		}
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("PostgreSQL does not start: %s", said)
		default:
		}
		if time.Now().After(patience) {
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		}
	}
}

// launch starts a server. ended is closed when it has ended.
func launch(cmd *exec.Cmd) (ended chan struct{}, err error) {
	begun := make(chan error)
	ended = make(chan struct{})
	go func() {
		runtime.LockOSThread() // the server ends with the thread that started it
		err := cmd.Start()
		begun <- err
		if err == nil {
			_ = cmd.Wait() // however it ends, it has ended
		}
		close(ended)
	}()
	return ended, <-begun
}

// Beside runs another program, as the account that servers run as, until a test ends. A
// directory is given to that account.
func Beside(t testing.TB, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = attributes()
	if err := hand(dir); err != nil {
		t.Fatal(err)
	}
	ended, err := launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
}

// Stop ends the server in order; Kill ends all of its processes at once.
func (c *Cluster) Stop() { c.signal(syscall.SIGINT) }

// Kill ends the server as a crash does.
func (c *Cluster) Kill() { c.signal(syscall.SIGKILL) }

func (c *Cluster) signal(s syscall.Signal) {
	if c.server == nil || c.server.Process == nil {
		return
	}
	_ = c.server.Process.Signal(s) // it may have ended
	for range 500 {
		if s != syscall.SIGKILL || !c.killed() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	<-c.ended
	c.server = nil
}

// killed kills what serves the connections of a server that was killed, and reports
// whether there was any: while one is there, the next server does not start.
func (c *Cluster) killed() (any bool) {
	processes, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, cwd := range processes {
		if at, err := os.Readlink(cwd); err != nil || at != c.Data() {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(cwd))); err == nil {
			any = true
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may have ended
			}
		}
	}
	return any
}

// Set changes a setting of a server that runs.
func (c *Cluster) Set(t testing.TB, name, value string) {
	t.Helper()
	for _, sql := range []string{"ALTER SYSTEM SET " + name + " = '" + value + "'", "SELECT pg_reload_conf()"} {
		if err := c.Exec("postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
}

// Promote makes a standby a primary.
func (c *Cluster) Promote() error { return c.run("pg_ctl", "promote", "-D", c.Data(), "-w") }

// Remove ends the server and removes what it has.
func (c *Cluster) Remove() {
	c.signal(syscall.SIGQUIT)
	_ = os.RemoveAll(c.Dir) // a temporary directory
}

// run runs one of PostgreSQL's programs to its end.
func (c *Cluster) run(name string, args ...string) error {
	cmd, err := c.command(name, args...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// command is a program of PostgreSQL's as the account that may run it.
func (c *Cluster) command(name string, args ...string) (*exec.Cmd, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(bin, name), args...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = attributes()
	return cmd, nil
}

// Port is a loopback port that is free now, for a server that begins soon. It is none of
// those that the system gives to who asks for any: until the server has it, another test
// would get it.
func Port() (int, error) {
	for range 100 {
		port := 20000 + rand.IntN(12000)
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no port is free")
}
