package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"indoubt/ledger"
)

const (
	followEvery = 500 * time.Millisecond
	// followBack is how many events before its start an engine reads, for what
	// happened while none was running.
	followBack = 5000
)

// follower reads the history for attempts that ended without an engine's doing.
// Only the loop touches it.
type follower struct {
	place   ledger.Cursor // behind what was read; "" before the start
	next    time.Time     // not before
	news    bool          // something was written since
	checked []string      // were being checked when they were to be priced anew

	trees   map[string]bool // in doubt, and started a command on this host that was not seen to be gone
	treesAt time.Time       // when they are looked at next
}

// keepUp follows the history, and prices what is open and has no price: all of that is asked
// for, so it keeps a pace of its own. more reports that there is more to price at once.
func (e *Engine) keepUp(ctx context.Context) (more bool, err error) {
	f, now := &e.after, time.Now()
	if now.Before(f.next) {
		return false, nil
	}
	f.next, f.news = now.Add(followEvery), false
	more, err = e.follow(ctx)
	if err == nil && e.leads(ledger.LeadLedger) {
		var n int
		n, err = e.priceBatch(ctx)
		more = more || n > 0
	}
	if more {
		f.next = now
	}
	return more, err
}

// follow reads a batch of what was recorded since it was called last. It schedules looks for second
// effects, and prices what is beside an operation that moved. more reports that there may be more: checks begin between.
func (e *Engine) follow(ctx context.Context) (more bool, err error) {
	f := &e.after
	if e.lead.takenOver() || f.place == "" {
		if err := e.lookBack(ctx); err != nil {
			return false, err
		}
	}
	events, next, err := e.o.Store.Follow(ctx, f.place, batch)
	if err != nil {
		return false, fmt.Errorf("read what happened: %w", err)
	}
	var c concerned
	for _, ev := range events {
		c.add(ev)
	}
	if err := e.concern(ctx, c); err != nil {
		return false, err
	}
	if err := e.fold(ctx, c, false); err != nil {
		return false, err
	}
	f.place = next
	return len(events) >= batch, nil
}

// fold opens, grows and ends outages, and adds to the sums, where this process leads.
func (e *Engine) fold(ctx context.Context, c concerned, all bool) error {
	if e.onlyReads(ctx) || !e.leads(ledger.LeadLedger) {
		return nil
	}
	pol := e.policy()
	if err := e.o.Store.Fold(ctx, c.ended, c.heard, all, func(kind string) ledger.Burst { return pol.Kind(kind).Burst() }); err != nil {
		return fmt.Errorf("look for outages, and sum up: %w", err)
	}
	return nil
}

// lookBack reads what happened before this process led, and finds the place to follow from.
func (e *Engine) lookBack(ctx context.Context) error {
	info, err := e.o.Store.Info(ctx)
	if err != nil {
		return fmt.Errorf("find the newest event: %w", err)
	}
	var c concerned
	q := ledger.HistoryQuery{Until: info.Cursor, Newest: true, Limit: batch}
	for read := 0; read < followBack; read += batch {
		events, err := e.o.Store.History(ctx, q)
		if err != nil {
			return fmt.Errorf("read what happened before: %w", err)
		}
		for _, ev := range events {
			c.add(ev)
			q.Before = ev.Seq
		}
		if len(events) < batch {
			break
		}
	}
	if err := e.concern(ctx, c); err != nil {
		return err
	}
	for _, all := range []bool{true, false} { // what came while nobody led, and what was answered since
		if err := e.fold(ctx, c, all); err != nil {
			return err
		}
	}
	if e.after.place == "" {
		e.after.place = info.Cursor
	}
	return nil
}

// concerned are the operations that something is to be done about, by what happened.
type concerned struct {
	moved  []string // what is beside them may have another price
	again  []string // a further attempt committed
	doubts []string // came into doubt
	ended  []string // one of their attempts ended
	heard  []string // something was recorded of them
}

func (c *concerned) add(ev ledger.Event) {
	c.heard = append(c.heard, ev.OperationID)
	if ev.To != ledger.Pending && (ev.From == ledger.Pending || ev.From == "") {
		c.ended = append(c.ended, ev.OperationID)
	}
	if moves(ev) {
		c.moved = append(c.moved, ev.OperationID)
	}
	if again(ev) {
		c.again = append(c.again, ev.OperationID)
	}
	if ev.To == ledger.Uncertain {
		c.doubts = append(c.doubts, ev.OperationID)
	}
}

func (e *Engine) concern(ctx context.Context, c concerned) error {
	if err := e.seeTreesHere(ctx, c.doubts); err != nil {
		return err
	}
	if err := e.lookAgain(ctx, c.again); err != nil {
		return err
	}
	return e.priceBeside(ctx, c.moved)
}

// again reports whether an event tells that a further attempt committed.
func again(ev ledger.Event) bool {
	var d struct {
		N       int            `json:"n"`
		Outcome ledger.Outcome `json:"outcome"`
	}
	return (ev.Verb == "settle" || ev.Verb == "late") && ev.To == ledger.Committed &&
		json.Unmarshal(ev.Detail, &d) == nil && d.Outcome == ledger.OutcomeCommitted && d.N > 1
}

// lookAgain schedules the looks for what may have landed twice, of whoever settled it
// without a policy (SQL).
func (e *Engine) lookAgain(ctx context.Context, ids []string) error {
	if len(ids) == 0 || e.onlyReads(ctx) || !e.leads(ledger.LeadLedger) {
		return nil
	}
	recs, err := e.o.Store.Records(ctx, ids)
	if err != nil {
		return fmt.Errorf("read what was sent again: %w", err)
	}
	for _, rec := range recs {
		if err := ledger.LookAgain(ctx, e.o.Store, rec.Operation.ID, e.policy().Kind(rec.Operation.Kind).Looks); err != nil {
			return fmt.Errorf("have it looked for again: %w", err)
		}
	}
	return nil
}

// moves reports whether an event may change what other operations are told of this one:
// that it is there, and whether it landed or may have.
func moves(ev ledger.Event) bool {
	return ev.OperationID != "" && (ev.From != ev.To || ev.Conflict != ledger.NoConflict)
}

// priceBeside prices anew what is in doubt beside operations that have moved. A check
// that is on its way writes the price it was begun with, so what is being checked is
// looked at again after it.
func (e *Engine) priceBeside(ctx context.Context, moved []string) error {
	if e.onlyReads(ctx) || !e.leads(ledger.LeadLedger) {
		return nil
	}
	ids, err := e.o.Store.Beside(ctx, moved)
	if err != nil {
		return fmt.Errorf("find what is beside: %w", err)
	}
	for _, id := range e.after.checked {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var checked []string
	err = e.reprice(ctx, ids, func(rec ledger.Record, p ledger.Pricing) bool {
		if e.downs.of(e.policy().Kind(rec.Operation.Kind)).checks(rec.Operation.ID) {
			checked = append(checked, rec.Operation.ID)
		}
		return !p.DecideAt.Equal(rec.Pricing.DecideAt)
	})
	if err == nil {
		e.after.checked = checked
	}
	return err
}
