package store

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"indoubt/ledger"
)

// verbLook is the verb of a check that told nothing new. It is no line of the history.
const verbLook = "look"

// who is what an event keeps of its actor beside the name.
type who struct {
	OSUser   string `json:"os_user,omitempty"`
	Host     string `json:"host,omitempty"`
	Terminal bool   `json:"terminal,omitempty"`
}

func whoIn(facts object) (w who) {
	of := parse(facts.get("who"))
	return who{quoted(of.get("os_user")), quoted(of.get("host")), of.get("terminal") == "true"}
}

// describe puts into facts and payload what an event says beside what it changed. Of its detail the
// text is in the payload, and nothing is said again that facts or payload say already: in facts
// stands null for these, which sayAgain fills in.
func describe(e ledger.Event, facts, payload *object) {
	if w := (who{e.Actor.OSUser, e.Actor.Host, e.Actor.Terminal}); w != (who{}) {
		facts.set("who", w)
	}
	if len(e.Detail) == 0 {
		return
	}
	if e.Run != "" && e.Outage != "" {
		facts.set("outage", e.Outage)
	}
	if e.OperationID == "" && e.Outage == "" && e.Run == "" && isLedgers(e.Verb) { // nobody's text
		facts.set("detail", e.Detail)
		return
	}
	var left, text object
	for _, m := range parse(string(e.Detail)) {
		name, isText, elsewhere := saidAs(m.name), e.IsText(m.name), null
		if m.raw[0] == '[' {
			elsewhere = nulls
		}
		switch {
		case m.raw == facts.get(name), isText && m.raw == payload.get(name):
			m.raw = elsewhere
		case isText:
			text.add(m.name, m.raw)
			m.raw = elsewhere
		}
		left = append(left, m)
	}
	facts.add("detail", left.json())
	payload.put("detail", text)
}

// What stands for a member of a detail that is elsewhere, and for a list.
const null, nulls = "null", "[null]"

// saidAs is how facts and payload name what a detail names so.
func saidAs(name string) string {
	if name == "attempt" {
		return "id"
	}
	return name
}

// sayAgain is the detail of an event with what describe has left out. Text that was taken out since
// is the marker.
func sayAgain(e ledger.Event, facts, payload object) json.RawMessage {
	detail, text := parse(facts.get("detail")), parse(payload.get("detail"))
	for i, m := range detail {
		if m.raw != null && m.raw != nulls {
			continue
		}
		again := nonEmpty(text.get(m.name), facts.get(saidAs(m.name)))
		if again == "" && e.IsText(m.name) {
			again = nonEmpty(payload.get(m.name), strings.Replace(m.raw, null, `"`+ledger.Marker+`"`, 1))
		}
		detail[i].raw = nonEmpty(again, m.raw)
	}
	if detail == nil { // it is no object, or there is none
		return json.RawMessage(facts.get("detail"))
	}
	return json.RawMessage(detail.json())
}

// isLedgers reports whether an event of the verb is about the ledger.
func isLedgers(verb string) bool {
	return slices.Contains([]string{ledger.PolicyApplied, "hold", "release", "adopt", "clock", string(ledger.VerbPrune)}, verb)
}

// addEvent leaves an event that is about no change of a row.
func addEvent(tx Tx, op int64, n int, e ledger.Event, facts, payload object) error {
	if e.At.IsZero() {
		e.At = tx.Moment().Wall
	}
	return exec(tx, `INSERT INTO ev (op, n, id, at, verb, actor, machine, reason, before, state, version, about, facts, payload)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		op, n, e.ID, millis(e.At), e.Verb, named(e.Actor.Name), number(e.Actor.Machine), e.Reason, string(e.From), string(e.To),
		e.Version, about(e), facts.text(), payload.text())
}

// Tell leaves an event of the ledger, an outage or a run.
func Tell(tx Tx, e ledger.Event) error {
	var facts, payload object
	describe(e, &facts, &payload)
	seq, err := seqOf(tx, e.OperationID)
	if err != nil {
		return err
	}
	return addEvent(tx, seq, 0, e, facts, payload)
}

// seqOf is the number of an operation, or 0.
func seqOf(tx Tx, id string) (seq int64, err error) {
	if id != "" {
		err = One(tx, []any{&seq}, `SELECT coalesce(max(seq), 0) FROM op WHERE id = ?`, id)
	}
	return seq, err
}

// about is what an event of the ledger is found by.
func about(e ledger.Event) string {
	switch {
	case e.Run != "":
		return aboutRun + e.Run
	case e.Outage != "":
		return aboutOutage + e.Outage
	case e.Verb == ledger.PolicyApplied || e.Verb == "clock":
		return e.Verb
	case e.Verb == ledger.VerbPrune:
		return aboutFile + quoted(parse(string(e.Detail)).get("file"))
	}
	return ""
}

const aboutOutage = "outage:"

// EventsOf reads events e for which a condition holds; EventsQuery is how.
func EventsOf(tx Tx, where string, args ...any) ([]ledger.Event, error) {
	return Collect(tx, scanEvent, EventsQuery(where), args...)
}

func EventsQuery(where string) string {
	return `SELECT e.seq, e.id, coalesce(o.id, ''), e.about, e.at, e.verb, e.actor, e.machine, e.reason,
		e.before, e.state, e.version, e.conflict,
		coalesce({text e.facts}, ''), coalesce({text e.payload}, '') FROM ev e LEFT JOIN op o ON o.seq = e.op WHERE ` + where
}

func scanEvent(rows Rows) (e ledger.Event, err error) {
	var when int64
	var of, facts, payload string
	if err = rows.Scan(&e.Seq, &e.ID, &e.OperationID, &of, &when, &e.Verb, &e.Actor.Name, &e.Actor.Machine, &e.Reason, &e.From, &e.To,
		&e.Version, &e.Conflict, &facts, &payload); err != nil {
		return e, err
	}
	e.At = at(when)
	if outage, is := strings.CutPrefix(of, aboutOutage); is {
		e.Outage = outage
	}
	f, p := parse(facts), parse(payload)
	if run, is := strings.CutPrefix(of, aboutRun); is {
		e.Run = run
		e.Outage = nonEmpty(quoted(f.get("outage")), e.Outage)
	}
	w := whoIn(f)
	e.Actor.OSUser, e.Actor.Host, e.Actor.Terminal = w.OSUser, w.Host, w.Terminal
	if f.get("detail") != "" {
		e.Detail = sayAgain(e, f, p)
	}
	return e, nil
}

// Follow returns what was written after the cursor, oldest first.
func (s *Store) Follow(ctx context.Context, after ledger.Cursor, limit int) ([]ledger.Event, ledger.Cursor, error) {
	events, err := s.History(ctx, ledger.HistoryQuery{Since: after, Limit: limit})
	if n := len(events); n > 0 {
		after = ledger.NumberCursor(events[n-1].Seq)
	}
	s.Saw(events)
	return events, after, err
}

// Saw remembers the newest of what was followed.
func (s *Store) Saw(events []ledger.Event) {
	for _, e := range slices.Backward(events) {
		if e.OperationID != "" {
			s.newest.saw(known{e.OperationID, e.ID, e.At})
			return
		}
	}
}

// History returns events in the order of their Seq.
func (s *Store) History(ctx context.Context, q ledger.HistoryQuery) ([]ledger.Event, error) {
	since, err := q.Since.Number()
	if err != nil {
		return nil, err
	}
	last := int64(math.MaxInt64)
	if q.Until != "" {
		if last, err = q.Until.Number(); err != nil {
			return nil, err
		}
	}
	return Events(ctx, s.db, q, `e.seq > ? AND e.seq <= ?`, since, last)
}

// Events are those of a history for which a condition on e holds.
func Events(ctx context.Context, db Database, q ledger.HistoryQuery, where string, args ...any) (out []ledger.Event, err error) {
	where += ` AND e.verb <> '` + verbLook + `'`
	if q.Before > 0 {
		where, args = where+` AND e.seq < ?`, append(args, q.Before)
	}
	if q.Operation != "" {
		where, args = where+` AND e.op = (SELECT seq FROM op WHERE id = ?) AND e.op <> 0`, append(args, q.Operation)
	}
	if q.Among != nil {
		marks, ids := among(q.Among)
		where, args = where+` AND e.op IN (SELECT seq FROM op WHERE id IN (`+marks+`))`, append(args, ids...)
	}
	where += ` ORDER BY e.seq`
	if q.Newest {
		where += ` DESC`
	}
	err = db.View(ctx, func(tx Tx) (err error) {
		out, err = EventsOf(tx, where+` LIMIT ?`, append(args, q.Limit)...)
		return err
	})
	return out, err
}
