package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// CopyOptions are how a ledger is copied to another place.
type CopyOptions struct {
	DryRun   bool
	Progress func(table string, n, of int, rows int64)
}

// Copied is what a copy has done.
type Copied struct {
	From string `json:"from"`
	To   string `json:"to"`
	store.Copied
	Key bool `json:"key"` // the ledger has a key of digests
}

// leaver is a ledger that can be moved.
type leaver interface {
	ledger.Store
	keeper
	Deviations(ctx context.Context) ([]ledger.Deviation, error)
	// Leave has take copy it while no one writes to it, and says then where it has moved to. Where it
	// had moved there before, nothing is done.
	Leave(ctx context.Context, to string, take func(store.Tx) error) error
}

// Copy moves a ledger in which nothing is in flight to a place that has none, and leaves it as one that has
// moved there. Where it fails or is killed there is one ledger, and the same command ends it.
func Copy(ctx context.Context, from, to Place, o Options, c CopyOptions) (done Copied, err error) {
	if f, is := to.(file); is { // it is told to others
		if f.path, err = f.Absolute(); err != nil {
			return done, err
		}
		to = f
	}
	done.From, done.To = from.String(), to.String()
	info, err := done.look(ctx, from, o, c.DryRun)
	if err != nil || c.DryRun {
		return done, err
	}
	s, err := from.Open(ctx, o)
	if away := (*ledger.AwayError)(nil); errors.As(err, &away) && away.To == done.To { // only its end is missing
		return done, to.arrive(ctx, o, info.ID)
	} else if err != nil {
		return done, err
	}
	err = s.(leaver).Leave(ctx, done.To, func(here store.Tx) error {
		return to.receive(ctx, o, info.ID, func(there store.Tx) error {
			return done.Copy(here, there, c.Progress)
		})
	})
	if err = errors.Join(err, s.Close()); err != nil {
		return done, err
	}
	return done, to.arrive(context.WithoutCancel(ctx), o, info.ID)
}

// look asks whether the ledger can be moved.
func (done *Copied) look(ctx context.Context, from Place, o Options, dryRun bool) (info ledger.Info, err error) {
	o.ReadOnly = true // what has moved is ended, too
	opened, err := from.Open(ctx, o)
	if err != nil {
		return info, err
	}
	defer opened.Close()
	s := opened.(leaver)
	if done.Key, err = hasKey(ctx, s); err != nil {
		return info, err
	}
	if info, err = atHome(ctx, s, done.From); err != nil {
		return info, err
	}
	if info.MovedTo != "" && info.MovedTo != done.To {
		return info, &ledger.AwayError{Ledger: done.From, To: info.MovedTo}
	}
	if d, err := s.Deviations(ctx); err != nil || len(d) > 0 {
		return info, cmp.Or(err, error(ledger.Trouble{Code: "damaged", Message: "operations do not stand where their history says", Do: "indoubt doctor says which"}))
	}
	if dryRun {
		err = s.Database().View(ctx, done.Count)
	}
	return info, err
}

// atHome refuses a ledger that must be adopted first: its copy would be at home.
func atHome(ctx context.Context, s ledger.Store, name string) (ledger.Info, error) {
	info, err := s.Info(ctx)
	switch {
	case err != nil:
		return info, err
	case info.Copied != "":
		return info, fmt.Errorf("%w (%s)", ledger.ErrCopied, info.Copied)
	case !info.Failover.At.IsZero():
		return info, ledger.Trouble{Code: "failover", Message: name + ": " + info.Failover.String(), Do: "its owner looks at what was under way, and then adopts it: indoubt adopt"}
	}
	return info, nil
}

// Moved opens the ledger that another one says it has become, for what came too late. A
// database is not opened by such a name: it says neither which user records there nor how
// the server proves what it is.
func Moved(ctx context.Context, name string, o Options) (ledger.Store, error) {
	at, err := At(name)
	if err != nil {
		return nil, err
	}
	if _, ok := at.(file); !ok {
		return nil, ledger.Trouble{Code: "moved_away", Message: at.String() + " is opened by no address but a writer's own", Do: "record it there: indoubt settle"}
	}
	return at.Open(ctx, o)
}
