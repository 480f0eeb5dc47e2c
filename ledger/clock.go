package ledger

import (
	"slices"
	"strings"
	"time"
)

// Clock tells the time as the wall shows it. People and other machines set it,
// and it may be set forward or back. Senders fence themselves with its monotonic
// reading.
type Clock func() time.Time

// Steady is a reading of the steady clock, which is never set: the time since a
// boot, sleep included. Only readings of the same boot can be compared. The zero
// Steady is none.
type Steady struct {
	Boot string        `json:"boot,omitzero"`
	At   time.Duration `json:"at,omitzero"`
}

// SteadyClock tells the steady time.
type SteadyClock func() Steady

// Moment is one instant by both clocks.
//
// How long ago something was is told by both, never by the difference of two
// wall times alone where money depends on it: Latest where enough time must have
// passed (a proof, a deadline, a key's end), Earliest where it must not have
// (what the other side remembers or shows, a permission). Both answer with a
// time of the wall clock as it stands at the moment, so they are asked again
// whenever the clock may have been set.
type Moment struct {
	Wall   time.Time
	Steady Steady
}

// Add is the steady reading d later; none stays none.
func (s Steady) Add(d time.Duration) Steady {
	if s.Boot != "" {
		s.At += d
	}
	return s
}

// since is the steady time from then to now, if both clocks count from one boot.
func (s Steady) since(then Steady) (time.Duration, bool) {
	return s.At - then.At, s.Boot != "" && s.Boot == then.Boot
}

// Latest is the latest that then can have been: the shorter of the two waits
// counts. What has no steady time of this boot may have been just now. A moment
// without a steady clock knows the wall's answer only.
func (m Moment) Latest(then Moment) time.Time {
	switch passed, ok := m.Steady.since(then.Steady); {
	case m.Steady.Boot == "":
		return then.Wall
	case ok:
		return later(then.Wall, m.Wall.Add(-passed))
	}
	return later(then.Wall, m.Wall)
}

// Earliest is the earliest that then can have been: the longer of the two waits
// counts. What has no steady time of this boot is as old as the wall says; where
// the wall says that it is still to come, the clock was set back by an unknown
// time, and it is older than anything.
func (m Moment) Earliest(then Moment) time.Time {
	switch passed, ok := m.Steady.since(then.Steady); {
	case ok:
		return earlier(then.Wall, m.Wall.Add(-passed))
	case m.Steady.Boot != "" && then.Wall.After(m.Wall):
		return time.Unix(0, 0).UTC()
	}
	return then.Wall
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// ClockLead is how far the wall clock is ahead of the steady one. It changes only
// when the wall clock is set.
type ClockLead struct {
	Boot string        `json:"boot"`
	By   time.Duration `json:"by"`
}

// ClockLead is how the clocks stand to each other.
func (m Moment) ClockLead() ClockLead {
	return ClockLead{m.Steady.Boot, time.Duration(m.Wall.UnixMilli())*time.Millisecond - m.Steady.At}
}

// smallStep is what the clock may be set by without a word.
const smallStep = 2 * time.Second

// Step is how far the wall clock was set since it stood like that, forward or
// back; 0 where that is little, or was under another boot.
func (l ClockLead) Step(since ClockLead) time.Duration {
	if step := l.By - since.By; l.Boot == since.Boot && step.Abs() > smallStep {
		return step
	}
	return 0
}

// Seen is how the clocks stood when a boot last looked.
type Seen struct {
	ClockLead
	Told time.Duration `json:"told,omitzero"` // the steps that others have told of since
}

// mostSeen bounds how many boots are kept, the last that came. One that is left out
// looks as if for the first time; the others still notice a step.
const mostSeen = 100

// Look compares how the clocks stand with how this boot last saw them. A step that
// another boot has told of is not told again, whether or not this one's clocks show it.
// The result is nil where there is nothing new to keep.
func (now ClockLead) Look(seen []Seen) (step time.Duration, keep []Seen) {
	i := slices.IndexFunc(seen, func(s Seen) bool { return s.Boot == now.Boot })
	if i < 0 {
		seen = seen[max(0, len(seen)-mostSeen+1):]
		return 0, append(slices.Clone(seen), Seen{ClockLead: now})
	}
	was := seen[i]
	if now.Step(was.ClockLead) != 0 {
		step = now.Step(ClockLead{was.Boot, was.By + was.Told})
	} else if was.Told == 0 {
		return 0, nil
	}
	keep = slices.Clone(seen)
	for j := range keep {
		keep[j].Told += step
	}
	keep[i] = Seen{ClockLead: now}
	return step, keep
}

// StepEvent is what is written down of a step.
func StepEvent(step time.Duration) Event {
	way := "forward"
	if step < 0 {
		way = "back"
	}
	return Event{ID: NewID(), Verb: "clock", Actor: Actor{Name: "clock", Machine: true},
		Reason: "the clock of this host was set " + way + " by " + step.Abs().Round(time.Millisecond).String(),
		Detail: detail(map[string]any{"step_ms": step.Milliseconds()})}
}

// Moment is when the record was read.
func (r *Record) Moment() Moment { return Moment{r.Now, r.Steady} }

// State is the state that a change of the record must assume: a pending operation
// whose deadline has passed by both clocks is uncertain, whether or not that was
// written down. While the steady clock has not come to it, its
// sender may still be sending, whatever the wall says (I3).
func (r *Record) State() State {
	o := r.Operation
	if a := r.Attempt(o.LiveAttempt); o.State == Pending && a != nil && a.EndedSteady.Boot == r.Steady.Boot {
		o.DeadlineAt = r.Moment().Latest(Moment{o.DeadlineAt, a.EndedSteady})
	}
	return o.StateAt(r.Now)
}

// Over reports whether d has passed since the operation left doubt or flight.
func (r *Record) Over(d time.Duration) bool {
	return d > 0 && r.Now.After(r.Operation.SettledAt.Add(d))
}

// PrivateBoot begins the name of a boot that only one process counts from, where
// the system does not tell boots apart.
const PrivateBoot = "process-"

// starts notes the attempt's start by the steady clock, and its deadline.
func (a *Attempt) starts(rec *Record, deadline time.Duration) {
	a.EndedSteady = rec.Steady.Add(deadline)
	if a.BootID == "" && !strings.HasPrefix(rec.Steady.Boot, PrivateBoot) {
		a.BootID = rec.Steady.Boot
	}
	if a.BootID == rec.Steady.Boot {
		a.StartedSteady = rec.Steady
	}
}

// goesOn moves the attempt's deadline by the steady clock, never to an earlier time.
func (a *Attempt) goesOn(rec *Record, extend time.Duration) {
	end := rec.Steady.Add(min(extend, MaxDeadline))
	if was, ok := end.since(a.EndedSteady); !ok || was > 0 {
		a.EndedSteady = end
	}
}

// over is how many attempts are over with all of their processes, counted from the first.
func (r *Record) over() (n int) {
	for _, a := range r.Attempts {
		if a.Outcome == "" || a.Tree == TreeOpen {
			break
		}
		n = a.N
	}
	return n
}

// Ended is an attempt's end by the steady clock. Where that is of another boot, or not known
// as in plain SQL, it is when the first check under this boot saw the attempt to be over.
func (r *Record) Ended(a Attempt) Steady {
	end := a.EndedSteady
	if _, ok := r.Steady.since(end); ok {
		return end
	}
	for _, read := range r.Reads {
		_, ok := r.Steady.since(read.Seen)
		if ok && read.Over >= a.N && (end.Boot != read.Seen.Boot || read.Seen.At < end.At) {
			end = read.Seen
		}
	}
	return end
}
