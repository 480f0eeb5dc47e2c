package outcome

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// TestALongAnswerIsReadOnce: judging copies a long answer at most once, and not at
// all where its members have been read; each further look would copy it again.
func TestALongAnswerIsReadOnce(t *testing.T) {
	const size = 8 << 20
	text := strings.Repeat("0123456789abcdef", size/16)
	for name, result := range map[string]string{
		"text":       `{"content":[{"type":"text","text":"` + text + `"}]}`,
		"parts":      `{"content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"one of many rows"},`, size/42), ",") + `]}`,
		"structured": `{"content":[],"structuredContent":{"effect":"created","rows":"` + text + `"}}`,
	} {
		for _, read := range []bool{true, false} {
			a := ledger.Answer{Via: "mcp", Sent: true, RPC: &ledger.RPCAnswer{Result: json.RawMessage(result), Tool: "put"}}
			limit := uint64(size * 3 / 2)
			if read {
				a.RPC.Members, limit = members(a.RPC.Result), size/2
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, notYet := NotYet(a)
			s := JudgeAttempt(t.Context(), nil, ledger.Record{}, "a", a)
			runtime.ReadMemStats(&after)
			if notYet || s.Outcome != ledger.OutcomeCommitted || len(s.Result) == 0 || len(s.Result) > 2*MaxResult {
				t.Errorf("%s: %v %s, %d bytes kept", name, notYet, s.Outcome, len(s.Result))
			}
			made := after.TotalAlloc - before.TotalAlloc
			need.That(t, made <= limit, "%s, read before: %v: %d MiB were made of %d", name, read, made>>20, size>>20)
		}
	}
}
