//go:build soak

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
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
	for _, cut := range []struct {
		name            string
		answer, forGood bool
	}{
		{"request", false, false}, {"answer", true, false},
		{"request for good", false, true}, {"answer for good", true, true},
	} {
		t.Run(cut.name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.T = t
			effects := filepath.Join(s.dir, cut.name) // only the intent names it
			send := func(ledger, deadline string) result {
				return s.do("--ledger", ledger, "run", "--kind", "post", "--key", cut.name, "--deadline", deadline, "--",
					"sh", "-c", `echo sent >> "$1"`, "sh", effects)
			}
			sent := func() int {
				said, _ := os.ReadFile(effects)
				return strings.Count(string(said), "sent")
			}
			r, through := pgtest.Through(t, s.ledger)
			through += "&default_query_exec_mode=exec" // a statement that is prepared first says its text there
			r.ArmAt("COMMIT", cut.answer, cut.forGood)
			if !cut.forGood {
				res := send(through, "1m")
				need.That(t, res.Exit == 0 && sent() == 1, "exit %d, sent %d times\n%s", res.Exit, sent(), res.Err)
				return
			}
			res := send(through, "2s")
			need.That(t, res.Exit == 101 && sent() == 0 && strings.Contains(res.Err, "cannot tell whether the intent is recorded; nothing was sent"),
				"exit %d, sent %d times; want 101 and nothing sent\n%s", res.Exit, sent(), res.Err)
			state := func() string {
				for _, o := range s.list() {
					if o.Key == cut.name {
						return o.State
					}
				}
				return ""
			}
			if !cut.answer {
				need.Equal(t, state(), "", "recorded")
				return
			}
			s.eventually("what was not sent is in doubt", func() bool { return state() == "uncertain" })
			res = send(s.ledger, "1m")
			need.That(t, res.Exit == 106 && sent() == 0, "again: exit %d, sent %d times, want 106 and nothing sent", res.Exit, sent())
		})
	}
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
			through += "&default_query_exec_mode=exec" // a statement that is prepared first says its text there
			r.ArmAt("COMMIT", answer, true)
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
				through += "&default_query_exec_mode=exec" // a statement that is prepared first says its text there
				r.ArmAt("COMMIT", answer, true)
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
