package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// Columns are those of a table.
func (s *handle) Columns(ctx context.Context, table string) (map[string]string, error) {
	return columnsOf(ctx, database{s}, table)
}

type querier interface {
	Query(ctx context.Context, query string, args ...any) (tables.Rows, error)
}

func columnsOf(ctx context.Context, db querier, table string) (map[string]string, error) {
	rows, err := db.Query(ctx, `SELECT name, CASE hidden WHEN 0 THEN type ELSE 'made' END FROM pragma_table_xinfo(?) WHERE hidden <> 1`, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var name, kind string
		if err := rows.Scan(&name, &kind); err != nil {
			return nil, err
		}
		out[name] = map[string]string{"TEXT": tables.KindText, "INTEGER": tables.KindInt, "REAL": tables.KindReal, "made": tables.KindMade}[kind]
	}
	for _, t := range tables.Copied {
		if t.Name == table && t.Key == "rowid" {
			out["rowid"] = tables.KindInt
		}
	}
	return out, rows.Err()
}

// SetMove says in the ledger that it moves, and has the database refuse what may not happen
// meanwhile. Move{} takes that back. Error: it does not stand as it was.
func (s *Store) SetMove(ctx context.Context, was, m tables.Move) error {
	return s.write(ctx, func(tx *tx) error {
		stands, err := tables.Collect(tx, func(rows tables.Rows) (text string, err error) { return text, rows.Scan(&text) }, `SELECT value FROM meta WHERE name = ?`, tables.MetaMove)
		if err != nil {
			return err
		}
		if already, err := m.Follows(was, tables.MoveOf(map[string]string{tables.MetaMove: strings.Join(stands, "")})); err != nil || already {
			return err
		}
		drops, err := tables.Collect(tx, func(rows tables.Rows) (drop string, err error) { return drop, rows.Scan(&drop) },
			`SELECT 'DROP TRIGGER ' || name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB 'moving_*'`)
		if err != nil {
			return err
		}
		says := strings.ReplaceAll(m.Says(), "'", "''")
		refuse := func(what, table string) string {
			return fmt.Sprintf("CREATE TRIGGER moving_%s_%s BEFORE %[2]s ON %[1]s BEGIN SELECT RAISE(ABORT, '%[3]s'); END", table, what, says)
		}
		if m.ID != "" {
			for _, table := range m.Kept() {
				drops = append(drops, refuse("INSERT", table), refuse("UPDATE", table), refuse("DELETE", table))
			}
		}
		for _, statement := range drops {
			if err := tx.script(statement); err != nil {
				return err
			}
		}
		if m.ID == "" {
			return tables.SetMeta(tx, tables.MetaMove, "")
		}
		return tables.SetMeta(tx, tables.MetaMove, m.Text())
	})
}

// Query runs one query.
func (s *Store) Query(ctx context.Context, query string, args ...any) (tables.Rows, error) {
	return database{s.handle}.Query(ctx, query, args...)
}

// Moves is the move of the ledger, with what it knows of itself.
func (s *Store) Moves(ctx context.Context) (tables.Move, map[string]string, error) {
	m, err := s.meta(ctx)
	return tables.MoveOf(m), m, err
}

// fresh is a copy in a file beside the place of the ledger.
type fresh struct {
	db       *sql.DB
	lock     *os.File // of the file: no other copy is made in it
	to, part string
	id       string
	o        Options
	finished bool
}

// Copying is the ending of a file that a copy is made in.
const Copying = ".copying"

// Fresh makes a copy at path. What was left of another one that is no ledger is removed; the
// copy was, where it is one, is that.
func Fresh(ctx context.Context, path, id, was string, o Options) (tables.Fresh, error) {
	to, err := absolute(path)
	if err != nil {
		return nil, err
	}
	f := &fresh{to: to, part: to + Copying, id: id, o: o}
	if at, err := fileAt(to); err == nil && at.size > 0 {
		s, err := Open(ctx, to, Options{ReadOnly: true})
		if err != nil {
			return nil, err
		}
		defer s.Close()
		m, err := s.meta(ctx)
		if err == nil && (was == "" || m[tables.MetaCopied] != was) {
			err = ledger.Trouble{Code: "exists", Message: to + " is a ledger already", Do: "name a place where none is"}
		}
		f.id, f.finished = was, true
		return f, err
	}
	if err := cmp.Or(former(to, o), makeDir(filepath.Dir(to), 0o700, syncDir), local(to)); err != nil {
		return nil, err
	}
	for {
		again, err := f.open(ctx)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if !again {
			return f, nil
		}
	}
}

// open makes the file, and removes one that was left.
func (f *fresh) open(ctx context.Context) (again bool, err error) {
	if f.lock, err = os.OpenFile(f.part, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return false, fmt.Errorf("make the copy: %w", err)
	}
	alone, err := try(f.lock)
	if err == nil && !alone {
		err = ledger.Trouble{Code: "moving", Message: "another command makes a copy in " + f.part, Do: "let it end"}
	}
	if err = cmp.Or(err, regular(f.part)); err != nil {
		return false, err
	}
	has, err := f.lock.Stat()
	switch {
	case err != nil || !isAt(has, f.part): // it was removed by the one who had it
		return true, errors.Join(err, f.lock.Close())
	case has.Size() > 0:
		return true, f.Discard(ctx)
	}
	name := strings.Replace(dsn(f.part, "rw"), "foreign_keys%281%29", "foreign_keys%280%29", 1)
	if f.db, err = sql.Open("sqlite", strings.Replace(name, "journal_mode%28WAL%29", "journal_mode%28DELETE%29", 1)); err != nil {
		return false, err
	}
	f.db.SetMaxOpenConns(1)
	return false, f.all(ctx, schema)
}

// ID names the copy.
func (f *fresh) ID() string { return f.id }

// Discard removes the file.
func (f *fresh) Discard(context.Context) (err error) {
	if f.finished {
		return nil
	}
	if f.db != nil {
		err = f.db.Close()
	}
	err = errors.Join(err, sweep(f.part), f.lock.Close())
	f.db, f.lock = nil, nil
	return err
}

func isAt(has os.FileInfo, path string) bool {
	is, err := os.Stat(path)
	return err == nil && os.SameFile(has, is)
}

// all runs scripts in one transaction.
func (f *fresh) all(ctx context.Context, scripts ...string) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return translate(f.part, err)
	}
	defer tx.Rollback() //nolint:errcheck // it is committed, or fails with a reason
	for _, text := range scripts {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return translate(f.part, err)
		}
	}
	return translate(f.part, tx.Commit())
}

func (f *fresh) Finished() bool { return f.finished }

// Holds is "": a file keeps every text.
func (f *fresh) Holds(string) string { return "" }

func (f *fresh) Query(ctx context.Context, query string, args ...any) (tables.Rows, error) {
	return f.db.QueryContext(ctx, query, args...) //nolint:rowserrcheck,sqlclosecheck // the reader does
}

func (f *fresh) Columns(ctx context.Context, table string) (map[string]string, error) {
	return columnsOf(ctx, f, table)
}

func (f *fresh) Insert(ctx context.Context, table string, columns []string, _ map[string]string, rows [][]any) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return translate(f.part, err)
	}
	defer tx.Rollback() //nolint:errcheck // it is committed, or fails with a reason
	add, err := tx.PrepareContext(ctx, `INSERT INTO `+table+` (`+strings.Join(columns, ", ")+`) VALUES (`+
		strings.TrimSuffix(strings.Repeat("?, ", len(columns)), ", ")+`)`)
	if err != nil {
		return translate(f.part, err)
	}
	defer add.Close()
	for _, row := range rows {
		if _, err := add.ExecContext(ctx, row...); err != nil {
			return translate(f.part, err)
		}
	}
	return translate(f.part, tx.Commit())
}

// Finish adds the guards, says that it is a ledger, and puts it in its place.
func (f *fresh) Finish(ctx context.Context, meta map[string]string) error {
	says, err := identity(f.part, f.o, meta)
	if err != nil {
		return err
	}
	if err := f.all(ctx, guards()+says); err != nil {
		return err
	}
	err = finish(ctx, f.db, f.part)
	f.db = nil
	if err == nil {
		err = place(f.part, f.to)
	}
	if err != nil {
		return fmt.Errorf("make the copy: %w", translate(f.part, err))
	}
	remember(f.o.Used, f.to)
	return syncDir(filepath.Dir(f.to))
}

func (f *fresh) Close() (err error) {
	if f.db != nil {
		err = f.db.Close()
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	return err
}
