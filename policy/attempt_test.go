package policy

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
)

const attempting = `
version: 1
kinds:
  k:
    title: "try ${attempt.n} of ${op.attempts}"
    token: { into: ref }
    lands_within: 1s
    visible_within: 0s
    read: { http: { get: "https://h.example/x/${attempt.n}" }, list: body.data, mark: it.ref, complete: "true" }
    send:
      command: [tool, "${attempt.n}"]
      refused: attempt.n == 1.0 && exit == 3
      already: attempt.n > 1 && attempt.outcome == "" && attempt.class == "" && attempt.ended_at == null && exit == 4
  when:
    send: { command: [tool, "${attempt.started_at}"] }
`

// TestAttemptIsTheNewest: and in what is sent the one that is about to be made.
func TestAttemptIsTheNewest(t *testing.T) {
	p := must(t, attempting)
	k := p.Kind("k")
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	rec := operation("k", `{}`)
	doubt := ledger.Attempt{ID: "a1", N: 1, StartedAt: at, DeadlineAt: at.Add(time.Minute), EndedAt: at.Add(time.Second), Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, TokenSent: true}
	sends := func(want string) {
		t.Helper()
		if req, err := k.Send.Request(rec); err != nil || req.Command.Argv[1] != want || !strings.HasPrefix(req.Shown, "tool "+want+"\n") {
			t.Errorf("%+v %v, want %s", req.Command, err, want)
		}
	}
	sends("1")
	rec.Operation.AttemptCount = 2 // a row of a list, without its attempts
	if got := k.Title(rec.Operation); got != "try 2 of 2" {
		t.Error(got)
	}
	rec.Operation.AttemptCount, rec.Attempts = 1, []ledger.Attempt{doubt}
	sends("2")
	if v := attemptValue(rec); v["n"] != 1.0 || v["id"] != "a1" || v["started_at"] != at || v["deadline_at"] != at.Add(time.Minute) || v["ended_at"] != at.Add(time.Second) ||
		v["outcome"] != "uncertain" || v["class"] != "timeout" {
		t.Errorf("%v", v)
	}
	if req, err := k.Read.Request(rec, nil); err != nil || req.HTTP.URL != "https://h.example/x/1" {
		t.Error(req.HTTP, err)
	}
	exit := func(n int) ledger.Answer { return ledger.Answer{Via: "command", Exited: true, Exit: n} }
	if r, err := k.JudgeAnswer(t.Context(), rec, exit(3)); err != nil || r.Outcome != ledger.OutcomeFailed {
		t.Error(r, err)
	}
	rec.Attempts = append(rec.Attempts, ledger.Attempt{ID: "a2", N: 2, StartedAt: at.Add(time.Hour)})
	if r, err := k.JudgeAnswer(t.Context(), rec, exit(3)); err != nil || r.Decided {
		t.Error(r, err)
	}
	if r, err := k.JudgeAnswer(t.Context(), rec, exit(4)); err != nil || !r.Already {
		t.Error(r, err)
	}
	if _, err := p.Kind("when").Send.Request(rec); err == nil {
		t.Error("a send knows when it is made")
	}
}

// TestI6_ALookFromTheNewestAttemptProvesNothingOfEarlierOnes: and the check of the
// policy says so.
func TestI6_ALookFromTheNewestAttemptProvesNothingOfEarlierOnes(t *testing.T) {
	p := must(t, attempting)
	said := false
	for _, w := range p.Warnings() {
		said = said || strings.Contains(w.Message, "`attempt`")
	}
	if !said {
		t.Error("no word of it")
	}
	if !p.Kind("k").Read.newestOnly() {
		t.Error("it does not look from the newest attempt on")
	}
}
