package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// fiveRetries retries five rows with one command, whose policy is edited while the second
// is sent. It returns the run, and how many were sent.
func fiveRetries(t *testing.T, b *bench, s *shop, old, new string) (run bulkJSON, sends int) {
	t.Helper()
	args := []string{"retry", "--reason", "outage over", "--yes"}
	for n := 1; n <= 5; n++ {
		b.doubt(n, "keyed", strings.Replace(plain, "cus_9", fmt.Sprint("cus_", n), 1))
		args = append(args, b.at(n))
	}
	before := string(need.Get(os.ReadFile(b.policy))(t))
	need.Contains(t, before, old)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		if _, sends := s.effects(); r.Method == http.MethodPost && sends == 2 {
			need.OK(t, os.WriteFile(b.policy, []byte(strings.Replace(before, old, new, 1)), 0o600))
		}
	})
	b.run(args...)
	_, sends = s.effects()
	return b.newestRun(), sends
}

// newestRun is the newest run, with its items.
func (b *bench) newestRun() (run bulkJSON) {
	b.Helper()
	var all struct{ Runs []bulkJSON }
	need.OK(b, json.Unmarshal(b.json(0, "runs", "--all").Data, &all))
	need.OK(b, json.Unmarshal(b.json(0, "runs", all.Runs[0].ID).Data, &run))
	return run
}

// What a policy edit in the middle of a run changes about a row is not carried out: the
// row was decided under what the policy said then. What is not allowed now is left out and
// named; what would be sent otherwise stops the run as a hold does, and is not used up.
func TestI7_ARunSendsNothingThatAPolicyEditHasChanged(t *testing.T) {
	for name, c := range map[string]struct {
		old, new, word string
		sends, skips   int
	}{
		"another request":       {"header: Idempotency-Key", "header: X-Once", "", 2, 0},
		"no key":                {"key: { header: Idempotency-Key, remembers: 24h }", "rate: 1000/s", "what allowed it has lapsed", 2, 3},
		"no repeat of machines": {"retry: { max: 2 }", "retry: { max: 0 }", "", 5, 0},
		"something else":        {"title: charge ${input.invoice}", "title: bill ${input.invoice}", "", 5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, s := newShopBench(t)
			run, sends := fiveRetries(t, b, s, c.old, c.new)
			need.Equal(t, sends, c.sends)
			need.Equal(t, run.Tally[ledger.CameLanded], c.sends)
			need.Equal(t, run.Tally[ledger.CameSkipped], c.skips)
			need.Equal(t, run.Left, 5-c.sends-c.skips)
			for _, it := range run.Items[c.sends:] {
				need.Contains(t, it.Word, c.word)
			}
		})
	}
}

// A policy that cannot be read puts off what is left of a run, until it can.
func TestARunWaitsForAPolicyThatCanBeRead(t *testing.T) {
	b, s := newShopBench(t)
	good := need.Get(os.ReadFile(b.policy))(t)
	run, sends := fiveRetries(t, b, s, "version: 1", "version: [")
	need.Equal(t, sends, 2)
	need.Equal(t, string(run.State), string(ledger.RunPaused))
	need.Equal(t, run.Left, 3)
	s.Config.Handler = s
	need.OK(t, os.WriteFile(b.policy, good, 0o600))
	b.run("runs", "resume", run.ID) // one more, and then the canaries are looked at
	b.want(0, "runs", "resume", run.ID)
	if effects, sends := s.effects(); effects != 5 || sends != 5 {
		t.Errorf("%d effects of %d sends", effects, sends)
	}
}

// Who goes on with a run under another policy is told so, and what was decided is sent as
// it was shown: the run stops before what would go out otherwise, until the policy is as it was.
func TestI7_ARunThatGoesOnUnderAnotherPolicySaysSo(t *testing.T) {
	b, s := newShopBench(t)
	args := []string{"retry", "--reason", "outage over"}
	for n := 1; n <= 5; n++ {
		b.doubt(n, "keyed", strings.Replace(plain, "cus_9", fmt.Sprint("cus_", n), 1))
		args = append(args, b.at(n))
	}
	b.run(args...)
	run := b.newestRun()
	need.Equal(t, run.State, ledger.RunWaiting)
	text := string(need.Get(os.ReadFile(b.policy))(t))
	need.OK(t, os.WriteFile(b.policy, []byte(strings.Replace(text, "header: Idempotency-Key", "header: X-Once", 1)), 0o600))
	_, stdout, stderr := b.run("runs", "resume", run.ID)
	need.Contains(t, stderr, "the policy has changed since this was decided")
	need.Contains(t, stdout, "1 put off", "what would be sent has changed")
	_, sends := s.effects()
	need.Equal(t, sends, 3)
	need.OK(t, os.WriteFile(b.policy, []byte(text), 0o600))
	b.want(0, "runs", "resume", run.ID)
	if effects, sends := s.effects(); effects != 5 || sends != 5 {
		t.Errorf("%d effects of %d sends", effects, sends)
	}
}
