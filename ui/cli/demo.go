package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/open"
	"indoubt/reconcile/drill"
	"indoubt/ui/cli/base"
)

type demoCommand struct{ *base.App }

func newDemoCommand(a *base.App) *cobra.Command {
	var seed uint64
	var dir, at string
	cmd := &cobra.Command{
		Use: "demo", GroupID: base.GroupLook,
		Short: "Look around in a simulated outage",
		Long: `Open the console over a simulated outage: a downstream on this machine that
loses answers, and pipelines that write to it. Nothing leaves this machine, and
nothing is kept but the directory that is named first.
With --dir of an earlier demo, that one goes on as you left it.

Without a terminal the list is printed instead.`,
		Example: "  indoubt demo\n  indoubt demo --seed 7 --dir ./night",
		Args:    base.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.MayChange("make a demo"); err != nil {
				return err
			}
			return demoCommand{a}.demo(cmd.Context(), seed, dir, at)
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 1, "the same seed makes the same night")
	cmd.Flags().StringVar(&dir, "dir", "", "where everything is kept; a new temporary directory when empty, an earlier demo goes on")
	cmd.Flags().StringVar(&at, "at", "", "let the time stand still at this moment, for pictures")
	_ = cmd.Flags().MarkHidden("at")
	return cmd
}

// demo makes a world, shows it, and takes it down again.
func (c demoCommand) demo(ctx context.Context, seed uint64, dir, at string) (err error) {
	var still time.Time
	if at != "" {
		if still, err = time.Parse(time.RFC3339, at); err != nil {
			return base.Usage("--at takes a time such as 2026-03-09T02:06:00Z", "")
		}
		c.Clock = func() time.Time { return still }
		c.Steady = hostclock.With(c.Clock)
	}
	if dir, err = demoDir(dir); err != nil {
		return err
	}
	said := c.Out
	if c.JSON { // which prints one object and nothing else
		said = c.ErrOut
	}
	said.Printf("Demo in %s: everything is kept there, delete it when you are done.\n", dir)
	create := func(ctx context.Context, name string, clock ledger.Clock, actor ledger.Actor) (ledger.Store, error) {
		return open.Create(ctx, name, open.Options{Clock: clock, Steady: hostclock.With(clock), Actor: actor})
	}
	world, err := drill.Setup(ctx, drill.Options{Seed: seed, Dir: dir, Now: still, Rules: numberless, Open: create, Progress: c.progress()})
	if err != nil {
		return fmt.Errorf("make the demo: %w", err)
	}
	defer func() { err = cmp.Or(err, world.Close()) }()
	c.LedgerPath, c.PolicyPath, c.Live = world.LedgerPath, world.PolicyPath, nil
	if !drawable(c.App) {
		return consoleCommand(c).printInstead(ctx, nil, "")
	}
	if still.IsZero() {
		world.Go()
	}
	c.Banner = "demo: a simulated outage"
	err = consoleCommand(c).fullScreen(ctx, nil, "")
	said.Printf("To go on with this demo: %s demo --dir %s\n", os.Args[0], ledger.ShellWord(dir))
	return err
}

// demoDir is an empty directory to keep a demo in, or the directory of an earlier one.
func demoDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "indoubt-demo-")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(there) > 0 && !drill.Kept(dir) {
		return "", base.Usage("--dir "+dir+" is not empty, and holds no demo",
			"name the directory of an earlier demo, an empty one, or one that does not exist yet")
	}
	return dir, nil
}

// progress shows how far something is, in one line that is wiped at the end.
// It is silent without a terminal.
func (c demoCommand) progress() func(what string, share float64) {
	if !base.IsTerminal(c.RawErr) {
		return nil
	}
	shown := -1
	return func(what string, share float64) {
		percent := int(share * 100)
		if percent == shown {
			return
		}
		shown = percent
		fmt.Fprintf(c.RawErr, "\r%s … %d%%", what, percent)
		if share >= 1 {
			fmt.Fprint(c.RawErr, "\r\x1b[K")
		}
	}
}
