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

// later is a kind with some further attempts, whose exit code 65 is a refusal.
func later(max int) record.KindRule {
	return record.KindRule{Retry: outcome.Retry{Max: max, BackoffMin: time.Millisecond, BackoffMax: 3 * time.Millisecond},
		Judge: func(_ context.Context, _ ledger.Record, a ledger.Answer) (ledger.Ruling, error) {
			return ledger.Ruling{Decided: a.Exit == 65, Outcome: ledger.OutcomeFailed}, nil
		}}
}

// unreached is the command line of a program named curl, whose exit code 7 says that it had
// no connection.
func unreached(t *testing.T, script string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "curl")
	need.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return []string{path, "-q", "http://127.0.0.1:1/charges"}
}

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
	counting := fmt.Sprintf(`read said; echo "$INDOUBT_KEY $INDOUBT_ATTEMPT $said" >> '%[1]s'; [ $(wc -l < '%[1]s') -ge 3 ] || exit 7`, file)
	res := runOver(t, r, Request{Argv: unreached(t, counting), Stdin: in})
	runs := linesOf(t, file)
	need.Must(t, res.ExitCode == 0 && res.Attempt.N == 3 && len(runs) == 3,
		"exit %d, attempt %d, %q", res.ExitCode, res.Attempt.N, runs)
	for _, run := range runs {
		if said := strings.Fields(run); len(said) != 3 || said[0] != res.Operation.KeyToSend() || said[2] != "hello" {
			t.Errorf("a run with %q", run)
		}
	}
	need.That(t, strings.Count(res.notes, "had no effect") == 2 && strings.Contains(res.notes, "attempt 2"), "notes %q", res.notes)
	need.Equal(t, strings.Count(res.notes, "curl exits 0 at"), 1, "warnings of one run, in "+res.notes)
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
		{"at the kind's bound", later(2), Request{}, 7, 3},
		{"when the kind allows none", later(0), Request{}, 7, 1},
		{"when it was refused for good", later(2), Request{}, 65, 1},
		{"when it is in doubt", later(2), Request{}, 1, 1},
		{"when its input is gone", later(2), Request{}, 7, 1},
		{"when it was told to end", later(2), Request{}, 7, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "runs")
			r, _ := real(t, c.rule)
			script := fmt.Sprintf(`echo >> '%s'; `, file)
			c.req.Argv = unreached(t, script+"exit "+fmt.Sprint(c.exit))
			if strings.Contains(c.name, "told to end") {
				signals := make(chan os.Signal, 1)
				c.req.Signals = signals
				c.req.Argv = unreached(t, `trap "exit 7" TERM; `+script+`sleep 2 > /dev/null & wait; exit 7`)
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
		res, _ := Run(context.Background(), r, Request{Request: record.Request{Kind: "post"}, Argv: unreached(t, "exit 7"), Signals: signals, Note: func(s string) { noted <- s }})
		done <- res
	}()
	<-noted // a warning
	note := <-noted
	need.Must(t, strings.Contains(note, "the next one in"), "%s", note)
	signals <- syscall.SIGUSR1
	signals <- syscall.SIGTERM
	select {
	case res := <-done:
		need.That(t, res.ExitCode == 7 && res.Attempt.N == 1 && res.Operation.State == ledger.Failed, "exit %d, attempt %d, %s", res.ExitCode, res.Attempt.N, res.Operation.State)
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on waiting")
	}
}
