//go:build soak

package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// I1: where the connection to the database is cut around the COMMIT of an intent, the
// program learns what became of it, or sends nothing and says so.
func TestI1_E2E_ACommitThatIsCut(t *testing.T) {
	s := bareSite(t)
	s.ledger = newLedger(t)
	s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger, "INDOUBT_POLICY=")
	in := func(name string) string { return filepath.Join(s.dir, name) }
	send := func(through, key string) []string {
		return []string{"--ledger", through, "run", "--kind", "post", "--key", key, "--deadline", "20s", "--",
			"sh", "-c", `echo sent >> "$1"; while [ ! -e "$2" ]; do sleep 0.05; done`, "sh", in(key), in("go")}
	}
	sent := func(key string) int {
		said, _ := os.ReadFile(in(key))
		return strings.Count(string(said), "sent")
	}

	// How much a program and the database say to each other until it sends. The COMMIT is
	// not the last of it.
	r, through := pgtest.Through(t, s.ledger)
	r.Arm(-1, -1)
	whole := s.start(send(through, "whole")...)
	s.eventually("it is sent", func() bool { return sent("whole") == 1 })
	up, down := r.Disarm()
	need.OK(t, os.WriteFile(in("go"), nil, 0o600))
	need.That(t, whole.finish().Exit == 0, "uncut: %s", &whole.err)

	var all sync.WaitGroup
	for _, cut := range []struct {
		up, down int
		good     bool // the server stays away
	}{{up - 300, -1, false}, {-1, down - 300, false}, {up - 300, -1, true}, {-1, down - 300, true}, {-1, down - 600, true}} {
		key := fmt.Sprintf("up%d-down%d-%t", cut.up, cut.down, cut.good)
		r, through := pgtest.Through(t, s.ledger)
		if r.Arm(cut.up, cut.down); cut.good {
			r.ArmForGood(cut.up, cut.down)
		}
		all.Go(func() {
			res := s.do(send(through, key)...)
			switch {
			case !cut.good && (res.Exit != 0 || sent(key) != 1):
				t.Errorf("%s: exit %d, sent %d times\n%s", key, res.Exit, sent(key), res.Err)
			case cut.good && (res.Exit != 101 || sent(key) != 0 || !strings.Contains(res.Err, "cannot tell whether the intent is recorded; nothing was sent")):
				t.Errorf("%s: exit %d, sent %d times; want 101 and nothing sent\n%s", key, res.Exit, sent(key), res.Err)
			}
		})
	}
	all.Wait()
	there := 0
	for _, o := range s.list() {
		if !strings.HasSuffix(o.Key, "true") {
			continue
		}
		there++
		s.eventually("what was not sent is in doubt", func() bool { return s.show(o.ID).State == "uncertain" })
		if res := s.do(send(s.ledger, o.Key)...); res.Exit != 106 || sent(o.Key) != 0 {
			t.Errorf("%s again: exit %d, sent %d times, want 106 and nothing sent", o.Key, res.Exit, sent(o.Key))
		}
	}
	need.That(t, there > 0 && there < 3, "%d of 3 are recorded: the cuts were not around the COMMIT", there)
}

// The same of a pipeline that sends by itself, and of what it says became of that: where the
// program cannot learn whether it is recorded, it says so, and the same again is recorded
// once.
func TestI1_E2E_ABeginAndASettleThatAreCut(t *testing.T) {
	s := bareSite(t)
	s.ledger = newLedger(t)
	s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger, "INDOUBT_POLICY=")
	for name, answer := range map[string]bool{"the request": false, "the answer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.T = t
			recorded := func(state string) (n int) {
				for _, o := range s.list() {
					if o.Key == name && o.State == state {
						n++
					}
				}
				return n
			}
			want := map[bool]int{true: 1}[answer]
			begin := []string{"begin", "--kind", "post", "--key", name, "--input", `{"note":"marked-` + name + `"}`, "--deadline", "1h"}
			r, through := pgtest.Through(t, s.ledger)
			r.ArmAt("marked-"+name, answer)
			res := s.do(append([]string{"--ledger", through}, begin...)...)
			need.That(t, res.Exit == 1 && strings.Contains(res.Err, "cannot tell whether the intent is recorded; nothing was sent"), "begin: exit %d\n%s", res.Exit, res.Err)
			need.Equal(t, recorded("pending"), want, "recorded")
			attempt := s.do(append(begin, "--json")...)
			need.Equal(t, attempt.Exit, map[bool]int{false: 0, true: 7}[answer], attempt.Err, "the same again")
			for _, o := range s.list() {
				if o.Key != name {
					continue
				}
				r, through := pgtest.Through(t, s.ledger)
				r.ArmAt("receipt-"+name, answer)
				settle := []string{"settle", s.handle(o.ID), "--outcome", "committed", "--receipt", "receipt-" + name}
				res := s.do(append([]string{"--ledger", through}, settle...)...)
				need.That(t, res.Exit == 1 && strings.Contains(res.Err, "cannot tell whether the change is recorded"), "settle: exit %d\n%s", res.Exit, res.Err)
				need.Equal(t, recorded("committed"), want, "settled")
				s.must(0, settle...)
			}
			need.Equal(t, recorded("committed"), 1, "settled in the end")
		})
	}
}
