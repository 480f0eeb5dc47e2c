package sqlite

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

var tabSQL = fmt.Sprintf(`CASE WHEN %s THEN 'all' ELSE
	CASE %s
		WHEN 'conflict' THEN 'needs_you' WHEN 'decide' THEN 'needs_you' WHEN 'not_landed' THEN 'needs_you'
		WHEN 'unfetched' THEN CASE WHEN ?1 - h.granted_at >= %d THEN 'needs_you' ELSE 'in_flight' END
		WHEN 'in_flight' THEN 'in_flight'
		WHEN 'reading' THEN 'checking'
		ELSE 'settled' END END`, parkedSQL, laneSQL, ledger.FetchPatience.Milliseconds())

// part is a slice of the hot table that an index gives in order.
type part struct {
	class string
	where string // more that the index can use
	index string // "" for the index of the order asked for
}

// parts are where a tab's rows may be. Each is looked at in its own order and
// checked against the tab exactly: what a clock has moved since the last write
// is in a neighbouring class, and is found there by the clock.
func parts(tab ledger.Tab) []part {
	moving := part{class: "moving"}
	overdue := part{class: "pending", where: "h.state = 'pending' AND h.deadline_at < ?1", index: "open_pending"}
	switch tab {
	case ledger.TabNeedsYou:
		return []part{{class: "conflict"}, {class: "decide"}, {class: "ripe"}, {class: "not_landed"},
			{class: "reading", where: "h.clock_at <= ?1", index: "open_by_clock"}, overdue, moving}
	case ledger.TabChecking:
		return []part{{class: "reading"}, {class: "ripe", where: "h.clock_at > ?1", index: "open_by_clock"}, overdue, moving}
	case ledger.TabInFlight:
		return []part{{class: "pending", where: "h.state = 'pending' AND h.deadline_at >= ?1", index: "open_pending"}, moving}
	case ledger.TabAll:
		return []part{{class: "conflict"}, {class: "decide"}, {class: "ripe"}, {class: "not_landed"}, {class: "reading"},
			{class: "pending", where: "h.state = 'pending'", index: "open_pending"}, {class: "resolved"}, moving}
	case ledger.TabSettled:
		return []part{{class: "resolved"}, moving}
	}
	return nil
}
