//go:build soak

package cli_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// inner is what belongs to SQLite and helps no one who reads it alone.
var inner = regexp.MustCompile(`SQLITE_|SQL logic|panic|goroutine`)

// A ledger that goes bad is said in words that help, by every role that had it open
// and by every one that opens it; nothing is sent.
func TestE2E_ABrokenLedgerIsSaidByEveryRole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(path string) error
		said string // by those that open it
		ends bool   // those that had it open can tell
	}{
		"no bytes are left":       {func(p string) error { return os.Truncate(p, 0) }, "is empty, and a ledger was there", true},
		"cut inside the header":   {func(p string) error { return os.Truncate(p, 50) }, "is damaged: it is cut off after 50 bytes", true},
		"cut behind the header":   {func(p string) error { return os.Truncate(p, 8192) }, "is damaged: it is cut off", true},
		"pages of something else": {func(p string) error { return overwrite(p, 4096, 400<<10) }, "is damaged", true},
		"no rights":               {func(p string) error { return os.Chmod(p, 0) }, "mode 0000", false}, // who has it open goes on
		"gone":                    {func(p string) error { return os.Rename(p, p+".away") }, "there was one", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			openToAll(s.dir)
			s.must(0, "init")
			for n := range 5 {
				s.must(0, "run", "--kind", "note", "--key", fmt.Sprint(n), "--", "true")
			}
			up := newShop(t, false)
			proxy := startHTTP(t, s.dir, up.URL, "--ledger", s.ledger)
			if status, _, _ := proxy.post("/orders", "before", `{"n":1}`); status != 201 {
				t.Fatalf("before: status %d\n%s", status, proxy.log())
			}
			agent := s.agent("--", "cat")
			fmt.Fprintln(agent.in, `{"jsonrpc":"2.0","id":9,"method":"ping"}`)
			if line := <-agent.lines; !strings.Contains(line, "ping") {
				t.Fatalf("%q\n%s", line, agent.err.String())
			}
			console := s.console()
			s.eventually("the console shows the list", func() bool { return console.shown("Settled") })
			// What is only in the log would hide what is wrong with the file.
			s.exec(`PRAGMA wal_checkpoint(PASSIVE)`)
			need.OK(t, c.harm(s.ledger))
			for _, args := range [][]string{{"list"}, {"run", "--kind", "note", "--key", "later", "--", "true"}, {"begin", "--kind", "note", "--key", "later", "--input", "{}"},
				{"doctor"}, {"http", "--listen", "127.0.0.1:0", "--upstream", up.URL}, {"mcp", "--", "cat"}, {"check"}} {
				cmd := exec.Command(program, args...)
				if name == "no rights" {
					asNobody(cmd)
				}
				cmd.WaitDelay = time.Second
				p := s.startAs(cmd)
				stuck := time.AfterFunc(patience, func() { cmd.Process.Kill() })
				r := p.finish()
				stuck.Stop()
				said := r.Out + r.Err
				need.That(t, r.Exit > 0 && strings.Contains(said, c.said) && strings.Count(said, "\n") >= 2 && !inner.MatchString(said), "%v: exit %d\n%s", args, r.Exit, said)
			}
			if !c.ends {
				return
			}
			before := up.orders.Load()
			status, body, _ := proxy.post("/orders", "after", `{"n":2}`)
			detail := fmt.Sprint(body["detail"])
			if status != 503 || up.orders.Load() != before || inner.MatchString(detail) || len(detail) < 40 {
				t.Errorf("the open proxy: status %d %v, %d orders", status, body, up.orders.Load()-before)
			}
			if _, line := agent.call(1, "say"); !strings.Contains(line, "not sent") || inner.MatchString(line) {
				t.Errorf("the open MCP proxy: %s", line)
			}
			console.tty.Write([]byte("0"))
			s.eventually("the console says that the ledger is lost", func() bool { return console.shown("STALE") })
		})
	}
}

func overwrite(path string, at, n int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(bytes.Repeat([]byte("Z"), int(n)), at)
	return err
}

// exec is one statement of a writer in plain SQL.
func (s *site) exec(query string) {
	s.Helper()
	db := need.Get(sql.Open("sqlite", "file:"+s.ledger+"?mode=rw&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)"))(s)
	defer db.Close()
	if _, err := db.Exec(query); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
}
