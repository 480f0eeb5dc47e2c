package cli

import "indoubt/ledger"

// placed lets the policy say where the kinds of a filter are sent.
func (a *app) placed(f ledger.Filter) ledger.Filter {
	if p := a.policyToLookBy(); !p.Empty() {
		f.DownstreamOf = p.DownstreamOf
	}
	return f
}

// leavesOut says what a filter does not answer for: fields that are known of open
// operations only.
func leavesOut(f ledger.Filter) (notes []string) {
	if !f.By(func(string) string { return "" }).Settles() { // it asks for none of them
		return nil
	}
	for _, field := range f.OpenOnly() {
		notes = append(notes, map[string]string{"cost": "cost: settled operations may have none here, and count as 0 then",
			"downstream": "downstream: settled operations are left out, for no policy here says where their kinds are sent: --policy"}[field])
	}
	return notes
}
