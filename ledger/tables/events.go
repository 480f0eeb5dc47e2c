package tables

import "indoubt/ledger"

// EventColumns are what ScanEvent reads of the table events.
const EventColumns = `seq, id, operation_id, outage, run, at, verb, actor, os_user, host, machine, terminal, reason, from_state, to_state, version,
	coalesce(detail, ''), conflict`

// ScanEvent reads EventColumns, and what is selected after them.
func ScanEvent(rows Rows, more ...any) (e ledger.Event, err error) {
	var when int64
	var detail string
	err = rows.Scan(append([]any{&e.Seq, &e.ID, &e.OperationID, &e.Outage, &e.Run, &when, &e.Verb, &e.Actor.Name, &e.Actor.OSUser, &e.Actor.Host,
		&e.Actor.Machine, &e.Actor.Terminal, &e.Reason, &e.From, &e.To, &e.Version, &detail, &e.Conflict}, more...)...)
	e.At, e.Detail = At(when), raw(detail)
	return e, err
}

// OfOperations is the condition for the operations whose events are wanted, or "".
func OfOperations(q ledger.HistoryQuery) (where string, args []any) {
	if q.Operation != "" {
		where, args = ` AND operation_id = ? AND operation_id <> ''`, []any{q.Operation}
	}
	if q.Among != nil {
		where, args = where+` AND operation_id IN (SELECT value FROM json_each(?)) AND operation_id <> ''`, append(args, list(q.Among))
	}
	return where, args
}
