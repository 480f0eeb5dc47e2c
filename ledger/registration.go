package ledger

import "time"

// Registration says that an engine works on a ledger.
type Registration struct {
	Holder string    // as on its leases
	Since  time.Time // when it began; zero for one that makes a single read and is not written down
	Until  time.Time // when it is taken for gone
}

// LongestRegistration is how long an engine that says nothing more is at work at most. One
// that ends later was written down before the clock was set back.
const LongestRegistration = 5 * time.Minute
