package outcome

import (
	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
)

// answeredClass are the error classes of whole answers: what was done is known to the
// caller, if not to us.
var answeredClass = map[ledger.ErrorClass]bool{ledger.ClassToolError: true, ledger.ClassExit: true, ledger.ClassConflict: true,
	ledger.ClassThrottled: true, ledger.Class3xx: true, class4xx: true, classSaysError: true}

// Answered reports whether a doubt of a class has a whole answer, which proves nothing.
func Answered(class ledger.ErrorClass) bool { return answeredClass[class] }

// classWords are what an error says behind which an answer was lost: between the tool
// and what it called, or between the tool and us.
var classWords = []struct {
	class ledger.ErrorClass
	words *lazyregexp.Regexp
}{
	{ledger.ClassTimeout, lazyregexp.New(`(?i)time[ds]?[- ]?out|deadline exceeded|etimedout`)},
	{ledger.ClassReset, lazyregexp.New(`(?i)connection (?:was )?(?:reset|closed|aborted|lost)|reset by peer|econnreset|econnaborted|epipe|broken pipe|h[au]ng up`)},
	{ledger.ClassEOF, lazyregexp.New(`(?i)\beof(?:error)?\b|end of file`)},
	{ledger.Class5xx, lazyregexp.New(`(?i)\b5xx\b|(?:http|status|code|error)[^a-z0-9]{0,3}(?:code)?[^a-z0-9]{0,3}5\d\d\b|\b5\d\d (?:internal|bad gateway|service unavailable|gateway)|internal server error|bad gateway|service unavailable`)},
}

// ClassOf is how an answer was lost, as the text of an error tells it; "" where it does not.
func ClassOf(text string) ledger.ErrorClass {
	for _, c := range classWords {
		if c.words.MatchString(text) {
			return c.class
		}
	}
	return ""
}
