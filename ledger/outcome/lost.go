package outcome

import (
	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
)

// answeredClass are the error classes of whole answers: what was done is known to
// the caller, if not to us.
var answeredClass = map[ledger.ErrorClass]bool{ledger.ClassToolError: true, ledger.ClassExit: true, ledger.ClassConflict: true,
	ledger.ClassThrottled: true, class3xx: true, class4xx: true}

// lostWords are what an error says behind which an answer was lost: between the tool
// and what it called, or between the tool and us, where what a tool gave back did not
// fit its own schema.
var lostWords = lazyregexp.New(`(?i)time[ds]?[- ]?out|deadline exceeded|connection (?:was )?(?:reset|closed|aborted|lost)|reset by peer|` +
	`econnreset|econnaborted|etimedout|epipe|broken pipe|h[au]ng up|\beof\b|\b5xx\b|` +
	`(?:http|status|code|error)[^a-z0-9]{0,3}(?:code)?[^a-z0-9]{0,3}5\d\d\b|\b5\d\d (?:internal|bad gateway|service unavailable|gateway)|` +
	`internal server error|bad gateway|service unavailable|output schema|output validation|tool output`)

// AnswerLost reports whether an attempt in doubt ended without a whole answer, or with
// one that says that another was lost behind it.
func AnswerLost(a ledger.Attempt) bool {
	return !answeredClass[a.ErrorClass] || lostWords.MatchString(a.Error) || lostWords.Match(a.Result)
}
