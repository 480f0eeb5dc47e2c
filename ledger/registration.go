package ledger

import "time"

// Registration says that an engine works on a ledger.
type Registration struct {
	Holder string    // as on its leases
	Digest string    // of the policy in force there; empty: it has no policy file
	Since  time.Time // when it began; zero for one that makes a single read and is not written down
	Until  time.Time // when it is taken for gone
}

// LongestRegistration is how long an engine that says nothing more is at work at most. One
// that ends later was written down before the clock was set back.
const LongestRegistration = 5 * time.Minute

// GivesWay reports whether an engine only looks, because others work on the ledger
// under another policy: that of the first one counts, among those that have a
// policy file.
func (p Registration) GivesWay(others []Registration) bool {
	first := p
	for _, o := range others {
		if o.Holder == p.Holder || o.Digest == "" {
			continue
		}
		if first.Digest == "" || first.Since.IsZero() || o.Since.Before(first.Since) || o.Since.Equal(first.Since) && o.Holder < first.Holder {
			first = o
		}
	}
	return first.Digest != p.Digest
}
