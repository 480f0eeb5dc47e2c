package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/act"
	"indoubt/ui/cli/base"
)

// lookFirstOf is for how long begins are looked for first after a release of this; nil: nothing is said.
func lookFirstOf(text string, of ledger.HoldScope) (*time.Duration, error) {
	if text == "" {
		return nil, nil
	}
	length, err := ledger.ParseDuration(text)
	switch {
	case err != nil || length < 0:
		return nil, base.Usage(fmt.Sprintf("--look-first %q is not a duration", text), "write --look-first 24h, 3d or 0")
	case of != "all" && (length > 0 || !strings.HasPrefix(string(of), "kind:")):
		return nil, base.Usage("one kind can be let go without a look, and has no time of its own",
			"write --all --look-first 24h, or KIND --look-first 0")
	}
	return &length, nil
}

// looksFirst reports whether a release changes what is looked for since an adoption.
func (c holdCommand) looksFirst(ctx context.Context, run *decisionRun, lift *ledger.Lift) (bool, error) {
	info, err := run.store.Info(ctx)
	if err == nil && info.Look == nil && lift.LookFirst != nil {
		err = base.Usage("--look-first is for a ledger that was adopted, until that is over", "release it without --look-first")
	}
	act.LookFirst(lift, info, run.policy.Kinds(), run.policy.RemembersOf)
	return err == nil && info.Look.After(*lift, c.Clock()) != nil, err
}

// lookedFor says what is looked for after a release.
func (c holdCommand) lookedFor(ctx context.Context, run *decisionRun, data map[string]any) ([]string, error) {
	info, err := run.store.Info(ctx)
	if err != nil || info.Look == nil {
		return nil, err
	}
	data["look_first"] = lookJSON(info.Look)
	return lookedFor(info.Look, run.policy), nil
}

func lookJSON(l *ledger.Look) map[string]any {
	return map[string]any{"adopted_at": base.Moment(l.Adopted), "until": base.Moment(l.Until), "released": base.List(l.Kinds)}
}

// lookedFor says what begins wait for since an adoption, and which kinds stay held.
func lookedFor(l *ledger.Look, p *policy.Policy) []string {
	var looked, held []string
	for _, name := range p.Kinds() {
		switch when := base.WhenLost(p.Kind(name)); {
		case when == ledger.NoHarm || slices.Contains(l.Kinds, name):
		case when == ledger.CheckLooks:
			looked = append(looked, name)
		default:
			held = append(held, name)
		}
	}
	until := "for now, "
	if !l.Until.IsZero() {
		until = "until " + base.ClockTime(l.Until) + " "
	}
	unlooked := strings.Join(append(held, "what the policy does not name"), ", ")
	which := cmp.Or(strings.Join(looked, ", "), "no kind of the policy")
	return []string{until + "begins whose key is unknown are looked for first: " + which,
		"held until a person has looked, for no check can tell: " + unlooked + " (" + ledger.ReleaseUnlooked("KIND") + ")"}
}
