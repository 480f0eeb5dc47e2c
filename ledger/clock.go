package ledger

import (
	"slices"
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
type Moment struct {
	Wall   time.Time
	Steady Steady
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

// State is the state that a change of the record must assume: a pending operation
// whose deadline has passed is uncertain, whether or not that was written down.
func (r *Record) State() State { return r.Operation.StateAt(r.Now) }

// Over reports whether d has passed since the operation left doubt or flight.
func (r *Record) Over(d time.Duration) bool {
	return d > 0 && r.Now.After(r.Operation.SettledAt.Add(d))
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

// Waited is how long an attempt has been over by the steady clock: since the first check of
// this boot that saw it. It is false where there was none. What must have passed since the end
// of an attempt must have passed by this too: the wall clock may have been set.
func (r *Record) Waited(a Attempt) (waited time.Duration, seen bool) {
	for _, read := range r.Reads {
		if read.Over >= a.N && read.Seen.Boot != "" && read.Seen.Boot == r.Steady.Boot {
			waited, seen = max(waited, r.Steady.At-read.Seen.At), true
		}
	}
	return waited, seen
}

// Unheard is how long the sender of an attempt may still send after a check saw it over. It is
// nothing, but for one of which only its deadline says that it is over: the clock that said so
// may have been set, and its sender goes by another.
func (a Attempt) Unheard() time.Duration {
	if a.ErrorClass != ClassDeadline || !a.EndedAt.Equal(a.DeadlineAt) || a.Tree == TreeEmpty {
		return 0
	}
	return a.DeadlineAt.Sub(a.StartedAt)
}
