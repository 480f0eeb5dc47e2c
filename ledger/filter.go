package ledger

import "time"

// Filter is a parsed filter text: terms that must all hold. Its zero value
// holds for everything.
type Filter struct {
	Text  string // as written
	Terms []Term
}

// Term is one condition. Text terms match title, kind, key, id and source
// without regard to case.
type Term struct {
	Field  string // text, id, kind, state, lane, downstream, source, error, key, token, by, age, cost, risk
	Op     string // "" (equals or contains), ">" or "<"
	Value  string
	Number float64       // for cost> and risk>
	Age    time.Duration // for age> and age<
	Not    bool
}
