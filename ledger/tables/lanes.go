package tables

import (
	"fmt"

	"indoubt/ledger"
)

// The expressions below say in SQL what ledger.Row says in Go; a test compares
// them on every combination. ?1 is now, h the hot table.
const (
	parkedSQL = `?1 < h.parked_until`

	stateSQL = `CASE WHEN h.state = 'pending' AND h.deadline_at < ?1 THEN 'uncertain' ELSE h.state END`

	laneSQL = `CASE
		WHEN h.conflict <> '' THEN 'conflict'
		WHEN h.state = 'pending' AND h.deadline_at >= ?1 THEN 'in_flight'
		WHEN h.granted_at <> 0 AND ?1 < h.grant_until AND h.state IN ('pending', 'uncertain', 'failed') THEN 'unfetched'
		WHEN h.state IN ('pending', 'uncertain') AND (h.hands_off = 1 OR h.decide_at <= ?1) THEN 'decide'
		WHEN h.state IN ('pending', 'uncertain') THEN 'reading'
		WHEN h.state = 'failed' AND h.doubted = 1 THEN 'not_landed'
		ELSE 'resolved' END`
)

// errorSQL is ledger.Row.ErrorAt of a table's row.
func errorSQL(table string) string {
	return fmt.Sprintf("CASE WHEN %[1]s.state = 'pending' AND %[1]s.deadline_at < ?1 THEN 'deadline' ELSE %[1]s.error_class END", table)
}

var tabSQL = fmt.Sprintf(`CASE WHEN %s THEN 'parked' ELSE
	CASE %s
		WHEN 'conflict' THEN 'needs_you' WHEN 'decide' THEN 'needs_you' WHEN 'not_landed' THEN 'needs_you'
		WHEN 'unfetched' THEN CASE WHEN ?1 - h.granted_at >= %d THEN 'needs_you' ELSE 'in_flight' END
		WHEN 'in_flight' THEN 'in_flight'
		WHEN 'reading' THEN 'checking'
		ELSE 'settled' END END`, parkedSQL, laneSQL, ledger.FetchPatience.Milliseconds())

// The groups of operations o in SQL, as ledger.Record.Group says them. What is dear to
// know is asked last, and only of what needs a person.
var (
	// heldBy is who holds o's kind.
	heldBy = `(SELECT k.actor FROM holds k WHERE k.released_at = 0 AND (k.until = 0 OR k.until >= ?1)
		AND (k.scope = 'all' OR k.scope = 'kind:' || o.kind OR EXISTS (SELECT 1 FROM json_each(k.kinds) WHERE value = o.kind))
		ORDER BY k.created_at, k.id LIMIT 1)`

	settledGroup = `CASE WHEN o.state = 'committed' THEN 'landed' WHEN o.state = 'abandoned' THEN 'left'
		WHEN ` + wasRefused + ` THEN 'refused' ELSE 'never_sent' END`

	groupSQL = fmt.Sprintf(`CASE WHEN %s THEN 'parked' ELSE CASE %s
		WHEN 'conflict' THEN h.conflict
		WHEN 'unfetched' THEN CASE WHEN ?1 - h.granted_at >= %d THEN 'overdue' ELSE 'unfetched' END
		WHEN 'decide' THEN %s
		WHEN 'not_landed' THEN CASE WHEN %s IS NOT NULL THEN 'running' WHEN %s THEN 'elsewhere' WHEN %s IS NOT NULL THEN 'held' WHEN %s THEN 'said' ELSE 'proven' END
		WHEN 'in_flight' THEN 'in_flight' WHEN 'reading' THEN 'reading' ELSE %s END END`,
		parkedSQL, laneSQL, ledger.FetchPatience.Milliseconds(), toDecide, inRun, overtaken, heldBy, mayHaveLanded("o"), settledGroup)

	// groupAny is the group of one that may be in the list, settled or in flight.
	groupAny = "CASE WHEN h.seq IS NOT NULL THEN " + groupSQL + " WHEN o.resolved = 1 THEN " + settledGroup + " ELSE " + flightGroup + " END"

	toDecide = `CASE WHEN ` + inRun + ` IS NOT NULL THEN 'running' WHEN ` + overtaken + ` THEN 'elsewhere' ELSE 'decide' END`

	flightGroup = `CASE ` + flightLane + ` WHEN 'decide' THEN ` + toDecide + ` WHEN 'reading' THEN 'reading' ELSE 'in_flight' END`
)

// What is in flight and nothing else is read from operations o, with what a
// policy may have said of it beside it (h). It has no conflict, no grant, and is
// not parked: else it has another class in the list.
const (
	flightFrom = `operations o INDEXED BY operations_pending LEFT JOIN open_operations h ON h.seq = o.seq
		WHERE o.state = 'pending' AND (h.seq IS NULL OR h.class = 'pending')`

	flightState = `CASE WHEN o.deadline_at < ?1 THEN 'uncertain' ELSE 'pending' END`

	flightLane = `CASE
		WHEN o.deadline_at >= ?1 THEN 'in_flight'
		WHEN o.hands_off = 1 OR coalesce(h.decide_at, 0) <= ?1 THEN 'decide'
		ELSE 'reading' END`
)

// part is a slice of the hot table that an index gives in order.
type part struct {
	class string
	where string // more that must hold; "" when the whole class is in the tab
	clock bool   // found by its clock, not in the order asked for
}

// parts are where a tab's rows are: what a clock has moved since the last write
// is in a neighbouring class, and is found there by the clock.
func parts(tab ledger.Tab) []part {
	moving := part{class: "moving", where: tabSQL + " = '" + string(tab) + "'"}
	switch tab {
	case ledger.TabNeedsYou:
		return []part{{class: "conflict"}, {class: "decide"}, {class: "not_landed"}, {class: "ripe", where: "h.clock_at <= ?1"},
			{class: "reading", where: "h.clock_at <= ?1", clock: true}, moving}
	case ledger.TabChecking:
		return []part{{class: "reading", where: "h.clock_at > ?1"}, {class: "ripe", where: "h.clock_at > ?1", clock: true}, moving}
	case ledger.TabInFlight, ledger.TabParked:
		return []part{moving}
	case ledger.TabSettled:
		return []part{{class: "resolved"}, moving}
	}
	return []part{{class: "conflict"}, {class: "decide"}, {class: "not_landed"}, {class: "ripe"}, {class: "reading"}, {class: "resolved"}, {class: "moving"}}
}

// flight is which of what is in flight a tab has; "" for none.
func flight(tab ledger.Tab) string {
	switch tab {
	case ledger.TabNeedsYou:
		return "o.deadline_at < ?1 AND " + flightLane + " = 'decide'"
	case ledger.TabChecking:
		return "o.deadline_at < ?1 AND " + flightLane + " = 'reading'"
	case ledger.TabInFlight:
		return "o.deadline_at >= ?1"
	case ledger.TabSettled, ledger.TabParked:
		return ""
	}
	return "1 = 1"
}
