package mcpproxy

import (
	"encoding/json"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
)

// TestOnlyAWholeAnswerIsReplayed: of a long one a part is kept, which is no answer of
// the server's.
func TestOnlyAWholeAnswerIsReplayed(t *testing.T) {
	for n, whole := range map[int]bool{10: true, 1 << 20: false} {
		said := json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", n) + `"}]}`)
		a := ledger.Answer{Via: "mcp", Sent: true, RPC: &ledger.RPCAnswer{Result: said}}
		kept := outcome.JudgeAttempt(t.Context(), record.KindRule{}.Judge, ledger.Record{}, "", a).Result
		need.That(t, len(kept) != 0 && replayable(ledger.Operation{ByAnswer: true, Result: kept}) == whole, "of %d bytes %d are kept, replayed %v", len(said), len(kept), !whole)
	}
}
