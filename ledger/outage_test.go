package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"indoubt/ledger/need"
)

var noon = time.UnixMilli(1_790_000_000_000).UTC()

// What indoubt itself sends joins no outage and opens none.
func TestNoticesAreInNoOutage(t *testing.T) {
	for kind, in := range map[string]bool{"notify.oncall": false, "notify": false, "notifying": true, "pay": true} {
		var recent []Recent
		j := Joining{}
		for i := range 5 {
			j = Fault{Burst: Burst{}.Of(kind), At: noon}.Join(Operation{ID: fmt.Sprint(i), Kind: kind}, nil, recent, noon)
			recent = j.Recent
		}
		need.That(t, (j.Outage != nil) == in, "%s opens an outage: %t", kind, j.Outage != nil)
	}
}

// Errors join by when they came, in whatever order they are told of.
func TestFaultJoins(t *testing.T) {
	of := func(minutes ...float64) (out []float64) { return minutes }
	for _, c := range []struct {
		name      string
		at        []float64 // minutes, in the order they are told
		want      []int     // operations of each outage
		waiting   int
		burst     Burst
		refusedAt float64
		refused   bool // joins
	}{
		{name: "too few", at: of(0, 1, 2, 3), waiting: 4},
		{name: "five within five minutes", at: of(0, 1, 2, 3, 5), want: []int{5}},
		{name: "five in more than that", at: of(0, 1, 2, 3, 5.1), waiting: 5},
		{name: "one before them", at: of(0, 4, 5, 6, 7, 8), want: []int{6}},
		{name: "one long before them", at: of(-11, 4, 5, 6, 7, 8), want: []int{5}, waiting: 1},
		{name: "they wait, but not all for ever", at: of(0, 9, 18, 27, 36, 45, 54, 63, 72, 81, 90, 99, 108, 117, 126, 135, 144, 153, 162, 171, 180, 189), waiting: 20},
		{name: "it goes on", at: of(0, 1, 2, 3, 4, 13, 22), want: []int{7}},
		{name: "the gap ends it", at: of(0, 1, 2, 3, 4, 14), want: []int{5}, waiting: 1},
		{name: "another outage", at: of(0, 1, 2, 3, 4, 20, 21, 22, 23, 24), want: []int{5, 5}},
		{name: "told backwards", at: of(24, 23, 22, 21, 20, 4, 3, 2, 1, 0), want: []int{5, 5}},
		{name: "one that is found out late", at: of(0, 1, 2, 3, 4, -9), want: []int{6}},
		{name: "as the policy says", at: of(0, 1), want: []int{2}, burst: Burst{Errors: 2}},
		{name: "a refusal while it grows", at: of(0, 1, 2, 3, 4), want: []int{5}, refusedAt: 13, refused: true},
		{name: "a refusal later", at: of(0, 1, 2, 3, 4), want: []int{5}, refusedAt: 14},
		{name: "a refusal before there is one", at: of(0, 1), waiting: 2, refusedAt: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var outages []Outage
			var recent []Recent
			members := map[string][]string{}
			fault := func(id string, f Fault) Membership {
				f.Burst = c.burst.Of("pay")
				var in *Outage
				for i := range outages {
					if outages[i].takes(f.At) {
						in = &outages[i]
					}
				}
				j := f.Join(Operation{ID: id, Kind: "pay"}, in, recent, f.At)
				if recent = j.Recent; j.Outage == nil {
					return j.Joins
				}
				if i := slices.IndexFunc(outages, func(in Outage) bool { return in.ID == j.Outage.ID }); i >= 0 {
					outages[i] = *j.Outage
				} else {
					outages = append(outages, *j.Outage)
				}
				for _, e := range j.Earlier {
					members[j.Outage.ID] = append(members[j.Outage.ID], e.Operation)
				}
				if j.Joins == JoinedAsError {
					members[j.Outage.ID] = append(members[j.Outage.ID], id)
				}
				return j.Joins
			}
			for i, m := range c.at {
				fault(fmt.Sprint(i), Fault{At: noon.Add(time.Duration(m * float64(time.Minute)))})
			}
			var got []int
			for _, in := range outages {
				got = append(got, len(members[in.ID]))
			}
			need.That(t, slices.Equal(got, c.want) && len(recent) == c.waiting, "outages of %v, %d waiting; want %v, %d", got, len(recent), c.want, c.waiting)
			if c.refusedAt > 0 {
				joins := fault("refused", Fault{At: noon.Add(time.Duration(c.refusedAt * float64(time.Minute))), Refused: true})
				need.That(t, (joins == JoinedAsRefusal) == c.refused, "the refusal joins: %q", joins)
			}
		})
	}
}

// An operation is in one outage for life, and its errors move no other.
func TestFaultOfAMember(t *testing.T) {
	in := Outage{ID: "i", Scope: "kind:pay", Kinds: []string{"pay"}, Gap: 10 * time.Minute, FirstAt: noon, LastAt: noon}
	for _, c := range []struct {
		name  string
		o     Operation
		after time.Duration
		grows bool
	}{
		{"while it grows", Operation{ID: "o", Kind: "pay", Outage: "i"}, time.Minute, true},
		{"when it is over", Operation{ID: "o", Kind: "pay", Outage: "i"}, time.Hour, false},
		{"of another", Operation{ID: "o", Kind: "pay", Outage: "other"}, time.Minute, false},
	} {
		j := Fault{Burst: Burst{Errors: 1}.Of("pay"), At: noon.Add(c.after)}.Join(c.o, &in, nil, noon.Add(c.after))
		need.That(t, j.Joins == "" && !j.Opened && (j.Outage != nil) == c.grows && (j.Outage == nil || j.Outage.LastAt.Equal(noon.Add(c.after))), "%s: %+v", c.name, j)
	}
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

func TestFates(t *testing.T) {
	for _, c := range []struct {
		o       Operation
		granted bool
		want    Fate
	}{
		{Operation{State: Pending}, false, FateOpen},
		{Operation{State: Uncertain}, true, FateOpen},
		{Operation{State: Committed}, false, FateLanded},
		{Operation{State: Committed, Conflict: DifferentConflict}, false, FateOpen},
		{Operation{State: Committed, Conflict: Duplicate}, false, FateOpen},
		{Operation{State: Abandoned}, false, FateLeft},
		{Operation{State: Abandoned, Conflict: Contradiction}, false, FateOpen},
		{Operation{State: Failed, Doubted: true, Joined: JoinedAsError}, false, FateNotLanded},
		{Operation{State: Failed, Doubted: true, Joined: JoinedAsError}, true, FateOpen},
		{Operation{State: Failed, Joined: JoinedAsError}, false, FateNotLanded},
		{Operation{State: Failed, Joined: JoinedAsRefusal}, false, FateRefused},
		{Operation{State: Failed, Joined: JoinedAsRefusal, Doubted: true}, false, FateNotLanded},
	} {
		need.Equal(t, c.o.Fate(c.granted), c.want, c.o, c.granted, "granted")
	}
}

func TestCountsHaveTheirThousandsApart(t *testing.T) {
	need.Equal(t, LeftOut(1234, 1000000), "1,234 priced in words, 1,000,000 not priced", "left out")
	need.Equal(t, Count(-999)+Count(-1000), "-999-1,000", "less than none")
}
