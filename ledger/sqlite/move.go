package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// arriving is the ending of a file that another ledger is copied into. It gets its name when that has said
// that it moved.
const arriving = ".copy"

// Leave has take copy the ledger while no one writes to it, and says then where it has moved to. Where it
// had moved there before, nothing is done.
func (s *Store) Leave(ctx context.Context, place string, take func(store.Tx) error) error {
	if err := s.mayWrite(); err != nil {
		return err
	}
	return s.writer.do(ctx, func(tx store.Tx) error {
		meta, err := store.Meta(tx)
		if err != nil || meta[movedTo] == place {
			return err
		}
		if err := take(tx); err != nil {
			return err
		}
		if err := cmp.Or(ctx.Err(), store.SetMeta(tx, movedTo, place)); err != nil {
			return err
		}
		return s.writer.conn.Script(ctx, moved(place))
	})
}

// moved has the database refuse what would change the ledger, and say where it went.
func moved(place string) string {
	quoted, script := strings.ReplaceAll(place, "'", "''"), ""
	for _, table := range store.Tables {
		for _, verb := range []string{"INSERT", "UPDATE", "DELETE"} {
			script += fmt.Sprintf(`CREATE TRIGGER %[1]s_moved_%[2]s BEFORE %[2]s ON %[1]s BEGIN
				SELECT RAISE(ABORT, '%[3]s: it has moved to %[4]s'); END;`, table, verb, store.Moved, quoted)
		}
	}
	return script
}

// movedTo is the name in meta of where a ledger is now.
const movedTo = "moved_to"

// Receive has fill write the ledger id into a file beside path, where none is. It is none before Arrive gives it
// its name, and is made anew by the next one. One of another ledger waits there: it may be all that there is of it.
func Receive(ctx context.Context, path string, o Options, id string, fill func(store.Tx) error) error {
	dir := filepath.Dir(path)
	if err := cmp.Or(makeDir(dir, 0o700, syncDir), local(path)); err != nil {
		return fmt.Errorf("make the ledger's directory: %w", err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if at, err := fileAt(path); err == nil && (at.size > 0 || at.dir) {
		return ledger.Trouble{Code: "exists", Message: path + " is there already", Do: "name a file that is not there"}
	}
	part, waits := path+arriving, ""
	switch err := askOnce(ctx, dsn(part, "ro")+"&immutable=1", fmt.Sprintf(`SELECT value FROM meta, pragma_application_id
		WHERE name = 'id' AND application_id = %d`, applicationID), &waits); {
	case err == nil && waits != id:
		return store.Waits(part)
	case code(err)&0xff == codeIO:
		return translate(part, err)
	}
	err = cmp.Or(sweep(part), empty(part))
	if err == nil {
		err = bear(ctx, part, o, fill)
	}
	if err = cmp.Or(err, syncDir(dir)); err != nil {
		return errors.Join(err, sweep(part))
	}
	return nil
}

// Arrive makes a copy of the ledger id the ledger.
func Arrive(ctx context.Context, path string, o Options, id string) error {
	switch err := place(path+arriving, path); {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist): // what is there is looked at
	default:
		return fmt.Errorf("give the copy its name: %w", err)
	}
	o.ReadOnly = true
	s, err := Open(ctx, path, o)
	if err == nil {
		has := s.id
		if err = cmp.Or(s.Close(), syncDir(filepath.Dir(path))); err == nil && has != id {
			err = notOurs(path, "it is another ledger")
		}
	}
	if errors.As(err, new(*ledger.MissingError)) {
		return ledger.Trouble{Code: "damaged", Message: "the copy was removed meanwhile", Do: "bring back " + path + arriving}
	}
	return err
}
