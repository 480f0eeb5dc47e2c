package ledger

import (
	"cmp"
	"fmt"
	"maps"
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

// Fault is an attempt that ended otherwise than committed, as outages see it.
type Fault struct {
	Burst   Burst
	At      time.Time
	Class   ErrorClass // of an answer that did not come; "" where nothing was sent
	Refused bool       // joins an outage and opens none
	Actor   Actor
}

// Membership is how an operation belongs to its outage.
type Membership string

const (
	JoinedAsError   Membership = "error"
	JoinedAsRefusal Membership = "refusal"
)

// Fate is what became of an operation of an outage.
type Fate string

const (
	FateLanded    Fate = "landed"
	FateNotLanded Fate = "not_landed"
	FateOpen      Fate = "open" // to look at
	FateRefused   Fate = "refused"
	FateLeft      Fate = "left" // abandoned
)

// Fates are all of them, in the order of the account.
var Fates = []Fate{FateLanded, FateNotLanded, FateOpen, FateRefused, FateLeft}

// Fate is what became of an operation, for its outage. Granted: one more attempt of
// it is allowed now, and has not begun.
func (o Operation) Fate(granted bool) Fate {
	switch {
	case o.Conflict != NoConflict || o.State == Pending || o.State == Uncertain:
		return FateOpen
	case o.State == Committed:
		return FateLanded
	case o.State == Abandoned:
		return FateLeft
	case granted:
		return FateOpen
	case o.Joined == JoinedAsRefusal && !o.Doubted:
		return FateRefused
	}
	return FateNotLanded
}

// Sum is what the operations of a fate cost together. Costs that a policy gives as
// words, and operations that no policy has priced, are counted, not added.
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

// Less is the sum without another.
func (s Sum) Less(t Sum) Sum {
	return Sum{s.N - t.N, s.Miss - t.Miss, s.MissWords - t.MissWords, s.Twice - t.Twice, s.TwiceWords - t.TwiceWords, s.Unpriced - t.Unpriced,
		s.Resent - t.Resent, s.Doubled - t.Doubled, s.Unchecked - t.Unchecked}
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
	case now.Before(i.LastAt.Add(i.Gap)) && !i.ahead(now):
		return PhaseGrowing
	case i.AnsweredAt.After(i.LastAt):
		return PhaseOver
	}
	return PhaseQuiet
}

// ahead reports whether its newest error lies in the future: the clock was set back.
func (i Outage) ahead(now time.Time) bool { return now.Before(i.LastAt.Add(-i.Gap)) }

// takes reports whether a fault at this time belongs to the outage.
func (i Outage) takes(at time.Time) bool {
	return at.Before(i.LastAt.Add(i.Gap)) && at.After(i.FirstAt.Add(-i.Gap))
}

// Recent is an error that belongs to no outage yet.
type Recent struct {
	Operation string    `json:"operation"`
	At        time.Time `json:"at"`
	Kind      string    `json:"kind"`
	Pipeline  string    `json:"pipeline,omitempty"`
	Class     string    `json:"class,omitempty"`
}

// Joining is what follows from a fault.
type Joining struct {
	Outage  *Outage // as it is now; nil: as it was
	Opened  bool    // it is new, and the operations of Earlier join it too
	Earlier []Recent
	Joins   Membership // how the operation joins it, "" if it does not
	Recent  []Recent   // what waits now in place of what did
}

// Join works out what a fault of an operation does, from the outage that may
// concern it and from the errors of its scope that belong to none. An operation
// joins one outage at most, for life.
func (f Fault) Join(o Operation, in *Outage, recent []Recent, now time.Time) Joining {
	j := Joining{Recent: recent}
	if IsNotice(o.Kind) {
		return j
	}
	member := in != nil && o.Outage == in.ID
	switch r := (Recent{o.ID, f.At, o.Kind, o.Source.Pipeline, string(f.Class)}); {
	case f.Refused:
		if in == nil {
			return j
		}
		answered := *in
		if answered.AnsweredAt.Before(f.At) {
			answered.AnsweredAt, j.Outage = f.At, &answered
		}
		if o.Outage == "" && in.takes(f.At) && slices.Contains(in.Kinds, o.Kind) {
			j.Joins = JoinedAsRefusal
			j.Outage = &answered
			answered.Pipelines = remember(answered.Pipelines, o.Source.Pipeline)
		}
	case in != nil && in.takes(f.At) && (member || o.Outage == ""):
		grown := *in
		if grown.ahead(now) { // else its newest error would be one that is still to come
			grown.LastAt = time.Time{}
		}
		grown = grown.grow(r)
		j.Outage = &grown
		if !member {
			j.Joins = JoinedAsError
		}
	case o.Outage == "":
		f.gather(&j, r)
	}
	return j
}

// Told is the event of an outage that opened.
func (j Joining) Told(actor Actor) Event {
	if actor.Name == "" {
		actor = Actor{Name: ActorChecks, Machine: true}
	}
	i := j.Outage
	return Event{ID: DeriveID(i.ID, OutageOpened), Outage: i.ID, Verb: OutageOpened, Actor: actor,
		Reason: fmt.Sprintf("%s errors within %s", Count(len(j.Earlier)+1), words(i.LastAt.Sub(i.FirstAt)))}
}

// Latecomers are errors that join outages when they are priced, by outage: no
// change of their operations tells of it.
type Latecomers map[string][]Recent

// Add notes what follows from a fault. The event of an outage that opens tells of
// what it opens with.
func (l Latecomers) Add(j Joining, o Operation, at time.Time) {
	if j.Joins != "" && !j.Opened {
		l[j.Outage.ID] = append(l[j.Outage.ID], Recent{Operation: o.ID, At: at})
	}
}

// Told are the events of them, one an outage. An operation joins once, so that their
// ids never come again.
func (l Latecomers) Told() (events []Event) {
	for _, id := range slices.Sorted(maps.Keys(l)) {
		joined := l[id]
		first := slices.MinFunc(joined, func(a, b Recent) int { return strings.Compare(a.Operation, b.Operation) })
		newest := slices.MaxFunc(joined, func(a, b Recent) int { return a.At.Compare(b.At) })
		until, errors := newest.At.UTC().Format(time.RFC3339), "errors"
		if len(joined) == 1 {
			errors = "error"
		}
		events = append(events, Event{ID: DeriveID(id, OutageJoined+first.Operation), Outage: id, Verb: OutageJoined, Actor: Actor{Name: ActorChecks, Machine: true},
			Reason: fmt.Sprintf("%s %s until %s", Count(len(joined)), errors, until), Detail: detail(map[string]any{"errors": len(joined), "until": until})})
	}
	return events
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

// gather adds an error to those that belong to no outage, and opens one when
// enough of them are close together.
func (f Fault) gather(j *Joining, r Recent) {
	waiting := slices.DeleteFunc(slices.Clone(j.Recent), func(w Recent) bool { return w.Operation == r.Operation })
	waiting = append(waiting, r)
	together := slices.Clone(waiting)
	slices.SortStableFunc(together, func(a, b Recent) int { return a.At.Compare(b.At) })
	for k := 0; k+f.Burst.Errors <= len(together); k++ {
		burst := together[k : k+f.Burst.Errors]
		if burst[len(burst)-1].At.Sub(burst[0].At) > f.Burst.Within {
			continue
		}
		in := Outage{ID: DeriveID(r.Operation, "outage"), Scope: f.Burst.Scope, Gap: f.Burst.Gap, FirstAt: burst[0].At}
		for _, w := range burst {
			in = in.grow(w)
		}
		j.Recent = nil
		for _, w := range together { // those near the burst are of it
			switch {
			case !in.takes(w.At):
				j.Recent = append(j.Recent, w)
				continue
			case w.Operation != r.Operation:
				j.Earlier = append(j.Earlier, w)
			}
			in = in.grow(w)
		}
		j.Outage, j.Opened, j.Joins = &in, true, JoinedAsError
		return
	}
	// Those that came last stay: they are near in time, in whichever direction old
	// ones are looked at.
	j.Recent = waiting[max(0, len(waiting)-4*f.Burst.Errors):]
}

// grow is the outage with one more error.
func (i Outage) grow(r Recent) Outage {
	if r.At.After(i.LastAt) {
		i.LastAt, i.OverAt = r.At, time.Time{}
	}
	if r.At.Before(i.FirstAt) {
		i.FirstAt = r.At
	}
	i.Kinds, i.Pipelines, i.Classes = remember(i.Kinds, r.Kind), remember(i.Pipelines, r.Pipeline), remember(i.Classes, r.Class)
	return i
}

// remember adds a name that is new, up to what a person can take in.
func remember(names []string, name string) []string {
	if name == "" || len(names) >= 20 || slices.Contains(names, name) {
		return names
	}
	return append(slices.Clone(names), name)
}

// Minute is how many errors came in one minute.
type Minute struct {
	At time.Time
	N  int
}
