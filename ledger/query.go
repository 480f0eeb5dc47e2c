package ledger

import (
	"slices"
	"time"
)

// Lane is where an operation stands for a person; the first that fits.
type Lane string

const (
	LaneConflict  Lane = "conflict"
	LaneInFlight  Lane = "in_flight"  // pending
	LaneUnfetched Lane = "unfetched"  // allowed to a pipeline that has not come for it
	LaneDecide    Lane = "decide"     // in doubt, needs a person
	LaneReading   Lane = "reading"    // in doubt, reads to come
	LaneNotLanded Lane = "not_landed" // failed, was in doubt, not abandoned
	LaneResolved  Lane = "resolved"
)

// Tab is one of the console's lists.
type Tab string

const (
	TabAll      Tab = "all"
	TabNeedsYou Tab = "needs_you" // conflict, decide, not_landed, unfetched for FetchPatience; not parked
	TabChecking Tab = "checking"  // reading
	TabInFlight Tab = "in_flight" // pending, and unfetched for less than FetchPatience
	TabSettled  Tab = "settled"   // resolved
	TabParked   Tab = "parked"    // out of the way until a time, whatever the lane
)

// FetchPatience is how long a permission may wait for its pipeline before a person
// is asked to look.
const FetchPatience = 10 * time.Minute

// Never stands for a clock that does not run: later than every moment.
var Never = time.UnixMilli(253402300799999).UTC()

// Cost is a price of being wrong: an amount in the policy's currency, and the
// word it was given as, if it was one. Guess marks a built-in default.
type Cost struct {
	Value float64 `json:"value"`
	Word  string  `json:"word,omitempty"`
	Guess bool    `json:"guess,omitempty"`
}

// Pricing is what a policy says about an open operation, kept beside it so
// that lists can be ordered and lanes told without evaluating a policy. It is a
// cache; Digest names the policy it came from.
type Pricing struct {
	OperationID string
	Version     int64 // of the operation that was priced; 0: whichever it has. Not kept.
	Digest      string
	Downstream  string
	Title       string
	Target      string
	Duplicate   Cost
	Miss        Cost
	Odds        float64   // chance that it landed, 0..1
	Rank        float64   // what is lost if no one acts; the list's order
	DecideAt    time.Time // from when it needs a person; zero: at once; Never: not by time
	ReadAt      time.Time // when the next read is due, zero for at once; Never: no read
	Reads       int       // reads done, for backoff
}

// Unpriced reports whether no policy has said what the operation costs.
func (p Pricing) Unpriced() bool { return p.Digest == "" && p.Miss == Cost{} && p.Duplicate == Cost{} }

// Row is one line of a list: the operation without its payload, its pricing and its open permission.
type Row struct {
	Operation
	Outages    []string  // that it is in, the newest first
	Group      Group     // when it was read; a list says it where its filter asks for one
	AllowedAt  time.Time // an open permission's creation, zero without one
	GrantUntil time.Time
	Overtaken  bool // as Record.Overtaken, of one that did not land
	Pricing    Pricing
}

// Outage is the newest outage that it is in, or "".
func (r Row) Outage() string { return append(slices.Clip(r.Outages), "")[0] }

// Row is the record as a list shows it.
func (r Record) Row() Row {
	row := r.plain()
	row.Group = r.Group(false)
	return row
}

// plain is the row without its group.
func (r *Record) plain() Row {
	row := Row{Operation: r.Operation, Pricing: r.Pricing, Outages: r.Outages}
	row.Input, row.Result, row.Request, row.Command = nil, nil, nil, nil
	if g := r.OpenAllowed(); g != nil {
		row.AllowedAt, row.GrantUntil = g.CreatedAt, g.ExpiresAt
	}
	row.Overtaken = r.Operation.State != Committed && r.Overtaken() != nil
	return row
}

// ErrorAt is how the newest answer that did not come failed to; "" where each came. A
// deadline that has passed counts, whether or not that is written down.
func (r Row) ErrorAt(now time.Time) ErrorClass {
	if r.State == Pending && r.StateAt(now) == Uncertain {
		return ClassDeadline
	}
	return r.ErrorClass
}

// LaneAt is the lane at now: the first that fits.
func (r Row) LaneAt(now time.Time) Lane {
	state := r.StateAt(now)
	switch {
	case r.Conflict != NoConflict:
		return LaneConflict
	case state == Pending:
		return LaneInFlight
	case !r.AllowedAt.IsZero() && now.Before(r.GrantUntil) && (state == Uncertain || state == Failed):
		return LaneUnfetched
	case state == Uncertain && (r.PersonOnly || !now.Before(r.Pricing.DecideAt)):
		return LaneDecide
	case state == Uncertain:
		return LaneReading
	case state == Failed && r.Doubted:
		return LaneNotLanded
	}
	return LaneResolved
}

// Parked reports whether the row is out of the way at now.
func (r Row) Parked(now time.Time) bool { return now.Before(r.ParkedUntil) }

// TabAt is the console's list the row stands in at now, apart from TabAll.
func (r Row) TabAt(now time.Time) Tab {
	if r.Parked(now) {
		return TabParked
	}
	switch r.LaneAt(now) {
	case LaneConflict, LaneDecide, LaneNotLanded:
		return TabNeedsYou
	case LaneUnfetched:
		if now.Sub(r.AllowedAt) >= FetchPatience {
			return TabNeedsYou
		}
		return TabInFlight
	case LaneInFlight:
		return TabInFlight
	case LaneReading:
		return TabChecking
	}
	return TabSettled
}

// Order is how a list is sorted.
type Order string

const (
	OrderLoss   Order = "loss"   // conflicts first, then Rank, then the oldest
	OrderNewest Order = "newest" // newest change first
	OrderOldest Order = "oldest" // first recorded first
)

// Query asks for one page of a list.
type Query struct {
	Tab    Tab
	Filter Filter
	Order  Order // in TabSettled and TabAll OrderLoss reads as OrderNewest: little there can be lost
	Now    time.Time
	After  string // cursor of the page before
	Limit  int    // 50 when 0
	// Within is how long a filter may search; 0: to the end of the list. A page that
	// was cut short by it has fewer rows than Limit and a Next that goes on.
	Within time.Duration
}

// Page is one page of a list, with the cursor of the next ("" at the end).
type Page struct {
	Rows     []Row
	Next     string
	Searched int // about how many operations a filter was tried on, where it was in steps
}

// Counts is how many operations stand where, and what they cost.
type Counts struct {
	Needing
	Checking, InFlight, Settled, Parked, All int
	ByState                                  map[State]int
}

// In is how many stand in a list.
func (c Counts) In(tab Tab) int {
	return map[Tab]int{TabNeedsYou: c.NeedsYou, TabChecking: c.Checking, TabInFlight: c.InFlight, TabSettled: c.Settled,
		TabParked: c.Parked, TabAll: c.All}[tab]
}

// Needing is what stands in TabNeedsYou.
type Needing struct {
	NeedsYou  int     `json:"needs_you"`
	Conflicts int     `json:"conflicts"`
	Twice     int     `json:"twice"`   // conflicts that are duplicates
	Loss      float64 `json:"loss"`    // sum of Rank where a miss is an amount
	Unsent    float64 `json:"unsent"`  // of Loss, what did not land and was not sent again
	ByWord    int     `json:"by_word"` // operations whose miss is a word
}

// Count adds a row as it stands at now.
func (n *Needing) Count(r Row, now time.Time) {
	if r.TabAt(now) != TabNeedsYou {
		return
	}
	n.NeedsYou++
	if r.Conflict != NoConflict {
		n.Conflicts++
	}
	if r.Conflict == ConflictTwice {
		n.Twice++
	}
	switch {
	case r.Pricing.Miss.Word != "":
		n.ByWord++
	case r.LaneAt(now) == LaneNotLanded:
		n.Unsent += r.Pricing.Rank
		fallthrough
	default:
		n.Loss += r.Pricing.Rank
	}
}

// Without is what stays of n where other is taken out of it; never less than
// nothing, for the two may have been counted one after the other.
func (n Needing) Without(other Needing) Needing {
	return Needing{max(n.NeedsYou-other.NeedsYou, 0), max(n.Conflicts-other.Conflicts, 0), max(n.Twice-other.Twice, 0),
		max(n.Loss-other.Loss, 0), max(n.Unsent-other.Unsent, 0), max(n.ByWord-other.ByWord, 0)}
}
