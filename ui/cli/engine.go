package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
	"indoubt/ui/ticket"
)

type engineCommand struct{ *base.App }

func newEngineCommand(a *base.App) *cobra.Command {
	var metrics string
	cmd := &cobra.Command{
		Use: "engine", GroupID: base.GroupCare,
		Short: "Check what is in doubt, without end",
		Long: `Ask the other side whether writes in doubt landed, each when its check is due,
until it is interrupted. It sends nothing but notices (notify: in the policy).
One for each ledger is enough; a second one does no harm.`,
		Example: "  indoubt engine\n  indoubt engine --metrics :9464",
		Args:    base.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := checkCommand{a}.open(cmd.Context())
			if err != nil {
				return err
			}
			return engineCommand{a}.follow(cmd.Context(), s, metrics)
		},
	}
	cmd.Flags().StringVar(&metrics, "metrics", "", metricsHelp)
	return cmd
}

// follow runs the engine without a console. It ends with ctx, after writes in flight.
func (c engineCommand) follow(ctx context.Context, s ledger.Store, metrics string) error {
	say := func(line string) { c.ErrOut.Println(base.ClockTime(c.Clock()) + "  " + line) }
	live := c.WatchPolicy(ctx, say)
	engine := c.Engine(s, live.InForce, true, say)
	served := make(chan struct{})
	if metrics == "" {
		close(served)
	} else {
		shown, done, err := serveMetrics(ctx, c.App, metrics, s, func(ctx context.Context, m *exposition) error {
			return writeMetrics(ctx, m, s, engine, live.Problem(), c.Clock())
		})
		if err != nil {
			return err
		}
		c.ErrOut.Println("metrics at " + shown)
		go func() { <-done; close(served) }()
	}
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	changed := s.Watch(ctx)
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	followed := make(chan error, 1)
	go func() { followed <- logCommand(c).follow(ctx, s, logOptions{}, nil, info.Cursor, changed) }()
	defer context.AfterFunc(ctx, func() {
		if n := engine.Busy(); n > 0 {
			say(fmt.Sprintf("waiting for %s; interrupt again to leave what was sent in doubt", ticket.Plural(n, "answer", "answers")))
		}
	})()
	err = <-ended
	engine.Drain(context.WithoutCancel(ctx))
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		<-followed
		<-served
		return nil
	}
	return err
}
