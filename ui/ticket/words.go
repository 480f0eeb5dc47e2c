package ticket

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// Proven reports whether every attempt is known to have had no effect, or to have
// had one, by more than a person's word.
func Proven(rec ledger.Record) bool {
	for _, a := range rec.Attempts {
		if a.Proof == "" {
			return false
		}
	}
	return len(rec.Attempts) > 0
}

// Conflict says what a conflict is.
func Conflict(c ledger.Conflict) string {
	switch c {
	case ledger.Duplicate:
		return "HAPPENED TWICE"
	case ledger.PossibleDuplicate:
		return "MAY HAVE HAPPENED TWICE"
	case ledger.MismatchConflict:
		return "LANDED, BUT DIFFERENT"
	case ledger.Contradiction:
		return "DECISION WAS WRONG"
	}
	return ""
}

// State says where an operation stands.
func State(s ledger.State) string {
	switch s {
	case ledger.Pending:
		return "in flight"
	case ledger.Committed:
		return "landed"
	case ledger.Failed:
		return "did not land"
	case ledger.Uncertain:
		return "in doubt"
	case ledger.Abandoned:
		return "abandoned, stays unknown"
	}
	return string(s)
}

// ErrorClass says how an answer failed to come.
func ErrorClass(c ledger.ErrorClass) string {
	switch c {
	case ledger.ClassTimeout:
		return "timeout"
	case ledger.ClassReset:
		return "connection reset"
	case ledger.ClassEOF:
		return "connection closed"
	case ledger.Class5xx:
		return "server error"
	case ledger.ClassConflict:
		return "conflict answer"
	case ledger.ClassThrottled:
		return "throttled"
	case ledger.ClassKilled:
		return "killed"
	case ledger.ClassExit:
		return "exit code"
	case ledger.ClassToolError:
		return "tool error"
	case ledger.ClassDeadline:
		return "deadline passed"
	}
	return string(c)
}

// Verdict says what a check found.
func Verdict(r ledger.Read) safe.Text {
	reason := r.Reason
	if len(r.Receipts) > 0 && strings.Contains(reason, r.Receipts[0]) {
		_, more, told := strings.Cut(reason, "; not ") // the rest names the same receipts
		if reason = ""; told {
			reason = "not " + more
		}
	}
	words := safe.Of(VerdictWord(r.Verdict))
	switch {
	case r.Verdict == ledger.Absent && r.Cause == ledger.CauseGone:
		return safe.Of(r.Reason)
	case r.Verdict == ledger.Landed && len(r.Receipts) > 0:
		words = safe.Say("%s, receipt %s", words, List(r.Receipts))
	case r.Verdict == ledger.Duplicated && len(r.Receipts) > 0:
		words = safe.Say("found %d: %s", max(r.Found, len(r.Receipts)), List(r.Receipts))
	}
	return safe.Say("%s%s", words, Colon(reason))
}

// VerdictWord is a verdict in plain words.
func VerdictWord(v ledger.Verdict) string {
	switch v {
	case ledger.Landed:
		return "landed"
	case ledger.Absent:
		return "did not land, proven"
	case ledger.Duplicated:
		return "happened twice"
	case ledger.Mismatch:
		return "landed, but different"
	}
	return "cannot tell"
}

// Lane is a lane in plain words.
func Lane(l ledger.Lane) string {
	switch l {
	case ledger.LaneConflict:
		return "in conflict"
	case ledger.LaneInFlight:
		return "waiting for its answer"
	case ledger.LaneUnfetched:
		return "one send allowed, waiting for its pipeline"
	case ledger.LaneDecide:
		return "needs you"
	case ledger.LaneReading:
		return "being checked"
	case ledger.LaneNotLanded:
		return "did not land"
	}
	return "settled"
}

// Because says why a send is allowed.
func Because(b ledger.Basis, actor string) safe.Text {
	switch b {
	case ledger.BasisAbsent:
		return safe.Say("it did not land, proven")
	case ledger.BasisKeySafe:
		return safe.Say("a second send cannot act twice")
	case ledger.BasisRiskAccepted:
		if actor != "" {
			return safe.Say("without proof, risk taken by %s", Who(actor))
		}
		return safe.Say("without proof")
	}
	return safe.Text{}
}

// Who is a name as the screen says it: engines are "checks".
func Who(actor string) safe.Text {
	if actor == "" {
		return safe.Say("nobody")
	}
	if rest, ok := strings.CutPrefix(actor, "auto:"); ok {
		if rest == "" {
			return safe.Say("checks")
		}
		return safe.Say("checks (%s)", rest)
	}
	return safe.Of(actor)
}

// Scope is what a hold is on.
func Scope(s ledger.HoldScope) safe.Text {
	if s == "all" {
		return safe.Say("everything")
	}
	return safe.Of(strings.TrimPrefix(strings.TrimPrefix(string(s), "kind:"), "downstream:"))
}

// List is several receipts or ids in a sentence.
func List(of []string) safe.Text { return safe.Join(safe.Each(of), ", ") }

// Width is how many cells a text takes.
func Width(s string) int { return ansi.StringWidth(s) }

// Fit is the first text that fits into so many cells, or the last.
func Fit(room int, texts ...string) string {
	for _, t := range texts {
		if Width(t) <= room {
			return t
		}
	}
	return texts[len(texts)-1]
}

// Colon sets a reason behind what it is the reason of.
func Colon(reason string) safe.Text {
	if reason == "" {
		return safe.Text{}
	}
	return safe.Say(": %s", reason)
}
