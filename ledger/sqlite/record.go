package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
)

// querier runs queries in the write transaction or on a reader.
type querier interface {
	rows(query string, args ...any) (*sql.Rows, error)
}

// raw is JSON read from a nullable column.
func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

func loadAttempts(q querier, id string) ([]ledger.Attempt, error) {
	s := scan[ledger.Attempt]{columns: attemptColumns}
	dest := s.dest(nil)
	return collect(q, func(rows *sql.Rows) (ledger.Attempt, error) {
		err := rows.Scan(dest...)
		return attemptOf(id, s.row()), err
	}, attemptsQuery, id)
}

var attemptsQuery = `SELECT ` + of("a.", attemptColumns) + ` FROM attempts a WHERE a.operation_id = ? ORDER BY a.n`

// most bounds what a record carries of each kind.
const most = 200

func loadReads(q querier, id string, evidence bool) ([]ledger.Read, error) {
	column := "NULL"
	if evidence {
		column = "evidence"
	}
	return collect(q, func(rows *sql.Rows) (ledger.Read, error) {
		r := ledger.Read{OperationID: id}
		var began, ended, proof int64
		var receipts string
		var ev sql.NullString
		err := rows.Scan(&r.ID, &r.Control, &began, &ended, &r.Verdict, &r.Cause, &r.Reason, &r.Found, &receipts, &ev, &proof, &r.Digest, &r.Actor)
		r.BeganAt, r.EndedAt, r.ProofAt = at(began), at(ended), at(proof)
		r.Receipts, r.Evidence = unlist(receipts), raw(ev.String)
		return r, err
	}, `
		SELECT id, control, began_at, ended_at, verdict, cause, reason, found, receipts, `+column+`, proof_at, digest, actor
		  FROM reads WHERE operation_id = ? ORDER BY began_at DESC, rowid DESC LIMIT ?+0`, id, most)
}

func loadGrants(q querier, id string) ([]ledger.Grant, error) {
	return collect(q, func(rows *sql.Rows) (ledger.Grant, error) {
		g := ledger.Grant{OperationID: id}
		var created, since, expires, consumed, voided int64
		var related string
		err := rows.Scan(&g.ID, &g.Version, &g.Basis, &g.Sender, &g.KeyWorks, &g.Actor, &g.Reason,
			&created, &g.CreatedSteady.Boot, &since, &expires, &related, &consumed, &g.AttemptID, &voided, &g.VoidReason)
		g.CreatedSteady = steady(g.CreatedSteady.Boot, time.Duration(since)*time.Millisecond)
		g.Related = unlist(related)
		g.CreatedAt, g.ExpiresAt, g.ConsumedAt, g.VoidedAt = at(created), at(expires), at(consumed), at(voided)
		return g, err
	}, `
		SELECT id, version, basis, sender, key_works, actor, reason,
		       created_at, boot_id, created_steady, expires_at, related, consumed_at, attempt_id, voided_at, void_reason
		  FROM grants WHERE operation_id = ? ORDER BY created_at DESC, rowid DESC LIMIT ?+0`, id, most)
}

func loadHolds(q querier, now time.Time) ([]ledger.Hold, error) {
	return collect(q, func(rows *sql.Rows) (ledger.Hold, error) {
		var h ledger.Hold
		var kinds string
		var created, until int64
		err := rows.Scan(&h.Scope, &kinds, &h.Actor.Name, &h.Actor.OSUser, &h.Actor.Host, &h.Actor.Machine, &h.Actor.Terminal,
			&h.Reason, &created, &until, &h.ChangeID)
		h.Kinds, h.CreatedAt, h.Until = unlist(kinds), at(created), at(until)
		return h, err
	}, `
		SELECT scope, kinds, actor, os_user, host, machine, terminal, reason, created_at, until, change_id
		  FROM holds WHERE released_at = 0 AND (until = 0 OR until >= ?) ORDER BY created_at, id`, ms(now))
}

// overtakes: t is a later operation on the same target. sameInput: t is another
// operation of the kind with the same input, or the same fields that make a key.
// What is both counts as overtaking. Indexes answer both, but for the kind.
const (
	overtakes = `(t.target = o.target AND t.target <> '' AND (t.created_at, t.seq) > (o.created_at, o.seq))`
	sameInput = `((t.fingerprint = o.fingerprint AND t.fingerprint <> '' OR t.key_fields = o.key_fields AND t.key_fields <> '')
		AND t.seq <> o.seq AND t.kind = o.kind)`
	relations = 20 // of each sort at most
)

// alike reports whether a row of operations o has another with the same input, or one
// with the same fields, of any kind: indexes alone tell, and mostly that there is none.
const alike = `(o.fingerprint <> '' AND EXISTS (SELECT 1 FROM operations t WHERE t.fingerprint = o.fingerprint AND t.fingerprint <> '' AND t.seq <> o.seq)
	OR o.key_fields <> '' AND EXISTS (SELECT 1 FROM operations t WHERE t.key_fields = o.key_fields AND t.key_fields <> '' AND t.seq <> o.seq))`

// related counts the same-input operations of a row of operations o, and reports
// whether it was overtaken.
var related = fmt.Sprintf(`CASE WHEN `+alike+` THEN (SELECT count(*) FROM (SELECT 1 FROM operations t WHERE `+sameInput+` AND NOT `+overtakes+` LIMIT %d)) ELSE 0 END,
	EXISTS (SELECT 1 FROM operations t WHERE `+overtakes+`)`, relations)

// mayHaveLanded says of an operation what ledger.MayHaveLanded says.
func mayHaveLanded(operation string) string {
	return strings.ReplaceAll(`(OP.state NOT IN ('failed', 'abandoned') OR OP.hands_off = 1 OR OP.attempt_count = 0
	OR OP.attempt_count <> (SELECT count(*) FROM attempts a WHERE a.operation_id = OP.id AND (a.proof = 'absent'
		OR a.proof <> '' AND CASE WHEN a.late_outcome <> '' THEN a.late_outcome ELSE a.outcome END = 'failed')))`, "OP", operation)
}

// relatedQuery brings the newest of each sort, and the newest that landed or may
// have, which any number of newer ones without effect must not hide.
var relatedQuery = func() string {
	var parts []string
	for _, sort := range []struct{ overtook, when string }{{"1", overtakes}, {"0", sameInput + ` AND NOT ` + overtakes}} {
		for _, more := range []string{"", " AND " + mayHaveLanded("t")} {
			parts = append(parts, fmt.Sprintf(`
				SELECT * FROM (SELECT t.id, t.title, t.state, t.source, t.source_run, t.source_host, t.source_pid, t.created_at, t.settled_at,
				                      %s AS overtook, `+mayHaveLanded("t")+` AS landed
				                 FROM operations o JOIN operations t ON `+sort.when+`
				                WHERE o.id = ?1`+more+` ORDER BY t.created_at DESC, t.id DESC LIMIT %d)`, sort.overtook, relations))
		}
	}
	return strings.Join(parts, " UNION ") + ` ORDER BY overtook DESC, created_at DESC, id DESC`
}()

func loadRelated(q querier, o ledger.Operation) ([]ledger.Relation, error) {
	return collect(q, func(rows *sql.Rows) (ledger.Relation, error) {
		var r ledger.Relation
		var created, settled int64
		err := rows.Scan(&r.ID, &r.Title, &r.State, &r.Source.Pipeline, &r.Source.Run, &r.Source.Host, &r.Source.PID, &created, &settled,
			&r.Overtook, &r.MayHaveLanded)
		r.CreatedAt, r.SettledAt = at(created), at(settled)
		return r, err
	}, relatedQuery, o.ID)
}

// collect scans all rows of a query.
func collect[T any](q querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.rows(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// snapshot reads everything from one state of the ledger.
type snapshot struct {
	ctx context.Context
	s   *handle
	tx  *sql.Tx
}

func (s *handle) snapshot(ctx context.Context) (*snapshot, error) {
	select {
	case s.snapshots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var tx *sql.Tx
	db, err := s.reading()
	if err == nil {
		tx, err = db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	}
	if err != nil {
		<-s.snapshots
		return nil, translate(s.path, err)
	}
	return &snapshot{ctx, s, tx}, nil
}

// brief reads a little from one state of the ledger. Each connection parses the whole
// schema, which costs more than such a read: one that writes serves it too, until the
// reader pool is in use.
func (s *handle) brief(ctx context.Context, read func(querier) error) error {
	if db, err := s.reading(); err == nil && s.writer != nil && db.Stats().OpenConnections == 0 {
		if lent, err := s.writer.lend(read); lent {
			return err
		}
	}
	n, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	defer n.close()
	return read(n)
}

func (n *snapshot) rows(query string, args ...any) (*sql.Rows, error) {
	st, err := n.s.prepared(n.ctx, query)
	if err != nil {
		return nil, err
	}
	return n.tx.StmtContext(n.ctx, st).QueryContext(n.ctx, args...)
}

func (n *snapshot) close() {
	_ = n.tx.Rollback()
	<-n.s.snapshots
}

// outside runs single queries on the reader pool.
type outside struct {
	ctx context.Context
	s   *handle
}

func (q outside) rows(query string, args ...any) (*sql.Rows, error) {
	return q.s.rows(q.ctx, query, args...)
}
