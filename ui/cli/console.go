package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/adrg/xdg"
	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/cli/base"
	"indoubt/ui/console"
	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
)

type consoleCommand struct{ *base.App }

// newConsoleCommand is the program without a command.
func newConsoleCommand(a *base.App) *cobra.Command {
	var tellVersion bool
	cmd := &cobra.Command{
		Use:               "indoubt [FILTER|ID]",
		Short:             "See which writes are in doubt, and settle them",
		Long:              rootLong,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if tellVersion {
				return a.Done("", map[string]string{"version": version()}, func(w *safe.Writer) { w.Println("indoubt " + version()) })
			}
			if err := base.Mistyped(cmd, args); err != nil {
				return err
			}
			asText := len(args) > 0 && strings.HasPrefix(args[0], "/")
			if asText { // as it is typed in the console
				args[0] = args[0][1:]
			}
			filter := strings.TrimSpace(strings.Join(args, " "))
			if _, err := ledger.ParseFilter(filter); err != nil {
				return err
			}
			if asText {
				args = nil
			}
			if !drawable(a) {
				return consoleCommand{a}.printInstead(cmd.Context(), args, filter)
			}
			return consoleCommand{a}.fullScreen(cmd.Context(), args, filter)
		},
	}
	// A template would make the linker keep every method that one could call.
	cmd.Flags().BoolVarP(&tellVersion, "version", "v", false, "version for indoubt")
	return cmd
}

// oneOperation finds the operation that a single argument names, if it does.
func oneOperation(ctx context.Context, s ledger.Reader, args []string) (ledger.Record, bool, error) {
	if len(args) != 1 || !base.IDLike.MatchString(args[0]) {
		return ledger.Record{}, false, nil
	}
	rec, err := s.Read(ctx, ledger.Locator{ID: args[0]})
	if errors.Is(err, ledger.ErrNotFound) {
		return rec, false, nil
	}
	return rec, err == nil, err
}

// drawable reports whether the console can be shown: on a terminal that moves its cursor.
func drawable(a *base.App) bool { return a.Terminal() && !a.JSON && a.Env("TERM") != "dumb" }

// printInstead is the console without a terminal: the same question, as text.
func (c consoleCommand) printInstead(ctx context.Context, args []string, filter string) error {
	s, err := c.LedgerFor(ctx, base.ToLook)
	if err != nil {
		return err
	}
	if rec, found, err := oneOperation(ctx, s, args); err != nil {
		return err
	} else if found {
		return showOne(ctx, c.App, rec.Operation.ID)
	}
	if len(args) == 1 && base.IDLike.MatchString(args[0]) { // "0 operations" would read as an all-clear
		return &base.Failure{Code: "not_found", Message: fmt.Sprintf("there is no operation %q", args[0]),
			Hint: "to look for the text: indoubt /" + args[0] + "\nsee `indoubt list`, or check --ledger / INDOUBT_LEDGER"}
	}
	return listCommand(c).list(ctx, listOptions{filter: filter, limit: 50})
}

// fullScreen opens the full-screen console and waits for writes in flight after it.
func (c consoleCommand) fullScreen(ctx context.Context, args []string, filter string) error {
	s, why := c.LedgerFor(ctx, base.ToChange)
	err := why
	if errors.Is(why, ledger.ErrReadOnly) {
		s, err = c.LedgerFor(ctx, base.ToLook)
	}
	if err != nil {
		return err
	}
	// A signal is the console's to answer: it leaves after writes in flight.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	live := c.WatchPolicy(ctx, nil)
	engine := &liveEngine{ctx: ctx, look: c.ReadOnly, shown: make(chan struct{}), make: func(s ledger.Store) *reconcile.Engine { return c.Engine(s, live.InForce, false, nil) }}
	wanted, trouble := readConfig(configPath(c.Env))
	trouble = errors.Join(why, trouble)
	o := console.Options{
		Mouse: wanted.Mouse, Trouble: trouble,
		Store: s, Policy: live.InForce, PolicyProblem: live.Problem, Engine: engine.over(s), EngineOver: engine.over,
		Actor: c.Actor(), AskName: c.SharedAccount(), ReadOnly: c.ReadOnly, Filter: filter, Theme: wanted.Theme, Clock: c.Clock,
		LedgerPath: c.LedgerName(), Banner: c.Banner, Shown: func() { close(engine.shown) }, Reopen: func(reads func(ledger.Store) error) (ledger.Store, error) {
			s, err := c.Open(ctx, base.ToChange)
			if errors.Is(err, ledger.ErrReadOnly) {
				s, err = c.Open(ctx, base.ToLook)
			}
			if err != nil {
				return nil, err
			}
			if err := reads(s); err != nil {
				return nil, errors.Join(err, s.Close())
			}
			live.Over(s)
			return s, nil
		},
	}
	o.Actor.Terminal = true
	if rec, found, err := oneOperation(ctx, s, args); err != nil {
		return err
	} else if found {
		o.OpenID, o.Filter = rec.Operation.ID, ""
	}
	err = console.Run(ctx, o)
	engine.end(context.WithoutCancel(ctx))
	return err
}

// config is how a person wants the console to look.
type config struct {
	Theme string `yaml:"theme"`
	Mouse bool   `yaml:"mouse"`
}

func configPath(env func(string) string) string {
	return filepath.Join(cmp.Or(env("XDG_CONFIG_HOME"), xdg.ConfigHome), "indoubt", "config.yaml")
}

// readConfig reads the file at path; without one it is empty. A mistake in it is no
// reason not to open the console at night: the error is for the screen to say.
func readConfig(path string) (config, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return config{}, nil
	}
	var c config
	if err == nil && len(bytes.TrimSpace(text)) > 0 {
		err = yaml.UnmarshalWithOptions(text, &c, yaml.Strict())
	}
	if err == nil && c.Theme != "" && !slices.Contains(draw.Themes, c.Theme) {
		err = fmt.Errorf("theme %q is none of %s", c.Theme, strings.Join(draw.Themes, ", "))
	}
	if err != nil {
		return config{}, fmt.Errorf("%s is not taken: %s", path, base.FirstLine(err.Error()))
	}
	return c, nil
}

// liveEngine runs the console's engine over the ledger that is shown. When the ledger's file
// was replaced and opened again, a new engine takes over; one before it that still waits for
// an answer is waited for.
type liveEngine struct {
	make func(ledger.Store) *reconcile.Engine
	ctx  context.Context
	look bool // nothing runs by itself

	shown chan struct{} // closed with the first frame, before which no loop begins

	all     []*reconcile.Engine
	stop    context.CancelFunc // of the newest's loop
	running sync.WaitGroup
}

// over lets a new engine take over, on another store.
func (l *liveEngine) over(s ledger.Store) console.Engine {
	if l.stop != nil {
		l.stop()
	}
	e := l.make(s)
	l.all = append(l.all, e)
	ctx, stop := context.WithCancel(l.ctx)
	l.stop = stop
	if l.look {
		return e
	}
	l.running.Go(func() {
		select { // both would wait for connections, and for the processor
		case <-l.shown:
		case <-ctx.Done():
			return
		}
		// What goes wrong is shown as the health of a downstream or of the ledger. A
		// ledger that is gone may come back; another one in its place gets an engine
		// of its own.
		for errors.Is(e.Run(ctx), ledger.ErrGone) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	})
	return e
}

// end stops the loops and waits for what is in flight.
func (l *liveEngine) end(ctx context.Context) {
	l.stop()
	l.running.Wait()
	for _, e := range l.all {
		e.Drain(ctx)
	}
}
