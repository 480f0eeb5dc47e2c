//go:build unix

package command_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"indoubt/ledger/open"
	"indoubt/ledger/record"
	"indoubt/ledger/record/command"
)

// A wrapped command whose failure leaves doubt is not run a second time.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "indoubt-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := open.Create(context.Background(), filepath.Join(dir, "ledger.db"), open.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	recorder := record.New(store, nil, record.Options{})
	ctx := context.Background()

	for range 2 {
		res, err := command.Run(ctx, recorder, command.Request{
			Request: record.Request{Kind: "deploy", Key: "web-7", Deadline: time.Minute},
			Argv:    []string{"/bin/sh", "-c", "echo deploying; exit 1"}, Stdout: os.Stdout,
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
