package ledger

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// RunState is where a decision run stands.
type RunState string

const (
	RunRunning RunState = "running" // its driver goes from item to item; with no driver, it was broken off
	RunWaiting RunState = "waiting" // its canaries are sent; a person looks at them and decides
	RunPaused  RunState = "paused"
	RunStopped RunState = "stopped" // Why says what for; over for good where a person ended it
	RunDone    RunState = "done"
)

// Came is what became of one item of a run.
type Came string

const (
	CameDecided Came = "decided"    // changed as the run says; nothing was sent
	CameLanded  Came = "landed"     // sent, and it landed
	CameAlready Came = "already"    // it had landed; nothing was sent
	CameAllowed Came = "allowed"    // one send is allowed; its pipeline makes it
	CameTwice   Came = "twice"      // sent, and now it is there twice
	CameFailed  Came = "failed"     // sent, and it did not land
	CameNever   Came = "never_sent" // nothing of it left; it is as before
	CameUnclear Came = "unclear"    // sent, and no clear answer came
	CameMoved   Came = "moved"      // By changed it first; nothing was done
	// CameHeld: a hold came first, a pause that its downstream asked for, or a policy that
	// changed its request. Its turn comes again when the run goes on.
	CameHeld    Came = "held"
	CameSkipped Came = "skipped" // refused for a reason of its own; nothing was sent
	CameBroken  Came = "broken"  // it could not be done
)

// Outcomes are what can become of an item, what needs a look first.
var Outcomes = []Came{CameTwice, CameUnclear, CameFailed, CameNever, CameBroken, CameHeld,
	CameMoved, CameSkipped, CameAllowed, CameAlready, CameLanded, CameDecided}

// Acted reports whether the run did something with the item, so that a canary says
// something about the other side.
func (c Came) Acted() bool {
	return c == CameLanded || c == CameAllowed || c == CameDecided || c.Trouble() && c != CameBroken && c != CameNever
}

// Trouble reports whether it tells that the outage is not over.
func (c Came) Trouble() bool {
	return c == CameTwice || c == CameFailed || c == CameNever || c == CameUnclear || c == CameBroken
}

const (
	// RunCanaries is how many sends a run makes before a person looks at them. One
	// that fails or is unclear stops the run.
	RunCanaries = 3
	// RunStopAfter is how many such results stop it later.
	RunStopAfter = 2
	// RunLease is how long the driver of a run may be silent before another may take
	// the run over.
	RunLease = 10 * time.Second
)

// DecisionRun is one command or bulk action over a frozen set. It is one event, recorded
// before its first change; where it stands is said by the newest event about it, who drives
// it by a row of lead, and what became of its items by theirs.
type DecisionRun struct {
	ID             string
	IdempotencyKey string // known of a new one only: its id is made of it
	Digest         string // of verb and arguments
	Verb           string
	Actor          Actor // who decided it
	Terms          RunTerms
	Size           int // items
	State          RunState
	Why            string // it waits, is paused or has stopped
	Tally          map[Came]int
	Trouble        int // results since a person last decided that it goes on
	Driver         RunDriver
	CreatedAt      time.Time
	ChangedAt      time.Time // state
	FinishedAt     time.Time // done, or stopped by a person

	newest int64 // event about it, by which it stands
}

// RunTerms are what a run's decision says about each of its items.
type RunTerms struct {
	Outage    string    `json:"outage,omitempty"` // that all of them are of
	Reason    string    `json:"reason,omitempty"`
	Reference string    `json:"reference,omitempty"`
	Truth     Truth     `json:"truth,omitempty"`
	Until     time.Time `json:"until,omitzero"`
	Receipts  []string  `json:"receipts,omitempty"`
	Policy    string    `json:"policy,omitempty"` // of a retry: the digest of what it was planned under
	Key       bool      `json:"key,omitempty"`    // of a redaction: the key goes, too
}

// OneOutage is the outage that all of several operations count in, or "".
func OneOutage(of []string) string {
	if len(of) < 2 || slices.ContainsFunc(of, func(in string) bool { return in != of[0] }) {
		return ""
	}
	return of[0]
}

// RunDriver is who carries a run on: a person, and one process of hers. Until it
// runs out, no other may.
type RunDriver struct {
	Name, Holder string
	Until        time.Time
}

// RunItem is one operation of a frozen set, in the version that was seen, and what
// became of it.
type RunItem struct {
	N           int    `json:"-"`
	OperationID string `json:"operation"`
	Version     int64  `json:"version,omitempty"`
	Change      string `json:"change"` // of a recorded run: the id of the event that says what became of it
	Kind        string `json:"kind,omitempty"`
	Title       string `json:"-"`                 // of the operation, by now
	Basis       Basis  `json:"basis,omitempty"`   // of a retry: why it was allowed
	Request     string `json:"request,omitempty"` // of a retry: digest of what was shown

	Came Came      `json:"-"` // "": its turn has not come
	Word string    `json:"-"` // the reason, the receipt
	By   string    `json:"-"` // who moved it
	At   time.Time `json:"-"`
}

// ChangeID is the id of the item's change, the same whenever it is tried again: what
// a killed driver did is found, and not done twice. The history has one event of this id:
// the change, or why there was none.
func (r *DecisionRun) ChangeID(it RunItem) string { return DeriveID(r.ID, it.OperationID) }

// NextItem is the item whose turn is next after another one (none: below 0), or nil.
func NextItem(items []RunItem, after int) *RunItem {
	for _, it := range items {
		if it.N != after && (it.Came == "" || it.Came == CameHeld) {
			return &it
		}
	}
	return nil
}

// Done is how many items are accounted for.
func (r *DecisionRun) Done() (n int) {
	for c, k := range r.Tally {
		if c != CameHeld {
			n += k
		}
	}
	return n
}

// Left is how many items' turn is still to come.
func (r *DecisionRun) Left() int { return r.Size - r.Done() }

// Open reports whether the run is neither done nor ended by a person.
func (r *DecisionRun) Open() bool { return r.FinishedAt.IsZero() }

// Anew says how a person goes on with what is left of a run that a person ended.
func (r *DecisionRun) Anew() string {
	return fmt.Sprintf("%s stay as they are. Look at them (indoubt runs %s), then decide anew: indoubt %s ID@VERSION…", Count(r.Left()), r.ID, r.Verb)
}

// Sends reports whether the run sends, or lets a pipeline send.
func (r *DecisionRun) Sends() bool { return r.Verb == "retry" }

// DrivenBy is who drives the run at now; "" when no one does.
func (r *DecisionRun) DrivenBy(now time.Time) string {
	if r.Driver.Until.After(now) {
		return r.Driver.Name
	}
	return ""
}

// acted is how many items say something about the other side.
func (r *DecisionRun) acted() (n int) {
	for c, k := range r.Tally {
		if c.Acted() {
			n += k
		}
	}
	return n
}

// DrivenError says who drives the run now.
type DrivenError struct{ RunDriver }

func (e *DrivenError) Error() string {
	if e.Name == "" {
		return "this run is driven from elsewhere"
	}
	return e.Name + " drives this run now"
}

// RunRecord is what a rule about a run may look at, read in the transaction that
// writes the change: where it stands, and who drives it. What became of its items who
// drives it knows, for no one else goes on with them.
type RunRecord struct {
	Run      DecisionRun
	Holds    []Hold // in force
	Now      time.Time
	ChangeID string // of the event that tells of the change
}

// RunChange is what a rule wants written; the zero RunChange writes nothing.
type RunChange struct {
	Run     *DecisionRun // its driver
	LeftOut *Event       // what became of an item, where the history does not say it already
	Event   *Event       // state and why
}

// RunRule computes what becomes of a run. It may run more than once.
type RunRule func(rec *RunRecord) (RunChange, error)

// LastRun is the id of the newest run over operations of the outage, or "".
func (a OutageAccount) LastRun() string {
	for _, e := range slices.Backward(a.Events) {
		if e.Run != "" {
			return e.Run
		}
	}
	return ""
}

// Recorded is a new run as it begins, with its event. One of a single item that nothing
// is known of beforehand needs none: its change says all.
func (r DecisionRun) Recorded(items []RunItem, now time.Time) (DecisionRun, Event, error) {
	if err := r.Actor.MaySign(r.Verb); err != nil {
		return r, Event{}, err
	}
	r.CreatedAt, r.ChangedAt = now, now
	r.Size, r.State, r.Tally = len(items), RunRunning, map[Came]int{}
	if r.Driver.Holder != "" {
		r.Driver.Until = now.Add(RunLease)
	}
	if r.Size == 0 {
		r.State, r.FinishedAt = RunDone, now
	}
	e := r.event(r.ID, r.Actor, "", items)
	r.IdempotencyKey = ""
	return r, *e, nil
}

// RunDrive makes a process the driver of a run.
type RunDrive struct {
	Actor  Actor
	Holder string // names the process
	// Decided: a person says that a run which waits, is paused or has stopped by itself
	// goes on. One that a person ended is over: going on is a new decision.
	// Without it only one that runs and has no driver is carried on, and nothing else
	// changes.
	Decided bool
	Seen    time.Time // ChangedAt of what the person saw
	Next    *RunItem  // whose turn is next
}

// Rule is the drive as a pure rule. Errors: *DrivenError, *RefusedError (hold, done, over, moved).
func (d RunDrive) Rule(rec *RunRecord) (RunChange, error) {
	r := rec.Run
	switch {
	case d.Decided && r.State == RunStopped && !r.Open():
		return RunChange{}, &RefusedError{Verb: r.Verb, Code: "over", Why: "this run is over: " + r.Why, Hint: r.Anew()}
	case r.Driver.Until.After(rec.Now) && !r.Driver.Until.After(rec.Now.Add(RunLease)) && r.Driver.Holder != d.Holder: // later: the clock was set back since
		return RunChange{}, &DrivenError{r.Driver}
	case !d.Decided && r.State != RunRunning:
		return RunChange{}, nil
	case r.State == RunDone:
		return RunChange{}, &RefusedError{Verb: r.Verb, Code: "over", Why: fmt.Sprintf("this run is done since %s, by %s", r.FinishedAt.UTC().Format(time.RFC3339), r.Driver.Name)}
	case d.Decided && r.ChangedAt.UnixMilli() != d.Seen.UnixMilli() && (r.State != RunRunning || r.Driver.Holder != d.Holder):
		return RunChange{}, &RefusedError{Verb: r.Verb, Code: "moved", Why: fmt.Sprintf("this run has gone on since you looked, and is %s%s", r.State, colon(r.Why)), Hint: "look, then: indoubt runs resume " + r.ID}
	}
	if err := d.Actor.MaySign(r.Verb); err != nil {
		return RunChange{}, err
	}
	if d.Next != nil && d.Decided && r.Sends() {
		if h := holds(rec, d.Next.Kind); h != nil {
			return RunChange{}, &RefusedError{Verb: r.Verb, Code: "hold", Why: held(h), Hint: h.Scope.Release()}
		}
	}
	c := RunChange{Run: &r}
	r.Driver = RunDriver{d.Actor.Name, d.Holder, rec.Now.Add(RunLease)}
	if r.State == RunRunning && !d.Decided {
		return c, nil
	}
	r.Tally = maps.Clone(r.Tally)
	delete(r.Tally, CameHeld)
	r.State, r.Why, r.Trouble, r.FinishedAt, r.ChangedAt = RunRunning, "", 0, time.Time{}, rec.Now
	c.Event = r.event(rec.ChangeID, d.Actor, "", nil)
	return c, nil
}

// RunAdvance is a sign of life of the driver, with what became of the item that was
// under way.
type RunAdvance struct {
	Actor  Actor
	Holder string
	Item   *RunItem // with what it came to; nil: it goes on, only the lease is renewed
	Next   *RunItem // whose turn is next then
}

// Rule is the advance as a pure rule. It decides whether another item follows.
// Errors: *DrivenError when another process drives the run by now; what it finds of
// the item's change is what counts then.
func (a RunAdvance) Rule(rec *RunRecord) (RunChange, error) {
	r := rec.Run
	switch {
	case r.Driver.Holder != a.Holder:
		return RunChange{}, &DrivenError{r.Driver}
	case r.State == RunDone:
		return RunChange{}, nil
	}
	c, before, putOff := RunChange{Run: &r}, r.State, ""
	r.Driver.Until = rec.Now.Add(RunLease)
	if a.Item == nil {
		return c, nil
	}
	if r.take(*a.Item); a.Item.Came == CameHeld {
		putOff = a.Item.OperationID
	} else {
		c.LeftOut = r.leftOut(*a.Item, a.Actor)
	}
	if r.follow(rec, a.Next); r.State != RunRunning {
		r.Driver.Until = time.Time{} // given back
	}
	if r.State != before {
		r.ChangedAt = rec.Now
		c.Event = r.event(rec.ChangeID, a.Actor, putOff, nil)
	}
	return c, nil
}

// take counts an item in, and stops the run where it tells that the outage is not
// over, or was put off. A run that a person ended keeps that person's word.
func (r *DecisionRun) take(it RunItem) {
	canary := r.Sends() && r.acted() < RunCanaries
	r.Tally = maps.Clone(r.Tally)
	r.Tally[it.Came]++
	if it.Came.Trouble() {
		r.Trouble++
	}
	switch {
	case !r.Open():
	case it.Came == CameHeld:
		r.State, r.Why = RunStopped, it.Word
	case it.Came.Trouble() && (canary || r.Trouble >= RunStopAfter):
		what := "failed or unclear"
		if canary {
			what = "of the first " + fmt.Sprint(RunCanaries) + " failed or unclear"
		}
		r.State, r.Why = RunStopped, fmt.Sprintf("stopped at %d %s%s", r.Trouble, what, colon(it.Word))
	case r.State == RunRunning && canary && it.Came.Acted() && r.acted() == RunCanaries:
		r.State, r.Why = RunWaiting, fmt.Sprintf("%d sent: look at them before the rest", r.acted())
	}
}

// follow decides what comes after an item.
func (r *DecisionRun) follow(rec *RunRecord, next *RunItem) {
	switch {
	case next == nil && r.Left() == 0 && r.State != RunDone:
		r.State, r.Why, r.FinishedAt = RunDone, "", rec.Now
	case next != nil && r.State == RunRunning:
		if h := holds(rec, next.Kind); h != nil {
			r.State, r.Why = RunStopped, held(h)
		}
	}
}

func colon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// holds is the hold that stops the next item. What a run decides without sending, a
// person may decide under a hold: only one that came since then stops it.
func holds(rec *RunRecord, kind string) *Hold {
	if i := slices.IndexFunc(rec.Holds, func(h Hold) bool {
		return h.Covers(kind, rec.Now) && (rec.Run.Sends() || h.CreatedAt.After(rec.Run.ChangedAt))
	}); i >= 0 {
		return &rec.Holds[i]
	}
	return nil
}

func held(h *Hold) string {
	return fmt.Sprintf("%s holds %s (%s)", h.Actor.Name, h.Scope, h.Reason)
}

// RunHalt pauses a run, or ends it with what is left untouched. The item that is
// under way is finished.
type RunHalt struct {
	Actor  Actor
	Reason string // "": who
	Holder string // a process that gives up: only what it drives is paused
	End    bool
}

// Rule is the halt as a pure rule. What cannot be halted stays as it is.
func (h RunHalt) Rule(rec *RunRecord) (RunChange, error) {
	r := rec.Run
	if r.State == RunDone || !r.Open() || !h.End && r.State != RunRunning && r.State != RunWaiting || h.Holder != "" && r.Driver.Holder != h.Holder {
		return RunChange{}, nil
	}
	if err := h.Actor.MaySign(r.Verb); err != nil {
		return RunChange{}, err
	}
	r.State, r.Why, r.ChangedAt = RunPaused, "paused by "+h.Actor.Name, rec.Now
	if h.End {
		r.State, r.Why, r.FinishedAt = RunStopped, "stopped by "+h.Actor.Name, rec.Now
	}
	if r.Why += colon(h.Reason); h.Holder != "" {
		r.Driver.Until = time.Time{} // given back
	}
	return RunChange{Run: &r, Event: r.event(rec.ChangeID, h.Actor, "", nil)}, nil
}

// RunQuery says which runs are listed, newest first.
// Only those of more than one item are, unless an id is asked for.
type RunQuery struct {
	ID    string // or what it begins with
	Open  bool   // only those that are not finished
	Limit int
}
