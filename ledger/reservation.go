package ledger

import "time"

// leastPatience is the least that MaxPatience allows.
const leastPatience = 10 * time.Second

// MaxPatience is the longest wait for a reservation at a downstream that is read
// once in every: times further ahead are not given away.
func MaxPatience(every time.Duration) time.Duration { return max(leastPatience, 2*every) }

// NextReservation is the rule of Store.ReserveRead. free is the next time that was
// not reserved when the ledger last looked; the zero time where it never did. It
// returns the time, whether that is reserved for the caller, and what to remember
// of free: reserved times are every apart, none is saved up, and none lies further
// ahead than patience. A free further ahead than that means that a clock or the
// rate was changed; it counts as no more than MaxPatience.
func NextReservation(free, now time.Time, every, patience time.Duration) (at time.Time, mine bool, next time.Time) {
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
