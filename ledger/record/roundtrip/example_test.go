package roundtrip_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
	"indoubt/ledger/record/roundtrip"
)

// An HTTP client whose writes are recorded, and answered once.
func ExampleTransport() {
	charges := 0
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"ch_%d"}`, charges)
	}))
	defer shop.Close()
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

	transport := &roundtrip.Transport{Recorder: record.New(store, nil, record.Options{})}
	defer transport.Shutdown(context.Background())
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

	for range 2 {
		req, _ := http.NewRequest("POST", shop.URL+"/charges", strings.NewReader(`{"invoice":"INV-1042"}`))
		req.Header.Set("Authorization", "Bearer …") // never stored
		req.Header.Set("Idempotency-Key", "INV-1042")
		resp, err := client.Do(req)
		if doubt := record.In(err); doubt.Answer == ledger.AnswerInDoubt {
			fmt.Println("it may have landed, do not send it again:", doubt.Operation.ID)
			return
		}
		if err != nil {
			fmt.Println("it had no effect, or another is in flight:", err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, string(body), "replayed:", resp.Header.Get(roundtrip.HeaderReplayed) == "true")
	}
	// Output:
	// 201 {"id":"ch_1"} replayed: false
	// 201 {"id":"ch_1"} replayed: true
}
