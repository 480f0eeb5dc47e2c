package ledger

import (
	"indoubt/ledger/need"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestPackedIsWhatItWas: a stub is read as it was written, whatever its texts look like.
func TestPackedIsWhatItWas(t *testing.T) {
	need.FixSeed()
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string {
			return rapid.OneOf(rapid.Just(NewID()), rapid.Just(strings.ToUpper(NewID())), rapid.StringMatching(`[0-9a-f]{64}|[0-9a-fA-F]{64}|[-0-9a-f]{36}`),
				rapid.Just(strings.Repeat("0", 36)), rapid.Just("2026-09-21T14:14:03.278Z"), rapid.Just("2026-02-31T14:14:03.278Z"), rapid.Just("2026-09-21T14:14:03,278Z"), rapid.Just("é\"\\\x01\x02\x03"), rapid.StringN(0, 40, -1)).Draw(t, name)
		}
		at := func(name string) time.Time {
			return time.UnixMilli(rapid.Int64Range(0, 4102444800000).Draw(t, name)).UTC()
		}
		w := Whole{Operation: Operation{ID: text("id"), Token: text("token"), Fingerprint: text("print"), CreatedAt: at("created"), SettledAt: at("settled")},
			Attempts: []Attempt{{ID: text("attempt"), StartedAt: at("started"), Receipt: text("receipt")}}}
		sheaf := []Stub{{Seq: rapid.Int64().Draw(t, "seq"), Whole: w}, {Seq: 2, Whole: Whole{Operation: Operation{ID: text("another")}}}}
		packed := need.Get(Pack(sheaf))(t)
		got, err := Unpack(packed)
		need.Must(t, err == nil && reflect.DeepEqual(got, sheaf), "%+v\nwas %+v: %v", got, sheaf, err)
		for cut := range packed {
			if w, err := Unpack(packed[:cut]); err == nil && cut < len(packed)-8 {
				t.Fatalf("a part of it is read as %+v", w)
			}
		}
	})
}
