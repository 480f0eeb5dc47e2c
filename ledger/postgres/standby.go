package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// metaStandby is the change id of the event by which a person said that no standby that follows later will be
// promoted, or that the loss is accepted. An adoption takes it back.
const metaStandby = "standby_accepted"

// standbysQuery gives the standbys that follow this server: all of them, those that a commit waits for, and those of
// which this user may not see whether it does. Readers of logical changes and programs that copy the log are none. An
// inactive slot keeps the place of one that may come back.
const standbysQuery = `WITH streams AS (
	SELECT coalesce(application_name, '') AS name, sync_state FROM pg_stat_replication
	 WHERE coalesce(state, 'streaming') IN ('catchup', 'streaming')
	   AND coalesce(application_name, '') NOT IN ('pg_basebackup', 'pg_receivewal')
	   AND NOT EXISTS (SELECT FROM pg_replication_slots WHERE active_pid = pid AND slot_type = 'logical')),
	slots AS (SELECT 'slot ' || slot_name AS name FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT active AND NOT temporary)
	SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE coalesce((SELECT string_agg(name, ', ') FROM (
			SELECT name FROM streams UNION SELECT name FROM slots ORDER BY 1) follows), '') END,
		current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') <> 'local',
		EXISTS (SELECT FROM streams WHERE sync_state IN ('sync', 'quorum')), EXISTS (SELECT FROM streams WHERE sync_state IS NULL),
		coalesce(e.actor, ''), coalesce(e.reason, ''), coalesce(e.at, 0)
	FROM (SELECT) one LEFT JOIN indoubt.meta m ON m.name = 'standby_accepted' LEFT JOIN indoubt.ev e ON e.op = 0 AND e.id = m.value`

// standbys says whether a standby that could be promoted lacks what was acknowledged, and what a person said of that.
// The finding is empty where no standby follows.
func standbys(tx store.Tx) (f ledger.Finding, said string, err error) {
	var who, actor string
	var waits, protects, unseen bool
	var at int64
	err = store.One(tx, []any{&who, &waits, &protects, &unseen, &actor, &said, &at}, standbysQuery)
	switch f.Check = "commits"; {
	case err != nil || who == "":
	case waits && protects:
		f.Level, f.Found = ledger.LevelOK, "durable on a standby, too, before they are acknowledged"
	case said != "":
		when := time.UnixMilli(at).UTC().Format(time.DateOnly)
		f.Level, f.Found = ledger.LevelOK, fmt.Sprintf("of %s %s said on %s that it does no harm: %s", who, actor, when, said)
	case waits && unseen:
		f.Level, f.Found = ledger.LevelWarn, "cannot tell whether commits wait for "+who+": this user of the database may not see it"
		f.Do = "GRANT pg_read_all_stats to it, or look as one who has it"
	default:
		f.Level, f.Found = ledger.LevelFail, "no commit waits for "+who+": a standby that is promoted forgets what was acknowledged"
		f.Do = "set synchronous_standby_names and synchronous_commit = on; or say why it will not be promoted, or why the loss is accepted: " +
			"indoubt init --async-standby REASON (adopt has it, too)"
	}
	return f, said, err
}

// Standbys is what an examination says of the standbys. The finding is empty where none follows.
func (s *handle) Standbys(ctx context.Context) (f ledger.Finding, err error) {
	err = database{s}.View(ctx, func(tx store.Tx) error {
		f, _, err = standbys(tx)
		return err
	})
	return f, err
}

// refuseForgetting refuses a ledger with a standby that could be promoted and forgets what was acknowledged, but
// where a person gives a reason. That is told.
func (t *tx) refuseForgetting(o Options) error {
	f, said, err := standbys(t)
	reason := strings.TrimSpace(o.AsyncStandby)
	switch {
	case err != nil || reason != "" && reason == said:
		return err
	case reason != "":
		id := ledger.NewID()
		return errors.Join(store.SetMeta(t, metaStandby, id),
			store.Tell(t, ledger.Event{ID: id, Verb: "standby", Actor: o.Actor, Reason: reason}))
	case f.Level == ledger.LevelFail:
		return ledger.Trouble{Code: "refused", Message: f.Found, Do: f.Do}
	}
	return nil
}

// AcceptStandby has the history say why a standby that forgets what was acknowledged does no harm. The reason is in
// the options that the ledger was opened with. Errors: *Error for one who does not own the ledger.
func (s *handle) AcceptStandby(ctx context.Context) error {
	return database{s}.change(ctx, beginWrite, func(t *tx) error {
		if err := owned(t, s.address.shown); err != nil {
			return err
		}
		return t.refuseForgetting(s.opts)
	})
}
