package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
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
	return base.LookedFor(info.Look, run.policy), nil
}

func lookJSON(l *ledger.Look) map[string]any {
	return map[string]any{"adopted_at": base.Moment(l.Adopted), "until": base.Moment(l.Until), "released": base.List(l.Kinds)}
}
