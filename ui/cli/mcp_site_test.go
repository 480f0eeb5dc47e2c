//go:build unix

package cli_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger/need"
)

type object = map[string]any

// newMCPSite is a site whose policy knows the memory server.
func newMCPSite(t *testing.T, policy string) *site {
	t.Helper()
	s := bareSite(t)
	s.writePolicy(policy)
	s.env = append(s.env, "XDG_CACHE_HOME="+s.dir, "MEMORY_FILE_PATH="+filepath.Join(s.dir, "memory.jsonl"))
	return s
}

const anyPolicy = "version: 1\ndefaults: { deadline: 30s }\n"

// recorded counts the ledger's operations by kind and state.
func (s *site) recorded() map[string]int {
	s.Helper()
	var data struct {
		Operations []struct{ Kind, State string }
	}
	r := s.must(0, "list", "--json")
	need.OK(s, json.Unmarshal(r.Status.Data, &data))
	found := map[string]int{}
	for _, op := range data.Operations {
		found[op.Kind+" "+op.State]++
	}
	return found
}

// serve starts a program that serves HTTP, and waits until it does. noise is what
// it has printed.
func (s *site) serve(t *testing.T, ready string, argv ...string) (noise func() string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = s.env, s.dir, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log := filepath.Join(t.TempDir(), "log")
	out := need.Get(os.Create(log))(t)
	defer out.Close()
	noise = func() string {
		text, _ := os.ReadFile(log)
		return string(text)
	}
	cmd.Stdout, cmd.Stderr = out, out
	need.OK(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	})
	for until := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if resp, err := http.Get(ready); err == nil {
			resp.Body.Close()
			return noise
		}
		select {
		case <-ended:
			t.Fatalf("%s ended\n%s", argv, noise())
		default:
		}
		need.Must(t, !time.Now().After(until), "%s does not serve", argv)
	}
}

// quoted is a command line for a shell.
func quoted(argv []string) string {
	var out []string
	for _, a := range argv {
		out = append(out, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	return strings.Join(out, " ")
}

// rows are the answer of the ledger to a query, as text.
// inputSQL is the input of operation o, as its first event has it.
const inputSQL = `(SELECT e.payload -> 'op' -> 'input' FROM ev e WHERE e.op = o.seq ORDER BY e.seq LIMIT 1)`

func (s *site) rows(query string) (all [][]string) {
	s.Helper()
	db := need.Get(sql.Open("sqlite", "file:"+s.ledger+"?mode=ro&_pragma=busy_timeout(60000)"))(s)
	defer db.Close()
	rows, err := db.Query(query)
	need.OK(s, err, query)
	defer rows.Close()
	columns, err := rows.Columns()
	for err == nil && rows.Next() {
		row, to := make([]string, len(columns)), make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		err = rows.Scan(to...)
		all = append(all, row)
	}
	need.OK(s, errors.Join(err, rows.Err()), query)
	return all
}
