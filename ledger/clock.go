package ledger

import "time"

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

// smallStep is what the clock may be set by without a word.
const smallStep = 2 * time.Second

// Step is how far the wall clock was set since a moment, forward or back; 0 where that is
// little, or was under another boot.
func (m Moment) Step(since Moment) time.Duration {
	step := m.Wall.Sub(since.Wall) - (m.Steady.At - since.Steady.At)
	if m.Steady.Boot != since.Steady.Boot || step.Abs() <= smallStep {
		return 0
	}
	return step
}

// toldFor is how long after a step was told of, the same one is no other.
const toldFor = time.Minute

// SameStep reports whether a step that another engine told of at a time is this one.
func SameStep(told, step time.Duration, at, now time.Time) bool {
	return (step-told).Abs() <= smallStep && now.Sub(at).Abs() < toldFor
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
	// A forgotten attempt ended when its deadline after the adoption passed. That time is counted from when this process
	// first knew of the adoption: the first check of each operation comes later.
	allowed := a.DeadlineAt.Sub(r.Gap)
	if a.Sender == SenderForgotten && r.GapSeen.Boot != "" && r.GapSeen.Boot == r.Steady.Boot && allowed >= 0 {
		if since := r.Steady.At - r.GapSeen.At - allowed; since >= 0 {
			waited, seen = max(waited, since), true
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
