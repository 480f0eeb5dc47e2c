package console

import (
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// The contract's words stay in code; this is where they become the screen's.

// landed is the LANDED? column: facts are words, guesses are percentages.
func landedWord(r ledger.Row, b *brief, now time.Time, room int) string {
	switch r.Conflict {
	case ledger.Duplicate:
		if b != nil && b.rec.Operation.Effects > 2 {
			return fmt.Sprintf("%d TIMES", b.rec.Operation.Effects)
		}
		return "TWICE"
	case ledger.PossibleDuplicate:
		return "maybe 2"
	case ledger.MismatchConflict:
		return "differs"
	case ledger.Contradiction:
		return "WRONG?"
	}
	switch r.StateAt(now) {
	case ledger.Committed:
		return "yes"
	case ledger.Failed:
		switch {
		case r.Verdict == ledger.Absent || !r.Doubted:
			return "no"
		case b == nil:
			return "…"
		case !provenNotLanded(b.rec):
			return "said no" // on somebody's word: not a fact
		}
		return "no"
	case ledger.Abandoned:
		return "unknown"
	case ledger.Pending:
		return "…"
	}
	switch r.Verdict {
	case ledger.Landed:
		return "seen"
	case ledger.Absent:
		return "not now"
	}
	if b == nil {
		return "…" // a guess is not shown without what it rests on
	}
	o := b.facts.advice.Odds
	if o.N == 0 {
		return "?"
	}
	n := fmt.Sprint(o.N)
	if o.N >= 1000 {
		n = fmt.Sprintf("%dk", o.N/1000)
	}
	return pickFit(room, fmt.Sprintf("%s n%d", percent(o.P), o.N), fmt.Sprintf("%s n%s", percent(o.P), n), percent(o.P)+"n"+n)
}

// provenNotLanded tells a fact from what somebody says.
func provenNotLanded(rec ledger.Record) bool {
	for _, a := range rec.Attempts {
		if a.Proof == "" {
			return false
		}
	}
	return len(rec.Attempts) > 0
}

func percent(p float64) string { return fmt.Sprintf("%.0f%%", p*100) }

// conflictWords says what a conflict is.
func conflictWords(c ledger.Conflict) string {
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

// stateWords says where an operation stands.
func stateWords(s ledger.State) string {
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
	return safe.Text(string(s))
}

// errorWords says how an answer failed to come.
func errorWords(c ledger.ErrorClass) string {
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

// verdictWords says what a check found.
func verdictWords(r ledger.Read) string {
	with := func(words string) string {
		reason := r.Reason
		if len(r.Receipts) > 0 && strings.Contains(reason, r.Receipts[0]) {
			_, more, told := strings.Cut(reason, "; not ") // the rest names the same receipts
			if reason = ""; told {
				reason = "not " + more
			}
		}
		return words + colon(reason)
	}
	switch r.Verdict {
	case ledger.Landed:
		if len(r.Receipts) > 0 {
			return with("landed, receipt " + strings.Join(r.Receipts, ", "))
		}
		return with("landed")
	case ledger.Absent:
		if r.Cause == ledger.CauseGone {
			return r.Reason
		}
		return with("did not land, proven")
	case ledger.Duplicated:
		if len(r.Receipts) > 0 {
			return with(fmt.Sprintf("found %d: %s", max(r.Found, len(r.Receipts)), strings.Join(r.Receipts, ", ")))
		}
		return with("happened twice")
	case ledger.Mismatch:
		return with("landed, but different")
	}
	return with("cannot tell")
}

// becauseWords says why a send is allowed.
func becauseWords(b ledger.Basis, actor string) string {
	switch b {
	case ledger.BasisAbsent:
		return "it did not land, proven"
	case ledger.BasisKeySafe:
		return "a second send cannot act twice"
	case ledger.BasisRiskAccepted:
		if actor != "" {
			return "without proof, risk taken by " + who(actor)
		}
		return "without proof"
	}
	return ""
}

// who is a name as the screen says it: engines are "checks".
func who(actor string) string {
	if actor == "" {
		return "nobody"
	}
	if rest, ok := strings.CutPrefix(actor, "auto:"); ok {
		if rest == "" {
			return "checks"
		}
		return "checks (" + rest + ")"
	}
	return actor
}

// became says how an operation left a list: what it is now, since when, by whom.
func became(r ledger.Row, o ledger.Operation, now time.Time, loc *time.Location) string {
	words := stateWords(r.StateAt(now))
	switch {
	case r.Parked(now):
		words = "parked"
	case r.Conflict != ledger.NoConflict:
		words = strings.ToLower(conflictWords(r.Conflict))
	case r.LaneAt(now) == ledger.LaneUnfetched:
		words = "send allowed"
	case r.LaneAt(now) == ledger.LaneReading:
		words = "checking"
	case r.LaneAt(now) == ledger.LaneDecide:
		words = "needs you"
	}
	if since := turned(r, now); since.After(o.UpdatedAt) {
		return words + " " + since.In(loc).Format("15:04") // a clock did it, nobody
	}
	return words + " " + o.UpdatedAt.In(loc).Format("15:04") + ", by " + safe.Text(who(o.Actor))
}

// turned is when a clock last put a row where it stands; zero when none did.
func turned(r ledger.Row, now time.Time) time.Time {
	switch {
	case r.State == ledger.Pending && r.StateAt(now) == ledger.Uncertain:
		return r.DeadlineAt
	case !r.ParkedUntil.IsZero() && !r.Parked(now):
		return r.ParkedUntil
	case r.LaneAt(now) == ledger.LaneDecide && !r.Pricing.DecideAt.After(now):
		return r.Pricing.DecideAt
	}
	return time.Time{}
}

// doWord is the DO column: the advised act in few letters.
func doWord(r ledger.Row, b *brief, now time.Time, room int) string {
	switch {
	case r.Conflict == ledger.Duplicate && b != nil && b.rec.Operation.Effects > 2:
		return pickFit(room, fmt.Sprintf("cancel %d of %d", b.rec.Operation.Effects-1, b.rec.Operation.Effects), fmt.Sprintf("cancel %d", b.rec.Operation.Effects-1))
	case r.Conflict == ledger.Duplicate:
		return pickFit(room, "cancel one of two", "cancel one")
	case r.Conflict != ledger.NoConflict:
		return pickFit(room, "look at both sides", "look")
	}
	switch r.LaneAt(now) {
	case ledger.LaneInFlight:
		return pickFit(room, "wait for its answer", "wait")
	case ledger.LaneUnfetched:
		return pickFit(room, "waits for "+firstOf(r.Source.Pipeline, "its pipeline"), "fetch")
	case ledger.LaneResolved:
		return pickFit(room, "by "+who(r.Actor), who(r.Actor))
	}
	if b == nil {
		return "…"
	}
	switch a := b.facts.advice; a.Verb {
	case "look":
		if r.Overtaken {
			return pickFit(room, "look: overtaken", "look")
		}
		if len(b.rec.Related) > 0 {
			return pickFit(room, "look: twin", "look")
		}
		if b.facts.Link != "" {
			return pickFit(room, "look outside", "look")
		}
		return "look"
	case "retry":
		if a.Basis == ledger.BasisAbsent || a.Basis == ledger.BasisKeySafe {
			return pickFit(room, "retry: safe", "retry")
		}
		return "retry"
	case "":
		return "–"
	default:
		return safe.Text(a.Verb)
	}
}

func pickFit(room int, texts ...string) string {
	for _, t := range texts {
		if width(t) <= room {
			return t
		}
	}
	return texts[len(texts)-1]
}

// clockWord is the CLOCK column: the moment that changes the advice next. It
// reports whether the text changes every second.
func clockWord(r ledger.Row, b *brief, now time.Time, loc *time.Location) (string, bool) {
	in := func(what string, at time.Time) (string, bool) {
		d := at.Sub(now)
		if d < 100*time.Second {
			return fmt.Sprintf("%s %ds", what, int(max(d, 0).Round(time.Second).Seconds())), true
		}
		if d < time.Hour {
			return fmt.Sprintf("%s %dm", what, int((d + time.Minute - 1).Minutes())), d < 2*time.Minute
		}
		return what + " " + span(d), false
	}
	if r.Parked(now) {
		return in("parked", r.ParkedUntil)
	}
	switch r.LaneAt(now) {
	case ledger.LaneConflict:
		return "–", false
	case ledger.LaneResolved:
		return moment(r.UpdatedAt, now, loc), false
	case ledger.LaneInFlight:
		return in("ends", r.DeadlineAt)
	case ledger.LaneUnfetched:
		return in("till", r.GrantUntil)
	}
	if r.Overtaken {
		return "overtaken", false
	}
	if b == nil {
		return "", false
	}
	f := b.facts
	best, what := time.Time{}, ""
	consider := func(at time.Time, word string) {
		if at.After(now) && at.Before(ledger.Never) && (best.IsZero() || at.Before(best)) {
			best, what = at, word
		}
	}
	if r.StateAt(now) == ledger.Uncertain {
		consider(f.ProofAt, "proof")
		if r.LaneAt(now) == ledger.LaneReading {
			consider(r.Pricing.DecideAt, "you")
		}
	}
	consider(f.SafeUntil, "key")
	switch {
	case what != "":
		return in(what, best)
	case f.SafeUntil.Equal(ledger.Never):
		return "repeatable", false
	case r.StateAt(now) == ledger.Uncertain && !f.HasRead:
		return "no check", false
	case !f.SafeUntil.IsZero():
		return "key over", false
	}
	return "–", false
}
