package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
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
	_ = cmd.RegisterFlagCompletionFunc("until", cobra.FixedCompletions([]string{"30m", "2h", "8h", "1d"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.until == "" {
			return usage("park needs a time", "add --until 2h or --until 06:00")
		}
		if _, err := until(flags.until, a.clock()); err != nil {
			return err
		}
		return a.decide(cmd.Context(), "park", args, &flags, needs{version: true},
			decision(ledger.VerbPark, func(r *decisionRun, d *ledger.Decision) (err error) {
				d.Until, err = until(flags.until, r.Began())
				return err
			}))
	}
	return cmd
}

// until reads a time to come: a duration from now, a time of day (the next one
// there is, in the zone of whoever types it), or a full RFC 3339 time.
func until(s string, now time.Time) (time.Time, error) {
	s = strings.TrimSpace(s)
	if d, err := ledger.ParseDuration(s); err == nil {
		if d <= 0 {
			return time.Time{}, usage(fmt.Sprintf("--until %q is not to come", s), "write --until 2h")
		}
		return now.Add(d), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		if !t.After(now) {
			return time.Time{}, usage(fmt.Sprintf("--until %s is past", s), "write a time that is still to come")
		}
		return t, nil
	}
	if t, err := time.ParseInLocation("15:04", s, time.Local); err == nil {
		here := now.In(time.Local)
		at := time.Date(here.Year(), here.Month(), here.Day(), t.Hour(), t.Minute(), 0, 0, time.Local)
		if !at.After(now) {
			at = time.Date(here.Year(), here.Month(), here.Day()+1, t.Hour(), t.Minute(), 0, 0, time.Local)
		}
		return at, nil
	}
	return time.Time{}, usage(fmt.Sprintf("--until %q is no time", s), "write a duration (2h, 1d), a time of day (06:00) or an RFC 3339 time")
}
