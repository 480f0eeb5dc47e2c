package advice

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"indoubt/ledger/need"
)

func TestTheIntervalHoldsTheMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := estimate{a: rapid.Float64Range(0.05, 5000).Draw(t, "a"), b: rapid.Float64Range(0.05, 5000).Draw(t, "b")}
		low, high := e.interval()
		need.Must(t, 0 <= low && low <= e.mean() && e.mean() <= high && high <= 1, "%+v: %v %v", e, low, high)
	})
	low, high := estimate{a: 32, b: 6}.interval() // Beta(32, 6) has 0.711 and 0.938
	need.That(t, math.Abs(low-0.711) < 0.03 && math.Abs(high-0.938) < 0.02, "%v %v", low, high)
}
