//go:build unix

package command

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// TestI3_AHeartbeatKeepsAnAttemptLive: a command goes on past its first deadline while
// its heartbeats reach the ledger, and no longer than that. Where the machine is too slow
// for a deadline, a longer one is tried.
func TestI3_AHeartbeatKeepsAnAttemptLive(t *testing.T) {
	const deaf = `trap '' TERM; (trap '' TERM; exec sleep 60) & echo $! > "$1.tmp"; mv "$1.tmp" "$1"; while [ ! -e "$1.go" ]; do sleep 0.01; done; kill -9 $!; echo done`
	for name, c := range map[string]struct {
		does func(b *beating) // when the command runs
		ok   func(b *beating, res ran) bool
	}{
		"it comes": {
			func(b *beating) {
				first := b.only().Operation.DeadlineAt
				b.until(func() bool { return b.only().Operation.DeadlineAt.After(first) && time.Now().After(first) })
				_ = os.WriteFile(b.file+".go", nil, 0o600)
			},
			func(_ *beating, res ran) bool {
				return res.ExitCode == 0 && !res.Operation.Doubted && res.out == "done\n"
			},
		},
		"it does not": {
			func(b *beating) {
				b.store.Break(errors.New("disk I/O error"))
				b.until(func() bool { return !b.lives() })
				b.store.Break(nil)
			},
			func(b *beating, res ran) bool {
				return res.ExitCode == exitInDoubt && res.Operation.ErrorClass == ledger.ClassDeadline && res.Recorded && !b.lives()
			},
		},
		"the attempt was settled meanwhile": {
			func(b *beating) {
				_, _ = b.recorder.Settle(b.Context(), ledger.SettleRequest{AttemptID: b.only().Operation.LiveAttempt, Outcome: ledger.OutcomeUncertain})
			},
			func(b *beating, res ran) bool {
				return res.ExitCode == exitInDoubt && strings.Contains(res.notes, "no longer lets it go on") && !b.lives()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for deadline := 100 * time.Millisecond; ; deadline *= 2 {
				b := &beating{T: t, store: ledgertest.NewBreakable(nil), file: filepath.Join(t.TempDir(), "pid"), ended: make(chan struct{})}
				b.recorder = record.New(b.store, nil, record.Options{})
				done := make(chan struct{})
				go func() {
					defer close(done)
					if b.until(func() bool { _, err := os.Stat(b.file); return err == nil }) {
						c.does(b)
					}
				}()
				res := runOver(t, b.recorder, Request{Request: record.Request{Key: "k", Deadline: deadline}, Argv: append(sh(deaf), "x", b.file)})
				close(b.ended)
				<-done
				if c.ok(b, res) {
					return
				}
				need.Must(t, deadline < time.Minute, "exit %d, class %q, recorded %v: %s", res.ExitCode, res.Operation.ErrorClass, res.Recorded, res.notes)
			}
		})
	}
}

// beating is a run whose heartbeats are watched.
type beating struct {
	*testing.T
	store    *ledgertest.Breakable
	recorder *record.Recorder
	file     string        // that has the id of a process that the command has started
	ended    chan struct{} // when the run has
}

// until waits for something, and gives up when the run has ended.
func (b *beating) until(holds func() bool) bool {
	for !holds() {
		select {
		case <-b.ended:
			return holds()
		case <-time.After(time.Millisecond):
		}
	}
	return true
}

func (b *beating) only() ledger.Record {
	return need.Get(b.store.Read(b.Context(), ledger.Locator{Kind: "post", Key: "k"}))(b)
}

func (b *beating) lives() bool {
	text, err := os.ReadFile(b.file)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return err == nil && alive(pid)
}
