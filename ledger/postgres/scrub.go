package postgres

import "context"

// Scrub has the database free the rows that a redaction has left behind, and make the samples
// anew that its planner keeps of them, where this user may. It returns where text may be left still.
func (s *Store) Scrub(ctx context.Context) (left string, err error) {
	if err := s.Writable(); err != nil {
		return "", err
	}
	var owner bool
	pool := s.pool.Load()
	if err := pool.QueryRow(ctx, `SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'indoubt'`).Scan(&owner); err != nil {
		return "", s.Translate(err)
	}
	const elsewhere = "pages of the database until they are written anew (VACUUM FULL); its WAL, standbys, copies and backups"
	if !owner {
		return "dead rows and pg_stats until the database is vacuumed and analyzed, which is for the owner of the ledger; " + elsewhere, nil
	}
	_, err = pool.Exec(ctx, `VACUUM (ANALYZE) indoubt.op, indoubt.ev, indoubt.price`)
	return elsewhere, s.Translate(err)
}
