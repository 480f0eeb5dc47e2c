package ledger

// Marks are the names under which an operation's effect may show where the other
// side shows no token: a key, an invoice, a file. Two operations with the same one
// cannot be told apart by it. The caller that begins the operation makes them, and
// an engine does for writers that do not know the policy. A mark that was made is kept
// when the rules change: one too many only makes a check more careful.
type Marks struct {
	Rules  string // of the policy, which made them; "" when none did
	Values []string
}
