package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"indoubt/ledger/need"
)

var noon = time.UnixMilli(1_790_000_000_000).UTC()

// What indoubt itself sends, what another program gave up and what committed count in no outage.
func TestWhatIsLost(t *testing.T) {
	for _, c := range []struct {
		a    Attempt
		kind string
		is   bool
	}{
		{Attempt{Outcome: OutcomeUncertain}, "pay", true},
		{Attempt{Outcome: OutcomeFailed, Proof: NeverSent}, "pay", true},
		{Attempt{Outcome: OutcomeFailed, Proof: Refused}, "pay", true},
		{Attempt{Outcome: OutcomeCommitted}, "pay", false},
		{Attempt{}, "pay", false},
		{Attempt{Outcome: OutcomeUncertain, Sender: SenderImport}, "pay", false},
	} {
		_, is := c.a.Lost(Operation{ID: "o", Kind: c.kind})
		need.That(t, is == c.is, "%+v of %s counts: %t", c.a, c.kind, is)
	}
}

// Errors make outages by when they came, in whatever order they are told of, and told again
// they make nothing more.
func TestFold(t *testing.T) {
	of := func(minutes ...float64) (out []float64) { return minutes }
	for _, c := range []struct {
		name  string
		at    []float64 // minutes, in the order they are told
		want  []int     // errors of each outage
		loose int
		burst Burst
	}{
		{name: "too few", at: of(0, 1, 2, 3), loose: 4},
		{name: "five within five minutes", at: of(0, 1, 2, 3, 5), want: []int{5}},
		{name: "five in more than that", at: of(0, 1, 2, 3, 5.1), loose: 5},
		{name: "one before them", at: of(0, 4, 5, 6, 7, 8), want: []int{6}},
		{name: "one long before them", at: of(-11, 4, 5, 6, 7, 8), want: []int{5}, loose: 1},
		{name: "it goes on", at: of(0, 1, 2, 3, 4, 13, 22), want: []int{7}},
		{name: "the gap ends it", at: of(0, 1, 2, 3, 4, 14), want: []int{5}, loose: 1},
		{name: "another outage", at: of(0, 1, 2, 3, 4, 20, 21, 22, 23, 24), want: []int{5, 5}},
		{name: "told backwards", at: of(24, 23, 22, 21, 20, 4, 3, 2, 1, 0), want: []int{5, 5}},
		{name: "one that is found out late", at: of(0, 1, 2, 3, 4, -9), want: []int{6}},
		{name: "as the policy says", at: of(0, 1), want: []int{2}, burst: Burst{Errors: 2}},
	} {
		lost := func(i int) Lost {
			return Lost{Operation: fmt.Sprint(i), Kind: "pay", At: noon.Add(time.Duration(c.at[i] * float64(time.Minute)))}
		}
		byTime := func(a, b Lost) int { return a.At.Compare(b.At) }
		for _, together := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, together %t", c.name, together), func(t *testing.T) {
				var known []Outage
				var told, loose []Lost
				for i := range c.at {
					if told = append(told, lost(i)); together && i < len(c.at)-1 {
						continue
					}
					slices.SortFunc(told, byTime)
					var changed []Outage
					changed, loose = c.burst.Of("pay").Fold(known, told)
					for _, in := range changed {
						known = append(slices.DeleteFunc(known, func(was Outage) bool { return was.ID == in.ID }), in)
					}
				}
				slices.SortFunc(known, func(a, b Outage) int { return a.FirstAt.Compare(b.FirstAt) })
				var got []int
				for _, in := range known {
					n := 0
					for _, l := range told {
						if in.Takes(l.At) {
							n++
						}
					}
					got = append(got, n)
				}
				need.That(t, slices.Equal(got, c.want) && len(loose) == c.loose, "outages of %v, %d loose; want %v, %d", got, len(loose), c.want, c.loose)
				again, _ := c.burst.Of("pay").Fold(known, told)
				need.That(t, len(again) == 0, "told again: %+v", again)
			})
		}
	}
	first, _ := Burst{Errors: 1}.Of("pay").Fold(nil, []Lost{{Operation: "a", Kind: "pay", At: noon}})
	again, _ := Burst{Errors: 1}.Of("pay").Fold(nil, []Lost{{Operation: "a", Kind: "pay", At: noon}, {Operation: "b", Kind: "pay", At: noon.Add(time.Second)}})
	need.That(t, len(again) == 1 && first[0].ID == again[0].ID, "made again it is another one")
	twice, loose := Burst{Errors: 2}.Of("pay").Fold(nil, []Lost{{Operation: "a", Kind: "pay", At: noon}, {Operation: "a", Kind: "pay", At: noon.Add(time.Second)}, {Operation: "b", Refused: true, At: noon}})
	need.That(t, len(twice) == 0 && len(loose) == 1, "one operation that is lost twice, and a refusal, open %+v", twice)
}

func TestPhases(t *testing.T) {
	in := Outage{Gap: 10 * time.Minute, FirstAt: noon, LastAt: noon}
	with := func(change func(*Outage)) Outage { i := in; change(&i); return i }
	for _, c := range []struct {
		in    Outage
		after time.Duration
		want  Phase
	}{
		{in, 9 * time.Minute, PhaseGrowing},
		{in, 10 * time.Minute, PhaseQuiet},
		{in, -10 * time.Minute, PhaseGrowing},
		{in, -11 * time.Minute, PhaseQuiet}, // the clock was set back
		{with(func(i *Outage) { i.AnsweredAt = noon }), time.Hour, PhaseQuiet},
		{with(func(i *Outage) { i.AnsweredAt = noon.Add(time.Second) }), 9 * time.Minute, PhaseGrowing},
		{with(func(i *Outage) { i.AnsweredAt = noon.Add(time.Second) }), time.Hour, PhaseOver},
		{with(func(i *Outage) { i.OverAt = noon.Add(time.Hour) }), 2 * time.Hour, PhaseOver},
	} {
		need.Equal(t, c.in.PhaseAt(noon.Add(c.after)), c.want, c.in, c.after)
	}
}

func TestCountsHaveTheirThousandsApart(t *testing.T) {
	need.Equal(t, LeftOut(1234, 1000000), "1,234 priced in words, 1,000,000 not priced", "left out")
	need.Equal(t, Count(-999)+Count(-1000), "-999-1,000", "less than none")
}
