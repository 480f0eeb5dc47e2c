package tables

import (
	"encoding/json"
	"math"
	"time"

	"indoubt/ledger"
)

// Millis is a time as the ledger keeps it: Unix milliseconds, 0 for none.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return min(t.UnixMilli(), ledger.Never.UnixMilli())
}

// At is a time read from the ledger.
func At(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// text is JSON for a nullable column.
func text(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return string(raw)
}

// list is a JSON array column.
func list(items []string) string {
	if len(items) == 0 {
		return "[]"
	}
	b, _ := json.Marshal(items) // strings always marshal
	return string(b)
}

func unlist(s string) []string {
	if s == "" || s == "[]" {
		return nil
	}
	var items []string
	_ = json.Unmarshal([]byte(s), &items) // the database keeps it valid JSON
	return items
}

// finite keeps sums over the column finite.
func finite(f float64) float64 {
	const most = 1e15
	if math.IsNaN(f) {
		return 0
	}
	return max(-most, min(most, f))
}
