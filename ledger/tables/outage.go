package tables

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
)

// outageColumns are what an outage is made of.
const outageColumns = `i.id, i.scope, i.kinds, i.pipelines, i.classes, i.gap_ms, i.opened_at, i.first_at, i.last_at,
	i.answered_at, i.over_at, i.taken_by, i.taken_until`

// MemberNew puts operations that are selected from operations o into outage_members, at
// the price that the list has.
const MemberNew = `INSERT INTO outage_members (seq, at, miss, miss_word, twice, twice_word, unpriced)
  SELECT o.seq, o.fault_at,
         coalesce(h.miss_value, 0.0), coalesce(h.miss_word, ''), coalesce(h.duplicate_value, 0.0), coalesce(h.duplicate_word, ''),
         CASE WHEN h.digest <> '' OR h.miss_value <> 0.0 OR h.miss_word <> '' OR h.duplicate_value <> 0.0 OR h.duplicate_word <> '' THEN 0 ELSE 1 END
    FROM operations o LEFT JOIN open_operations h ON h.seq = o.seq`

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

// fault looks for the outage that the end of an attempt belongs to, and says so in
// the operation of the change.
func (tx *tx) fault(c ledger.Change) error {
	if c.Fault == nil || c.Operation == nil {
		return nil
	}
	f, o := *c.Fault, c.Operation
	f.At = At(Millis(f.At))
	j, err := tx.join(*o, f)
	if err != nil {
		return err
	}
	if f.At.After(o.FaultAt) { // the clock may have been set back
		o.FaultAt = f.At
	}
	if j.Joins != "" {
		o.Outage, o.Joined = j.Outage.ID, j.Joins
	}
	return nil
}

// join writes down what a fault of an operation does, but for the operation itself.
func (tx *tx) join(o ledger.Operation, f ledger.Fault) (ledger.Joining, error) {
	f.Burst = f.Burst.Of(o.Kind)
	if err := tx.Lock("outage:" + f.Burst.Scope); err != nil {
		return ledger.Joining{}, err
	}
	tx.Ahead(Ask{waitingQuery, []any{f.Burst.Scope}})
	in, err := tx.concerned(o, f)
	if err != nil {
		return ledger.Joining{}, err
	}
	var waiting string
	var recent []ledger.Recent
	if err := one(tx.Tx, waitingQuery, []any{f.Burst.Scope}, &waiting); err != nil {
		return ledger.Joining{}, err
	}
	if json.Unmarshal([]byte(waiting), &recent) != nil { // other writers may put any JSON there
		recent = nil
	}
	j := f.Join(o, in, recent, tx.now())
	if left, _ := json.Marshal(j.Recent); len(j.Recent)+len(recent) > 0 && string(left) != waiting { // texts and times always marshal
		if j.Recent == nil {
			left = []byte("[]")
		}
		if err := tx.Quietly(`INSERT INTO outage_waiting (scope, errors) VALUES (?, ?) ON CONFLICT (scope) DO UPDATE SET errors = excluded.errors`,
			f.Burst.Scope, string(left)); err != nil {
			return j, err
		}
	}
	switch {
	case j.Outage == nil:
		return j, nil
	case j.Opened:
		return j, tx.open(j, f.Actor)
	}
	i := j.Outage
	return j, tx.Later(`UPDATE outages SET kinds = ?, pipelines = ?, classes = ?, first_at = ?, last_at = ?, answered_at = ?, over_at = ? WHERE id = ?`,
		list(i.Kinds), list(i.Pipelines), list(i.Classes), tx.d.Time(i.FirstAt), tx.d.Time(i.LastAt), tx.d.Time(i.AnsweredAt), tx.d.Time(i.OverAt), i.ID)
}

const waitingQuery = `SELECT coalesce((SELECT errors FROM outage_waiting WHERE scope = ?), '[]')`

// concerned is the outage that a fault may belong to: the one the operation is in,
// else the newest of its scope, or, of an error that is found out late, the one of
// that time.
func (tx *tx) concerned(o ledger.Operation, f ledger.Fault) (*ledger.Outage, error) {
	of := func(where string, args ...any) (*ledger.Outage, error) {
		return firstRow(tx.Tx, newOutageScan().row, `SELECT `+outageColumns+` FROM outages i WHERE `+where, args...)
	}
	if o.Outage != "" {
		return of(`i.id = ?`, o.Outage)
	}
	in, err := of(`i.scope = ? ORDER BY i.last_at DESC LIMIT 1`, f.Burst.Scope)
	if err != nil || in == nil || !f.At.Before(in.FirstAt) {
		return in, err
	}
	return of(`i.scope = ? AND i.last_at > ? ORDER BY i.last_at LIMIT 1`, f.Burst.Scope, Millis(f.At.Add(-f.Burst.Gap)))
}

// open writes down a new outage, and that the errors before this one belong to it.
func (tx *tx) open(j ledger.Joining, actor ledger.Actor) error {
	i, now := j.Outage, tx.now()
	e := j.Told(actor)
	if err := tx.event(e); err != nil {
		return err
	}
	if err := tx.Later(`
		INSERT INTO outages (id, scope, kinds, pipelines, classes, gap_ms, opened_at, first_at, last_at, change_id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		i.ID, i.Scope, list(i.Kinds), list(i.Pipelines), list(i.Classes), i.Gap.Milliseconds(), tx.d.Time(now), tx.d.Time(i.FirstAt), tx.d.Time(i.LastAt), e.ID); err != nil {
		return err
	}
	for _, w := range j.Earlier {
		if err := tx.Later(`UPDATE operations SET outage = ?, joined = ? WHERE id = ? AND outage = ''`, i.ID, ledger.JoinedAsError, w.Operation); err != nil {
			return err
		}
	}
	return nil
}

// doubts looks for the outages of doubts that no one has looked for yet: those of
// writers in plain SQL, and deadlines that passed.
func (tx *tx) doubts(prices []ledger.Pricing) error {
	ids, bursts, late := make([]string, len(prices)), map[string]ledger.Burst{}, ledger.Latecomers{}
	for i, p := range prices {
		ids[i], bursts[p.OperationID] = p.OperationID, p.Burst
	}
	ops, err := Collect(tx.Tx, func(rows Rows) (o ledger.Operation, err error) {
		var ended int64
		err = rows.Scan(&o.ID, &o.Kind, &o.Source.Pipeline, &o.ErrorClass, &o.Outage, &o.Joined, &ended)
		o.EndedAt = At(ended)
		return o, err
	}, `
		SELECT o.id, o.kind, o.source, o.error_class, o.outage, o.joined, o.ended_at
		  FROM json_each(?) p CROSS JOIN operations o ON o.id = p.value
		 WHERE o.state = 'uncertain' AND o.ended_at > o.fault_at
		   AND EXISTS (SELECT 1 FROM attempts a WHERE a.operation_id = o.id AND a.n = o.attempt_count AND a.outcome = 'uncertain')
		 ORDER BY o.ended_at DESC`, list(ids))
	for _, o := range ops {
		f := ledger.Fault{Burst: bursts[o.ID], At: o.EndedAt, Class: o.ErrorClass}
		var j ledger.Joining
		if j, err = tx.join(o, f); err != nil {
			return err
		}
		late.Add(j, o, f.At)
		if j.Joins != "" {
			o.Outage, o.Joined = j.Outage.ID, j.Joins
		}
		if err := tx.Later(`UPDATE operations SET outage = ?, joined = ?, fault_at = ? WHERE id = ?`, o.Outage, o.Joined, tx.d.Time(f.At), o.ID); err != nil {
			return err
		}
	}
	for _, e := range late.Told() {
		if err := tx.event(e); err != nil {
			return err
		}
	}
	return err
}

// fateSQL is what became of operation o, at ?1.
const fateSQL = `CASE WHEN o.conflict <> '' OR o.state = 'pending' OR o.state = 'uncertain' THEN 'open'
	WHEN o.state = 'committed' THEN 'landed'
	WHEN o.state = 'abandoned' THEN 'left'
	WHEN EXISTS (SELECT 1 FROM open_operations g WHERE g.seq = o.seq AND g.grant_until > ?1) THEN 'open'
	WHEN o.joined = 'refusal' AND o.doubted = 0 THEN 'refused'
	ELSE 'not_landed' END`

// members are operations o of outages, with their prices m.
const members = `operations o INDEXED BY operations_by_outage LEFT JOIN outage_members m ON m.seq = o.seq`

// standing are of operations o what the sums count. What an index does not have is read of
// those that were sent more than once.
const standing = `o.seq, o.attempt_count > 1 AS resent, o.effects > 1 OR o.conflict = 'duplicate' AS doubled,
	CASE WHEN o.attempt_count > 1 AND o.effects <= 1 AND o.conflict <> 'duplicate' AND o.state <> 'failed'
	     THEN NOT EXISTS (SELECT 1 FROM reads r WHERE r.operation_id = o.id AND r.began_at >= o.ended_at AND r.verdict IN ('landed', 'not_there')) ELSE FALSE END AS unchecked`

// sumsSQL are the sums of s, which stand so, at the prices of m.
const sumsSQL = `count(*), coalesce(sum(m.miss) FILTER (WHERE m.miss_word = ''), 0.0), count(*) FILTER (WHERE m.miss_word <> ''),
	coalesce(sum(m.twice) FILTER (WHERE m.twice_word = ''), 0.0), count(*) FILTER (WHERE m.twice_word <> ''), sum(coalesce(m.unpriced, 1)),
	count(*) FILTER (WHERE s.resent), count(*) FILTER (WHERE s.doubled), count(*) FILTER (WHERE s.unchecked)`

// outageSums are the sums of outages ?2, at ?1.
const outageSums = `
	WITH s AS MATERIALIZED (
		SELECT o.outage, ` + fateSQL + ` AS fate, ` + standing + `
		  FROM json_each(?2) i CROSS JOIN operations o INDEXED BY operations_by_outage ON o.outage = i.value AND o.outage <> '')
	SELECT s.outage, s.fate, ` + sumsSQL + ` FROM s LEFT JOIN outage_members m ON m.seq = s.seq GROUP BY 1, 2`

// Sums gives outages their sums.
func (s *Store) Sums(ctx context.Context, ins []ledger.Outage, now time.Time) error {
	return s.db.View(ctx, func(q Querier) error { return summed(q, ins, now) })
}

// summed gives outages their sums, at now.
func summed(q Querier, ins []ledger.Outage, now time.Time) error {
	if len(ins) == 0 {
		return nil
	}
	ids, of := make([]string, len(ins)), map[string]map[ledger.Fate]ledger.Sum{}
	for i, in := range ins {
		ids[i], of[in.ID] = in.ID, map[ledger.Fate]ledger.Sum{}
		ins[i].Fates = of[in.ID]
	}
	_, err := Collect(q, func(rows Rows) (none struct{}, err error) {
		var id string
		var fate ledger.Fate
		var sum ledger.Sum
		if err = rows.Scan(append([]any{&id, &fate}, sumDest(&sum)...)...); err == nil {
			of[id][fate] = sum
		}
		return none, err
	}, outageSums, Millis(now), list(ids))
	return err
}

// sumDest are where a row's sumsSQL go.
func sumDest(s *ledger.Sum) []any {
	return []any{&s.N, &s.Miss, &s.MissWords, &s.Twice, &s.TwiceWords, &s.Unpriced, &s.Resent, &s.Doubled, &s.Unchecked}
}

// newestOutages are outages by their newest error.
const newestOutages = `SELECT ` + outageColumns + ` FROM outages i INDEXED BY outages_by_last ORDER BY i.last_at DESC, i.id LIMIT ?1+0`

// Outages lists outages without their sums.
func (s *Store) Outages(ctx context.Context, now time.Time, limit int) (ins []ledger.Outage, err error) {
	err = s.db.View(ctx, func(q Querier) (err error) {
		ins, err = Collect(q, newOutageScan().row, newestOutages, limit)
		if err == nil {
			err = answered(q, ins, now)
		}
		return err
	})
	return ins, err
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
	n.Ahead(Ask{outageMinutes, []any{id}}, Ask{outageGroups(), []any{Millis(now), id}}, Ask{sentAgain, []any{id}}, Ask{outageHistory, []any{id}})
	in, err := outage(n, id, now)
	a.Outage = in
	if err == nil {
		a.Minutes, err = Collect(n, func(rows Rows) (m ledger.Minute, err error) {
			var minute int64
			err = rows.Scan(&minute, &m.N)
			m.At = At(minute * 60000)
			return m, err
		}, outageMinutes, in.ID)
	}
	if err == nil {
		a.Groups, err = Collect(n, scanGroup, outageGroups(), Millis(now), in.ID)
		a.Rest()
	}
	if err == nil && slices.ContainsFunc(a.Groups, func(g ledger.OutageGroup) bool { return g.Group == ledger.GroupElsewhere }) {
		a.Elsewhere, err = landings(s, n, in, now)
	}
	if err == nil {
		var checked int64
		_, err = Collect(n, func(rows Rows) (none struct{}, err error) { return none, rows.Scan(&a.Already, &checked) }, sentAgain, in.ID)
		a.CheckedAt = At(checked)
	}
	if err == nil {
		a.Events, err = Collect(n, func(rows Rows) (ledger.Event, error) { return ScanEvent(rows) }, outageHistory, in.ID)
		slices.Reverse(a.Events)
	}
	return a, err
}

const outageMinutes = `
	SELECT coalesce(m.at, o.fault_at) / 60000, count(*) FROM ` + members + ` WHERE o.outage = ? AND o.outage <> '' GROUP BY 1 ORDER BY 1`

// outageHistory is the newest of what is told of an outage. The errors that joined it
// are in its account.
const outageHistory = `SELECT ` + EventColumns + ` FROM events WHERE outage = ? AND outage <> '' AND (verb = 'outage_joined') = FALSE ORDER BY seq DESC LIMIT 500`

// outage finds one by its id or the beginning of it.
func outage(q Querier, id string, now time.Time) (ledger.Outage, error) {
	if len(id) < 4 {
		return ledger.Outage{}, &ledger.NoOutageError{ID: id}
	}
	names := []any{id, id + "\U0010ffff"}
	q.Ahead(Ask{oneOutage, names}, Ask{outageSums, []any{Millis(now), list([]string{id})}})
	found, err := Collect(q, newOutageScan().row, oneOutage, names...)
	if err == nil {
		err = cmp.Or(summed(q, found, now), answered(q, found, now))
	}
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

// outageGroups counts what is in the list of one outage by its group, and what was
// in flight there and is overdue.
var outageGroups = sync.OnceValue(func() string {
	return `
	WITH stands AS MATERIALIZED (
		SELECT o.seq AS of, ` + groupSQL + ` AS grp
		  FROM open_operations h INDEXED BY open_by_outage CROSS JOIN operations o ON o.seq = h.seq WHERE h.outage = ?2 AND h.outage <> ''
		UNION ALL
		SELECT o.seq, ` + flightGroup + ` FROM ` + strings.Replace(flightFrom, "(h.seq IS NULL OR h.class = 'pending')", "h.seq IS NULL", 1) + `
		   AND o.deadline_at < ?1 AND o.outage = ?2),
	s AS MATERIALIZED (
		SELECT CASE WHEN w.grp IN (` + unlisted + `) THEN '' ELSE o.kind END AS kind, ` + fateSQL + ` AS fate, w.grp,
		       CASE w.grp WHEN 'parked' THEN o.actor WHEN 'unfetched' THEN o.source WHEN 'overdue' THEN o.source WHEN 'held' THEN ` + heldBy + ` WHEN 'running' THEN ` + inRun + ` ELSE '' END AS who,
		       ` + standing + `
		  FROM stands w CROSS JOIN operations o ON o.seq = w.of)
	SELECT s.kind, s.fate, s.grp, s.who, ` + sumsSQL + ` FROM s LEFT JOIN outage_members m ON m.seq = s.seq GROUP BY 1, 2, 3, 4`
})

// unlisted are the groups of which a list has some operations only.
var unlisted = func() string {
	var names []string
	for _, g := range ledger.Groups {
		if g.Tab() == ledger.TabSettled || g == ledger.GroupInFlight {
			names = append(names, "'"+string(g)+"'")
		}
	}
	return strings.Join(names, ", ")
}()

func scanGroup(rows Rows) (g ledger.OutageGroup, err error) {
	err = rows.Scan(append([]any{&g.Kind, &g.Fate, &g.Group, &g.By}, sumDest(&g.Sum)...)...)
	return g, err
}

// sentAgain is what became of what was sent more than once.
const sentAgain = `
	SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM attempts a WHERE a.operation_id = o.id AND a.already = 1)),
	       coalesce(max((SELECT max(r.ended_at) FROM reads r WHERE r.operation_id = o.id AND r.began_at >= o.ended_at
	                                                            AND r.verdict IN ('landed', 'not_there'))), 0)
	  FROM operations o INDEXED BY operations_by_outage WHERE o.outage = ? AND o.outage <> '' AND o.attempt_count > 1`

// landings names the operations of a group that may have landed by another one.
func landings(s *Store, q Querier, in ledger.Outage, now time.Time) ([]ledger.Landing, error) {
	f, err := ledger.ParseFilter("outage:" + in.ID + " group:" + string(ledger.GroupElsewhere))
	if err != nil {
		return nil, err
	}
	b := &binder{d: s.d, args: []any{Millis(now)}}
	query := pageSQL(b, ledger.Query{Tab: ledger.TabNeedsYou, Order: ledger.OrderOldest, Filter: f, Limit: ledger.SomeElsewhere}, nil, nil, nil, 0, in.ID)
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
		var known bool
		if in, err = outage(tx.Tx, c.ID, now); err == nil && tx.d.Locks {
			if err = tx.Lock("outage:" + in.Scope); err == nil {
				in, err = outage(tx.Tx, in.ID, now)
			}
		}
		if err == nil {
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
		return tx.Later(`UPDATE outages SET taken_by = ?, taken_until = ?, change_id = ? WHERE id = ?`,
			in.TakenBy, tx.d.Time(in.TakenUntil), e.ID, in.ID)
	})
	return in, err
}
