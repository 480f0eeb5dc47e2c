package ledgertest

import (
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// The model says no: two are never begun at one gate, and a deadline says nothing of an attempt
// that was settled before.
func TestI3_WhatNoOrderExplains(t *testing.T) {
	begin := func(client int, name, answer, held string, from, to int64) Call {
		return Call{Does: callBegin, Client: client, Name: name, Attempt: "a" + name, Answer: answer, Held: held, From: from, To: to}
	}
	first := begin(1, "0-0", "begun", "0-0", 1, 2)
	passes := Call{Does: callPasses, Client: 1, Name: "0-0", Attempt: "a0-0", Held: "0-0", From: 1, To: 100}
	settled := func(from, to int64) Call {
		return Call{Does: callSettle, Client: 1, Name: "0-0", Attempt: "a0-0", Outcome: ledger.OutcomeCommitted, Answer: "committed", Held: "0-0", From: from, To: to}
	}
	for name, c := range map[string]struct {
		calls []Call
		right bool
	}{
		"one after the other":       {[]Call{first, settled(3, 4), begin(2, "1-0", "begun", "1-0", 5, 6)}, true},
		"two at once":               {[]Call{first, settled(7, 8), begin(2, "1-0", "begun", "1-0", 5, 6)}, false},
		"held while it is settled":  {[]Call{first, settled(5, 8), begin(2, "1-0", "in_progress", "0-0", 3, 6)}, true},
		"in doubt by its deadline":  {[]Call{first, passes, settled(7, 8), begin(2, "1-0", "in_doubt", "0-0", 5, 6)}, true},
		"in doubt after it settled": {[]Call{first, passes, settled(3, 4), begin(2, "1-0", "in_doubt", "0-0", 5, 6)}, false},
		"in doubt without one":      {[]Call{first, settled(7, 8), begin(2, "1-0", "in_doubt", "0-0", 5, 6)}, false},
	} {
		need.Equal(t, Explained(c.calls) == nil, c.right, name)
	}
}
