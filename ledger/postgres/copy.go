package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// Columns are those of a table.
func (s *handle) Columns(ctx context.Context, table string) (map[string]string, error) {
	out := map[string]string{}
	rows, err := s.Query(ctx, `
		SELECT a.attname, CASE WHEN a.attgenerated <> '' THEN 'made' ELSE CASE a.atttypid WHEN 'timestamptz'::regtype THEN 'time' WHEN 'boolean'::regtype THEN 'flag' WHEN 'float8'::regtype THEN 'real'
		       WHEN 'int8'::regtype THEN 'int' ELSE 'text' END END
		  FROM pg_attribute a WHERE a.attrelid = to_regclass(?) AND a.attnum > 0 AND NOT a.attisdropped`, "indoubt."+table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, kind string
		if err := rows.Scan(&name, &kind); err != nil {
			return nil, err
		}
		out[name] = kind
	}
	return out, rows.Err()
}

// SetMove says in the ledger that it moves, and has the database refuse what may not happen
// meanwhile: triggers are seen by transactions that began before, too, and wait for those
// that have written. Move{} takes that back. Error: it does not stand as it was.
func (s *Store) SetMove(ctx context.Context, was, m tables.Move) error {
	script := `DROP FUNCTION IF EXISTS indoubt.moving() CASCADE;`
	if m.ID != "" {
		script += `CREATE FUNCTION indoubt.moving() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = TG_ARGV[0]; END $$;`
		refuse := func(table, on, each string) {
			script += fmt.Sprintf("CREATE TRIGGER aa_moving%s BEFORE %s ON indoubt.%s FOR EACH %[4]s EXECUTE FUNCTION indoubt.moving('%[5]s');",
				"_"+strings.ToLower(each), on, table, each, strings.ReplaceAll(m.Says(), "'", "''"))
		}
		for _, table := range m.Kept() {
			refuse(table, "INSERT OR UPDATE OR DELETE", "ROW")
			refuse(table, "TRUNCATE", "STATEMENT")
		}
	}
	text := ""
	if m.ID != "" {
		text = m.Text()
	}
	return s.inOne(ctx, func(t *session) error {
		if err := t.Lock("move"); err != nil {
			return err
		}
		stands, err := metaAlone(t)
		if err != nil {
			return err
		}
		if already, err := m.Follows(was, tables.MoveOf(stands)); err != nil || already {
			return err
		}
		if err := owned(t, s.address.shown); err != nil {
			return err
		}
		if err := t.script(script); err != nil {
			return err
		}
		return tables.SetMeta(t, tables.MetaMove, text)
	})
}

// Moves is the move of the ledger, with what it knows of itself.
func (s *Store) Moves(ctx context.Context) (tables.Move, map[string]string, error) {
	m, err := s.describe(ctx)
	return tables.MoveOf(m), m, err
}

// fresh is a copy whose schema has no guards yet.
type fresh struct {
	*handle
	id       string
	finished bool
}

// Fresh makes a copy in a database. What was left of another one that is no ledger is removed;
// the copy was, where it is one, is that.
func Fresh(ctx context.Context, url, id, was string, o Options) (tables.Fresh, error) {
	a, err := parse(url)
	if err != nil {
		return nil, err
	}
	s, err := connected(a, o)
	if err != nil {
		return nil, err
	}
	f := &fresh{handle: s, id: id}
	if err := s.inOne(ctx, func(t *session) error { return f.begin(t, was) }); err != nil {
		s.close()
		return nil, err
	}
	return f, nil
}

func (f *fresh) begin(t *session, was string) error {
	if err := t.Lock(installing); err != nil {
		return err
	}
	there, taken, err := standing(t)
	if err != nil {
		return err
	}
	if taken && !there {
		return &Error{Foreign, f.address.shown, "it has no table meta", "", nil}
	}
	if there {
		m, err := metaAlone(t)
		switch {
		case err != nil:
			return err
		case was != "" && m[tables.MetaCopied] == was && m["schema"] != "":
			f.id, f.finished = was, true
			return nil
		case m["id"] != "" || m["schema"] != "" || m[tables.MetaCopied] == "":
			return ledger.Trouble{Code: "exists", Message: f.address.shown + " has a ledger already", Do: "name a database that has none"}
		}
		if err := t.script(dropSchemas); err != nil {
			return err
		}
	}
	if err := t.script(schemaSQL + rowsSQL); err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	return t.Later(`INSERT INTO meta (name, value) VALUES (?, ?)`, tables.MetaCopied, f.id)
}

// ID names the copy.
func (f *fresh) ID() string { return f.id }

// metaAlone reads meta where nothing else is.
func metaAlone(t *session) (map[string]string, error) {
	m := map[string]string{}
	rows, err := t.query(`SELECT name, value FROM indoubt.meta`, nil)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		m[name] = value
	}
	return m, nil
}

func (f *fresh) Finished() bool { return f.finished }

// Holds says why PostgreSQL would keep another text.
func (f *fresh) Holds(text string) string { return tables.IsText(text) }

func (f *fresh) Insert(ctx context.Context, table string, columns []string, kinds map[string]string, rows [][]any) error {
	values, names := make([]string, len(columns)), slices.Clone(columns)
	for i, c := range columns {
		at := "?" + strconv.Itoa(i+1)
		switch kinds[c] {
		case tables.KindTime:
			at = fmt.Sprintf(`CASE %[1]s::bigint WHEN 0 THEN NULL WHEN 253402300799999 THEN 'infinity'::timestamptz ELSE '1970-01-01Z'::timestamptz + %[1]s::bigint * '1 millisecond'::interval END`, at)
		case tables.KindFlag:
			at += "::int::boolean"
		}
		values[i] = at
	}
	if _, ok := kinds["db_user"]; ok && !slices.Contains(columns, "db_user") { // no database knew
		names, values = append(names, "db_user"), append(values, "''")
	}
	if _, ok := kinds["xid"]; ok {
		names, values = append(names, "xid"), append(values, "'3'")
	}
	add := `INSERT INTO ` + table + ` (` + strings.Join(names, ", ") + `)
		VALUES (` + strings.Join(values, ", ") + `) ON CONFLICT DO NOTHING`
	return f.Update(ctx, func(t tables.Tx) error {
		for _, row := range rows {
			if err := t.Quietly(add, row...); err != nil {
				return err
			}
		}
		return nil
	})
}

// numbered rows go on from the highest.
var sequences = [][2]string{{"operations", "seq"}, {"reads", "rowid"}, {"grants", "rowid"}, {"events", "seq"}, {"holds", "id"}}

// Finish adds the guards, and says that it is a ledger. It may be made again after it was.
func (f *fresh) Finish(ctx context.Context, meta map[string]string) error {
	return f.inOne(ctx, func(t *session) error {
		if err := t.Lock(installing); err != nil {
			return err
		}
		m, err := metaAlone(t)
		switch {
		case err != nil:
			return err
		case m[tables.MetaCopied] != f.id:
			return ledger.Trouble{Code: "moving", Message: "the copy in " + f.address.shown + " was removed meanwhile"}
		case m["schema"] != "":
			return nil
		}
		script := guardsSQL + derivedSQL + lineageSQL
		for _, s := range sequences {
			highest := fmt.Sprintf("(SELECT coalesce(max(%s), 0) FROM indoubt.%s)", s[1], s[0])
			script += fmt.Sprintf(";\nSELECT setval('indoubt.%s_seq', greatest(1, %[2]s), %[2]s > 0)", s[0], highest)
		}
		if err := t.script(script); err != nil {
			return fmt.Errorf("make the copy a ledger: %w", err)
		}
		known := map[string]string{"schema": strconv.Itoa(tables.Schema)}
		for name, value := range meta {
			known[name] = value
		}
		for name, value := range known {
			if err := tables.SetMeta(t, name, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// Discard removes the schema, where it is still the one of this copy.
func (f *fresh) Discard(ctx context.Context) error {
	if f.finished {
		return nil
	}
	return f.inOne(ctx, func(t *session) error {
		if err := t.Lock(installing); err != nil {
			return err
		}
		there, _, err := standing(t)
		if err != nil || !there {
			return err
		}
		m, err := metaAlone(t)
		if err != nil || m[tables.MetaCopied] != f.id || m["schema"] != "" {
			return err
		}
		return t.script(dropSchemas)
	})
}

// dropSchemas removes a copy that is not whole.
const dropSchemas = `DROP SCHEMA indoubt_rows CASCADE; DROP SCHEMA indoubt CASCADE`

func (f *fresh) Close() error {
	f.close()
	return nil
}
