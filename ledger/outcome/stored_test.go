package outcome

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// What is kept is either the answer byte for byte, or marked as not the whole.
func FuzzStoredAnswer(f *testing.F) {
	for _, body := range []string{"", "{}", "{\"a\": 1}\n", " 1", "null", `"x"`, "text", "\xff", "\xef\xbb\xbf{}", `{"password":"x"}`, "Bearer abcdefghij", `{"a":"\ud800"}`,
		"\u2028", "[1,\t2]\r\n\r\n", strings.Repeat("\"", 70000), strings.Repeat("\x01", 40000), strings.Repeat("[", 20000)} {
		f.Add(200, []byte(body), "application/json")
	}
	f.Add(400, []byte("0"), "\xff\xff")
	f.Fuzz(func(t *testing.T, status int, body []byte, contentType string) {
		status = 200 + (status%400+400)%400
		a := ledger.Answer{Via: "http", Sent: true, Status: status, Body: body, Header: http.Header{"Content-Type": {contentType}, "X-Other": {"1"}}}
		kept := Stored(a, []string{"s3cr3t-value"})
		need.Must(t, len(kept) <= MaxResult, "%d bytes are kept", len(kept))
		stored := TidyResult(kept, []string{"s3cr3t-value"})
		got := WholeAnswer(ledger.Record{Operation: ledger.Operation{State: ledger.Committed},
			Attempts: []ledger.Attempt{{Outcome: ledger.OutcomeCommitted, Status: status, Result: stored}}})
		if got == nil {
			return
		}
		if got.Status != status || !bytes.Equal(got.Bytes(), body) || http.Header(got.Header).Get("Content-Type") != contentType || got.Header["X-Other"] != nil {
			t.Errorf("%d %q %q, kept %s", got.Status, got.Bytes(), got.Header, stored)
		}
	})
}
