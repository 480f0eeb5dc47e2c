// Package act carries one decision out over a frozen set of operations, one after
// the other. The console and the command line share it: what is written down
// before the first change, how a run that was broken off goes on, and when a run
// stops by itself are the same for both. The run itself is a record of the ledger;
// a Run is the process that drives it.
package act

import (
	"cmp"
	"context"
	"errors"
	"time"

	"indoubt/ledger"
)

// Step decides about one item. The change id is the same whenever the same item of
// the same run is tried again.
type Step func(ctx context.Context, it ledger.RunItem, changeID string) Outcome

// Outcome is what became of one item. With Left set nothing was begun, and its turn
// comes again.
type Outcome struct {
	Came ledger.Came
	Word string // the receipt, or the reason
	By   string // who moved it or holds it
	Left error
}

// Result is what one step of a run brought.
type Result struct {
	Item ledger.RunItem
	Err  error // why the run does not go on from here; the record of it stands
	now  ledger.DecisionRun
	next *ledger.RunItem
	all  []ledger.RunItem // where it was just read
}

// Pace is what lies between the beginnings of two sends of a run.
var Pace = 100 * time.Millisecond

// Run drives one run of the ledger. It is used from one goroutine; what Next returns
// may run on another while no other step of the run does.
type Run struct {
	Account // as last heard
	// Unkept is not written down: it changes nothing, or is one decision, which says all itself.
	Unkept bool

	store   ledger.Runs
	actor   ledger.Actor
	holder  string
	step    Step
	driving bool
	decided bool // a person lets it go on
	flying  bool
	next    *ledger.RunItem
	err     error
	began   time.Time // of the newest step
}

// New is a run that has not begun. Its actor drives it.
func New(store ledger.Runs, record ledger.DecisionRun, items []ledger.RunItem, step Step) *Run {
	record.ID = cmp.Or(record.ID, ledger.NewID())
	for n := range items {
		items[n].N = n
	}
	record.Size, record.State, record.Tally = len(items), ledger.RunRunning, map[ledger.Came]int{}
	r := &Run{Account: Account{Record: record, Items: items}, store: store, actor: record.Actor, holder: ledger.NewID(), step: step}
	r.Record.Driver = ledger.RunDriver{Name: r.actor.Name, Holder: r.holder}
	if len(items) > 0 {
		r.next = &r.Items[0]
	}
	return r
}

// Resume drives a run of the ledger that waits, is paused, has stopped or was
// broken off: a person decides that it goes on.
func Resume(store ledger.Runs, record ledger.DecisionRun, actor ledger.Actor, step Step) *Run {
	return &Run{Account: Account{Record: record}, store: store, actor: actor, holder: ledger.NewID(), step: step,
		driving: true, decided: true}
}

// Begin writes the run down before its first change. One that was given before is
// carried on, unless it waits for a person or another process drives it. It returns
// ledger.ErrKeyReused where its idempotency key belongs to another command.
func (r *Run) Begin(ctx context.Context) error {
	if r.Unkept || len(r.Items) == 0 {
		return nil
	}
	recorded, known, err := r.store.Run(ctx, r.Record, r.Items)
	if err != nil {
		return err
	}
	r.driving, r.Record = true, recorded
	if !known {
		return nil
	}
	res := r.drive(ctx)
	r.take(res)
	return res.Err
}

// leasePoll is how often a driver that may have been killed is looked after.
const leasePoll = 250 * time.Millisecond

// drive becomes the driver, and waits for one that may have been killed to fall silent.
func (r *Run) drive(ctx context.Context) (res Result) {
	run, items, err := r.store.Account(ctx, r.Record.ID)
	if err != nil {
		return Result{Err: err}
	}
	d := ledger.RunDrive{Actor: r.actor, Holder: r.holder, Decided: r.decided, Seen: r.Record.ChangedAt,
		Next: ledger.NextItem(items, -1)}
	var first time.Time
	for range ledger.RunLease/leasePoll + 2 {
		res.now, res.Err = r.store.ChangeRun(ctx, run, d.Rule)
		var driven *ledger.DrivenError
		if !errors.As(res.Err, &driven) || !first.IsZero() && driven.Until.After(first) { // it gives signs of life
			break
		}
		first = driven.Until
		if !sleep(ctx, leasePoll) {
			break
		}
	}
	if res.Err == nil {
		res = r.account(ctx)
	}
	return res
}

// account is what became of the run by now.
func (r *Run) account(ctx context.Context) (res Result) {
	res.now, res.all, res.Err = r.store.Account(ctx, r.Record.ID)
	res.next = ledger.NextItem(res.all, -1)
	return res
}

// sleep reports whether the time has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Next is the next step's work, or nil while none may begin. Its result is given to
// Take.
func (r *Run) Next() func(ctx context.Context) Result {
	if r.flying || r.Over() {
		return nil
	}
	r.flying = true
	if !r.Unkept && (!r.driving || r.decided) {
		return r.enter
	}
	it, begins := *r.next, r.began.Add(Pace)
	return func(ctx context.Context) Result {
		if wait := time.Until(begins); wait > 0 && r.Record.Sends() {
			time.Sleep(wait)
		}
		if r.Unkept {
			r.began = time.Now()
			return r.alone(ctx, it)
		}
		return r.advance(ctx, it)
	}
}

func (r *Run) enter(ctx context.Context) Result {
	if r.driving {
		return r.drive(ctx)
	}
	if err := r.Begin(ctx); err != nil {
		return Result{Err: err}
	}
	return Result{now: r.Record, next: r.next}
}

// advance carries one item out and writes down what became of it.
func (r *Run) advance(ctx context.Context, it ledger.RunItem) Result {
	res := Result{Item: it, now: r.Record, next: &it}
	if r.Record.Sends() { // a person may have ended it, or another process have gone on with it
		now, err := r.alive(ctx, r.Record)
		if err != nil || now.State != ledger.RunRunning {
			if res.now, res.Err = now, err; errors.As(err, new(*ledger.DrivenError)) {
				r.catchUp(ctx, &res)
			}
			return res
		}
	}
	ended := r.beat(ctx)
	r.began = time.Now()
	out := r.step(ctx, it, r.Record.ChangeID(it))
	ended()
	if res.Err = out.Left; res.Err != nil {
		return res
	}
	res.Item.Came, res.Item.Word, res.Item.By = out.Came, out.Word, out.By
	res.next = ledger.NextItem(r.Items, it.N)
	a := ledger.RunAdvance{Actor: r.actor, Holder: r.holder, Item: &res.Item, Next: res.next}
	ctx = context.WithoutCancel(ctx)
	if res.now, res.Err = r.store.ChangeRun(ctx, r.Record, a.Rule); errors.As(res.Err, new(*ledger.DrivenError)) {
		r.catchUp(ctx, &res)
	}
	return res
}

// catchUp has a result tell what another process has done with the run.
func (r *Run) catchUp(ctx context.Context, res *Result) {
	if by := r.account(ctx); by.Err == nil {
		res.now, res.all = by.now, by.all
	}
}

// alive tells the ledger that the run is driven.
func (r *Run) alive(ctx context.Context, known ledger.DecisionRun) (ledger.DecisionRun, error) {
	return r.store.ChangeRun(ctx, known, ledger.RunAdvance{Actor: r.actor, Holder: r.holder}.Rule)
}

// beat tells the ledger that the run is driven, until it is stopped: who interrupts the
// driver waits for the send that is under way.
func (r *Run) beat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended, known := make(chan struct{}), r.Record
	go func() {
		defer close(ended)
		for sleep(ctx, ledger.RunLease/4) {
			_, _ = r.alive(ctx, known) // the next one may work
		}
	}()
	return func() { cancel(); <-ended }
}

// alone carries one item out, of which nothing more is written down.
func (r *Run) alone(ctx context.Context, it ledger.RunItem) Result {
	out := r.step(ctx, it, r.Record.ChangeID(it))
	it.Came = out.Came
	res := Result{Item: it, now: r.Record, Err: out.Left}
	if it.N+1 < len(r.Items) {
		res.next = &r.Items[it.N+1]
	} else {
		res.now.State = ledger.RunDone
	}
	return res
}

// Take takes in what a step brought.
func (r *Run) Take(res Result) {
	r.flying = false
	r.take(res)
}

func (r *Run) take(res Result) {
	if r.err = res.Err; r.err != nil {
		r.decided = false
	}
	if res.now.ID != "" {
		r.Record, r.next = res.now, res.next
	}
	switch {
	case res.all != nil:
		r.Items, r.decided = res.all, false
	case res.Item.Came != "" && res.Err == nil:
		r.Items[res.Item.N] = res.Item
	}
}

// GoOn drives the run on after it waited, was paused or had stopped.
func (r *Run) GoOn() { r.decided, r.err = true, nil }

// Over reports whether no further step follows from here: it is done, waits for a
// person, or goes on elsewhere.
func (r *Run) Over() bool {
	return !r.flying && !r.decided && (r.err != nil || r.Record.State != ledger.RunRunning || r.next == nil)
}

func (r *Run) Begun() bool { return r.driving }

// Err is why the run cannot go on from here, apart from what its record says.
func (r *Run) Err() error { return r.err }

// GiveUp says that the run goes on no more from here, so that another may take it over at
// once. One that is driven elsewhere goes on there.
func (r *Run) GiveUp(ctx context.Context, reason string) error {
	h := ledger.RunHalt{Actor: r.actor, Reason: reason, Holder: r.holder}
	_, err := r.store.ChangeRun(ctx, r.Record, h.Rule)
	return err
}

// Halt pauses a run, or ends it for good; another process may be driving it. The item that is under
// way is finished.
func Halt(ctx context.Context, store ledger.Runs, run ledger.DecisionRun, actor ledger.Actor, reason string, end bool) error {
	h := ledger.RunHalt{Actor: actor, Reason: reason, End: end}
	_, err := store.ChangeRun(ctx, run, h.Rule)
	return err
}
