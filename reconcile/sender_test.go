package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/open"
	"indoubt/policy"
)

// order is what a sender in a process of its own is told.
type order struct {
	Ledger, Policy, ID string
	Version            int64
	Offset             time.Duration
	Connect            string // a file; a connection is used once it is there
}

// sender retries one operation and prints what it did; the test kills or stops
// it on the way.
func sender(text string) {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	clock := func() time.Time { return time.Now().Add(o.Offset) }
	store, err := open.Open(context.Background(), o.Ledger, open.Options{Clock: clock, Steady: hostclock.With(clock)})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	pol, err := policy.Parse("policy.yaml", []byte(o.Policy))
	if err != nil {
		panic(err)
	}
	e := New(Options{Store: store, Policy: func() *policy.Policy { return pol }, Actor: maya, Clock: clock, Steady: hostclock.With(clock), Log: func(s string) { fmt.Println(s) }})
	e.downs.of(pol.Kind("pay")).http.Dial = func(_ context.Context, network, address string) (net.Conn, error) {
		c, err := net.Dial(network, address)
		for _, missing := os.Stat(o.Connect); missing != nil; _, missing = os.Stat(o.Connect) {
			time.Sleep(10 * time.Millisecond)
		}
		return c, err
	}
	p, err := e.Plan(context.Background(), o.ID)
	if err != nil {
		panic(err)
	}
	res, err := e.Retry(context.Background(), RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisAbsent, Showing: p.Showing, Actor: maya})
	fmt.Println("did", res.Did, "outcome", res.Attempt.Outcome, res.Attempt.Proof, "err", err)
}
