package open

import (
	"cmp"
	"context"
	"fmt"

	"indoubt/ledger"
	"indoubt/ledger/postgres"
)

// CopyOptions are how a ledger is copied to another place.
type CopyOptions struct {
	DryRun   bool
	Progress func(table string, n, of int, rows int64)
}

// Copied is what a copy has done.
type Copied struct {
	From    string            `json:"from"`
	To      string            `json:"to"`
	Pending int64             `json:"pending"`
	Rows    int64             `json:"rows"`
	Digests map[string]string `json:"digests"` // of the tables, the same on both sides
	Key     bool              `json:"key"`     // the ledger has a key of digests
}

// Copy moves a ledger in which nothing is in flight to another database, and leaves it as one that
// has moved there. Where it fails or is killed there is one ledger, and the same command ends it.
func Copy(ctx context.Context, from, to Place, o Options, c CopyOptions) (done Copied, err error) {
	done.From, done.To = from.String(), to.String()
	for _, at := range []Place{from, to} {
		if _, can := at.(server); !can {
			return done, ledger.Trouble{Code: "usage", Message: at.String() + " is a file, which belongs to its host: only databases are copied",
				Do: "indoubt backup copies a file, and indoubt adopt makes that the ledger"}
		}
	}
	here := o.ofServer()
	here.ReadOnly = true // what has moved is ended, too
	s, err := postgres.Open(ctx, from.(server).address, here)
	if err != nil {
		return done, err
	}
	defer s.Close()
	if done.Key, err = s.HasKey(ctx); err != nil {
		return done, err
	}
	info, err := atHome(ctx, s, done.From)
	if err != nil {
		return done, err
	}
	if info.MovedTo != "" && info.MovedTo != done.To {
		return done, &ledger.AwayError{Ledger: done.From, To: info.MovedTo}
	}
	if d, err := s.Deviations(ctx); err != nil || len(d) > 0 {
		return done, cmp.Or(err, error(ledger.Trouble{Code: "damaged", Message: "operations do not stand where their history says", Do: "indoubt doctor says which"}))
	}
	if c.DryRun {
		would, err := s.Count(ctx)
		done.Pending, done.Rows = would.Pending, would.Rows
		return done, err
	}
	copied, err := s.Copy(ctx, to.(server).address, o.ofServer(), c.Progress)
	done.Pending, done.Rows, done.Digests = copied.Pending, copied.Rows, copied.Digests
	return done, err
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
