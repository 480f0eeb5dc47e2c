package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"indoubt/ledger"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
)

// A charge over HTTP, asked for twice. The second call sends nothing.
func ExampleDo() {
	var charges atomic.Int32
	stripe := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"id":"pi_%d","status":"succeeded"}`, charges.Add(1))
	}))
	defer stripe.Close()
	recorder, done := exampleRecorder()
	defer done()

	charge := func(ctx context.Context, invoice string) error {
		form := url.Values{"amount": {"4200"}, "currency": {"usd"}}
		request := record.Request{Kind: "stripe.charge", Key: invoice, Input: json.RawMessage(`{"amount":4200,"currency":"usd"}`)}
		result, err := record.Do(ctx, recorder, request, func(ctx context.Context, call record.Call) (record.Result, error) {
			form.Set("metadata[indoubt]", call.Token)
			req, err := http.NewRequestWithContext(ctx, "POST", stripe.URL+"/v1/payment_intents", strings.NewReader(form.Encode()))
			if err != nil {
				return record.Result{}, record.NotSent(err)
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Idempotency-Key", call.Key)
			return record.HTTP(req), nil
		})
		if err != nil {
			return err
		}
		var intent struct{ ID, Status string }
		if err := result.Decode(&intent); err != nil {
			return err
		}
		fmt.Println(intent.ID, intent.Status, "replayed:", result.Replayed)
		return nil
	}
	for range 2 {
		if err := charge(context.Background(), "INV-1042"); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("charges:", charges.Load())
	// Output:
	// pi_1 succeeded replayed: false
	// pi_1 succeeded replayed: true
	// charges: 1
}

// What Do's errors mean for the caller.
func ExampleDo_errors() {
	recorder, done := exampleRecorder()
	defer done()

	mail := func(deliver func() error) {
		_, err := record.Do(context.Background(), recorder, record.Request{Kind: "mail", Key: "welcome-7"},
			func(context.Context, record.Call) (record.Result, error) { return record.Result{}, deliver() })
		var doubt *record.DoubtError
		var failed *record.FailedError
		switch {
		case err == nil:
			fmt.Println("delivered")
		case errors.As(err, &failed):
			fmt.Println("known to have had no effect:", failed.Err)
		case errors.As(err, &doubt):
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
