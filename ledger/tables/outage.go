package tables

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
)

// outageColumns are what an outage is made of.
const outageColumns = `i.id, i.scope, i.kinds, i.pipelines, i.classes, i.gap_ms, i.opened_at, i.first_at, i.last_at,
	i.answered_at, i.over_at, i.taken_by, i.taken_until`

// outageScan takes outages one after the other. Many have the same names in them.
type outageScan struct {
	in                                              ledger.Outage
	kinds, pipelines, classes                       string
	gap, opened, first, last, answered, over, until int64
	names                                           map[string][]string
	dest                                            []any
}

func newOutageScan() *outageScan {
	s := &outageScan{names: map[string][]string{}}
	s.dest = []any{&s.in.ID, &s.in.Scope, &s.kinds, &s.pipelines, &s.classes, &s.gap, &s.opened, &s.first, &s.last,
		&s.answered, &s.over, &s.in.TakenBy, &s.until}
	return s
}

func (s *outageScan) row(rows Rows) (ledger.Outage, error) {
	err := rows.Scan(s.dest...)
	in := s.in
	in.Kinds, in.Pipelines, in.Classes, in.Gap = s.listed(s.kinds), s.listed(s.pipelines), s.listed(s.classes), time.Duration(s.gap)*time.Millisecond
	in.OpenedAt, in.FirstAt, in.LastAt, in.AnsweredAt = At(s.opened), At(s.first), At(s.last), At(s.answered)
	in.OverAt, in.TakenUntil = At(s.over), At(s.until)
	return in, err
}

// listed are names as they are stored.
func (s *outageScan) listed(text string) []string {
	known, ok := s.names[text]
	if !ok {
		known = slices.Clip(unlist(text))
		s.names[text] = known
	}
	return known
}

// LostAttempt is the condition that attempt a counts in the outage of its time, as
// ledger.Attempt.Lost says.
const LostAttempt = `a.outcome IN ('uncertain', 'failed') AND a.sender <> 'import'`

// members are the attempts a by which operations o count in an outage: of each the first
// that ended in it, from ?2 until ?3, and of its kinds, ?4.
const members = `attempts a INDEXED BY attempts_lost CROSS JOIN operations o ON o.id = a.operation_id
	 WHERE ` + LostAttempt + ` AND a.ended_at >= ?2 AND a.ended_at < ?3 AND o.kind IN (SELECT value FROM json_each(?4))
	   AND (a.n = 1 OR NOT EXISTS (SELECT 1 FROM attempts b WHERE b.operation_id = a.operation_id AND b.n < a.n
	        AND b.outcome IN ('uncertain', 'failed') AND b.sender <> 'import' AND b.ended_at >= ?2 AND b.ended_at < ?3))`

// span are the arguments of members.
func span(in ledger.Outage, now time.Time) []any {
	return []any{Millis(now), Millis(in.FirstAt), Millis(in.End()), list(in.Kinds)}
}

// inOutage is the condition that operation o counts in an outage i of which where is true.
func inOutage(where string) string {
	return `EXISTS (SELECT 1 FROM attempts a CROSS JOIN outages i ON a.ended_at >= i.first_at AND a.ended_at < i.last_at + i.gap_ms
		WHERE a.operation_id = o.id AND ` + LostAttempt + ` AND ` + where + ` AND EXISTS (SELECT 1 FROM json_each(i.kinds) WHERE value = o.kind))`
}

// membersOf selects what counts in the outages whose id begins so.
func membersOf(b *binder, id string) string {
	return `SELECT DISTINCT o.seq FROM outages i CROSS JOIN attempts a INDEXED BY attempts_lost
		ON a.ended_at >= i.first_at AND a.ended_at < i.last_at + i.gap_ms
		CROSS JOIN operations o ON o.id = a.operation_id
		WHERE ` + begins(b, "i.id", id) + ` AND ` + LostAttempt + ` AND EXISTS (SELECT 1 FROM json_each(i.kinds) WHERE value = o.kind)`
}

// outagesOf names the outages that operations are in, the newest first.
func outagesOf(q Querier, rows []ledger.Row) (map[string][]string, error) {
	kinds, since := map[string]string{}, int64(math.MaxInt64)
	for _, r := range rows {
		kinds[r.ID], since = r.Kind, min(since, Millis(r.CreatedAt))
	}
	ids := []any{list(slices.Collect(maps.Keys(kinds)))}
	q.Ahead(Ask{lostAttempts, ids}, Ask{outagesAfter, []any{since}})
	ended := map[string][]time.Time{}
	if _, err := Collect(q, func(rows Rows) (none struct{}, err error) {
		var id string
		var at int64
		err = rows.Scan(&id, &at)
		ended[id] = append(ended[id], At(at))
		return none, err
	}, lostAttempts, ids...); err != nil || len(ended) == 0 {
		return nil, err
	}
	ins, err := Collect(q, newOutageScan().row, outagesAfter, since)
	of := map[string][]string{}
	for _, in := range ins {
		for id, ats := range ended {
			if slices.Contains(in.Kinds, kinds[id]) && slices.ContainsFunc(ats, in.Takes) {
				of[id] = append(of[id], in.ID)
			}
		}
	}
	return of, err
}

// inOutages says of records which outages they are in.
func inOutages(q Querier, recs []ledger.Record) error {
	in, err := outagesOf(q, ledger.Each(recs, func(r ledger.Record) ledger.Row { return r.Operation.Row() }))
	for i := range recs {
		recs[i].Outages = in[recs[i].Operation.ID]
	}
	return err
}

const (
	lostAttempts = `SELECT a.operation_id, a.ended_at FROM json_each(?) p CROSS JOIN attempts a ON a.operation_id = p.value
		WHERE ` + LostAttempt
	outagesAfter = `SELECT ` + outageColumns + ` FROM outages i INDEXED BY outages_by_last
		WHERE i.last_at + i.gap_ms > ? ORDER BY i.last_at DESC, i.id`
)

// TheirOutages joins outages i with operations o that are in them.
const TheirOutages = `CROSS JOIN attempts a ON a.operation_id = o.id AND ` + LostAttempt + `
	CROSS JOIN outages i ON a.ended_at >= i.first_at AND a.ended_at < i.last_at + i.gap_ms
	 AND EXISTS (SELECT 1 FROM json_each(i.kinds) WHERE value = o.kind)`

// wasRefused says of operation o what ledger.Record says.
const wasRefused = `o.doubted = 0 AND EXISTS (SELECT 1 FROM attempts p WHERE p.operation_id = o.id AND p.proof = 'refused')`

// fateSQL is what became of operation o, with what the list has of it, h, at ?1.
const fateSQL = `CASE WHEN ` + laneSQL + ` = 'reading' THEN 'checking'
	WHEN o.conflict <> '' OR o.state = 'pending' OR o.state = 'uncertain' THEN 'open'
	WHEN o.state = 'committed' THEN 'landed'
	WHEN o.state = 'abandoned' THEN 'left'
	WHEN h.grant_until > ?1 THEN 'open'
	WHEN ` + wasRefused + ` THEN 'refused'
	ELSE 'not_landed' END`

// standing are of operations o and of the list, h, what the sums count.
const standing = `o.attempt_count > 1 AS resent, o.effects > 1 OR o.conflict = 'duplicate' AS doubled,
	CASE WHEN o.attempt_count > 1 AND o.effects <= 1 AND o.conflict <> 'duplicate' AND o.state <> 'failed'
	     THEN NOT EXISTS (SELECT 1 FROM reads r WHERE r.operation_id = o.id AND r.began_at >= o.ended_at
	                         AND r.verdict IN ('landed', 'not_there')) ELSE FALSE END AS unchecked,
	h.miss_value AS miss, h.miss_word, h.duplicate_value AS twice, h.duplicate_word AS twice_word,
	h.seq IS NOT NULL AND h.digest = '' AND h.miss_value = 0.0 AND h.miss_word = ''
	 AND h.duplicate_value = 0.0 AND h.duplicate_word = '' AS unpriced`

// sumsSQL are the sums of s, which stand so.
const sumsSQL = `count(*), coalesce(sum(s.miss) FILTER (WHERE s.miss_word = ''), 0.0), count(*) FILTER (WHERE s.miss_word <> ''),
	coalesce(sum(s.twice) FILTER (WHERE s.twice_word = ''), 0.0), count(*) FILTER (WHERE s.twice_word <> ''),
	count(*) FILTER (WHERE s.unpriced),
	count(*) FILTER (WHERE s.resent), count(*) FILTER (WHERE s.doubled), count(*) FILTER (WHERE s.unchecked)`

// membersListed are members with what the list has beside them.
var membersListed = strings.Replace(members, "\n\t WHERE", " LEFT JOIN open_operations h ON h.seq = o.seq\n\t WHERE", 1)

// outageSums are the sums of an outage by what became of its operations.
var outageSums = `
	WITH s AS MATERIALIZED (SELECT ` + fateSQL + ` AS fate, ` + standing + ` FROM ` + membersListed + `)
	SELECT s.fate, ` + sumsSQL + ` FROM s GROUP BY 1`

// Sums gives outages their sums.
func (s *Store) Sums(ctx context.Context, ins []ledger.Outage, now time.Time) error {
	return s.db.View(ctx, func(q Querier) error { return summed(q, ins, now) })
}

// summed gives outages their sums, at now.
func summed(q Querier, ins []ledger.Outage, now time.Time) error {
	q.Ahead(ledger.Each(ins, func(in ledger.Outage) Ask { return Ask{outageSums, span(in, now)} })...)
	for i := range ins {
		fates := map[ledger.Fate]ledger.Sum{}
		ins[i].Fates = fates
		if _, err := Collect(q, func(rows Rows) (none struct{}, err error) {
			var fate ledger.Fate
			var sum ledger.Sum
			if err = rows.Scan(append([]any{&fate}, sumDest(&sum)...)...); err == nil {
				fates[fate] = sum
			}
			return none, err
		}, outageSums, span(ins[i], now)...); err != nil {
			return err
		}
	}
	return nil
}

// sumDest are where a row's sumsSQL go.
func sumDest(s *ledger.Sum) []any {
	return []any{&s.N, &s.Miss, &s.MissWords, &s.Twice, &s.TwiceWords, &s.Unpriced, &s.Resent, &s.Doubled, &s.Unchecked}
}

// newestOutages are outages by their newest error.
const newestOutages = `SELECT ` + outageColumns + ` FROM outages i INDEXED BY outages_by_last ORDER BY i.last_at DESC, i.id LIMIT ?1+0`

// Outages lists outages without their sums.
func (s *Store) Outages(ctx context.Context, _ time.Time, limit int) ([]ledger.Outage, error) {
	return Gather(ctx, s.db, newOutageScan().row, newestOutages, limit)
}

const oneOutage = `SELECT ` + outageColumns + ` FROM outages i WHERE i.id >= ?1 AND i.id < ?2 ORDER BY i.id LIMIT 10`

// Outage returns one outage with its account.
func (s *Store) Outage(ctx context.Context, id string, now time.Time) (a ledger.OutageAccount, err error) {
	err = s.db.View(ctx, func(q Querier) (err error) {
		a, err = account(s, q, id, now)
		return err
	})
	return a, err
}

func account(s *Store, n Querier, id string, now time.Time) (a ledger.OutageAccount, err error) {
	if a.Outage, err = outage(n, id); err != nil {
		return a, err
	}
	b := &binder{d: s.d, args: span(a.Outage, now)}
	groups, err := inRuns(n, b, outageGroups())
	if err != nil {
		return a, err
	}
	n.Ahead(Ask{groups, b.args}, Ask{outageHistory, []any{a.ID}})
	minutes, sums := map[int64]int{}, map[ledger.OutageGroup]ledger.Sum{}
	a.Fates = map[ledger.Fate]ledger.Sum{}
	_, err = Collect(n, func(rows Rows) (none struct{}, err error) {
		var minute, checked int64
		var g ledger.OutageGroup
		var sum ledger.Sum
		var already int
		if err = rows.Scan(append([]any{&minute, &g.Kind, &g.Fate, &g.Group, &g.By, &already, &checked}, sumDest(&sum)...)...); err == nil {
			minutes[minute] += sum.N
			sums[g], a.Fates[g.Fate] = sums[g].Add(sum), a.Fates[g.Fate].Add(sum)
			a.Already += already
			a.CheckedAt = At(max(checked, Millis(a.CheckedAt)))
		}
		return none, err
	}, groups, b.args...)
	if err != nil {
		return a, err
	}
	a.Fill(minutes, sums)
	if slices.ContainsFunc(a.Groups, func(g ledger.OutageGroup) bool { return g.Group == ledger.GroupElsewhere }) {
		a.Elsewhere, err = landings(s, n, a.Outage, now)
	}
	if err == nil {
		a.Events, err = Collect(n, func(rows Rows) (ledger.Event, error) { return ScanEvent(rows) }, outageHistory, a.ID)
		slices.Reverse(a.Events)
	}
	return a, err
}

// outageHistory is the newest of what is told of an outage.
const outageHistory = `SELECT ` + EventColumns + ` FROM events WHERE outage = ? AND outage <> '' ORDER BY seq DESC LIMIT 500`

// outage finds one by its id or the beginning of it.
func outage(q Querier, id string) (ledger.Outage, error) {
	if len(id) < 4 {
		return ledger.Outage{}, &ledger.NoOutageError{ID: id}
	}
	found, err := Collect(q, newOutageScan().row, oneOutage, id, id+"\U0010ffff")
	switch {
	case err != nil:
		return ledger.Outage{}, err
	case len(found) == 0:
		return ledger.Outage{}, &ledger.NoOutageError{ID: id}
	case len(found) > 1:
		return ledger.Outage{}, &ledger.AmbiguousError{Prefix: id, IDs: ledger.Each(found, func(in ledger.Outage) string { return in.ID })}
	}
	return found[0], nil
}

// outageGroups counts what is in an outage by the minute of its error, by what became of
// it and by its group, with what became of what was sent more than once.
var outageGroups = sync.OnceValue(func() string {
	return `
	WITH stands AS MATERIALIZED (
		SELECT a.ended_at / 60000 AS minute, o.seq AS of, ` + fateSQL + ` AS fate, ` + groupAny + ` AS grp, ` + standing + `
		  FROM ` + membersListed + `)
	SELECT s.minute, CASE WHEN s.grp IN (` + unlisted + `) THEN '' ELSE o.kind END, s.fate, s.grp,
	       CASE s.grp WHEN 'parked' THEN o.actor WHEN 'unfetched' THEN o.source WHEN 'overdue' THEN o.source
	                  WHEN 'held' THEN ` + heldBy + ` WHEN 'running' THEN ` + inRun + ` ELSE '' END,
	       count(*) FILTER (WHERE s.resent AND EXISTS (SELECT 1 FROM attempts a WHERE a.operation_id = o.id AND a.already = 1)),
	       coalesce(max(CASE WHEN s.resent THEN (SELECT max(r.ended_at) FROM reads r WHERE r.operation_id = o.id AND r.began_at >= o.ended_at
	                                              AND r.verdict IN ('landed', 'not_there')) END), 0),
	       ` + sumsSQL + `
	  FROM stands s CROSS JOIN operations o ON o.seq = s.of GROUP BY 1, 2, 3, 4, 5`
})

// unlisted are the groups that are not told apart by their kinds.
var unlisted = func() string {
	var names []string
	for _, g := range ledger.Groups {
		if g.Tab() == ledger.TabSettled || g == ledger.GroupInFlight {
			names = append(names, "'"+string(g)+"'")
		}
	}
	return strings.Join(names, ", ")
}()

// landings names the operations of a group that may have landed by another one.
func landings(s *Store, q Querier, in ledger.Outage, now time.Time) ([]ledger.Landing, error) {
	f, err := ledger.ParseFilter("outage:" + in.ID + " group:" + string(ledger.GroupElsewhere))
	if err != nil {
		return nil, err
	}
	b := &binder{d: s.d, args: []any{Millis(now)}}
	of := ledger.Query{Tab: ledger.TabNeedsYou, Order: ledger.OrderOldest, Filter: f, Limit: ledger.SomeElsewhere}
	query, err := inRuns(q, b, pageSQL(b, of, nil, nil, nil, 0))
	if err != nil {
		return nil, err
	}
	scan := newRowScan(1)
	rows, err := Collect(q, scan.row, query, b.args...)
	if err != nil {
		return nil, err
	}
	var out []ledger.Landing
	for _, r := range rows[:min(len(rows), ledger.SomeElsewhere)] {
		others, err := loadRelated(q, located{byID, []any{r.ID}})
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(others, func(o ledger.Relation) bool { return o.MayHaveLanded }); i >= 0 {
			out = append(out, ledger.Landing{Operation: r.ID, Title: r.Title, Other: others[i]})
		}
	}
	return out, nil
}

// ChangeOutage carries out what a person does with an outage.
func (s *Store) ChangeOutage(ctx context.Context, c ledger.OutageChange) (in ledger.Outage, err error) {
	if c.ChangeID == "" {
		c.ChangeID = ledger.NewID()
	}
	err = s.update(ctx, func(tx *tx) error {
		tx.Known(c.ChangeID)
		now := tx.now()
		if err = tx.Lock(outagesName); err != nil {
			return err
		}
		var known bool
		if in, err = outage(tx.Tx, c.ID); err == nil {
			known, err = tx.happened(c.ChangeID)
		}
		if err != nil || known {
			return err
		}
		after, e, err := c.Apply(in, now)
		if err != nil {
			return err
		}
		if err := tx.event(e); err != nil {
			return err
		}
		in = after
		return tx.Later(`UPDATE outages SET taken_by = ?, taken_until = ? WHERE id = ?`, in.TakenBy, tx.d.Time(in.TakenUntil), in.ID)
	})
	return in, err
}
