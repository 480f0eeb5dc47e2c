package care

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/policy/transport"
	"indoubt/ui/cli/base"
	"indoubt/ui/ticket"
)

// policy looks at the policy file: is it good, are its secrets there, do effects show as late as
// it says.
func (x *examination) policy(ctx context.Context, s ledger.Store) {
	path, _ := x.a.PolicyFile()
	p, err := x.a.Policy()
	if err != nil {
		f := base.AsFailure(err)
		x.say("policy", ledger.LevelFail, base.FirstLine(f.Message), base.FirstLine(f.Hint))
		return
	}
	if p.Empty() {
		x.say("policy", ledger.LevelWarn, "none at "+base.Short(path)+": nothing is checked, costs are guesses", "indoubt policy init")
		return
	}
	now := x.a.Rules().Now()
	switch force := now.Force; {
	case now.Differs != nil:
		f := base.AsFailure(now.Differs)
		x.say("policy", ledger.LevelWarn, base.FirstLine(f.Message),
			base.FirstLine(cmp.Or(f.Hint, "or roll the one in force out to this host")))
	case force.Number > 0:
		x.ok("policy", "%s, %d kinds, %s, in force as number %d by %s",
			base.Short(path), len(p.Kinds()), base.Prefix(p.Digest(), 12), force.Number, force.Actor.Name)
	default:
		x.ok("policy", "%s, %d kinds, %s; none is in force yet", base.Short(path), len(p.Kinds()), base.Prefix(p.Digest(), 12))
	}
	for _, w := range p.Warnings() {
		x.say("policy", ledger.LevelWarn, fmt.Sprintf("line %d: %s", w.Line, w.Message), w.Hint)
	}
	x.secrets(p)
	x.lags(ctx, s, p)
}

// secrets looks whether what the checks of a policy need is there.
func (x *examination) secrets(p *policy.Policy) {
	lacks := map[string]bool{}
	for _, name := range p.Kinds() {
		k, secret := p.Kind(name), (*transport.MissingError)(nil)
		if k.Read != nil && errors.As(k.Read.Lacks(), &secret) && !lacks[secret.Name] {
			lacks[secret.Name] = true
			x.say("secrets", ledger.LevelFail, secret.Name+" is missing: what needs it cannot be checked or sent",
				"give it to whoever starts indoubt")
		}
	}
	if len(lacks) == 0 {
		x.ok("secrets", "those that checks need are there")
	}
}

// mostLanded is how many of the newest landings are looked through for their lag.
const mostLanded = 500

// lags warns of kinds whose effects show almost later than their policy says, or later: what is
// not seen by then would be taken for not there.
func (x *examination) lags(ctx context.Context, s ledger.Store, p *policy.Policy) {
	if s == nil {
		return
	}
	q := ledger.Query{Tab: ledger.TabAll, Order: ledger.OrderNewest, Now: x.a.Clock(), Limit: mostLanded}
	q.Filter = ledger.Filter{Text: "state:committed", Terms: []ledger.Term{{Field: "state", Value: string(ledger.Committed)}}}
	page, err := s.Page(ctx, q)
	var ids []string
	for _, row := range page.Rows {
		if row.Verdict == ledger.Landed {
			ids = append(ids, row.ID)
		}
	}
	var recs []ledger.Record
	if err == nil && len(ids) > 0 {
		recs, err = s.Records(ctx, ids)
	}
	if err != nil {
		x.broken("lag", err)
		return
	}
	longest, judge := map[string]time.Duration{}, ticket.ByPolicy(func() *policy.Policy { return p })
	for _, rec := range recs {
		if f := judge(rec, x.a.Clock()); f.LagNear {
			longest[rec.Operation.Kind] = max(longest[rec.Operation.Kind], f.Lag)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(longest)) {
		k := p.Kind(kind)
		found := fmt.Sprintf("%s: an effect was not seen %s after its attempt ended, but later; its two times say %s",
			kind, longest[kind].Round(time.Millisecond), *k.LandsWithin+*k.VisibleWithin)
		x.say("lag", ledger.LevelWarn, found, "raise lands_within or visible_within: what is not seen by then counts as not there")
	}
}
