package outcome

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func answered(status int, body string, header ...string) ledger.Answer {
	a := ledger.Answer{Via: "http", Sent: true, Status: status, Body: []byte(body), Header: map[string][]string{}}
	for i := 0; i+1 < len(header); i += 2 {
		a.Header[header[i]] = []string{header[i+1]}
	}
	return a
}

func exited(code int, stdout, stderr string) ledger.Answer {
	return ledger.Answer{Via: "command", Sent: true, Exited: true, Exit: code, Stdout: []byte(stdout), Stderr: []byte(stderr)}
}

// first is a record with one attempt in flight; second has one in doubt before it.
var (
	first = ledger.Record{Found: true, Operation: ledger.Operation{State: ledger.Pending, LiveAttempt: "a1"},
		Attempts: []ledger.Attempt{{ID: "a1", N: 1}}}
	second = ledger.Record{Found: true, Operation: ledger.Operation{State: ledger.Pending, LiveAttempt: "a2"},
		Attempts: []ledger.Attempt{{ID: "a1", N: 1, Outcome: ledger.OutcomeUncertain}, {ID: "a2", N: 2}}}
)

func ruled(r ledger.Ruling, err error) Rules {
	return func(context.Context, ledger.Record, ledger.Answer) (ledger.Ruling, error) { return r, err }
}

// TestI2_EveryHTTPStatus goes through all of them: only the listed ones prove
// anything.
func TestI2_EveryHTTPStatus(t *testing.T) {
	committed := " 200 201 203 204 205 206 "
	refused := " 400 401 403 404 405 406 410 411 413 414 415 421 422 431 "
	class := map[int]ledger.ErrorClass{202: "2xx", 207: "2xx", 226: "2xx", 301: "3xx", 304: "3xx", 308: "3xx", 402: "4xx", 408: "timeout",
		409: "conflict", 412: "conflict", 423: "conflict", 428: "conflict", 425: "4xx", 426: "4xx", 429: "throttled", 451: "4xx", 499: "4xx",
		500: "5xx", 502: "5xx", 503: "5xx", 504: "5xx", 599: "5xx"}
	for status := 100; status < 600; status++ {
		for name, answer := range map[string]ledger.Answer{
			"plain":    answered(status, `{"id":"x"}`),
			"replayed": answered(status, `{"id":"x"}`, "Idempotency-Replayed", "true"),
		} {
			s := Judge(t.Context(), nil, first, answer)
			word := fmt.Sprintf(" %d ", status)
			want := ledger.OutcomeUncertain
			if strings.Contains(committed, word) {
				want = ledger.OutcomeCommitted
			} else if strings.Contains(refused, word) {
				want = ledger.OutcomeFailed
			}
			need.That(t, s.Outcome == want && s.Status == status, "%d %s: %s (status %d), want %s", status, name, s.Outcome, s.Status, want)
			need.That(t, (s.Proof == ledger.Refused) == (want == ledger.OutcomeFailed), "%d %s: proof %q", status, name, s.Proof)
			need.That(t, (s.ErrorClass != "") == (want == ledger.OutcomeUncertain) || status < 200, "%d %s: class %q", status, name, s.ErrorClass)
			c, ok := class[status]
			need.That(t, !ok || s.ErrorClass == c, "%d %s: class %q, want %q", status, name, s.ErrorClass, c)
			need.That(t, s.AttemptID == "a1" && string(s.Result) == `{"id":"x"}`, "%d %s: attempt %q, result %s", status, name, s.AttemptID, s.Result)
		}
	}
}

// A refusal that no rule of the kind stands for is only assumed to be one.
func TestI9_ARefusalByDefaultIsAssumed(t *testing.T) {
	answer := ledger.Answer{Via: "http", Sent: true, Status: 404, Body: []byte(`{"id":"x"}`)}
	for _, rules := range []Rules{nil, ruled(ledger.Ruling{Decided: true, Outcome: ledger.OutcomeFailed}, nil)} {
		s := Judge(t.Context(), rules, first, answer)
		need.That(t, s.Proof == ledger.Refused && s.Assumed == (rules == nil), "%q, assumed: %v", s.Proof, s.Assumed)
	}
}

func TestI2_WhatAnAnswerMeans(t *testing.T) {
	reset := errors.New("read: connection reset by peer")
	cases := []struct {
		name    string
		rule    Rules
		rec     ledger.Record
		answer  ledger.Answer
		outcome ledger.Outcome
		proof   ledger.Proof
		class   ledger.ErrorClass
		already bool
	}{
		{"nothing was sent", nil, first, ledger.Answer{}, "failed", "never_sent", "", false},
		{"the last error says refused, but a byte went out", nil, first,
			ledger.Answer{Via: "http", Sent: true, Err: errors.New("connection refused"), Class: "reset"}, "uncertain", "", "reset", false},
		{"no byte went out, whatever the error says", nil, first,
			ledger.Answer{Via: "http", Err: reset, Class: "reset"}, "failed", "never_sent", "", false},
		{"no byte went out, and a rule would call everything done", ruled(ledger.Ruling{Decided: true, Outcome: "committed"}, nil), first,
			ledger.Answer{Via: "http", Err: reset}, "failed", "never_sent", "", false},
		{"an answer contradicts not sent", nil, first, ledger.Answer{Via: "http", Status: 500}, "uncertain", "", "5xx", false},
		{"reset after sending", nil, first, ledger.Answer{Via: "http", Sent: true, Err: reset, Class: "reset"}, "uncertain", "", "reset", false},
		{"timeout after sending", nil, first, ledger.Answer{Via: "http", Sent: true, Err: context.DeadlineExceeded, Class: "timeout"}, "uncertain", "", "timeout", false},
		{"sent and nothing known", nil, first, ledger.Answer{Via: "http", Sent: true}, "uncertain", "", "eof", false},
		{"201, then the stream was cut", nil, first,
			ledger.Answer{Via: "http", Sent: true, Status: 201, Body: []byte(`{"id":`), Err: errors.New("unexpected EOF"), Class: "eof"}, "uncertain", "", "eof", false},
		{"201, cut, without a class", nil, first,
			ledger.Answer{Via: "http", Sent: true, Status: 201, Err: errors.New("unexpected EOF")}, "uncertain", "", "eof", false},
		{"400, cut", nil, first, ledger.Answer{Via: "http", Sent: true, Status: 400, Err: reset, Class: "reset"}, "uncertain", "", "reset", false},
		{"a rule is not asked about a cut answer", ruled(ledger.Ruling{Decided: true, Outcome: "failed"}, nil), first,
			ledger.Answer{Via: "http", Sent: true, Status: 200, Err: reset, Class: "reset"}, "uncertain", "", "reset", false},
		{"long body", nil, first, ledger.Answer{Via: "http", Sent: true, Status: 200, Body: []byte("xx"), Truncated: true}, "committed", "", "", false},

		{"exit 0", nil, first, exited(0, "ok", ""), "committed", "", "", false},
		{"exit 1 is no proof", nil, first, exited(1, "", "no"), "uncertain", "", "exit", false},
		{"exit 127 from inside a shell", nil, first, exited(127, "", "sh: foo: not found"), "uncertain", "", "exit", false},
		{"command not found", nil, first, ledger.Answer{Via: "command", Err: errors.New("executable file not found")}, "failed", "never_sent", "", false},
		{"killed", nil, first, ledger.Answer{Via: "command", Sent: true, Signal: "killed"}, "uncertain", "", "killed", false},
		{"killed at its timeout", nil, first, ledger.Answer{Via: "command", Sent: true, Signal: "terminated", Class: "timeout"}, "uncertain", "", "timeout", false},
		{"exit 0 after the timeout had struck", nil, first,
			ledger.Answer{Via: "command", Sent: true, Exited: true, Err: errors.New("timeout"), Class: "timeout"}, "uncertain", "", "timeout", false},
		{"curl exit 28", nil, first, ledger.Answer{Via: "command", Sent: true, Exited: true, Exit: 28, Class: "timeout"}, "uncertain", "", "timeout", false},

		{"rule: committed on 409", ruled(ledger.Ruling{Decided: true, Outcome: "committed"}, nil), first, answered(409, ""), "committed", "", "", false},
		{"rule: refused on 200", ruled(ledger.Ruling{Decided: true, Outcome: "failed", Proof: "refused"}, nil), first, answered(200, `{"ok":false}`), "failed", "refused", "", false},
		{"rule: refused on an exit code", ruled(ledger.Ruling{Decided: true, Outcome: "failed"}, nil), first, exited(3, "", ""), "failed", "refused", "", false},
		{"rule: refused of a cut output", ruled(ledger.Ruling{Decided: true, Outcome: "failed"}, nil), first,
			ledger.Answer{Via: "http", Sent: true, Status: 200, Truncated: true}, "uncertain", "", "2xx", false},
		{"rule: uncertain on 200", ruled(ledger.Ruling{Decided: true, Outcome: "uncertain"}, nil), first, answered(200, ""), "uncertain", "", "2xx", false},
		{"rule: nonsense", ruled(ledger.Ruling{Decided: true, Outcome: "maybe"}, nil), first, answered(200, ""), "uncertain", "", "2xx", false},
		{"rule errs on 200", ruled(ledger.Ruling{}, errors.New("no such key: ok")), first, answered(200, `{}`), "uncertain", "", "2xx", false},
		{"rule errs on 400", ruled(ledger.Ruling{}, errors.New("no such key: ok")), first, answered(400, `{}`), "uncertain", "", "4xx", false},
		{"rule errs on a first attempt but says already", ruled(ledger.Ruling{Already: true}, errors.New("x")), second, answered(409, ``), "uncertain", "", "conflict", false},
		{"no rule applies", ruled(ledger.Ruling{}, nil), first, answered(422, ""), "failed", "refused", "", false},

		{"already, on a first attempt", ruled(ledger.Ruling{Already: true}, nil), first, answered(409, ""), "uncertain", "", "conflict", false},
		{"already, decided, on a first attempt", ruled(ledger.Ruling{Decided: true, Outcome: "committed", Already: true}, nil), first, answered(409, ""), "uncertain", "", "conflict", false},
		{"already, on a first attempt that was refused", ruled(ledger.Ruling{Already: true}, nil), first, answered(400, ""), "failed", "refused", "", false},
		{"already, after doubt", ruled(ledger.Ruling{Already: true}, nil), second, answered(409, ""), "committed", "", "", true},
		{"already, decided, after doubt", ruled(ledger.Ruling{Decided: true, Outcome: "committed", Already: true}, nil), second, answered(400, ""), "committed", "", "", true},
		{"already wins over refused", ruled(ledger.Ruling{Decided: true, Outcome: "failed", Proof: "refused", Already: true}, nil), second, answered(400, ""), "committed", "", "", true},
		{"already, of a command", ruled(ledger.Ruling{Already: true}, nil), second, exited(1, "", "already exists"), "committed", "", "", true},
		{"409 after doubt without a rule", nil, second, answered(409, ""), "uncertain", "", "conflict", false},
		{"replayed after doubt", nil, second, answered(200, "", "Idempotent-Replayed", "true"), "committed", "", "", true},
		{"replayed 500", nil, second, answered(500, "", "Idempotent-Replayed", "true"), "uncertain", "", "5xx", false},
		{"replayed 500 that a rule calls refused", ruled(ledger.Ruling{Decided: true, Outcome: "failed"}, nil), second,
			answered(500, "", "Idempotency-Replayed", "true"), "uncertain", "", "5xx", false},
		{"replayed 400", nil, second, answered(400, "", "idempotency-replayed", "TRUE"), "failed", "refused", "", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := Judge(t.Context(), c.rule, c.rec, c.answer)
			if s.Outcome != c.outcome || s.Proof != c.proof || s.ErrorClass != c.class || s.Already != c.already {
				t.Errorf("got %s proof %q class %q already %v (%s), want %s %q %q %v",
					s.Outcome, s.Proof, s.ErrorClass, s.Already, s.Error, c.outcome, c.proof, c.class, c.already)
			}
		})
	}
}

// TestAlreadyCountsOnlyAttemptsBefore: an attempt's own late answer does not
// speak of itself, and proof that an attempt had no effect ends its doubt.
func TestAlreadyCountsOnlyAttemptsBefore(t *testing.T) {
	rule := ruled(ledger.Ruling{Already: true}, nil)
	late := second
	need.Equal(t, JudgeAttempt(t.Context(), rule, late, "a1", answered(409, "")).Outcome, ledger.OutcomeUncertain, "the first attempt's own answer")
	proven := second
	proven.Attempts = []ledger.Attempt{{ID: "a1", N: 1, Outcome: ledger.OutcomeUncertain, LateOutcome: ledger.OutcomeFailed}, {ID: "a2", N: 2}}
	s := Judge(t.Context(), rule, proven, answered(409, ""))
	need.That(t, s.Outcome == ledger.OutcomeUncertain, "after a late refusal: %s", s.Outcome)
	expired := ledger.Record{Found: true, Operation: ledger.Operation{State: ledger.Uncertain}, Attempts: []ledger.Attempt{{ID: "a1", Outcome: ledger.OutcomeUncertain}}}
	need.Equal(t, Judge(t.Context(), rule, expired, answered(409, "")).Outcome, ledger.OutcomeUncertain, "the only attempt, answered late")
}

func TestJudgeKeepsTheReceipt(t *testing.T) {
	rule := ruled(ledger.Ruling{Decided: true, Outcome: "committed", Receipt: "ch_1"}, nil)
	s := Judge(t.Context(), rule, first, answered(200, `{"effect":"created","id":9007199254740993}`))
	need.That(t, s.Receipt == "ch_1" && string(s.Result) == `{"effect":"created","id":9007199254740993}`, "%+v", s)
	// What already: says of a replay is not counted at a first attempt, its receipt is.
	rule = ruled(ledger.Ruling{Decided: true, Outcome: "committed", Already: true, Receipt: "ch_1"}, nil)
	s = Judge(t.Context(), rule, first, answered(200, "", "Idempotent-Replayed", "true"))
	need.That(t, s.Receipt == "ch_1" && !s.Already && s.Outcome == "committed", "%+v", s)
}

// TestI11_NoSecretOutlivesAnAnswer: texts are bounded and cleared.
func TestI11_NoSecretOutlivesAnAnswer(t *testing.T) {
	const hidden = "s3cr3tvalue99"
	for _, said := range []string{
		"Authorization: Bearer " + hidden, "authorization: " + hidden, `{"password":"` + hidden + `","ok":1}`, `{"a":[{"api_key":"` + hidden + `"}]}`,
		"login --password " + hidden, "--password=" + hidden, "GITHUB_TOKEN=" + hidden + " ok", "postgres://app:" + hidden + "@db/x",
		"token: bearer " + hidden, "Cookie: sid=" + hidden, `{"msg":"sent Authorization: Basic ` + hidden + `"}`,
	} {
		for _, a := range []ledger.Answer{answered(200, said), answered(503, said), exited(0, said, ""), exited(9, "", said),
			{Via: "http", Sent: true, Err: errors.New(said)}, {Via: "http", Err: errors.New(said)}} {
			s := Judge(t.Context(), nil, first, a)
			need.That(t, !strings.Contains(string(s.Result)+s.Error, hidden), "%s: kept in %s / %s", said, s.Result, s.Error)
			need.That(t, len(s.Result) == 0 || json.Valid(s.Result), "%s: result is not JSON: %s", said, s.Result)
		}
	}
	long := strings.Repeat("é\x00", 1<<20)
	for _, a := range []ledger.Answer{answered(200, long), answered(500, long), exited(1, long, long), {Sent: true, Err: errors.New(long)}} {
		s := Judge(t.Context(), nil, first, a)
		need.That(t, len(s.Error) <= MaxError+len(cutMark) && len(s.Result) <= 7*MaxResult && utf8.ValidString(s.Error),
			"kept %d bytes of error, %d of result", len(s.Error), len(s.Result))
	}
}

func FuzzJudge(f *testing.F) {
	f.Add(true, 200, 0, false, "", []byte(`{"effect":"noop"}`), "", true)
	f.Add(false, 0, 0, false, "", []byte(nil), "dial tcp: refused", false)
	f.Add(true, 0, 28, true, "", []byte("x"), "", false)
	f.Add(true, 500, 0, false, "killed", []byte("Authorization: Bearer abcdefgh"), "eof", true)
	f.Fuzz(func(t *testing.T, sent bool, status, exit int, ended bool, signal string, body []byte, fault string, doubted bool) {
		a := ledger.Answer{Sent: sent, Status: status, Exited: ended, Exit: exit, Signal: signal, Body: body, Stdout: body, Stderr: body}
		if fault != "" {
			a.Err = errors.New(fault)
		}
		rec := first
		if doubted {
			rec = second
		}
		s := Judge(t.Context(), nil, rec, a)
		proven := s.Outcome == ledger.OutcomeFailed
		switch {
		case s.Outcome != ledger.OutcomeCommitted && s.Outcome != ledger.OutcomeFailed && s.Outcome != ledger.OutcomeUncertain:
			t.Fatalf("outcome %q", s.Outcome)
		case proven != (s.Proof != ""):
			t.Fatalf("%s with proof %q", s.Outcome, s.Proof)
		case s.Proof == ledger.NeverSent && (sent || status != 0 || ended || signal != ""):
			t.Fatalf("never sent, of %+v", a)
		case s.Proof == ledger.Refused && (a.Err != nil || !refusedStatus[status]):
			t.Fatalf("refused, of %+v", a)
		case s.Outcome == ledger.OutcomeCommitted && (a.Err != nil || signal != ""):
			t.Fatalf("committed, of %+v", a)
		case s.Already && !doubted:
			t.Fatal("already, without doubt before")
		case len(s.Result) > 0 && !json.Valid(s.Result):
			t.Fatalf("result is not JSON: %q", s.Result)
		case !utf8.ValidString(s.Error) || len(s.Error) > MaxError+len(cutMark):
			t.Fatalf("error text: %q", s.Error)
		}
	})
}

// TestRulesSeeTheAttemptThatIsAnswered: what comes late is about an attempt before
// the newest.
func TestRulesSeeTheAttemptThatIsAnswered(t *testing.T) {
	rec := ledger.Record{Attempts: []ledger.Attempt{{ID: "a1", N: 1, Outcome: ledger.OutcomeUncertain}, {ID: "a2", N: 2}}}
	for id, want := range map[string]int{"a1": 1, "a2": 2, "unknown": 2} {
		seen := 0
		rule := func(_ context.Context, rec ledger.Record, _ ledger.Answer) (ledger.Ruling, error) {
			seen = rec.Attempts[len(rec.Attempts)-1].N
			return ledger.Ruling{}, nil
		}
		JudgeAttempt(t.Context(), rule, rec, id, answered(200, "{}"))
		need.That(t, seen == want, "an answer to %s was judged as one to attempt %d", id, seen)
	}
}

// A curl exits 0 at a redirect and at a 202; where it writes the status, that counts.
func TestI2_TheStatusThatCurlWrites(t *testing.T) {
	argv := []string{"curl", "-sS", "-w", `%{stderr}%{http_code}\n`, "http://x"}
	for said, want := range map[string]ledger.Outcome{"200\n": ledger.OutcomeCommitted, "a warning\n201\n": ledger.OutcomeCommitted, "204": ledger.OutcomeCommitted,
		"202\n": ledger.OutcomeUncertain, "301\n": ledger.OutcomeUncertain, "303\n": ledger.OutcomeUncertain, "308": ledger.OutcomeUncertain,
		"404": ledger.OutcomeUncertain, "500": ledger.OutcomeUncertain, "000": ledger.OutcomeUncertain, "": ledger.OutcomeUncertain} {
		a := Command(exited(0, "200", said), argv, nil)
		need.Equal(t, Judge(t.Context(), nil, first, a).Outcome, want, "written: "+said)
		s := Judge(t.Context(), ruled(ledger.Ruling{Decided: true, Outcome: ledger.OutcomeCommitted}, nil), first, a)
		need.Equal(t, s.Outcome, ledger.OutcomeCommitted, "the rule says committed: "+said)
	}
	s := Judge(t.Context(), nil, first, Command(exited(0, "", "307\n"), argv, nil))
	need.That(t, s.Error == "HTTP 307 Temporary Redirect" && s.ErrorClass == "3xx", "%q %q", s.Error, s.ErrorClass)
	plain := Command(exited(0, "", "307\n"), []string{"curl", "-sS", "http://x"}, nil)
	need.Equal(t, Judge(t.Context(), nil, first, plain).Outcome, ledger.OutcomeCommitted, "a number that means nothing")
}
