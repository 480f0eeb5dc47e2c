package ticket

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// Proven reports whether every attempt is known to have had no effect, or to have
// had one, by more than a person's word.
func Proven(rec ledger.Record) bool {
	return len(rec.Attempts) > 0 && !slices.ContainsFunc(rec.Attempts, func(a ledger.Attempt) bool { return a.Proof == "" })
}

var conflicts = map[ledger.Conflict]string{
	ledger.ConflictTwice:      "HAPPENED TWICE",
	ledger.ConflictMaybeTwice: "MAY HAVE HAPPENED TWICE",
	ledger.ConflictDifferent:  "LANDED, BUT DIFFERENT",
	ledger.ConflictDisputed:   "DECISION WAS WRONG",
}

func Conflict(c ledger.Conflict) string { return conflicts[c] }

var states = map[ledger.State]string{
	ledger.Pending:   "in flight",
	ledger.Committed: "landed",
	ledger.Failed:    "did not land",
	ledger.Uncertain: "in doubt",
	ledger.Abandoned: "abandoned",
}

func State(s ledger.State) string { return cmp.Or(states[s], string(s)) }

var classes = map[ledger.ErrorClass]string{
	ledger.ClassTimeout:   "timeout",
	ledger.ClassReset:     "connection reset",
	ledger.ClassEOF:       "connection closed",
	ledger.Class5xx:       "server error",
	ledger.ClassConflict:  "conflict answer",
	ledger.ClassThrottled: "throttled",
	ledger.ClassKilled:    "killed",
	ledger.ClassExit:      "exit code",
	ledger.ClassToolError: "tool error",
	ledger.ClassDeadline:  "deadline passed",
}

// ErrorClass says how an answer failed to come.
func ErrorClass(c ledger.ErrorClass) string { return cmp.Or(classes[c], string(c)) }

func Verdict(r ledger.Read) safe.Text { return verdict(r, List(r.Receipts)) }

func verdict(r ledger.Read, receipts safe.Text) safe.Text {
	reason := r.Reason
	if r.Verdict != ledger.Different && len(r.Receipts) > 0 && strings.Contains(reason, r.Receipts[0]) {
		_, more, told := strings.Cut(reason, "; not ") // the rest names the same receipts
		if reason = ""; told {
			reason = "not " + more
		}
	}
	words := safe.Of(VerdictWord(r.Verdict))
	switch {
	case r.Verdict == ledger.NotThere && r.Cause == ledger.CauseGone:
		return safe.Exact(r.Reason)
	case (r.Verdict == ledger.Landed || r.Verdict == ledger.Different) && len(r.Receipts) > 0:
		words = safe.Say("%s, receipt %s", words, receipts)
	case r.Verdict == ledger.Twice && len(r.Receipts) > 0:
		words = safe.Say("found %d: %s", max(r.Found, len(r.Receipts)), receipts)
	}
	return safe.Say("%s%s", words, Colon(reason))
}

var verdicts = map[ledger.Verdict]string{
	ledger.Landed:    "landed",
	ledger.NotThere:  "not there",
	ledger.NotSeen:   "not seen",
	ledger.Twice:     "happened twice",
	ledger.Different: "landed, but different",
}

func VerdictWord(v ledger.Verdict) string { return cmp.Or(verdicts[v], "cannot tell") }

func Because(b ledger.Basis, actor string) safe.Text {
	switch b {
	case ledger.BasisProof:
		return safe.Say("it did not land")
	case ledger.BasisNotSeen:
		return safe.Say("a check sees others, and not this one")
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

// Who is a name as the screen says it.
func Who(actor string) safe.Text { return safe.Of(cmp.Or(actor, "unknown")) }

func Scope(s ledger.HoldScope) safe.Text {
	if s == "all" {
		return safe.Say("everything")
	}
	return safe.Of(strings.TrimPrefix(strings.TrimPrefix(string(s), "kind:"), "downstream:"))
}

// List is several receipts or ids in a sentence.
func List(of []string) safe.Text { return safe.Join(safe.Each(of), ", ") }

func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return ledger.Count(n) + " " + many
}

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

// Colon sets a reason behind what it is the reason of. It may quote a policy, which is
// read and copied as its author wrote it.
func Colon(reason string) safe.Text {
	if reason == "" {
		return safe.Text{}
	}
	return safe.Say(": %s", safe.Exact(reason))
}

// Glossary is every word and column of the screen: a line of "# " and the place where they stand,
// then for each the word, a tab and what it means.
//
//go:embed glossary.txt
var Glossary string
