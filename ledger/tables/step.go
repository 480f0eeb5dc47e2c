package tables

// Step brings the tables of a ledger from the schema before it to its own. A published
// step never changes; what comes after it is a new one.
type Step struct {
	Version int
	SQL     string
}

// Newest is the schema that the steps lead to from schema 1.
func Newest(steps []Step) int {
	if len(steps) == 0 {
		return 1
	}
	return steps[len(steps)-1].Version
}
