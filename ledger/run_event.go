package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The verbs of the events of a run: where it stands, that it is over, and what it did not
// do about one of its operations, or could not.
const (
	verbRun     = "run"
	VerbRunOver = "run_over"
	verbLeftOut = "left_out"
)

// RunID is the id of the run that an idempotency key stands for.
func RunID(key string) string { return DeriveID("idempotency key", key) }

// runDetail is what an event about a run says: as it begins, the set that is frozen and all
// that was decided, and each time where it stands.
type runDetail struct {
	Run runFacts  `json:"run"`
	Set []RunItem `json:"set,omitempty"`
	*RunTerms
	Why string `json:"why,omitempty"`
}

type runFacts struct {
	State  RunState `json:"state"`
	PutOff string   `json:"put_off,omitempty"` // the operation that it stopped at, whose turn comes again
	Verb   string   `json:"verb"`
	Digest string   `json:"digest,omitempty"`
}

// runText are members of the detail of a run's events that are no text of a person.
var runText = []string{"run", "set", "policy", "came", "by"}

// event tells where a run stands, with the set as it begins.
func (r *DecisionRun) event(id string, actor Actor, putOff string, set []RunItem) *Event {
	why := r.Why
	if why == "" && r.State == RunRunning {
		why = r.Terms.Reason
	}
	d := runDetail{Run: runFacts{State: r.State, PutOff: putOff, Verb: r.Verb}, Why: r.Why}
	if id == r.ID {
		d.RunTerms, d.Run.Digest = &r.Terms, r.Digest
	}
	for _, it := range set {
		it.Change = r.ChangeID(it)
		d.Set = append(d.Set, it)
	}
	e := &Event{ID: id, Run: r.ID, Outage: r.Terms.Outage, Verb: verbRun, Actor: actor, Version: int64(r.Size), Detail: detail(d),
		Reason: strings.TrimSuffix(fmt.Sprintf("%s of %s %s: %s", r.Verb, Count(r.Size), r.State, why), ": ")}
	if !r.Open() {
		e.Verb = VerbRunOver
	}
	return e
}

// leftOut is the event that tells what became of an item whose change the history does not
// have. It moves nothing.
func (r *DecisionRun) leftOut(it RunItem, actor Actor) *Event {
	return &Event{ID: r.ChangeID(it), Run: r.ID, OperationID: it.OperationID, Verb: verbLeftOut, Actor: actor, Reason: it.Word,
		Detail: detail(map[string]any{"came": it.Came, "by": it.By})}
}

// stand takes where the run stands from an event about it.
func (r *DecisionRun) stand(d runDetail, e Event) {
	r.newest = e.Seq
	r.State, r.Why, r.ChangedAt, r.FinishedAt, r.Driver = d.Run.State, d.Why, e.At, time.Time{}, RunDriver{Name: e.Actor.Name}
	if e.Verb == VerbRunOver {
		r.FinishedAt = e.At
	}
}

// Stands is the run as it stands by the newest event about it, of which the first needs no
// detail. One that is known to be done stays that.
func (r DecisionRun) Stands(newest Event) DecisionRun {
	if r.State == RunDone {
		return r
	}
	d := runDetail{Run: runFacts{State: RunRunning}}
	if newest.ID == r.ID && newest.Verb == VerbRunOver {
		d.Run.State = RunDone
	}
	if newest.ID != r.ID {
		_ = json.Unmarshal(newest.Detail, &d) // written by event
	}
	known := r
	if r.stand(d, newest); r.newest == known.newest { // and what its account says beyond it
		r.State, r.Why = known.State, known.Why
	}
	return r
}

// RunFate is what the history has under the change id of an item: its event, and the attempt
// that it began, with the conflict of its operation by now.
type RunFate struct {
	Event    Event
	Attempt  *Attempt
	Conflict Conflict
	Note     string
}

// AttemptID is the id of the attempt that a change begins where it sends.
func AttemptID(change string) string { return DeriveID(change, "attempt") }

// RunBegun is a run as its event has it, with its items.
func RunBegun(e Event) (r DecisionRun, items []RunItem, err error) {
	d := runDetail{RunTerms: &RunTerms{}}
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return r, nil, fmt.Errorf("the run of event %d cannot be read: %w", e.Seq, err)
	}
	r = DecisionRun{ID: e.ID, Digest: d.Run.Digest, Verb: d.Run.Verb, Actor: e.Actor, Terms: *d.RunTerms, Size: len(d.Set),
		Tally: map[Came]int{}, CreatedAt: e.At}
	r.stand(d, e)
	for n := range d.Set {
		d.Set[n].N = n
	}
	return r, d.Set, nil
}

// Account fills in where the run stands, and what became of each item: about are all
// further events about the run, in their order, and fates what the history has by change id.
// A run whose driver died behind its last item is done; what it came to before it could say so
// stops the run, or has it wait, as it would have.
func (r *DecisionRun) Account(items []RunItem, about []Event, fates map[string]RunFate, now time.Time) {
	var d runDetail
	var untold []RunItem // items that no event about the run names
	resumed, last := int64(0), Event{}
	for _, e := range about {
		d = runDetail{}
		_ = json.Unmarshal(e.Detail, &d) // written by event
		if r.stand(d, e); d.Run.State == RunRunning {
			resumed = e.Seq
		}
	}
	r.Tally, r.Trouble = map[Came]int{}, 0
	for i := range items {
		it := &items[i]
		fate := fates[it.Change]
		if fate.Event.ID != "" {
			r.fate(it, fate, now)
		} else if it.OperationID == d.Run.PutOff && d.Run.PutOff != "" {
			it.Came, it.Word, it.At = CameHeld, d.Why, r.ChangedAt
		}
		if it.Came == "" {
			continue
		}
		if fate.Event.Seq > last.Seq {
			last = fate.Event
		}
		if fate.Event.Seq > r.newest {
			untold = append(untold, *it)
			continue
		}
		if r.Tally[it.Came]++; it.Came.Trouble() && fate.Event.Seq > resumed {
			r.Trouble++
		}
	}
	slices.SortFunc(untold, func(a, b RunItem) int {
		return cmp.Compare(fates[a.Change].Event.Seq, fates[b.Change].Event.Seq)
	})
	for _, it := range untold {
		r.take(it)
	}
	if r.Open() && r.Left() == 0 {
		r.State, r.Why, r.FinishedAt, r.Driver.Name = RunDone, "", last.At, last.Actor.Name
	}
}

// fate says what became of an item. One that is in flight is under way. Where the change under
// the item's id is of another verb, it is not this run's, and the item was moved.
func (r *DecisionRun) fate(it *RunItem, f RunFate, now time.Time) {
	var d struct {
		Came Came
		By   string
	}
	verb, came := r.Verb, CameDecided
	if r.Sends() {
		verb, came = "allow", CameAllowed
	}
	switch e := f.Event; {
	case e.Verb == verbLeftOut:
		_ = json.Unmarshal(e.Detail, &d) // written by leftOut
		it.Came, it.Word, it.By = d.Came, e.Reason, d.By
	case r.Sends() && f.Attempt != nil && (e.OperationID == it.OperationID || e.OperationID == Anew(f.Attempt.ID)):
		if it.Came, it.Word = f.Sent(now); it.Came == "" {
			return
		}
	case it.Kind != "" && (e.OperationID != it.OperationID || e.Verb != verb):
		it.Came, it.By = CameMoved, e.Actor.Name
	default:
		it.Came = came
	}
	it.At = f.Event.At
}

// Sent is what became of what was sent, with what tells of it; "" while that is in flight.
func (f RunFate) Sent(now time.Time) (Came, string) {
	switch a := f.Attempt; {
	case a.Proof == NeverSent:
		return CameNever, a.Error
	case f.Conflict == ConflictTwice:
		return CameTwice, f.Note
	case a.Outcome == OutcomeCommitted:
		return CameLanded, a.Receipt
	case a.Outcome == OutcomeFailed:
		return CameFailed, a.Error
	case a.Outcome == OutcomeUncertain || a.DeadlineAt.Before(now):
		return CameUnclear, cmp.Or(a.Error, string(a.ErrorClass), "no answer was recorded")
	}
	return "", ""
}
