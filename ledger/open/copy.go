package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/postgres"
	"indoubt/ledger/sqlite"
	"indoubt/ledger/tables"
)

// CopyOptions are how a ledger is copied to another place.
type CopyOptions struct {
	DryRun   bool
	Keep     bool          // leave the ledger closed where the copy is cut off
	Wait     time.Duration // for what is pending
	Progress func(CopyProgress)
}

// CopyProgress is how far a copy has come.
type CopyProgress struct {
	Doing   string // waiting, a table, or a table compared
	Pending int64
	N, Of   int // tables
	Rows    int64
}

// Copied is what a copy has done.
type Copied struct {
	From    string            `json:"from"`
	To      string            `json:"to"`
	Pending int64             `json:"pending"`
	Rows    int64             `json:"rows"`    // that were copied now
	Digests map[string]string `json:"digests"` // of the tables, the same on both sides
	Key     bool              `json:"key"`     // the ledger has a key of digests
}

// source is a ledger that can be copied.
type source interface {
	ledger.Store
	tables.Copyable
	Moves(ctx context.Context) (tables.Move, map[string]string, error)
	SetMove(ctx context.Context, was, next tables.Move) error
	Deviations(ctx context.Context) ([]ledger.Deviation, error)
}

// Fresh makes a copy in a file.
func (f file) Fresh(ctx context.Context, id string, o Options) (tables.Fresh, error) {
	return sqlite.Fresh(ctx, f.path, id, o.ofFile())
}

// Fresh makes a copy in a database.
func (s server) Fresh(ctx context.Context, id string, o Options) (tables.Fresh, error) {
	return postgres.Fresh(ctx, s.address, id, o.ofServer())
}

// shown is where a place is, for those who look from elsewhere.
func shown(at Place) string {
	if f, ok := at.(file); ok {
		if path, err := filepath.Abs(f.path); err == nil {
			return path
		}
	}
	return at.String()
}

// Copy copies a ledger to another place, and leaves it as one that has moved there. Where it
// fails, or ctx ends, the ledger is open again and its copy removed, unless CopyOptions.Keep
// is set, or the copy may be a ledger.
func Copy(ctx context.Context, from, to Place, o Options, c CopyOptions) (done Copied, err error) {
	done.From, done.To = shown(from), shown(to)
	here := o
	here.ReadOnly = c.DryRun
	s, err := from.Open(ctx, here)
	if err != nil {
		return done, err
	}
	defer s.Close()
	src := s.(source)
	if err := atHome(ctx, src, done.From); err != nil {
		return done, err
	}
	move, meta, err := src.Moves(ctx)
	if err != nil {
		return done, err
	}
	done.Key = meta[tables.KeyCheck] != ""
	if done.Pending, err = pending(ctx, src); err != nil {
		return done, err
	}
	if d, err := src.Deviations(ctx); err != nil || len(d) > 0 {
		return done, cmp.Or(err, error(ledger.Trouble{Code: "damaged", Message: "what the ledger keeps beside its history is not what it is made from", Do: "indoubt doctor --rebuild, and then copy it"}))
	}
	if c.DryRun {
		for _, t := range tables.Copied {
			n, err := number(ctx, src, `SELECT count(*) FROM `+t.Name)
			if err != nil {
				return done, err
			}
			done.Rows += n
		}
		return done, nil
	}
	if move.ID != "" && move.To != done.To {
		return done, ledger.Trouble{Code: "moving", Message: "a copy of this ledger to " + move.To + " was cut off", Do: "go on with that one, or take it back: indoubt copy --undo FROM TO"}
	}
	id := cmp.Or(move.ID, ledger.NewID())
	fresh, err := to.Fresh(ctx, id, o)
	if err != nil {
		return done, err
	}
	defer fresh.Close()
	x := copying{src: src, fresh: fresh, o: c, id: id, move: move, done: &done}
	if !fresh.Finished() {
		if err := x.all(ctx, meta); err != nil {
			if !c.Keep {
				err = x.open(ctx, err)
			}
			return done, err
		}
	}
	return done, x.leave(ctx, to, o)
}

// atHome refuses a ledger that must be adopted first: its copy would be at home.
func atHome(ctx context.Context, s source, name string) error {
	info, err := s.Info(ctx)
	switch {
	case err != nil:
		return err
	case info.Copied != "":
		return fmt.Errorf("%w (%s)", ledger.ErrCopied, info.Copied)
	case !info.Failover.At.IsZero():
		return ledger.Trouble{Code: "failover", Message: name + ": " + info.Failover.String(), Do: "an operator looks at what was under way, and then adopts it: indoubt adopt"}
	}
	return nil
}

// Uncopy opens a ledger again whose copy was cut off. It refuses where the copy is whole:
// that is a ledger. Where it may be, it is made none before.
func Uncopy(ctx context.Context, from, to Place, o Options) error {
	s, err := from.Open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	src := s.(source)
	move, _, err := src.Moves(ctx)
	if err != nil || move.ID == "" {
		return err
	}
	if move.To != shown(to) {
		return ledger.Trouble{Code: "moving", Message: "the ledger moves to " + move.To + ", and not to " + shown(to), Do: "name that place"}
	}
	may := move.State == tables.MoveWhole || move.State == tables.MoveGone // be a ledger
	fresh, err := to.Fresh(ctx, move.ID, o)
	switch {
	case err == nil:
		defer fresh.Close()
	case may:
		return err
	}
	if err == nil && fresh.Finished() {
		return ledger.Trouble{Code: "moving", Message: "the copy at " + move.To + " is whole already, and a ledger", Do: "end the move: indoubt copy FROM TO"}
	}
	if err == nil {
		err = fresh.Discard(ctx)
	}
	switch trouble := (ledger.Trouble{}); {
	case may && err != nil: // it may become a ledger still
		return err
	case errors.As(err, &trouble) && trouble.Code == "exists": // a ledger that is none of this move
		err = nil
	}
	if failed := src.SetMove(ctx, move, tables.Move{}); failed != nil {
		return failed
	}
	return left(move.To, err)
}

// left says that an unfinished copy could not be removed.
func left(to string, err error) error {
	if err == nil {
		return nil
	}
	return ledger.Trouble{Code: "moving", Message: "the ledger is open again, and its unfinished copy is still at " + to + ": " + err.Error(),
		Do: "remove it: it has what the ledger had; the next copy to that place does"}
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

type copying struct {
	src   source
	fresh tables.Fresh
	o     CopyOptions
	id    string
	move  tables.Move // as the ledger says
	done  *Copied
}

// is says in the ledger how far its move is.
func (x *copying) is(ctx context.Context, state string) error {
	next := tables.Move{ID: x.id, To: x.done.To, State: state}
	err := x.src.SetMove(ctx, x.move, next)
	if err == nil {
		x.move = next
	}
	return err
}

// open takes the mark away after an error, unless the copy may be a ledger.
func (x *copying) open(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	stands, _, err := x.src.Moves(ctx)
	switch {
	case err != nil || stands.ID != x.id:
		return errors.Join(why, err)
	case stands.State == tables.MoveWhole || stands.State == tables.MoveGone:
		return ledger.Trouble{Code: "moving", Message: why.Error() + "; the ledger stays closed, for its copy may be whole", Do: "end the move: indoubt copy FROM TO"}
	}
	if err := x.src.SetMove(ctx, stands, tables.Move{}); err != nil {
		return errors.Join(why, err)
	}
	return errors.Join(why, left(x.done.To, x.fresh.Discard(ctx)))
}

func (x *copying) all(ctx context.Context, meta map[string]string) error {
	if x.move.State == "" {
		if err := x.is(ctx, tables.MoveClosed); err != nil {
			return err
		}
	}
	if x.move.State == tables.MoveClosed {
		if err := x.wait(ctx); err != nil {
			return err
		}
		if err := x.is(ctx, tables.MoveFrozen); err != nil {
			return err
		}
	}
	c := tables.Copying{From: x.src, To: x.fresh, Progress: func(table string, n, of int, rows int64) {
		x.o.Progress(CopyProgress{Doing: table, N: n, Of: of, Rows: rows})
	}}
	var err error
	if x.done.Rows, err = c.Copy(ctx); err != nil {
		return err
	}
	if x.done.Digests, err = c.Verify(ctx); err != nil {
		return err
	}
	known := map[string]string{tables.MetaCopied: x.move.ID}
	for _, name := range []string{"id", "created_at", tables.KeyCheck, tables.MetaGap} {
		if meta[name] != "" {
			known[name] = meta[name]
		}
	}
	if x.move.State == tables.MoveFrozen {
		if err := x.is(ctx, tables.MoveWhole); err != nil {
			return err
		}
	}
	return x.fresh.Finish(context.WithoutCancel(ctx), known)
}

// leave looks at the copy as a ledger, and says in the old one where it went. From here on
// it is not taken back.
func (x *copying) leave(ctx context.Context, to Place, o Options) error {
	ctx = context.WithoutCancel(ctx)
	s, err := to.Open(ctx, Options{ReadOnly: true, Home: o.Home, KeyFile: o.KeyFile})
	if err != nil {
		return err
	}
	d, err := s.(source).Deviations(ctx)
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	if len(d) > 0 {
		return fmt.Errorf("%s is not as its history says in the copy", d[0].Table)
	}
	return x.is(ctx, tables.MoveGone)
}

// wait waits until nothing is pending.
func (x *copying) wait(ctx context.Context) error {
	for end := time.Now().Add(x.o.Wait); ; {
		if _, err := x.src.Expire(ctx, 1000); err != nil {
			return err
		}
		n, err := pending(ctx, x.src)
		if x.done.Pending = n; err != nil || n == 0 {
			return err
		}
		if time.Now().After(end) {
			return ledger.Trouble{Code: "in_progress", Message: fmt.Sprintf("%d operations are in flight still", n),
				Do: "copy it when they have ended, or wait longer: --wait"}
		}
		x.o.Progress(CopyProgress{Doing: "waiting", Pending: n})
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func pending(ctx context.Context, s source) (int64, error) {
	return number(ctx, s, `SELECT count(*) FROM operations WHERE state = 'pending'`)
}

func number(ctx context.Context, s source, query string) (n int64, err error) {
	rows, err := s.Query(ctx, query)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	if rows.Next() {
		err = rows.Scan(&n)
	}
	return n, errors.Join(err, rows.Err())
}
