package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/ticket"
)

func newParkCommand(a *app) *cobra.Command {
	var flags decideFlags
	cmd := a.newDecidingCommand("park", "Take it out of the way for a while, without deciding",
		`Take an operation out of the way until a time, or until anything about it
changes. Nothing is decided, and checks go on.`,
		"  indoubt park 0198c1de-7a3b@3 --until 2h\n  indoubt park 0198c1de-7a3b@3 --until 06:00 --reason 'their support opens at six'", &flags,
		func(r ledger.Row) bool {
			return inDoubt(r) || r.State == ledger.Failed || r.Conflict != ledger.NoConflict
		})
	cmd.Flags().StringVar(&flags.until, "until", "", "a duration (2h), a time of day (06:00) or an RFC 3339 time")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.until == "" {
			return usage("park needs a time", "add --until 2h or --until 06:00")
		}
		if _, err := until(flags.until, a.clock()); err != nil {
			return err
		}
		return a.decide(cmd.Context(), "park", args, &flags, needs{version: true},
			decision(ledger.VerbPark, func(r *decisionRun, d *ledger.Decision) (err error) {
				d.Until, err = until(flags.until, r.Record.CreatedAt)
				return err
			}))
	}
	return cmd
}

// until is the time that --until names.
func until(s string, now time.Time) (time.Time, error) {
	at, err := ticket.Until(s, now, time.Local)
	if err != nil {
		return at, usage(fmt.Sprintf("--until %q is not a time to come", s), "write a duration (2h, 1d), a time of day (06:00), a date with a time or an RFC 3339 time")
	}
	return at, nil
}

// past is the time that --since or --until names.
func past(flag, s string, now time.Time) (time.Time, error) {
	if w, err := ledger.ParseWhen(s, time.Local); err == nil && w.Past(now).Before(now) {
		return w.Past(now), nil
	}
	return time.Time{}, usage(fmt.Sprintf("--%s %q is not a time that has passed", flag, s), "write "+ledger.WhenHelp)
}
