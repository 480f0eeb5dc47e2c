package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ledger/sqlite"
)

// A pipeline that sends by itself: begin, send only when told so, settle.
func ExampleRecorder_Begin() {
	dir, err := os.MkdirTemp("", "indoubt-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, err := sqlite.Create(ctx, filepath.Join(dir, "ledger.db"), sqlite.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	recorder := record.New(store, nil, record.Options{Source: ledger.Source{Pipeline: "billing", Run: "42"}})

	charge := func() {
		begun, err := recorder.Begin(ctx, record.Wish{Kind: "charge", Key: "INV-1042", Input: json.RawMessage(`{"invoice":"INV-1042","amount":4200}`)})
		if err != nil {
			fmt.Println("not recorded, so not sent:", err)
			return
		}
		switch begun.Answer {
		case ledger.AnswerBegun:
			fmt.Println("sending attempt", begun.Attempt.N)
			_, err = recorder.Settle(ctx, ledger.SettleRequest{AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeCommitted,
				Receipt: "ch_1", Result: json.RawMessage(`{"id":"ch_1"}`)})
			if err != nil {
				fmt.Println("in doubt after its deadline:", err)
			}
		case ledger.AnswerFinished:
			fmt.Println("done before:", string(begun.Operation.Result))
		default:
			fmt.Println("not sending:", begun.Answer)
		}
	}
	charge()
	charge()
	// Output:
	// sending attempt 1
	// done before: {"id":"ch_1"}
}

// A wrapped command whose failure leaves doubt is not run a second time.
func ExampleRecorder_Run() {
	dir, err := os.MkdirTemp("", "indoubt-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, err := sqlite.Create(ctx, filepath.Join(dir, "ledger.db"), sqlite.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	recorder := record.New(store, nil, record.Options{})

	for range 2 {
		res, err := recorder.Run(ctx, record.RunRequest{
			Wish: record.Wish{Kind: "deploy", Key: "web-7", Deadline: time.Minute},
			Argv: []string{"/bin/sh", "-c", "echo deploying; exit 1"}, Stdout: os.Stdout,
		})
		if err != nil {
			fmt.Println("not recorded, so not run:", err)
			return
		}
		fmt.Println("exit", res.ExitCode, res.Operation.State, "ran:", res.Ran)
	}
	// Output:
	// deploying
	// exit 106 uncertain ran: true
	// exit 106 uncertain ran: false
}

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
		s := record.Judge(ctx, record.KindRule{}, ledger.Record{}, answer)
		fmt.Printf("%s, proof %q, class %q\n", s.Outcome, s.Proof, s.ErrorClass)
	}
	// Output:
	// committed, proof "", class ""
	// failed, proof "refused", class ""
	// uncertain, proof "", class "5xx"
	// failed, proof "never_sent", class ""
	// uncertain, proof "", class "exit"
}
