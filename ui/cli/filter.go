package cli

import "indoubt/ledger"

// readFilter reads a filter, and lets the policy say where kinds are sent.
func readFilter(a *app, text string) (ledger.Filter, error) {
	f, err := ledger.ParseFilter(text)
	if p := a.policyToLookBy(); !p.Empty() {
		f.DownstreamOf = p.DownstreamOf
	}
	return f, err
}

// leavesOut says what a filter does not answer for: fields that are known of open
// operations only.
func leavesOut(f ledger.Filter) (notes []string) {
	if !f.By(func(string) string { return "" }).Settles() { // it asks for none of them
		return nil
	}
	for _, field := range f.OpenOnly() {
		notes = append(notes, map[string]string{"cost": "cost: settled operations have none here, and count as 0",
			"downstream": "downstream: settled operations are left out, for no policy here says where their kinds are sent: --policy"}[field])
	}
	return notes
}
