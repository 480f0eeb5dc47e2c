// Package outcome is the outcome rule: what an answer says about the attempt it
// came to (I2). Every sender uses it, so that the same answer means the same
// thing everywhere. It also bounds what is kept of an answer and clears it of
// secrets, and says whether an attempt without effect may be followed by another.
//
// It imports ledger, ledger/redact and the wires whose answers it reads.
package outcome

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"indoubt/ledger"
)

// Error classes beside ledger's for answers that came but settle nothing. They
// are words for people; the odds treat them as "".
const (
	class2xx ledger.ErrorClass = "2xx" // accepted, multi-status: not an outcome yet
	class4xx ledger.ErrorClass = "4xx"

	classAwaits ledger.ErrorClass = "awaits" // an answer that is none yet, and no other came
)

// refusedStatus are the answers with which a server says that it did not act on
// this request. So does a 429 that says when to come again. A status that is missing here
// proves nothing.
var refusedStatus = map[int]bool{
	400: true, 401: true, 403: true, 404: true, 405: true, 406: true, 410: true,
	411: true, 413: true, 414: true, 415: true, 421: true, 422: true, 431: true,
}

// committedStatus are the answers that say it is done.
var committedStatus = map[int]bool{200: true, 201: true, 203: true, 204: true, 205: true, 206: true}

// Rules is what the policy of a kind says about an answer; nil when it says
// nothing.
type Rules func(context.Context, ledger.Record, ledger.Answer) (ledger.Ruling, error)

// Judge says what an answer means for the attempt that is in flight in rec, or
// for the newest one when none is. It fills in everything of the request but the
// ids and the actor.
func Judge(ctx context.Context, rules Rules, rec ledger.Record, a ledger.Answer) ledger.SettleRequest {
	return JudgeAttempt(ctx, rules, rec, judged(rec), a)
}

// judged is the attempt an answer is about when the caller does not say.
func judged(rec ledger.Record) string {
	if id := rec.Operation.LiveAttempt; id != "" {
		return id
	}
	if n := len(rec.Attempts); n > 0 {
		return rec.Attempts[n-1].ID
	}
	return ""
}

// JudgeAttempt is Judge for an answer to a certain attempt, which need not be
// the live one.
func JudgeAttempt(ctx context.Context, rules Rules, rec ledger.Record, attemptID string, a ledger.Answer) ledger.SettleRequest {
	a = Readable(a)
	s := ledger.SettleRequest{AttemptID: attemptID, Status: Status(a)}
	if neverSent(a) && a.Tree != ledger.TreeOpen {
		s.Outcome, s.Proof, s.Error = ledger.OutcomeFailed, ledger.NeverSent, joined("never sent", errorOf(a))
		if s.Tree = a.Tree; !a.Sent {
			s.Tree = ledger.TreeEmpty
		}
		return Tidy(s, nil)
	}
	s.Result, s.Error = Result(a), errorOf(a)
	if a.Status != 0 && overHTTP(rec) {
		s.Result = Stored(a, nil)
	}
	doubted := DoubtedBefore(rec, attemptID)
	ruling, ruled := rules.ask(ctx, upTo(rec, attemptID), a, &s)
	if !ruled {
		byDefault(&s, rec, a)
		s.Assumed = s.Proof == ledger.Refused
	}
	if ruling.Already && doubted && complete(a) {
		s.Outcome, s.Proof, s.ErrorClass, s.Already = ledger.OutcomeCommitted, "", "", true
	}
	s.Tree, s.TreeForeign = a.Tree, a.TreeForeign
	if s.Outcome == ledger.OutcomeFailed && a.Tree == ledger.TreeOpen {
		s.Outcome, s.Error = ledger.OutcomeUncertain, joined("a process that it started may still write", s.Error)
	}
	switch s.Outcome {
	case ledger.OutcomeCommitted:
		s.Receipt = ruling.Receipt
		s.ErrorClass, s.Error, s.Proof = "", "", ""
		s.Already = s.Already || doubted && replayed(a)
	case ledger.OutcomeFailed:
		s.ErrorClass = ""
	case ledger.OutcomeUncertain:
		s.Proof = ""
		if s.ErrorClass == "" {
			s.ErrorClass = classOf(a)
		}
	}
	return Tidy(s, nil)
}

// upTo is the record as it was when an attempt was the newest.
func upTo(rec ledger.Record, attemptID string) ledger.Record {
	for i, a := range rec.Attempts {
		if a.ID == attemptID {
			rec.Attempts = rec.Attempts[: i+1 : i+1]
			break
		}
	}
	return rec
}

// ask lets the kind's own rules speak. It reports whether they settled it: also
// when a rule erred, because then nothing is known. An answer that did not come
// whole is not shown to them: a rule about a part that is missing would err at
// best.
func (rules Rules) ask(ctx context.Context, rec ledger.Record, a ledger.Answer, s *ledger.SettleRequest) (ledger.Ruling, bool) {
	if rules == nil || !complete(a) || a.Via == "mcp" && a.RPC == nil {
		return ledger.Ruling{}, false
	}
	ruling, err := rules(ctx, rec, a)
	if err != nil {
		s.Outcome, s.Error = ledger.OutcomeUncertain, joined("the kind's rule could not be evaluated: "+err.Error(), s.Error)
		return ledger.Ruling{}, true
	}
	if !ruling.Decided {
		return ruling, false
	}
	s.Outcome, s.Proof = ruling.Outcome, ruling.Proof
	switch {
	case a.Doubt != "" && ruling.Outcome != ledger.OutcomeCommitted:
		s.Outcome = ledger.OutcomeUncertain
	case ruling.Outcome == ledger.OutcomeFailed && a.Truncated:
		s.Outcome = ledger.OutcomeUncertain
		s.Error = joined("the kind's rule said refused, but of an answer that was cut", s.Error)
	case ruling.Outcome == ledger.OutcomeFailed && replayed(a) && a.Status >= 500:
		s.Outcome = ledger.OutcomeUncertain // a replayed 500 proves nothing
	case ruling.Outcome == ledger.OutcomeFailed && s.Proof == "":
		s.Proof = ledger.Refused
	case ruling.Outcome == ledger.OutcomeCommitted && ruling.Already && !DoubtedBefore(rec, s.AttemptID):
		// "It is there already" to a first attempt is about another caller's write.
		return ledger.Ruling{Receipt: ruling.Receipt}, false
	case ruling.Outcome != ledger.OutcomeCommitted && ruling.Outcome != ledger.OutcomeFailed:
		s.Outcome = ledger.OutcomeUncertain
	}
	return ruling, true
}

// byDefault judges an answer that no rule of the kind settled.
// A replayed answer has the outcome of what was replayed, so that its status
// means what it always means.
func byDefault(s *ledger.SettleRequest, rec ledger.Record, a ledger.Answer) {
	s.Outcome = ledger.OutcomeUncertain
	if !complete(a) || a.Doubt != "" {
		return
	}
	switch {
	case a.RPC != nil:
		byRPC(s, a)
	case a.Status != 0 && committedStatus[a.Status]:
		s.Outcome = ledger.OutcomeCommitted
	case (refusedStatus[a.Status] || Throttled(a.Status, a.Header)) && !isPage(rec, a):
		s.Outcome, s.Proof = ledger.OutcomeFailed, ledger.Refused
	case a.Status == 0 && a.Exited && a.Exit == 0:
		s.Outcome = ledger.OutcomeCommitted
	}
	if s.Outcome != ledger.OutcomeCommitted {
		return
	}
	if what := saysError(rec, a); what != "" {
		s.Outcome, s.ErrorClass, s.Error = ledger.OutcomeUncertain, classSaysError, joined("the answer is a success, but "+what, s.Error)
	}
}

// Throttled reports whether an answer says that the same request is to come again later.
func Throttled(status int, header map[string][]string) bool {
	return status == http.StatusTooManyRequests && http.Header(header).Get("Retry-After") != ""
}

// neverSent: no byte was written and no process started, or one that is known not
// to have had a connection. Anything that could only have come back from the other
// side contradicts the flag and wins.
func neverSent(a ledger.Answer) bool {
	return a.Unconnected || !a.Sent && a.Status == 0 && !a.Exited && a.Signal == "" && a.RPC == nil
}

// complete tells that a whole answer came, and not one that is none yet: a
// status with all of its body, a process that ended by itself, a JSON-RPC
// response. An HTTP status alone is no answer of an
// MCP server, because whatever is between answers for it; unless the transport
// knows it for a refusal and gives no error with it.
func complete(a ledger.Answer) bool {
	if a.Err != nil || a.Signal != "" || a.Class != "" && !a.Exited {
		return false
	}
	switch {
	case a.RPC != nil:
		return !unfinished(a)
	case a.Via == "mcp":
		return refusedStatus[a.Status]
	}
	return a.Status != 0 || a.Exited
}

// DoubtedBefore reports whether an attempt other than this one ended uncertain
// and is so still.
func DoubtedBefore(rec ledger.Record, attemptID string) bool {
	for _, t := range rec.Attempts {
		if t.ID == attemptID {
			break // attempts are in order: later ones were not there yet
		}
		if t.Final() == ledger.OutcomeUncertain && t.Proof != ledger.ProofNotThere {
			return true
		}
	}
	return false
}

// classOf is the error class of an answer that leaves doubt.
func classOf(a ledger.Answer) ledger.ErrorClass {
	switch {
	case a.Class != "":
		return a.Class
	case a.Signal != "":
		return ledger.ClassKilled
	case a.Exited && a.Exit != 0:
		return ledger.ClassExit
	case a.RPC != nil && a.Err == nil:
		if unfinished(a) {
			return classAwaits
		}
		return ledger.ClassToolError
	case a.Err != nil && a.Status < 400: // the answer broke off
		return ledger.ClassEOF
	case a.Status >= 200:
		return statusClass(a.Status)
	}
	return ledger.ClassEOF // sent, and nothing whole came back
}

// statusClass is the error class of a status that settles nothing.
func statusClass(status int) ledger.ErrorClass {
	switch {
	case status >= 500:
		return ledger.Class5xx
	case status == http.StatusTooManyRequests:
		return ledger.ClassThrottled
	case status == http.StatusRequestTimeout:
		return ledger.ClassTimeout
	case status == http.StatusConflict, status == http.StatusPreconditionFailed,
		status == http.StatusLocked, status == http.StatusPreconditionRequired:
		return ledger.ClassConflict
	case status >= 400:
		return class4xx
	case status >= 300:
		return ledger.Class3xx
	case status >= 200:
		return class2xx
	}
	return ledger.ClassEOF
}

// replayed tells that the downstream answered from its memory of the key.
func replayed(a ledger.Answer) bool {
	for _, name := range []string{"Idempotency-Replayed", "Idempotent-Replayed"} {
		for h, values := range a.Header {
			if strings.EqualFold(h, name) && len(values) > 0 && strings.EqualFold(strings.TrimSpace(values[0]), "true") {
				return true
			}
		}
	}
	return false
}

// Status is the HTTP status or the exit code, -1 when there was neither.
func Status(a ledger.Answer) int {
	switch {
	case a.Status != 0:
		return a.Status
	case a.Exited:
		return a.Exit
	}
	return -1
}

// Said is what the other side said: the result, the body, or standard
// output.
func Said(a ledger.Answer) []byte {
	switch {
	case a.RPC != nil:
		return a.RPC.Result
	case a.Status != 0 || len(a.Body) > 0:
		return a.Body
	}
	return a.Stdout
}

// errorOf says in one line what was wrong with the answer; "" when nothing was.
func errorOf(a ledger.Answer) string {
	var said string
	switch {
	case a.RPC != nil:
		said = rpcError(a)
	case a.Status != 0:
		if a.Status >= 300 || !committedStatus[a.Status] {
			said = joined(statusLine(a.Status), excerpt(a.Body, false))
		} else if a.Err != nil {
			said = fmt.Sprintf("HTTP %d", a.Status)
		}
	case a.Signal != "":
		said = joined("killed by "+a.Signal, excerpt(a.Stderr, true))
	case a.Exited && a.Exit != 0:
		said = joined(fmt.Sprintf("exit code %d", a.Exit), excerpt(a.Stderr, true))
	}
	if a.Err != nil {
		said = joined(said, a.Err.Error())
	}
	return joined(a.Doubt, said)
}

func statusLine(status int) string {
	return strings.TrimSpace(fmt.Sprintf("HTTP %d %s", status, http.StatusText(status)))
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ": ")
}
