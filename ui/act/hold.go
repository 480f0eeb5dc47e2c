package act

import (
	"context"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

// LookFirst sets for how long begins are looked for first, if everything is released, the ledger was adopted and no time
// was set yet: as long as a downstream remembers keys, a day at least.
func LookFirst(lift *ledger.Lift, info ledger.Info, kinds []string, remembers func(kind string) time.Duration) {
	if lift.LookFirst != nil || lift.Scope != "all" || info.Look == nil || !info.Look.Until.IsZero() {
		return
	}
	length := ledger.LookFor
	for _, kind := range kinds {
		length = max(length, remembers(kind))
	}
	lift.LookFirst = &length
}

// KindsOf are the kinds that a hold on a downstream covers, of those that the policy names
// and those that the ledger knows; sentTo says where the policy sends a kind.
func KindsOf(ctx context.Context, s ledger.Statistics, now time.Time, scope ledger.HoldScope,
	named []string, sentTo func(kind string) string) (out []string, err error) {
	downstream, is := strings.CutPrefix(string(scope), "downstream:")
	if !is {
		return nil, nil
	}
	counts, err := s.StateCounts(ctx, now)
	for _, kind := range append(slices.Clone(named), ledger.Each(counts, func(c ledger.StateCount) string { return c.Kind })...) {
		if sentTo(kind) == downstream && !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	slices.Sort(out)
	return out, err
}
