package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"indoubt/ledger"
)

// lateAfter is after what time without an answer it is asked what a change waits for, and
// lateAgain how long it is not said once more.
const (
	lateAfter = 3 * time.Second
	lateAgain = time.Minute
)

// absentStandby names the standbys that a commit waits for while none is connected, else "".
const absentStandby = `CASE WHEN NOT pg_is_in_recovery() AND current_setting('synchronous_commit') <> 'local' AND NOT EXISTS (SELECT FROM pg_stat_replication)
	THEN current_setting('synchronous_standby_names') ELSE '' END`

// lateQuery gives them, or those that a commit of this user waits for now; no row where
// none does.
const lateQuery = `SELECT current_setting('synchronous_standby_names') WHERE ` + absentStandby + ` <> '' OR EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')`

// late says what is waited for, where that is a standby: a commit is waited for in silence
// until its connection is given up.
func late(s *handle) {
	now := time.Now()
	if said := s.lateAt.Load(); s.opts.Warn == nil || said != nil && now.Sub(*said) < lateAgain || !s.lateAt.CompareAndSwap(said, &now) {
		return
	}
	s.background.work(func() {
		ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
		defer cancel()
		conn, err := pgconn.ConnectConfig(ctx, s.address.alone()) // the pool's may all wait
		if err != nil {
			return
		}
		defer conn.Close(ctx)
		answers, err := conn.Exec(ctx, lateQuery).ReadAll()
		if err == nil && len(answers) == 1 && len(answers[0].Rows) == 1 {
			e := &Error{Waits, s.address.shown, string(answers[0].Rows[0][0]), "", nil}
			s.opts.Warn(e.Trouble(ledger.InFull))
		}
	})
}

// strained says what a person must do about the server, as Info does.
func strained(full bool, standbys string) string {
	switch {
	case full:
		return "SERVER DISK FULL: nothing is recorded until there is room"
	case standbys != "":
		return "NO STANDBY: nothing is recorded until one is back (" + standbys + ")"
	}
	return ""
}
