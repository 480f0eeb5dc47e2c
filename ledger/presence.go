package ledger

import "time"

// Presence says that a person looks at something now, in a console that is open.
type Presence struct {
	Console string // names the console
	Person  string
	Subject string    // id of the operation or the incident
	Asks    bool      // a dialog about it is open
	Until   time.Time // when the person is taken for gone
}

// PresenceLasts is how long a person counts as present after a console said so.
const PresenceLasts = 75 * time.Second
