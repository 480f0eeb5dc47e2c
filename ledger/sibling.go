package ledger

import "time"

// Sibling is another operation of a kind that a check may find, with its place in the
// history: one that a check finds shows what that check can see, and how late.
type Sibling struct {
	ID, Token string
	Began     int64 // Seq of the event that began its first attempt
	Ended     int64 // Seq of the newest event of any attempt of it
	BornAt    time.Time
	EndedAt   time.Time // of its latest attempt
	Failed    bool      // it is known or said not to have landed
}

// SiblingQuery asks for the operations of a kind that have one of some tokens; without
// tokens, for those that landed by their own answer, settled before a time, their token sent.
type SiblingQuery struct {
	Kind   string
	Tokens []string
	Before time.Time
	Limit  int
}

// Unseen is the check on which a person may send once more though nothing is proven: the
// newest that saw anything, which did not see the operation and did see others, after so
// many attempts were over. The newest check comes first.
func Unseen(reads []Read, attempts int) (Read, bool) {
	for _, r := range reads {
		if r.Verdict == CannotTell && r.Found == 0 {
			continue
		}
		return r, r.Verdict == NotSeen && r.Over >= attempts
	}
	return Read{}, false
}

// BesideAttempts are the verbs of events that say nothing of when an attempt began or ended.
var BesideAttempts = []string{"note", "park", "read", "confirm", "deny", "abandon", "ack", "undo", "void", "redact", verbLeftOut}
