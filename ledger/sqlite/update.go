package sqlite

import (
	"bytes"
	"slices"
	"strings"

	"indoubt/ledger"
)

// update is an UPDATE of an operation that sets what a change changes and no
// more: what SQLite need not set costs no check, no trigger and no index.
type update struct {
	columns []string
	values  []any
}

func (u *update) set(column string, value any) {
	u.columns, u.values = append(u.columns, column), append(u.values, value)
}

func differ[T comparable](u *update, column string, before, after T, value func(T) any) {
	if before != after {
		u.set(column, value(after))
	}
}

func plain[T any](v T) any { return v }

func flagged(b bool) any { return flag(b) }

// compare sets the columns in which an operation differs from what it was.
func (u *update) compare(was, is ledger.Operation, recheckWas, recheckIs int64) {
	u.columns, u.values = make([]string, 0, 40), make([]any, 0, 42)
	differ(u, "token_sent", was.TokenSent, is.TokenSent, flagged)
	differ(u, "state", was.State, is.State, plain)
	differ(u, "version", was.Version, is.Version, plain)
	differ(u, "error_class", was.ErrorClass, is.ErrorClass, plain)
	differ(u, "verdict", was.Verdict, is.Verdict, plain)
	differ(u, "effects", was.Effects, is.Effects, plain)
	if was.State != is.State || !slices.Equal(was.Receipts, is.Receipts) {
		u.set("receipt", is.Receipt())
		u.set("receipts", list(is.Receipts))
	}
	if !bytes.Equal(was.Result, is.Result) {
		u.set("result", text(is.Result))
	}
	differ(u, "effect_word", was.EffectWord, is.EffectWord, plain)
	differ(u, "conflict", was.Conflict, is.Conflict, plain)
	differ(u, "conflict_note", was.ConflictNote, is.ConflictNote, plain)
	if !slices.Equal(was.AckedReceipts, is.AckedReceipts) {
		u.set("acked_receipts", list(is.AckedReceipts))
	}
	differ(u, "doubted", was.Doubted, is.Doubted, flagged)
	differ(u, "hands_off", was.HandsOff, is.HandsOff, flagged)
	differ(u, "by_answer", was.ByAnswer, is.ByAnswer, flagged)
	differ(u, "undelivered", was.Undelivered, is.Undelivered, flagged)
	differ(u, "awaits", was.Awaits, is.Awaits, plain)
	differ(u, "live_attempt", was.LiveAttempt, is.LiveAttempt, plain)
	differ(u, "attempt_count", was.AttemptCount, is.AttemptCount, plain)
	differ(u, "parked_until", ms(was.ParkedUntil), ms(is.ParkedUntil), plain)
	differ(u, "recheck_at", recheckWas, recheckIs, plain)
	differ(u, "updated_at", ms(was.UpdatedAt), ms(is.UpdatedAt), plain)
	differ(u, "started_at", ms(was.StartedAt), ms(is.StartedAt), plain)
	differ(u, "deadline_at", ms(was.DeadlineAt), ms(is.DeadlineAt), plain)
	differ(u, "ended_at", ms(was.EndedAt), ms(is.EndedAt), plain)
	differ(u, "doubted_at", ms(was.DoubtedAt), ms(is.DoubtedAt), plain)
	differ(u, "settled_at", ms(was.SettledAt), ms(is.SettledAt), plain)
	differ(u, "settled_boot", was.SettledSteady.Boot, is.SettledSteady.Boot, plain)
	differ(u, "settled_steady", was.SettledSteady.At.Milliseconds(), is.SettledSteady.At.Milliseconds(), plain)
}

// tell sets what the event of the change is made from, all of it: what an
// earlier change left there is not this one's.
func (u *update) tell(e ledger.Event) {
	u.columns = append(u.columns, "change_id", "change_of", "change_verb", "actor", "os_user", "host", "machine", "terminal", "reason", "change_detail")
	u.values = append(u.values, e.ID, e.ID, e.Verb, named(e.Actor.Name), e.Actor.OSUser, e.Actor.Host,
		flag(e.Actor.Machine), flag(e.Actor.Terminal), e.Reason, text(e.Detail))
}

// query is the statement, if the operation is still at the version it was; its
// values end with the id and that version.
func (u *update) query() string {
	return "UPDATE operations SET " + strings.Join(u.columns, " = ?, ") + " = ? WHERE id = ? AND version = ?"
}
