//go:build linux

package reconcile

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/wire/procgroup"
)

// wrapped is an operation in doubt whose attempt ran a command, and a process
// that it has left behind.
func (w *world) wrapped(place ledger.Place, host string) (o ledger.Operation, end func()) {
	w.Helper()
	w.n++
	id := ledger.NewID()
	res := need.Get(ledger.Begin(w.ctx, w.store, ledger.BeginRequest{
		ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: id, Kind: "pay", Key: fmt.Sprintf("c-%d", w.n), Token: ledger.NewToken(),
		Fingerprint: id, Input: json.RawMessage(`{"amount":420}`), Sender: "command", TokenSent: true, Deadline: 2e9, Actor: pipeline, Source: ledger.Source{Pipeline: "billing"},
		Command: &ledger.Command{Argv: []string{"pay-tool"}}, Host: host, PID: 4711, Tree: ledger.TreeOpen, Place: place,
	}))(w)
	cmd := exec.Command("sleep", "60")
	cmd.Env = procgroup.Environ(nil, id)
	need.OK(w, cmd.Start())
	end = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	w.Cleanup(end)
	eventually(w, "it carries the attempt", func() bool {
		found, err := procgroup.Trace(ledger.Attempt{ID: id, StartedAt: res.Attempt.StartedAt, Place: procgroup.Here()})
		return err == nil && len(found) == 1
	})
	return w.settle(res, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassExit, Status: 1}), end
}

// TestI6_NothingIsProvenWhileAProcessLives, and for as long after its end as
// after any other: it may have written just before.
func TestI6_NothingIsProvenWhileAProcessLives(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.unkept = true
	w.known("pay")
	o, end := w.wrapped(procgroup.Here(), "here")
	w.pass(pastProof)
	res := w.read(o.ID)
	if res.Read.Verdict != ledger.CannotTell || !res.Read.ProofAt.IsZero() || !strings.Contains(res.Read.Reason, "(sleep) lives") ||
		!strings.Contains(res.Read.Reason, "started by process 4711 on here") {
		t.Fatalf("%s: %s", res.Read.Verdict, res.Read.Reason)
	}
	_, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof, Actor: maya})
	need.That(t, err != nil, "it was sent again")
	end()
	res = w.read(o.ID)
	need.Must(t, res.Read.Verdict == ledger.CannotTell && strings.Contains(res.Read.Reason, "too early"), "%s: %s", res.Read.Verdict, res.Read.Reason)
	a := w.get(o.ID).Attempts[0]
	need.That(t, a.Tree == ledger.TreeEmpty && a.TreeAt.After(a.EndedAt.Add(pastProof)), "tree %s at %s, ended %s", a.Tree, a.TreeAt, a.EndedAt)
	w.pass(pastProof)
	res = w.read(o.ID)
	need.That(t, res.Read.Verdict == ledger.NotThere && res.Operation.State == ledger.Failed, "%s: %s", res.Read.Verdict, res.Read.Reason)

	// Who runs on the host sees it, too, where another host makes the checks.
	o, end = w.wrapped(procgroup.Here(), "here")
	follow := func(want ledger.Tree) {
		t.Helper()
		w.engine.after.next, w.engine.after.treesAt = time.Time{}, time.Time{}
		need.Get(w.engine.follow(w.ctx))(t)
		need.Equal(t, w.get(o.ID).Attempts[0].Tree, want, "tree")
	}
	follow(ledger.TreeOpen)
	end()
	follow(ledger.TreeEmpty)
	need.That(t, len(w.engine.after.trees) == 0, "it is looked for without end")
}

// TestI6_NobodyElsewhereProvesThatAProcessIsGone, although it is.
func TestI6_NobodyElsewhereProvesThatAProcessIsGone(t *testing.T) {
	for why, change := range map[string]func(*ledger.Place){
		"run on another host":           func(p *ledger.Place) { p.BootID = "another" },
		"another process namespace":     func(p *ledger.Place) { p.PIDNamespace = "pid:[1]" },
		"not recorded where":            func(p *ledger.Place) { *p = ledger.Place{} },
		"not recorded in which process": func(p *ledger.Place) { p.PIDNamespace = "" },
	} {
		t.Run(why, func(t *testing.T) {
			w := newWorld(t, payPolicy)
			w.known("pay")
			here := procgroup.Here()
			change(&here)
			o, end := w.wrapped(here, "there")
			end()
			w.pass(pastProof)
			why, _, _ = strings.Cut(why, " in which")
			if res := w.read(o.ID); res.Read.Verdict != ledger.CannotTell || res.Operation.State != ledger.Uncertain ||
				!strings.Contains(res.Read.Reason, why) || !strings.Contains(res.Read.Reason, "process 4711 on there") {
				t.Errorf("%s: %s: %s", why, res.Read.Verdict, res.Read.Reason)
			}
			need.Equal(t, w.get(o.ID).Attempts[0].Tree, ledger.TreeOpen, why, "tree")
		})
	}
}

// TestI6_AnotherAnswerIsBelievedWhileAProcessLives: only "none" is not.
func TestI6_AnotherAnswerIsBelievedWhileAProcessLives(t *testing.T) {
	w := newWorld(t, payPolicy)
	o, _ := w.wrapped(procgroup.Here(), "here")
	w.side.apply(charge{Ref: o.Token, Amount: 420})
	res := w.read(o.ID)
	need.That(t, res.Read.Verdict == ledger.Landed && res.Operation.State == ledger.Committed, "%s: %s", res.Read.Verdict, res.Read.Reason)
}
