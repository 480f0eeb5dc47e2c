package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/postgres"
	"indoubt/ledger/tables"
)

// CopyOptions are how a ledger is copied to another place.
type CopyOptions struct {
	DryRun   bool
	Progress func(table string, n, of int, rows int64) // as of tables.Copying
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

// source is a ledger that can be copied.
type source interface {
	ledger.Store
	tables.Copyable
	Moves(ctx context.Context) (tables.Move, map[string]string, error)
	SetMove(ctx context.Context, was, next tables.Move) error
	Deviations(ctx context.Context) ([]ledger.Deviation, error)
}

// fresh is a place where a copy can be made, by the move of this id.
type fresh interface {
	Fresh(ctx context.Context, id, was string, o Options) (tables.Fresh, error)
}

// Fresh makes a copy in a database.
func (s server) Fresh(ctx context.Context, id, was string, o Options) (tables.Fresh, error) {
	return postgres.Fresh(ctx, s.address, id, was, o.ofServer())
}

// Copy copies a ledger in which nothing is in flight to another place, and leaves it as one
// that has moved there. Where it fails, or ctx ends, the ledger is open again and its copy
// removed, unless that may be a ledger. One that was killed is begun anew by the next one.
func Copy(ctx context.Context, from, to Place, o Options, c CopyOptions) (done Copied, err error) {
	done.From, done.To = from.String(), to.String()
	for _, at := range []Place{from, to} {
		if _, can := at.(fresh); !can {
			return done, ledger.Trouble{Code: "usage", Message: at.String() + " is a file, which keeps a ledger in other tables than a database: only databases are copied",
				Do: "indoubt backup copies a file, and indoubt adopt makes that the ledger"}
		}
	}
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
		return done, ledger.Trouble{Code: "moving", Message: "a copy of this ledger to " + move.To + " was cut off", Do: "end that one: indoubt copy FROM TO"}
	}
	fresh, err := to.(fresh).Fresh(ctx, ledger.NewID(), move.ID, o)
	if err != nil {
		return done, err
	}
	defer fresh.Close()
	x := copying{src: src, fresh: fresh, o: c, move: move, done: &done}
	if !fresh.Finished() {
		if err := x.all(ctx, meta); err != nil {
			return done, x.open(ctx, err)
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
	move  tables.Move // as the ledger says
	whole bool        // the copy may be a ledger
	done  *Copied
}

// open takes the mark away after an error, unless the copy may be a ledger.
func (x *copying) open(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if x.whole {
		return ledger.Trouble{Code: "moving", Message: why.Error() + "; the ledger stays closed, for its copy may be whole", Do: "end the move: indoubt copy FROM TO"}
	}
	closed, left := x.src.SetMove(ctx, x.move, tables.Move{}), x.fresh.Discard(ctx)
	if closed != nil || left == nil {
		return errors.Join(why, closed)
	}
	return ledger.Trouble{Code: "moving", Message: why.Error() + "; the ledger is open again, and its unfinished copy is still at " + x.done.To + ": " + left.Error(),
		Do: "remove it: it has what the ledger had; the next copy to that place does"}
}

// all copies the ledger, in which nothing changes from here on.
func (x *copying) all(ctx context.Context, meta map[string]string) error {
	if x.move.ID == "" { // else nothing changes there since
		if _, err := x.src.Expire(ctx, 1000); err != nil {
			return err
		}
	}
	begun := tables.Move{ID: x.fresh.ID(), To: x.done.To}
	err := x.src.SetMove(ctx, x.move, begun)
	if err != nil {
		return err
	}
	x.move = begun
	if x.done.Pending, err = pending(ctx, x.src); err != nil {
		return err
	}
	if x.done.Pending > 0 {
		return ledger.Trouble{Code: "in_progress", Message: fmt.Sprintf("%d operations are in flight", x.done.Pending), Do: "copy it when they have ended"}
	}
	c := tables.Copying{From: x.src, To: x.fresh, Progress: x.o.Progress}
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
	x.whole = true
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
	there := x.move
	there.Gone = true
	return x.src.SetMove(ctx, x.move, there)
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
