package outcome

import (
	"indoubt/ledger"
)

// answeredClass are the error classes of whole answers: what was done is known to the
// caller, if not to us.
var answeredClass = map[ledger.ErrorClass]bool{ledger.ClassToolError: true, ledger.ClassExit: true, ledger.ClassConflict: true,
	ledger.ClassThrottled: true, ledger.Class3xx: true, class4xx: true, classSaysError: true}

// Answered reports whether a doubt of a class has a whole answer, which proves nothing.
func Answered(class ledger.ErrorClass) bool { return answeredClass[class] }
