//go:build soak

package cli_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger/ledgertest/faults"
	"indoubt/ledger/need"
)

// manyAtOnce runs a command often at the same time, once it is told to, and prints how
// each ended.
const manyAtOnce = `n=$1; shift; while [ ! -e go ]; do sleep 0.02; done
while [ "$n" -gt 0 ]; do n=$((n-1)); { "$@" >/dev/null 2>>said; echo $?; } & done; wait`

// atOnce runs a command many times at the same moment, 16 times on one host or 10 times on
// each of 20, and counts how they ended.
func (s *site) atOnce(args ...string) (told map[string]int, many int, said string) {
	s.Helper()
	hosts, each := 1, 16
	if s.afar {
		hosts, each = 4, 10 // 200 keep a server of two processors from answering in time
	}
	var all []*process
	for range hosts {
		all = append(all, s.startAs(s.on(append([]string{"sh", "-c", manyAtOnce, "many", fmt.Sprint(each), program}, args...)...)))
	}
	need.OK(s, os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600))
	told = map[string]int{}
	for _, p := range all {
		for _, code := range strings.Fields(p.finish().Out) {
			told[code]++
		}
	}
	words, _ := os.ReadFile(filepath.Join(s.dir, "said"))
	return told, hosts * each, string(words)
}

// oneOfMany runs a begin many times at once: one may send, and the others are told that it
// is under way, or in doubt where its deadline has passed on a slow machine. In a database
// the last ones may wait longer than they may for the lock or for their connection, and
// send nothing: how many depends on the machine.
func (s *site) oneOfMany(args ...string) {
	s.Helper()
	told, many, said := s.atOnce(args...)
	refused := 0
	if s.afar {
		for _, why := range []string{"the ledger is locked", "does not answer: ", "cannot tell whether the intent is recorded", ": context deadline exceeded"} {
			refused += strings.Count(said, why)
		}
	}
	others := told["7"] + told["6"]
	need.That(s, told["0"] == 1 && told["1"] == refused && others == many-1-refused && others > 0,
		"exit codes %v, want one 0, %d times 1, and else 7 or 6\n%s", told, refused, tally(said))
}

// tally is each line once, without ids and times, and how often it came.
func tally(said string) string {
	counts := map[string]int{}
	for line := range strings.Lines(anID.ReplaceAllString(said, "…")) {
		counts[line]++
	}
	var all strings.Builder
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&all, "%6d %s", counts[line], line)
	}
	return all.String()
}

var anID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z`)

// Of many processes that want the same thing, one may send.
func TestI3_E2E_ManyBeginOneKey(t *testing.T) {
	s := newSite(t)
	s.oneOfMany("begin", "--kind", "post", "--key", "k1", "--input", chargeInput)
	s.must(8, "begin", "--kind", "post", "--key", "k1", "--input", `{"amount":1,"currency":"usd","customer":"cus_9"}`)
	if r := s.do("run", "--kind", "post", "--key", "k1", "--input", `{"amount":1}`, "--", "true"); r.Exit != 108 {
		t.Errorf("run with another input: exit %d, want 108\n%s", r.Exit, r.Err)
	}
}

// a permission lets one more attempt begin, whoever comes for it.
func TestI5_E2E_ManyFetchOneGrant(t *testing.T) {
	s := newSite(t)
	before, _, _ := strings.Cut(kinds, "    resend: here\n    answer:")
	s.writePolicy(before) // pipelines send
	op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
	s.must(0, "retry", seen(op), "--reason", "the key is remembered")
	s.oneOfMany("begin", "--kind", "charge", "--key", "k1", "--input", chargeInput, "--token-sent")
	after := s.show(op.ID)
	need.That(t, len(after.Attempts) == 2, "attempts %+v", after.Attempts)
}

// Many processes write, some are killed anywhere: each operation is settled or
// visibly in doubt, and the ledger stays sound.
func TestI10_E2E_KilledAnywhere(t *testing.T) {
	s := newSite(t)
	s.down.Meet(faults.Trouble{Fault: faults.CommitAndCut, Rate: 0.3})
	const writes = 12
	var wait sync.WaitGroup
	for i := range writes {
		p := s.start(append([]string{"run", "--kind", "quick", "--key", fmt.Sprint("k", i)}, s.curl(fmt.Sprintf("post-%d-", i))...)...)
		if i%3 == 0 {
			time.Sleep(time.Duration(7*i) * time.Millisecond)
			p.cmd.Process.Signal(syscall.SIGKILL)
		}
		wait.Go(func() { p.finish() })
	}
	wait.Wait()
	known := map[string]bool{}
	s.eventually("every deadline has passed", func() bool {
		over := true
		for _, op := range s.list() {
			known[op.Token] = true
			over = over && op.State != "pending"
		}
		return over
	})
	for _, q := range s.down.Requests() {
		if q.Method != "POST" {
			continue
		}
		sent := false
		for token := range known {
			sent = sent || strings.Contains(q.Body, token)
		}
		need.That(t, sent, "I1: this was sent and is not in the ledger: %s", q.Body)
	}
	for i := range writes {
		if n := s.effects(fmt.Sprintf("post-%d-", i)); n > 1 {
			t.Errorf("write %d happened %d times", i, n)
		}
	}
	if out, err := exec.Command("sqlite3", s.ledger, "PRAGMA integrity_check").Output(); !s.afar && err == nil && strings.TrimSpace(string(out)) != "ok" {
		t.Errorf("integrity: %s", out)
	}
}
