package tables

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

// sheaf is what is remembered of operations that are archived together.
type sheaf struct {
	n           int64
	stubs       []ledger.Stub
	ids         []string
	until       time.Time
	low, high   int64
	first, last string
}

func (s *sheaf) add(seq int64, until time.Time, w ledger.Whole) {
	stub, o := w.Slim(""), w.Operation
	p := &stub.Operation
	p.ID, p.Kind, p.Scope, p.Key, p.KeyLive, p.Target, p.State = "", "", "", "", false, "", ""
	for i := range stub.Attempts {
		a := &stub.Attempts[i]
		a.OperationID = ""
		if ofPlain(a.ID) == o.ID {
			continue
		}
		if s.first == "" || a.ID < s.first {
			s.first = a.ID
		}
		s.last = max(s.last, a.ID)
	}
	if until.After(s.until) {
		s.until = until
	}
	if len(s.stubs) == 0 || seq < s.low {
		s.low = seq
	}
	s.high = max(s.high, seq)
	s.stubs, s.ids = append(s.stubs, ledger.Stub{Seq: seq, Whole: stub}), append(s.ids, o.ID)
}

// ofPlain is the operation whose attempt plain SQL has named so, or "".
func ofPlain(attempt string) string {
	at := strings.LastIndexByte(attempt, '.')
	if at < 0 {
		return ""
	}
	return attempt[:at]
}

// leave leaves a sheaf and its stubs, which have in columns what is asked for.
func (tx *tx) leave(s *sheaf, archive int64) error {
	rest, err := ledger.Pack(s.stubs)
	if err != nil {
		return err
	}
	if err := tx.Later(`INSERT INTO sheaves (n, archive, until, low, high, first, last, rest)
		VALUES ((SELECT coalesce(max(n), 0) + 1 FROM sheaves), ?, ?, ?, ?, ?, ?, ?)`,
		archive, tx.d.Time(s.until), s.low, s.high, s.first, s.last, rest); err != nil {
		return err
	}
	return tx.Later(`INSERT INTO archived (seq, id, kind, scope, key, key_live, target, state, sheaf)
		SELECT seq, id, kind, scope, key, key_live = 1, target, state, (SELECT max(n) FROM sheaves) FROM operations WHERE id IN (SELECT value FROM json_each(?))`, list(s.ids))
}

// forget takes sheaves that are over by both clocks, with their stubs.
func (tx *tx) forget() error {
	now := tx.Moment()
	over, err := Collect(tx, func(rows Rows) (s sheaf, err error) {
		var rest string
		if err := rows.Scan(&s.n, &s.low, &s.high, &rest); err != nil {
			return s, err
		}
		s.stubs, err = ledger.Unpack(rest)
		return s, err
	}, `SELECT n, low, high, rest FROM sheaves WHERE until <> 0 AND until < ?1 ORDER BY until LIMIT 2`, Millis(now.Wall))
	if err != nil {
		return err
	}
	for _, s := range over {
		if slices.ContainsFunc(s.stubs, func(o ledger.Stub) bool { return !o.Over(now) }) {
			continue
		}
		const of = ` WHERE seq BETWEEN ? AND ? AND sheaf = ?`
		if err := errors.Join(tx.Later(`UPDATE archived SET key_live = ?`+of, tx.d.Flag(false), s.low, s.high, s.n),
			tx.Later(`DELETE FROM archived`+of, s.low, s.high, s.n), tx.Later(`DELETE FROM sheaves WHERE n = ?`, s.n)); err != nil {
			return err
		}
	}
	return nil
}

// stubsBy finds the stub of a located operation.
var stubsBy = map[string]string{
	byID:  `a.id = ?1`,
	byKey: `a.seq = (SELECT max(seq) FROM archived WHERE key IN (?1, ?4) AND scope = ?2 AND ?3 IN ('', kind) AND key_live = 1)`,
}

// scanStub reads a stub, and the others of its sheaf, which have less.
func scanStub(rows Rows) (o ledger.Stub, err error) {
	var rest, file string
	if err := rows.Scan(&o.Seq, &o.Operation.ID, &o.Operation.Kind, &o.Operation.Scope, &o.Operation.Key, &o.Operation.KeyLive, &o.Operation.Target, &o.Operation.State, &rest, &file); err != nil {
		return o, err
	}
	all, err := ledger.Unpack(rest)
	i := slices.IndexFunc(all, func(s ledger.Stub) bool { return s.Seq == o.Seq })
	if err != nil || i < 0 {
		return o, errors.Join(err, fmt.Errorf("the stub of %s is in no sheaf", o.Operation.ID))
	}
	w, p := all[i], &all[i].Operation
	p.ID, p.Kind, p.Scope, p.Key, p.KeyLive, p.Target, p.State, p.Archive = o.Operation.ID, o.Operation.Kind, o.Operation.Scope, o.Operation.Key, o.Operation.KeyLive,
		o.Operation.Target, o.Operation.State, file
	for i := range w.Attempts {
		w.Attempts[i].OperationID = p.ID
	}
	w.Operation = *p
	return w, nil
}

// stubOf is the stub of a located operation, or nil.
func stubOf(q Querier, at located) (*ledger.Stub, error) {
	const stubs = `SELECT a.seq, a.id, a.kind, a.scope, a.key, a.key_live, a.target, a.state, s.rest, f.file
		FROM archived a JOIN sheaves s ON s.n = a.sheaf JOIN archives f ON f.n = s.archive WHERE `
	if at.id != byAttempt {
		where, ok := stubsBy[at.id]
		if !ok {
			return nil, nil
		}
		return firstRow(q, scanStub, stubs+where, at.args...)
	}
	id, _ := at.args[0].(string)
	has := func(s *ledger.Stub) bool {
		return s != nil && slices.ContainsFunc(s.Attempts, func(a ledger.Attempt) bool { return a.ID == id })
	}
	if plain := ofPlain(id); plain != "" {
		if s, err := firstRow(q, scanStub, stubs+`a.id = ?1`, plain); err != nil || has(s) {
			return s, err
		}
	}
	// Ids begin with their time, so that few sheaves have others around it.
	near, err := Collect(q, word, `SELECT rest FROM sheaves INDEXED BY sheaves_by_attempt WHERE last >= ?1 AND first <= ?1 ORDER BY last, first`, id)
	for _, rest := range near {
		all, err := ledger.Unpack(rest)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			if has(&s) {
				return firstRow(q, scanStub, stubs+`a.seq = ?1`, s.Seq)
			}
		}
	}
	return nil, err
}

// loadStub reads an archived operation, as its rules see it.
func loadStub(q Querier, at located, skip ledger.Parts) (rec Record, err error) {
	rec = nothing(q)
	found, err := stubOf(q, at)
	if err != nil || found == nil {
		return rec, err
	}
	rec.Found, rec.stub = true, found.Seq
	rec.Operation, rec.Attempts = found.Operation, found.Attempts
	if skip&ledger.PartHolds == 0 {
		if rec.Holds, err = loadHolds(q, rec.Now); err != nil {
			return rec, err
		}
	}
	if skip&ledger.PartRelated == 0 {
		o := rec.Operation
		rec.Related, err = Collect(q, scanRelation, relatedToStub(), o.ID, o.Kind, o.Target, o.Fingerprint, Millis(o.StartedAt), rec.stub, o.Scope, o.Key, string(o.State), Millis(o.SettledAt))
	}
	return rec, err
}
