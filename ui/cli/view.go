package cli

import (
	"context"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// view is one operation as the commands show it: the record, and what the
// policy in force says about it now.
type view struct {
	rec    ledger.Record
	row    ledger.Row
	kind   *policy.Kind
	state  ledger.State // as everybody must read it now
	lane   ledger.Lane
	advice policy.Advice
	odds   policy.Odds
	now    time.Time
}

// see prices a record under the policy in force: a ledger may have been priced
// by another policy, or by none.
func see(p *policy.Policy, rec ledger.Record) view {
	if rec.Now.IsZero() {
		rec.Now = time.Now()
	}
	v := view{rec: rec, kind: p.Kind(rec.Operation.Kind), now: rec.Now}
	v.state = rec.State()
	v.rec.Operation.State = v.state
	v.rec.Pricing = v.kind.Price(v.rec)
	v.row = v.rec.Row()
	v.kind, _ = v.kind.Checkable(v.rec)
	v.lane = v.row.LaneAt(v.now)
	if v.state == ledger.Uncertain {
		v.odds = v.kind.Odds(v.rec)
	}
	if v.lane != ledger.LaneResolved {
		v.advice = v.kind.Advise(v.rec, v.now)
	}
	return v
}

// title is what the operation is called.
func (v view) title() string {
	for _, t := range []string{v.rec.Pricing.Title, v.rec.Operation.Title} {
		if t != "" {
			return t
		}
	}
	return v.rec.Operation.Kind
}

func (v view) target() string {
	if v.rec.Pricing.Target != "" {
		return v.rec.Pricing.Target
	}
	return v.rec.Operation.Target
}

// views reads the records behind rows, in the rows' order. A row that went
// away meanwhile is left out.
func views(ctx context.Context, s ledger.Store, p *policy.Policy, rows []ledger.Row) ([]view, error) {
	out := make([]view, 0, len(rows))
	for _, r := range rows {
		rec, err := s.Read(ctx, ledger.Locator{ID: r.ID})
		if err != nil {
			return nil, err
		}
		out = append(out, see(p, rec))
	}
	return out, nil
}
