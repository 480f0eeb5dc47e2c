// Package act carries one decision out over a frozen set of operations, one after
// the other. The console and the command line share it: what is written down
// before the first change, how a run that was broken off goes on, and when a run
// stops by itself are the same for both.
package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

const (
	// TryFirst is how many sends a watched run makes before it waits for a look.
	TryFirst = 3
	// StopAfter is how many results that failed or are unclear stop a run: the
	// outage is not over.
	StopAfter = 3
)

// Item is one operation of a frozen set, in the version that was seen.
type Item struct {
	ID      string
	Version int64
	Title   safe.Text
}

// Result is what became of one item.
type Result struct {
	At      int       // of its item
	Word    safe.Text // what became of it, in a few words
	Own     safe.Text // what follows the word: its receipt or its reason
	Err     error
	Before  bool  // this run had done it before it was broken off: nothing was done now
	Trouble bool  // it failed, or what came of it is unclear
	Unkept  error // why it could not be written down how far the run has come; the decision stands
}

// Step decides about one item. The change id is the same whenever the same item
// of the same run is tried again.
type Step func(ctx context.Context, at int, changeID string) Result

// Run is a decision over a frozen set under way. It is used from one goroutine;
// what Next returns may run on another while no other item of the run does.
type Run struct {
	Items   []Item
	Results []Result

	// TryFirst is how many items go before the run pauses for a look, Pace what lies
	// between two that follow. Zero: it does not pause, and there is no pace.
	TryFirst int
	Pace     time.Duration
	// Rehearsal changes nothing, so nothing is written down either.
	Rehearsal bool

	store   Store
	record  ledger.DecisionRun
	step    Step
	begun   bool
	known   bool // it was begun before, and broken off
	next    int
	trouble int
	flying  bool
	paused  bool
	how     string // why no further item begins
}

// Store is what a run needs of a ledger.
type Store interface {
	ledger.Runs
	ledger.Feed
}

// New is a run that has not begun.
func New(store Store, record ledger.DecisionRun, items []Item, step Step) *Run {
	if record.ID == "" {
		record.ID = ledger.NewID()
	}
	for _, it := range items {
		record.Operations = append(record.Operations, fmt.Sprintf("%s@%d", it.ID, it.Version))
	}
	return &Run{Items: items, store: store, record: record, step: step}
}

// ID is the run's own, Verb what it does, and Began when it was first given.
func (r *Run) ID() string       { return r.record.ID }
func (r *Run) Verb() string     { return r.record.Verb }
func (r *Run) Began() time.Time { return r.record.CreatedAt }

// Known reports whether the same run had come through some of its items before, and
// ChangeID is the id of an item's change, the same each time.
func (r *Run) Known() bool { return r.record.Done > 0 }
func (r *Run) ChangeID(at int) string {
	if r.Rehearsal {
		return ledger.NewID()
	}
	return ledger.DeriveID(r.ID(), r.Items[at].ID)
}

// Begin writes the run down before its first change. One that was given before
// goes on where it stopped, with the versions that were seen then. It returns
// ledger.ErrKeyReused where its idempotency key belongs to another command.
func (r *Run) Begin(ctx context.Context) error {
	if r.begun || r.Rehearsal || len(r.Items) == 0 {
		return nil
	}
	recorded, known, err := r.store.Run(ctx, r.record)
	if err != nil {
		return err
	}
	if r.begun, r.known = true, known; !known {
		return nil
	}
	r.record.ID, r.record.CreatedAt, r.record.Done = recorded.ID, recorded.CreatedAt, recorded.Done
	for i := range r.Items {
		for _, op := range recorded.Operations {
			id, text, _ := strings.Cut(op, "@")
			if version, err := strconv.ParseInt(text, 10, 64); err == nil && id == r.Items[i].ID {
				r.Items[i].Version = version
			}
		}
	}
	return nil
}

// Next is the next item's work, or nil while none may begin. Its result is given
// to Take.
func (r *Run) Next() func(ctx context.Context) Result {
	if r.paused || r.flying || r.how != "" || r.next >= len(r.Items) {
		return nil
	}
	at := r.next
	r.next++
	r.flying = true
	return func(ctx context.Context) Result {
		if err := r.Begin(ctx); err != nil {
			return Result{At: at, Err: fmt.Errorf("write the run down: %w", err), Trouble: true}
		}
		change := r.ChangeID(at)
		if before, err := r.did(ctx, at, change); err != nil || before {
			return Result{At: at, Err: err, Before: before, Word: safe.Say("done before"), Trouble: err != nil}
		}
		if r.TryFirst > 0 && at >= r.TryFirst {
			time.Sleep(r.Pace)
		}
		res := r.step(ctx, at, change)
		res.At = at
		if !r.Rehearsal && at < len(r.Items)-1 { // the last one is kept with the report
			res.Unkept = r.store.Progress(context.WithoutCancel(ctx), r.ID(), at+1, nil)
		}
		return res
	}
}

// did reports whether this run has changed an item already.
func (r *Run) did(ctx context.Context, at int, change string) (bool, error) {
	if !r.known {
		return false, nil
	}
	const page = 500
	for after := int64(0); ; {
		events, err := r.store.Events(ctx, r.Items[at].ID, after, page)
		if err != nil {
			return false, err
		}
		for _, e := range events {
			if after = e.Seq; e.ID == change {
				return true, nil
			}
		}
		if len(events) < page {
			return false, nil
		}
	}
}

// Take takes in what became of an item, and decides whether another one follows.
func (r *Run) Take(res Result) {
	r.flying = false
	r.Results = append(r.Results, res)
	if res.Trouble {
		r.trouble++
	}
	switch {
	case r.how != "" || r.next >= len(r.Items):
	case r.trouble >= StopAfter:
		r.how = fmt.Sprintf("stopped after %d failed or unclear", r.trouble)
	case r.TryFirst > 0 && len(r.Results) == r.TryFirst:
		r.paused = true
	}
}

// Pause lets no further item begin, until Resume.
func (r *Run) Pause() { r.paused = true }

// Resume goes on after a pause, or after the run had stopped.
func (r *Run) Resume() { r.paused, r.how, r.trouble = false, "", 0 }

// Stop ends the run with the item that is under way.
func (r *Run) Stop(how string) {
	if r.how == "" {
		r.how = how
	}
}

// Paused reports whether the run waits for Resume.
func (r *Run) Paused() bool { return r.paused }

// Over says how the run ended, or "" while it goes on.
func (r *Run) Over() string {
	switch {
	case r.flying:
		return ""
	case r.how != "":
		return r.how
	case r.next >= len(r.Items):
		return "done"
	}
	return ""
}

// Left is how many items were not touched, and Trouble how many results failed or
// are unclear.
func (r *Run) Left() int    { return len(r.Items) - r.next }
func (r *Run) Trouble() int { return r.trouble }

// Finish is what writes down what became of each so far.
func (r *Run) Finish() func(ctx context.Context) error {
	if !r.begun {
		return func(context.Context) error { return nil }
	}
	words := make(map[string]string, len(r.Results))
	for _, res := range r.Results {
		words[r.Items[res.At].ID] = safe.Say("%s%s", word(res), res.Own).String()
	}
	report, _ := json.Marshal(map[string]any{"how": r.Over(), "results": words})
	store, id, done := r.store, r.ID(), len(r.Results)
	return func(ctx context.Context) error { return store.Progress(context.WithoutCancel(ctx), id, done, report) }
}

// Facts says of each result what became of its item. What was not done is grave.
func (r *Run) Facts() []ticket.Fact {
	out := make([]ticket.Fact, len(r.Results))
	for i, res := range r.Results {
		title := r.Items[res.At].Title
		out[i] = ticket.Tell("", "%s%s: %s", word(res), res.Own, title)
		if res.Err != nil && moved(res.Err) == nil {
			out[i] = ticket.Caution("", "NOT DONE: %s: %s", title, res.Err)
		}
	}
	return out
}

// Tally counts what became of the items, without what is an item's own.
func (r *Run) Tally() safe.Text {
	tally := map[safe.Text]int{}
	for _, res := range r.Results {
		kind := word(res)
		switch {
		case moved(res.Err) != nil:
			kind = safe.Say("skipped")
		case res.Err != nil:
			kind = safe.Say("failed")
		}
		tally[kind]++
	}
	words := slices.SortedFunc(maps.Keys(tally), func(a, b safe.Text) int { return strings.Compare(a.String(), b.String()) })
	for i, w := range words {
		words[i] = safe.Say("%d %s", tally[w], w)
	}
	return safe.Join(words, " · ")
}

func word(res Result) safe.Text {
	if m := moved(res.Err); m != nil {
		if m.Actor == "" {
			return safe.Say("skipped, moved")
		}
		return safe.Say("skipped, moved by %s", ticket.Who(m.Actor))
	}
	if res.Err != nil && res.Word.Empty() {
		return safe.Of(res.Err.Error())
	}
	return res.Word
}

func moved(err error) *ledger.MovedError {
	var m *ledger.MovedError
	if errors.As(err, &m) {
		return m
	}
	if errors.Is(err, ledger.ErrMoved) {
		return &ledger.MovedError{}
	}
	return nil
}

// Sent is the result of a send: an answer that was lost again, or one that says it
// did not land, tells that the outage is not over as much as an error does.
func Sent(res reconcile.RetryResult, err error) Result {
	if err != nil {
		return Result{Err: err, Trouble: moved(err) == nil}
	}
	word, own := Words(res)
	return Result{Word: word, Own: own, Trouble: res.Did == reconcile.DidSend && res.Operation.State != ledger.Committed}
}

// Words says what became of a retry, and what is its own: its receipt or why it was
// not sent.
func Words(r reconcile.RetryResult) (word, own safe.Text) {
	switch r.Did {
	case reconcile.DidLand:
		return safe.Say("it had landed already, nothing was sent"), own
	case reconcile.DidGrant:
		return safe.Say("one send allowed, waiting for its pipeline"), own
	case reconcile.DidRefuse:
		return safe.Say("not sent"), ticket.Colon(r.Why)
	}
	switch r.Operation.State {
	case ledger.Committed:
		if rc := r.Operation.Receipt(); rc != "" {
			own = safe.Say(", receipt %s", rc)
		}
		return safe.Say("sent, it landed"), own
	case ledger.Failed:
		return safe.Say("sent, it did not land"), own
	case ledger.Uncertain:
		return safe.Say("sent, no clear answer: in doubt again"), own
	}
	return safe.Say("sent"), own
}
