package feed

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ui/act"
	"indoubt/ui/ticket"
)

const (
	foldsAtMost   = 12   // outages that one list folds: each is read with its account
	matchedAtMost = 1000 // outages that a filter is tried on
)

// outageID is the id of the row of an outage. No operation has one like it.
func outageID(outage string) string { return "outage " + outage }

// NewOutageRow is the row of an outage in the list of what needs a person.
func NewOutageRow(o *ticket.Outage) Row { return Row{ID: outageID(o.ID), Outage: o} }

// Operation reports whether the row is one operation, and no outage.
func (r *Row) Operation() bool { return r.Outage == nil }

// Outage is the outage with this id as it is known, or nil.
func (s *Snapshot) Outage(id string) *ticket.Outage {
	for i := range s.Outages {
		if s.Outages[i].ID == id {
			return &s.Outages[i]
		}
	}
	if s.Shown != nil && s.Shown.ID == id {
		return s.Shown
	}
	return nil
}

// readShown reads the outage that is on the screen, with its newest run: it stays there
// when nothing is left to do about it.
func (msg *Looked) readShown(ctx context.Context, store ledger.Store) error {
	same := msg.shown != nil && msg.shown.ID == msg.showing && msg.events == 0
	if msg.shown = nil; msg.showing != "" {
		var err error
		if msg.shown, err = msg.account(ctx, store, msg.showing, nil); err != nil || same {
			return err
		}
	}
	if msg.ran = nil; msg.shown == nil || msg.shown.LastRun() == "" {
		return nil
	}
	ran, err := act.Read(ctx, store, msg.shown.LastRun())
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	msg.ran = &ran
	return err
}

// Matching are the open outages that a filter is about, the dearest first.
func (s *Snapshot) Matching(f ledger.Filter) (found []*ticket.Outage) {
	for i := range s.Outages {
		if len(f.Terms) > 0 && (named(f, s.Outages[i].Outage) || about(f, s.Outages[i].Outage)) {
			found = append(found, &s.Outages[i])
		}
	}
	return found
}

// named reports whether a filter is nothing but the id of an outage: it names one, though
// it lists its rows once that is open.
func named(f ledger.Filter, in ledger.Outage) bool {
	return len(f.Terms) == 1 && f.Terms[0].Field == "outage" && !f.Terms[0].Not && strings.HasPrefix(in.ID, f.Terms[0].Value)
}

// about reports whether a filter takes an outage as a whole.
func about(f ledger.Filter, in ledger.Outage) bool {
	has := func(names []string, part string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(strings.ToLower(n), strings.ToLower(part)) })
	}
	for _, t := range f.Terms {
		is := false
		switch t.Field {
		case "source":
			is = len(in.Pipelines) == 1 && t.Names(in.Pipelines[0])
		case "kind":
			is = len(in.Kinds) == 1 && t.Names(in.Kinds[0])
		case "since", "until", "needs": // of what is settled only, and of the list that they stand in
			is = true
		case "downstream":
			is = t.Names(in.Downstream())
		case "error":
			is = len(in.Classes) == 1 && t.Names(in.Classes[0])
		case "text":
			is = has([]string{in.Where()}, t.Value) || len(in.Pipelines) == 1 && has(in.Pipelines, t.Value)
		}
		if !is || t.Not {
			return false
		}
	}
	return true
}

// outageLeft reads what became of an outage whose row is on the screen, and which the list
// has no more: the row stays with the figures of now, and says that it is over.
func (msg *Looked) outageLeft(ctx context.Context, store ledger.Store, row string) error {
	id, is := strings.CutPrefix(row, outageID(""))
	if !is || msg.in[row] || msg.lately {
		return nil
	}
	o, err := msg.account(ctx, store, id, nil)
	if err != nil || o == nil {
		return err
	}
	r := NewOutageRow(o)
	r.Gone = o.Became()
	msg.Left[row] = r
	return nil
}

// readOutages reads the outages that something is still to be done about.
func (msg *Looked) readOutages(ctx context.Context, store ledger.Store) error {
	msg.recall()
	if err := msg.readSums(ctx, store); err != nil {
		return err
	}
	growing := func(in ledger.Outage) bool { return in.PhaseAt(msg.took) == ledger.PhaseGrowing }
	list := slices.DeleteFunc(msg.candidates(), func(in ledger.Outage) bool {
		return !growing(in) && in.Unsettled().N == 0
	})
	if err := msg.readAccounts(ctx, store, list[:min(len(list), foldsAtMost)]); err != nil {
		return err
	}
	for _, in := range list {
		o, err := msg.account(ctx, store, in.ID, &in)
		if err != nil {
			return err
		}
		if o != nil && (growing(in) || o.Needs().N > 0) {
			msg.outages = append(msg.outages, *o)
		}
		if len(msg.outages) == foldsAtMost {
			break
		}
	}
	slices.SortStableFunc(msg.outages, func(a, b ticket.Outage) int { // as the list: what is lost if no one acts
		x, y := a.Needs(), b.Needs()
		return cmp.Or(cmp.Compare(y.Miss, x.Miss), cmp.Compare(y.N, x.N), b.LastAt.Compare(a.LastAt), cmp.Compare(a.ID, b.ID))
	})
	return nil
}

// folded are the outages whose operations stand in one row of this list.
func (msg *Looked) folded() (in []*ticket.Outage) {
	if msg.Tab != ledger.TabNeedsYou || msg.Order != ledger.OrderLoss {
		return nil
	}
	for i := range msg.outages {
		if about(msg.Filter, msg.outages[i].Outage) {
			in = append(in, &msg.outages[i])
		}
	}
	return in
}

// fold is the filter of a list without the operations of the outages.
func fold(f ledger.Filter, in []*ticket.Outage) ledger.Filter {
	f.Terms = slices.Clone(f.Terms)
	for _, o := range in {
		f.Terms = append(f.Terms, ledger.Term{Field: "outage", Value: o.ID, Not: true})
	}
	return f
}

// addOutages puts the rows of outages behind those that are in conflict.
func (msg *Looked) addOutages(in []*ticket.Outage) {
	at := slices.IndexFunc(msg.Rows, func(r Row) bool { return r.Row.Conflict == ledger.NoConflict })
	if at < 0 {
		at = len(msg.Rows)
	}
	rows := make([]Row, len(in))
	for i, o := range in {
		rows[i] = NewOutageRow(o)
		msg.in[rows[i].ID] = true
	}
	msg.Rows = slices.Insert(msg.Rows, at, rows...)
}
