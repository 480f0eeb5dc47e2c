package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"indoubt/ledger"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
)

// A charge, asked for twice. The second call sends nothing.
func ExampleDo() {
	recorder, done := exampleRecorder()
	defer done()

	charges := 0
	bank := func(invoice, token string) (receipt string, err error) {
		charges++
		return fmt.Sprintf("pi_%d", charges), nil
	}
	charge := func(ctx context.Context, invoice string) error {
		request := record.Request{Kind: "bank.charge", Key: invoice, Input: json.RawMessage(`{"amount":4200,"currency":"usd"}`)}
		result, err := record.Do(ctx, recorder, request, func(_ context.Context, call record.Call) (record.Result, error) {
			receipt, err := bank(invoice, call.Token)
			return record.Result{Receipt: receipt}, err
		})
		if err != nil {
			return err
		}
		fmt.Println(result.Receipt, "replayed:", result.Replayed)
		return nil
	}
	for range 2 {
		if err := charge(context.Background(), "INV-1042"); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("charges:", charges)
	// Output:
	// pi_1 replayed: false
	// pi_1 replayed: true
	// charges: 1
}

// What Do's errors mean for the caller.
func ExampleDo_errors() {
	recorder, done := exampleRecorder()
	defer done()

	mail := func(deliver func() error) {
		_, err := record.Do(context.Background(), recorder, record.Request{Kind: "mail", Key: "welcome-7"},
			func(context.Context, record.Call) (record.Result, error) { return record.Result{}, deliver() })
		var failed *record.FailedError
		switch {
		case err == nil:
			fmt.Println("delivered")
		case errors.As(err, &failed):
			fmt.Println("known to have had no effect:", failed.Err)
		case record.In(err).Answer == ledger.AnswerInDoubt:
			fmt.Println("may have been delivered; not sent again")
		default:
			fmt.Println(err)
		}
	}
	mail(func() error { return record.NotSent(errors.New("no template")) })
	mail(func() error { return errors.New("read: connection reset by peer") })
	mail(func() error { panic("never called") })
	// Output:
	// known to have had no effect: no template
	// may have been delivered; not sent again
	// may have been delivered; not sent again
}

// exampleRecorder is a recorder over a ledger of its own.
func exampleRecorder() (r *record.Recorder, done func()) {
	dir, err := os.MkdirTemp("", "indoubt-example-")
	if err != nil {
		panic(err)
	}
	store, err := open.Create(context.Background(), filepath.Join(dir, "ledger.db"), open.Options{})
	if err != nil {
		panic(err)
	}
	return record.New(store, nil, record.Options{Source: ledger.Source{Pipeline: "billing"}}), func() { store.Close(); os.RemoveAll(dir) }
}

// A pipeline that sends by itself: begin, send only when told so, settle.
func ExampleRecorder_Begin() {
	recorder, done := exampleRecorder()
	defer done()
	ctx := context.Background()

	charge := func() {
		begun, err := recorder.Begin(ctx, record.Request{Kind: "charge", Key: "INV-1042", Input: json.RawMessage(`{"invoice":"INV-1042","amount":4200}`)})
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
