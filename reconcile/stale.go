package reconcile

import (
	"maps"
	"net/http"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/reconcile/connect"
)

// stale says why an answer may show less than there is by now: it comes from a
// cache or from a replica. "" when it is fresh.
func stale(a ledger.Answer, skew time.Duration) string {
	if http.Header(a.Header).Get(connect.HeaderStale) != "" {
		return "answer came from a replica, which may lag behind"
	}
	return policy.Stale(a, skew)
}

// fresh is the answer without the age that was taken account of.
func fresh(a ledger.Answer) ledger.Answer {
	if _, old := a.Header["Age"]; !old {
		return a
	}
	a.Header = maps.Clone(a.Header)
	delete(a.Header, "Age")
	return a
}
