//go:build unix

package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/procgroup"
)

func init() { roles["obliging"] = obligingRole }

// obligingRole is a command that ends well when it is asked to end.
func obligingRole() int {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1)
	fmt.Println("ready")
	<-heard
	return 0
}

// A command that was asked to end may leave its work half done and exit 0.
func TestI2_AskedToEndIsInDoubt(t *testing.T) {
	notIgnored(t, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	t.Run("one after the other", oneAfterTheOther)
	self := need.Get(os.Executable())(t)
	says := func(r ledger.Ruling) record.KindRule {
		return record.KindRule{Judge: func(context.Context, ledger.Record, ledger.Answer) (ledger.Ruling, error) { return r, nil }}
	}
	for _, c := range []struct {
		name   string
		signal os.Signal
		rule   record.KindRule
		state  ledger.State
	}{
		{"TERM", syscall.SIGTERM, record.KindRule{}, ledger.Uncertain},
		{"INT", syscall.SIGINT, record.KindRule{}, ledger.Uncertain},
		{"HUP", syscall.SIGHUP, record.KindRule{}, ledger.Uncertain},
		{"QUIT", syscall.SIGQUIT, record.KindRule{}, ledger.Uncertain},
		{"USR1 asks for no end", syscall.SIGUSR1, record.KindRule{}, ledger.Committed},
		{"the rule says committed", syscall.SIGTERM, says(ledger.Ruling{Decided: true, Outcome: ledger.OutcomeCommitted}), ledger.Committed},
		{"the rule says refused", syscall.SIGTERM, says(ledger.Ruling{Decided: true, Outcome: ledger.OutcomeFailed}), ledger.Uncertain},
	} {
		t.Run(c.name, func(t *testing.T) {
			signals := make(chan os.Signal, 1)
			r := record.New(ledgertest.NewBreakable(nil), oneRule(c.rule), record.Options{})
			res := need.Get(Run(t.Context(), r, Request{Request: record.Request{Kind: "post", Key: "k"}, Argv: []string{self},
				Env: append(os.Environ(), "INDOUBT_TEST_ROLE=obliging"), Signals: signals, Stdout: onWrite(func() { signals <- c.signal })}))(t)
			need.Equal(t, res.Operation.State, c.state, "state")
			need.Equal(t, res.Exit, 0, "the command's exit code")
			if c.state == ledger.Uncertain {
				need.Equal(t, res.ExitCode, 106, "exit code")
				need.Contains(t, res.Outcome.Error, "asked to end")
			}
		})
	}
}

// oneAfterTheOther: each signal reaches the whole group, and one that came before the start
// keeps the command from it.
func oneAfterTheOther(t *testing.T) {
	signals := make(chan os.Signal, 4)
	r := record.New(ledgertest.NewBreakable(nil), nil, record.Options{})
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	await := func(path string) {
		for {
			if _, err := os.Stat(path); err == nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	go func() {
		await(ready)
		signals <- syscall.SIGHUP
		await(ready + ".hup")
		signals <- syscall.SIGINT
	}()
	res := runOver(t, r, Request{Request: record.Request{Key: "k"}, Argv: append(sh(`trap 'echo hup; : > "$1.hup"' HUP; trap 'echo int; exit 0' INT; touch "$1"; while :; do sleep 0.02; done`), "x", ready), Signals: signals})
	need.That(t, res.out == "hup\nint\n" && res.ExitCode == 106, "%q, exit %d", res.out, res.ExitCode)
	signals <- syscall.SIGTERM
	early := runOver(t, r, Request{Request: record.Request{Key: "k2"}, Argv: sh("echo ran"), Signals: signals})
	need.That(t, !early.Ran && early.Operation.State == ledger.Failed && early.out == "", "a signal before the start: ran %v, %s", early.Ran, early.Operation.State)
}

// A supervisor signals the whole group at once, and the command may be gone before this
// process has looked at its own signals.
func TestI2_ASignalThatCameBeforeTheExitWasSeen(t *testing.T) {
	exited := make(chan struct{})
	close(exited)
	for range 20 { // which of two channels is taken first is random
		signals := make(chan os.Signal, 2)
		signals <- syscall.SIGUSR1
		signals <- syscall.SIGTERM
		c := &child{Request: Request{Signals: signals}, group: procgroup.Of(0, procgroup.Scope{})}
		c.attend(t.Context(), exited)
		need.That(t, c.told != "" && c.asked == syscall.SIGTERM, "told %q, asked %v", c.told, c.asked)
	}
}
