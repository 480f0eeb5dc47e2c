package ledger

import "time"

// Sibling is another operation of a kind that a check may find, with its place in the
// history: one that a check finds shows what that check can see, and how late.
type Sibling struct {
	ID, Token string
	Began     int64 // Seq of the event that began its first attempt
	Ended     int64 // Seq of the newest event of any attempt of it
	Failed    bool  // it is known or said not to have landed
}

// SiblingQuery asks for the operations of a kind that have one of some tokens; without
// tokens, for those that landed by their own answer, settled before a time, their token sent.
type SiblingQuery struct {
	Kind   string
	Tokens []string
	Before time.Time
	Limit  int
}

// BesideAttempts are the verbs of events that say nothing of when an attempt began or ended.
var BesideAttempts = []string{"note", "park", "read", "confirm", "deny", "abandon", "ack", "undo", "void", "redact", IncidentJoined}
