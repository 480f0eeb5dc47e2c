//go:build unix

package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
)

// later is a kind whose exit code 75 says "not now".
func later(max int) record.KindRule {
	return record.KindRule{Retry: outcome.Retry{Max: max, BackoffMin: time.Millisecond, BackoffMax: 3 * time.Millisecond},
		Judge: func(_ context.Context, _ ledger.Record, a ledger.Answer) (ledger.Ruling, error) {
			return ledger.Ruling{Decided: a.Exit == 75 || a.Exit == 65, Outcome: ledger.OutcomeFailed}, nil
		}}
}

// counting appends a line to a file at each run, says what it read, and succeeds
// at the nth.
const counting = `read said; echo "$INDOUBT_KEY $INDOUBT_ATTEMPT $said" >> "$0"; [ $(wc -l < "$0") -ge "$1" ] || exit 75`

func linesOf(t *testing.T, path string) []string {
	t.Helper()
	b := need.Get(os.ReadFile(path))(t)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func TestRunTriesAgainAfterAKnownFailure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs")
	input := filepath.Join(t.TempDir(), "input")
	need.OK(t, os.WriteFile(input, []byte("skipped\nhello\n"), 0o600))
	in := need.Get(os.Open(input))(t)
	defer in.Close()
	need.Get(in.Seek(8, 0))(t)
	r, store := real(t, later(3))
	res := runOver(t, r, Request{Argv: []string{"/bin/sh", "-c", counting, file, "3"}, Stdin: in})
	runs := linesOf(t, file)
	need.Must(t, res.ExitCode == 0 && res.Attempt.N == 3 && len(runs) == 3,
		"exit %d, attempt %d, %q", res.ExitCode, res.Attempt.N, runs)
	for _, run := range runs {
		if said := strings.Fields(run); len(said) != 3 || said[0] != res.Operation.Key || said[2] != "hello" {
			t.Errorf("a run with %q", run)
		}
	}
	need.That(t, strings.Count(res.notes, "had no effect") == 2 && strings.Contains(res.notes, "attempt 2"), "notes %q", res.notes)
	need.Equal(t, strings.Count(res.notes, "the script has ||"), 1, "warnings of one run, in "+res.notes)
	if rec, err := store.Read(t.Context(), ledger.Locator{ID: res.Operation.ID}); err != nil || len(rec.Attempts) != 3 {
		t.Errorf("%d attempts, %v", len(rec.Attempts), err)
	}
}

func TestRunStopsTrying(t *testing.T) {
	for _, c := range []struct {
		name  string
		rule  record.KindRule
		req   Request
		exit  int // of the command
		tries int
	}{
		{"at the kind's bound", later(2), Request{}, 75, 3},
		{"when told to run once", later(2), Request{NoRetry: true}, 75, 1},
		{"when the kind allows none", later(0), Request{}, 75, 1},
		{"when it was refused for good", later(2), Request{}, 65, 1},
		{"when it is in doubt", later(2), Request{}, 1, 1},
		{"when its input is gone", later(2), Request{}, 75, 1},
		{"when it was told to end", later(2), Request{}, 75, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "runs")
			r, _ := real(t, c.rule)
			c.req.Argv = []string{"/bin/sh", "-c", `echo >> "$0"; exit ` + fmt.Sprint(c.exit), file}
			if strings.Contains(c.name, "told to end") {
				signals := make(chan os.Signal, 1)
				c.req.Signals = signals
				c.req.Argv[2] = `trap "exit 75" TERM; echo >> "$0"; sleep 2 > /dev/null & wait; exit 75`
				go func() {
					for lines := []byte(nil); len(lines) == 0; time.Sleep(time.Millisecond) {
						lines, _ = os.ReadFile(file)
					}
					signals <- syscall.SIGTERM
				}()
			}
			if strings.Contains(c.name, "input") {
				in, out, err := os.Pipe()
				need.OK(t, err)
				defer in.Close()
				out.Close()
				c.req.Stdin = in
			}
			res := runOver(t, r, c.req)
			if tries := len(linesOf(t, file)); tries != c.tries || res.Attempt.N != c.tries {
				t.Errorf("run %d times, attempt %d", tries, res.Attempt.N)
			}
			want := c.exit
			if c.exit == 1 {
				want = exitInDoubt
			}
			need.Equal(t, res.ExitCode, want, "exit")
		})
	}
}

// TestRunLeavesOffWhenSignalled: nobody is kept waiting who wants to leave.
func TestRunLeavesOffWhenSignalled(t *testing.T) {
	rule := later(5)
	rule.Retry.BackoffMin, rule.Retry.BackoffMax = time.Hour, time.Hour
	r, _ := real(t, rule)
	signals := make(chan os.Signal, 2)
	noted := make(chan string, 10)
	done := make(chan Result, 1)
	go func() {
		res, _ := Run(context.Background(), r, Request{Request: record.Request{Kind: "post"}, Argv: sh("exit 75"), Signals: signals, Note: func(s string) { noted <- s }})
		done <- res
	}()
	if note := <-noted; !strings.Contains(note, "the next one in") {
		t.Fatal(note)
	}
	signals <- syscall.SIGUSR1
	signals <- syscall.SIGTERM
	select {
	case res := <-done:
		need.That(t, res.ExitCode == 75 && res.Attempt.N == 1 && res.Operation.State == ledger.Failed, "exit %d, attempt %d, %s", res.ExitCode, res.Attempt.N, res.Operation.State)
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on waiting")
	}
}
