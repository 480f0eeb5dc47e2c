package outcome_test

import (
	"context"
	"errors"
	"fmt"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
)

// Judge says what an answer means, the same for every sender.
func ExampleJudge() {
	ctx := context.Background()
	for _, answer := range []ledger.Answer{
		{Via: "http", Sent: true, Status: 201},
		{Via: "http", Sent: true, Status: 422},
		{Via: "http", Sent: true, Status: 502},
		{Via: "http", Err: errors.New("connection refused")},
		{Via: "command", Sent: true, Exited: true, Exit: 1},
	} {
		s := outcome.Judge(ctx, nil, ledger.Record{}, answer)
		fmt.Printf("%s, proof %q, class %q\n", s.Outcome, s.Proof, s.ErrorClass)
	}
	// Output:
	// committed, proof "", class ""
	// failed, proof "refused", class ""
	// uncertain, proof "", class "5xx"
	// failed, proof "never_sent", class ""
	// uncertain, proof "", class "exit"
}
