package ledger

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Burst is what a policy says of when errors are one outage.
type Burst struct {
	Scope  string        // "downstream:NAME" or "kind:NAME"
	Errors int           // so many open one
	Within time.Duration // that fall into this
	Gap    time.Duration // so long without a new one ends its growth
}

// DefaultBurst is what stands where a policy states nothing.
var DefaultBurst = Burst{Errors: 5, Within: 5 * time.Minute, Gap: 10 * time.Minute}

// Of is the burst of a kind, with what is not stated filled in.
func (b Burst) Of(kind string) Burst {
	b = b.Or(DefaultBurst)
	b.Scope = cmp.Or(b.Scope, "kind:"+kind)
	return b
}

// Or is what is stated, and where nothing is, what the other says.
func (b Burst) Or(other Burst) Burst {
	return Burst{cmp.Or(b.Scope, other.Scope), cmp.Or(b.Errors, other.Errors), cmp.Or(b.Within, other.Within), cmp.Or(b.Gap, other.Gap)}
}

// Lost is an attempt that ended otherwise than committed, as outages see it.
type Lost struct {
	Operation string
	At        time.Time // when it ended
	Kind      string
	Pipeline  string
	Class     string // of an answer that did not come; "" where nothing was sent
	Refused   bool   // it counts in an outage, and opens none
}

// Lost is how an attempt counts in an outage: one that is over and did not commit. What
// another program sent and gave up ended at no time that is known.
func (a Attempt) Lost(o Operation) (l Lost, is bool) {
	l = Lost{o.ID, a.EndedAt, o.Kind, o.Source.Pipeline, string(a.ErrorClass), a.Proof == Refused}
	elsewhere := a.Sender == SenderImport || a.Sender == SenderForgotten
	return l, (a.Outcome == OutcomeUncertain || a.Outcome == OutcomeFailed) && !elsewhere
}

// Fate is what became of an operation of an outage.
type Fate string

const (
	FateLanded    Fate = "landed"
	FateNotLanded Fate = "not_landed"
	FateChecking  Fate = "checking" // in doubt, with checks to come
	FateOpen      Fate = "open"     // to look at
	FateRefused   Fate = "refused"
	FateLeft      Fate = "left" // abandoned
)

// Fates are all of them, in the order of the account.
var Fates = []Fate{FateLanded, FateNotLanded, FateChecking, FateOpen, FateRefused, FateLeft}

// Sum is what the operations of a fate cost together, those of them that are open: of
// others no price is kept. Costs that a policy gives as words, and open operations that
// no policy has priced, are counted, not added.
type Sum struct {
	N          int     `json:"n"`
	Miss       float64 `json:"miss"`
	MissWords  int     `json:"miss_words"`
	Twice      float64 `json:"twice"`
	TwiceWords int     `json:"twice_words"`
	Unpriced   int     `json:"unpriced"`  // without a price
	Resent     int     `json:"resent"`    // sent more than once
	Doubled    int     `json:"doubled"`   // known to have happened more than once
	Unchecked  int     `json:"unchecked"` // sent more than once, and no check has said how often it landed
}

// Add is the sum of two.
func (s Sum) Add(t Sum) Sum {
	return Sum{s.N + t.N, s.Miss + t.Miss, s.MissWords + t.MissWords, s.Twice + t.Twice, s.TwiceWords + t.TwiceWords, s.Unpriced + t.Unpriced,
		s.Resent + t.Resent, s.Doubled + t.Doubled, s.Unchecked + t.Unchecked}
}

// LeftOut says what an amount does not have in it, "" where it has all.
func LeftOut(words, unpriced int) string {
	var of []string
	if words > 0 {
		of = append(of, Count(words)+" priced in words")
	}
	if unpriced > 0 {
		of = append(of, Count(unpriced)+" not priced")
	}
	return strings.Join(of, ", ")
}

// CheckedAt is when the newest check that saw clearly, and began after the last
// attempt ended, was done; zero: none was.
func (o Operation) CheckedAt(reads []Read) (at time.Time) {
	for _, r := range reads {
		if (r.Verdict == Landed || r.Verdict == NotThere) && !r.BeganAt.Before(o.EndedAt) && r.EndedAt.After(at) {
			at = r.EndedAt
		}
	}
	return at
}

// Phase is how far an outage has come.
type Phase string

const (
	PhaseGrowing Phase = "growing"
	PhaseQuiet   Phase = "quiet" // no new error, and no sign yet that it is over
	PhaseOver    Phase = "over"  // no new error, and an answer since
)

// Outage is a burst of errors on one downstream or of one kind.
type Outage struct {
	ID         string
	Scope      string
	Kinds      []string
	Pipelines  []string
	Classes    []string // error classes
	Gap        time.Duration
	OpenedAt   time.Time // when it was known to be one
	FirstAt    time.Time // first error
	LastAt     time.Time // newest error
	AnsweredAt time.Time // newest answer or valid read that is known
	OverAt     time.Time // when it was seen to be over
	TakenBy    string
	TakenUntil time.Time
	Fates      map[Fate]Sum // nil where they were not asked
}

// Sum is that of all fates.
func (i Outage) Sum() (all Sum) {
	for _, s := range i.Fates {
		all = all.Add(s)
	}
	return all
}

// Unsettled is that of what is not known to have landed, and is not settled.
func (i Outage) Unsettled() Sum {
	return i.Fates[FateNotLanded].Add(i.Fates[FateChecking]).Add(i.Fates[FateOpen])
}

// Errors is how many operations count.
func (i Outage) Errors() int { return i.Sum().N }

// Downstream is the name of the downstream, "" where the scope is a kind.
func (i Outage) Downstream() string {
	name, _ := strings.CutPrefix(i.Scope, "downstream:")
	if name == i.Scope {
		return ""
	}
	return name
}

// Where is the name of the downstream or the kind.
func (i Outage) Where() string { _, name, _ := strings.Cut(i.Scope, ":"); return name }

// TakenAt is who is on it at now, or "".
func (i Outage) TakenAt(now time.Time) string {
	if now.Before(i.TakenUntil) {
		return i.TakenBy
	}
	return ""
}

// PhaseAt is the phase at now.
func (i Outage) PhaseAt(now time.Time) Phase {
	switch {
	case !i.OverAt.IsZero():
		return PhaseOver
	case now.Before(i.End()) && !i.ahead(now):
		return PhaseGrowing
	case i.AnsweredAt.After(i.LastAt):
		return PhaseOver
	}
	return PhaseQuiet
}

// ahead reports whether its newest error lies in the future: the clock was set back.
func (i Outage) ahead(now time.Time) bool { return now.Before(i.LastAt.Add(-i.Gap)) }

// Takes reports whether what ended at this time is in the outage.
func (i Outage) Takes(at time.Time) bool { return !at.Before(i.FirstAt) && at.Before(i.End()) }

// End is when it has no more: its newest error, and the gap after it.
func (i Outage) End() time.Time { return i.LastAt.Add(i.Gap) }

// near reports whether an error at this time belongs to the outage: one that is found out
// late may be before its first.
func (i Outage) near(at time.Time) bool { return at.Before(i.End()) && at.After(i.FirstAt.Add(-i.Gap)) }

// Reach is how far from an error those are that it may be one outage with.
func (b Burst) Reach() time.Duration { return max(b.Within, b.Gap) }

// Fold works out what errors make of the outages of their scope, of which it is given all
// that are within reach. What is folded again changes nothing. The errors come in the
// order of their times; those that it returns as loose are in none.
func (b Burst) Fold(known []Outage, lost []Lost) (changed []Outage, loose []Lost) {
	all, moved := slices.Clone(known), map[string]bool{}
	grow := func(at int, e Lost) {
		if grown := all[at].grow(e); !grown.Same(all[at]) {
			all[at], moved[grown.ID] = grown, true
		}
	}
	for _, e := range lost {
		if e.Refused {
			continue
		}
		at := slices.IndexFunc(all, func(i Outage) bool { return i.Takes(e.At) })
		if at < 0 {
			at = slices.IndexFunc(all, func(i Outage) bool { return i.near(e.At) })
		}
		if at >= 0 {
			grow(at, e)
			continue
		}
		loose = append(slices.DeleteFunc(loose, func(w Lost) bool { return w.Operation == e.Operation }), e)
		first := len(loose) - b.Errors
		if first < 0 || e.At.Sub(loose[first].At) > b.Within {
			continue
		}
		// The same errors make the same outage again.
		all = append(all, Outage{ID: DeriveID(b.Scope+"@"+e.At.UTC().Format(time.RFC3339Nano), "outage"), Scope: b.Scope, Gap: b.Gap,
			OpenedAt: e.At, FirstAt: loose[first].At, LastAt: loose[first].At})
		at, rest := len(all)-1, loose[:0:0]
		for _, w := range loose { // those near the burst are of it
			if all[at].near(w.At) {
				grow(at, w)
			} else {
				rest = append(rest, w)
			}
		}
		loose = rest
	}
	for _, i := range all {
		if moved[i.ID] {
			changed = append(changed, i)
		}
	}
	return changed, loose
}

// Same reports whether an outage has come no further.
func (i Outage) Same(was Outage) bool {
	return i.FirstAt.Equal(was.FirstAt) && i.LastAt.Equal(was.LastAt) && i.AnsweredAt.Equal(was.AnsweredAt) && i.OverAt.Equal(was.OverAt) &&
		len(i.Kinds) == len(was.Kinds) && len(i.Pipelines) == len(was.Pipelines) && len(i.Classes) == len(was.Classes)
}

// Answered is the outage with when its kinds were answered last, and over where its gap has
// passed and it was answered since its newest error.
func (i Outage) Answered(at map[string]time.Time, now time.Time) Outage {
	for _, kind := range i.Kinds {
		if !i.AnsweredAt.After(i.LastAt) && at[kind].After(i.LastAt) {
			i.AnsweredAt = at[kind]
		}
	}
	if i.OverAt.IsZero() && !now.Before(i.End()) && i.AnsweredAt.After(i.LastAt) {
		i.OverAt = now
	}
	return i
}

// Opened is the event of an outage that opened.
func (i Outage) Opened(b Burst) Event {
	return Event{ID: DeriveID(i.ID, OutageOpened), Outage: i.ID, Verb: OutageOpened, Actor: Actor{Name: ActorChecks, Machine: true},
		Reason: fmt.Sprintf("%s errors within %s", Count(b.Errors), words(b.Within))}
}

// Ended is the event of an outage that is over.
func (i Outage) Ended() Event {
	return Event{ID: DeriveID(i.ID, OutageOver+i.LastAt.UTC().Format(time.RFC3339Nano)), Outage: i.ID, Verb: OutageOver,
		Actor: Actor{Name: ActorClock, Machine: true}, Reason: fmt.Sprintf("no new error for %s, and an answer since", words(i.Gap))}
}

// words is a duration without the parts that are zero: 10m, 1h30m, 14s.
func words(d time.Duration) string {
	text := d.Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// grow is the outage with one more error. What is in it is found by its kinds: it has all.
func (i Outage) grow(e Lost) Outage {
	if e.At.After(i.LastAt) {
		i.LastAt, i.OverAt = e.At, time.Time{}
	}
	if e.At.Before(i.FirstAt) {
		i.FirstAt = e.At
	}
	i.Kinds = remember(i.Kinds, e.Kind, math.MaxInt)
	i.Pipelines, i.Classes = remember(i.Pipelines, e.Pipeline, 20), remember(i.Classes, e.Class, 20)
	return i
}

// remember adds a name that is new, where there is room for it.
func remember(names []string, name string, room int) []string {
	if name == "" || len(names) >= room || slices.Contains(names, name) {
		return names
	}
	return append(slices.Clone(names), name)
}

// Minute is how many errors came in one minute.
type Minute struct {
	At time.Time
	N  int
}
