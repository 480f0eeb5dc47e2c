package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// homeSQL is where a ledger is at home, and what is refused elsewhere.
//
//go:embed home.sql
var homeSQL string

// metaHome is where it was adopted last, and metaHomes where it has lived before, each with when
// it was adopted there.
const metaHome, metaHomes = "home", "homes"

// note has the history say that the ledger is in another database than before, once. What would
// have noted it was refused, and has left nothing.
func (s *handle) note() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = database{s}.change(ctx, beginWrite, func(t *tx) error {
		home, elsewhere, err := whereItIs(t)
		if err != nil || !elsewhere {
			return err
		}
		var noted bool
		if err := store.One(t, []any{&noted}, notedQuery, home); err != nil || noted {
			return err
		}
		return store.Tell(t, ledger.Event{ID: home, At: t.Moment().Wall, Verb: "failover", Actor: ledger.Actor{Name: "indoubt", Machine: true},
			Reason: "the ledger is in another database than before: what was recorded last may be missing"})
	})
}

// notedQuery asks whether it is noted, or cannot be: on a logical replica an event would stand before those that are
// here until numbersOn.
const notedQuery = `SELECT EXISTS (SELECT 1 FROM ev WHERE op = 0 AND id = ?)
	OR coalesce(pg_sequence_last_value('indoubt.ev_seq'), 0) < coalesce((SELECT max(seq) FROM ev), 0)`

func whereItIs(t *tx) (home string, elsewhere bool, err error) {
	err = store.One(t, []any{&home, &elsewhere}, `SELECT coalesce(indoubt.home(), ''),
		(SELECT value FROM indoubt.meta WHERE name = 'home') IS DISTINCT FROM indoubt.home()`)
	return home, elsewhere, err
}

// Adopt says that a person has looked at what may be missing since the database failed
// over or was restored: the ledger is at home there from now on, under a new id. It does
// nothing where that is so already. Errors: *Error for one who does not own the ledger, ledger.Trouble for a server with
// a standby that forgets what was acknowledged.
func (s *Store) Adopt(ctx context.Context, actor ledger.Actor, at string) error {
	i, err := s.Info(ctx)
	if err != nil {
		return err
	}
	return database{s.handle}.change(ctx, beginWrite, func(t *tx) error {
		home, elsewhere, err := whereItIs(t)
		if err != nil || !elsewhere && i.Lacks == "" {
			return err
		}
		if err := owned(t, s.address.shown); err != nil {
			return err
		}
		if err := t.script(numbersOn); err != nil {
			return err
		}
		meta, err := store.Meta(t)
		if err != nil {
			return err
		}
		why := i.Lacks
		if elsewhere {
			why = i.Failover.String()
		}
		system, _, _ := strings.Cut(home, ".")
		if !strings.HasPrefix(meta[metaHome], system+".") { // numbers of transactions of another system say nothing here
			if err := t.script(`ALTER TABLE indoubt.ev DISABLE TRIGGER USER; UPDATE indoubt.ev SET place = ` + decimal(adopted) + `
				WHERE seq < coalesce((SELECT seq FROM indoubt.ev WHERE op = 0 AND id = indoubt.home()), 9223372036854775807);
				DELETE FROM indoubt.total; ALTER TABLE indoubt.ev ENABLE TRIGGER USER`); err != nil {
				return err
			}
		}
		if elsewhere {
			err = errors.Join(
				store.SetMeta(t, metaHome, home),
				store.SetMeta(t, metaHomes, strings.TrimSpace(fmt.Sprint(meta[metaHomes], " ", home, "@", t.Moment().Wall.UnixMilli()))))
		}
		if err = errors.Join(err, store.SetMeta(t, metaStandby, "")); err == nil {
			err = t.refuseForgetting(s.opts)
		}
		return errors.Join(err,
			store.Adoption{Actor: actor, Why: "adopted here: " + why, Newest: at}.Write(t))
	})
}
