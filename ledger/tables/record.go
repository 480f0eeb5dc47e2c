package tables

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
)

// raw is JSON read from a nullable column.
func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// located is an operation by its id, which is an expression of SQL with its values.
type located struct {
	id   string
	args []any
}

// The ids of operations: as given, of an attempt, of what is awaited, of a key.
const (
	byID      = `?1`
	byAttempt = `(SELECT operation_id FROM attempts WHERE id = ?1)`
	byAwaits  = `(SELECT id FROM operations WHERE scope = ?1 AND awaits = ?2 AND awaits <> '' AND state = 'pending' LIMIT 1)`
	byKey     = `(SELECT id FROM operations
		 WHERE seq = (SELECT max(seq) FROM operations WHERE key IN (?1, ?4) AND scope = ?2 AND ?3 IN ('', kind) AND key_live = 1))`
)

// partTexts are the queries for what belongs to an operation.
type partTexts struct{ attempts, reads, evidence, grants, related string }

// textsBy makes them for an id when one is asked for by it: a start needs few.
var textsBy = map[string]func() partTexts{byID: textsOf(byID), byAttempt: textsOf(byAttempt), byAwaits: textsOf(byAwaits), byKey: textsOf(byKey)}

func textsOf(id string) func() partTexts {
	return sync.OnceValue(func() partTexts { return makeTexts(id) })
}

func makeTexts(id string) partTexts {
	reads := func(evidence string) string {
		return fmt.Sprintf(`
		SELECT id, operation_id, began_at, ended_at, verdict, cause, reason, found, receipts, %s, proof_at, digest, actor, seen_boot, seen_steady, seen_over
		  FROM reads WHERE operation_id = %s ORDER BY began_at DESC, rowid DESC LIMIT %d`, evidence, id, most)
	}
	return partTexts{
		attempts: `SELECT a.operation_id, ` + of("a.", attemptColumns) + ` FROM attempts a WHERE a.operation_id = ` + id + ` ORDER BY a.n`,
		reads:    reads(`''`),
		evidence: reads(`coalesce(evidence, '')`),
		grants: fmt.Sprintf(`
		SELECT id, operation_id, version, basis, sender, key_works, actor, reason,
		       created_at, expires_at, related, consumed_at, attempt_id, voided_at, void_reason
		  FROM grants WHERE operation_id = %s ORDER BY created_at DESC, rowid DESC LIMIT %d`, id, most),
		related: relatedTo(`operations o`, `o.id = `+id+` AND `),
	}
}

// most bounds what a record carries of each kind.
const most = 200

func loadAttempts(q Querier, at located) ([]ledger.Attempt, error) {
	var id string
	s := scan[ledger.Attempt]{columns: attemptColumns}
	dest := s.dest([]any{&id})
	return Collect(q, func(rows Rows) (ledger.Attempt, error) {
		err := rows.Scan(dest...)
		return attemptOf(id, s.row()), err
	}, textsBy[at.id]().attempts, at.args...)
}

func loadReads(q Querier, at located, evidence bool) ([]ledger.Read, error) {
	return Collect(q, func(rows Rows) (r ledger.Read, err error) {
		var began, ended, proof, seen int64
		var receipts, found string
		err = rows.Scan(&r.ID, &r.OperationID, &began, &ended, &r.Verdict, &r.Cause, &r.Reason, &r.Found, &receipts, &found, &proof, &r.Digest, &r.Actor, &r.Seen.Boot, &seen, &r.Over)
		r.Seen.At = time.Duration(seen) * time.Millisecond
		r.BeganAt, r.EndedAt, r.ProofAt = At(began), At(ended), At(proof)
		r.Receipts, r.Evidence = unlist(receipts), raw(found)
		return r, err
	}, textsBy[at.id]().ofReads(evidence), at.args...)
}

func (t partTexts) ofReads(evidence bool) string {
	if evidence {
		return t.evidence
	}
	return t.reads
}

func loadGrants(q Querier, at located) ([]ledger.Grant, error) {
	return Collect(q, func(rows Rows) (g ledger.Grant, err error) {
		var created, expires, consumed, voided int64
		var related string
		err = rows.Scan(&g.ID, &g.OperationID, &g.Version, &g.Basis, &g.Sender, &g.KeyWorks, &g.Actor, &g.Reason,
			&created, &expires, &related, &consumed, &g.AttemptID, &voided, &g.VoidReason)
		g.Related = unlist(related)
		g.CreatedAt, g.ExpiresAt, g.ConsumedAt, g.VoidedAt = At(created), At(expires), At(consumed), At(voided)
		return g, err
	}, textsBy[at.id]().grants, at.args...)
}

const holdsQuery = `
	SELECT scope, kinds, actor, os_user, host, machine, terminal, reason, created_at, until, change_id
	  FROM holds WHERE released_at = 0 ORDER BY created_at, id`

// loadHolds reads the holds in force at now: of those that no one has lifted, which are few.
func loadHolds(q Querier, now time.Time) ([]ledger.Hold, error) {
	all, err := Collect(q, func(rows Rows) (h ledger.Hold, err error) {
		var kinds string
		var created, until int64
		err = rows.Scan(&h.Scope, &kinds, &h.Actor.Name, &h.Actor.OSUser, &h.Actor.Host, &h.Actor.Machine, &h.Actor.Terminal,
			&h.Reason, &created, &until, &h.ChangeID)
		h.Kinds, h.CreatedAt, h.Until = unlist(kinds), At(created), At(until)
		return h, err
	}, holdsQuery)
	return slices.DeleteFunc(all, func(h ledger.Hold) bool { return !h.Until.IsZero() && Millis(h.Until) < Millis(now) }), err
}

// overtakes: t was first sent later than o, on the same target, or it may have acted there
// after o was done: it is open still, or was found to have landed since; what is taken over
// from another program was sent before it was recorded. precedes: it did neither.
const (
	sameTarget = `t.target = o.target AND t.target <> ''`
	actedSince = `(o.state = 'committed' AND (t.state IN ('pending', 'uncertain') OR t.state = 'committed' AND t.settled_at > o.settled_at))`
	later      = `(t.started_at, t.seq) > (o.started_at, o.seq)`
	overtakes  = `(` + sameTarget + ` AND (` + later + ` OR t.seq <> o.seq AND ` + actedSince + `))`
	precedes   = `(` + sameTarget + ` AND (t.started_at, t.seq) < (o.started_at, o.seq) AND NOT ` + actedSince + `)`
	relations  = 20 // of each sort at most
)

// overtaken says of a row of operations o what ledger.Row.Overtaken says. A list asks it of each
// row: of one that landed, only all of its target would tell.
var overtaken = `(o.state <> 'committed' AND EXISTS (SELECT 1 FROM operations t
	WHERE ` + sameTarget + ` AND ` + later + ` AND ` + mayHaveLanded("t") + `))`

// mayHaveLanded says of an operation what ledger.MayHaveLanded says.
func mayHaveLanded(operation string) string {
	return strings.ReplaceAll(`(OP.state NOT IN ('failed', 'abandoned') OR OP.hands_off = 1 OR OP.attempt_count = 0
	OR OP.attempt_count <> (SELECT count(*) FROM attempts a WHERE a.operation_id = OP.id AND (a.proof = 'not_there'
		OR a.proof <> '' AND CASE WHEN a.late_outcome <> '' THEN a.late_outcome ELSE a.outcome END = 'failed')))`, "OP", operation)
}

// relatedTo brings the newest of each sort, and the newest that landed or may
// have, which any number of newer ones without effect must not hide.
func relatedTo(from, where string) string {
	var parts []string
	for _, sort := range []struct{ overtook, when string }{{"1", overtakes}, {"0", precedes}} {
		for _, more := range []string{"", " AND " + mayHaveLanded("t")} {
			parts = append(parts, fmt.Sprintf(`
				SELECT * FROM (SELECT t.id, t.title, t.state, t.source, t.source_run, t.source_host, t.source_pid, t.created_at, t.settled_at, t.receipt,
				                      %s AS overtook, `+mayHaveLanded("t")+` AS landed
				                 FROM `+from+` JOIN operations t ON `+sort.when+`
				                WHERE `+where+`1 = 1`+more+` ORDER BY t.started_at DESC, t.seq DESC LIMIT %d) AS few`, sort.overtook, relations))
		}
	}
	return strings.Join(parts, " UNION ") + ` ORDER BY overtook DESC, created_at DESC, id DESC`
}

func scanRelation(rows Rows) (ledger.Relation, error) {
	var r ledger.Relation
	var created, settled int64
	err := rows.Scan(&r.ID, &r.Title, &r.State, &r.Source.Pipeline, &r.Source.Run, &r.Source.Host, &r.Source.PID, &created, &settled,
		&r.Receipt, &r.Overtook, &r.MayHaveLanded)
	r.CreatedAt, r.SettledAt = At(created), At(settled)
	return r, err
}

func loadRelated(q Querier, at located) ([]ledger.Relation, error) {
	return Collect(q, scanRelation, textsBy[at.id]().related, at.args...)
}
