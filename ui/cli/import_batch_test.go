package cli

import (
	"testing"

	"indoubt/ledger/need"
	"indoubt/policy/mapping"
)

// Large rows are taken over a few at a time.
func TestLargeRowsMakeAShortBatch(t *testing.T) {
	for size, want := range map[int]int{100: importBatch, 1 << 20: 16, 17 << 20: 1} {
		row, batch := importRow{Row: mapping.Row{Text: make([]byte, size)}}, []importRow(nil)
		for len(batch) == 0 || !full(batch) {
			batch = append(batch, row)
		}
		need.Equal(t, len(batch), want, "rows")
	}
}
