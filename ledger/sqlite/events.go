package sqlite

import (
	"context"
	"database/sql"

	"indoubt/ledger"
)

const eventColumns = `
	SELECT seq, id, operation_id, incident, at, verb, actor, os_user, host, machine, terminal, reason, from_state, to_state, version, detail, conflict
	  FROM events`

const historyQuery = eventColumns + ` WHERE operation_id = ? AND operation_id <> '' AND seq > ? ORDER BY seq LIMIT ?+0`

// Events returns the history after a sequence number, oldest first.
func (s *Store) Events(ctx context.Context, operationID string, after int64, limit int) ([]ledger.Event, error) {
	var events []ledger.Event
	var err error
	if operationID == "" {
		events, err = collect(outside{ctx, s.handle}, scanEvent, eventColumns+` WHERE seq > ? ORDER BY seq LIMIT ?+0`, after, limit)
	} else {
		events, err = collect(outside{ctx, s.handle}, scanEvent, historyQuery, operationID, after, limit)
	}
	return events, translate(s.path, err)
}

func scanEvent(rows *sql.Rows) (ledger.Event, error) {
	var e ledger.Event
	var when int64
	var detail sql.NullString
	err := rows.Scan(&e.Seq, &e.ID, &e.OperationID, &e.Incident, &when, &e.Verb, &e.Actor.Name, &e.Actor.OSUser, &e.Actor.Host,
		&e.Actor.Machine, &e.Actor.Terminal, &e.Reason, &e.From, &e.To, &e.Version, &detail, &e.Conflict)
	e.At, e.Detail = at(when), raw(detail.String)
	return e, err
}
