package ledger

import "time"

// paceAhead is how long anybody may wait for a turn, at least.
const paceAhead = 10 * time.Second

// MaxPatience is the longest that anybody may wait for a turn at a downstream
// that is asked once in every: turns further ahead are not given away.
func MaxPatience(every time.Duration) time.Duration { return max(paceAhead, 2*every) }

// NextTurn is the rule of Store.Pace. free is when the downstream was free last
// anybody looked; the zero time where nobody has. It returns the turn, whether
// that is the caller's, and what to remember of free: turns are every apart,
// none is saved up, and none lies further ahead than patience. A free further
// ahead than turns are given away means that a clock or the rate was changed; it
// counts as no more than MaxPatience.
func NextTurn(free, now time.Time, every, patience time.Duration) (turn time.Time, mine bool, next time.Time) {
	limit := MaxPatience(every)
	if free.Sub(now) > limit+every {
		free = now.Add(limit)
	}
	if free.Before(now) {
		free = now
	}
	if free.Sub(now) > min(max(patience, 0), limit) {
		return free, false, free
	}
	return free, true, free.Add(every)
}
