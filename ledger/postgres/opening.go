package postgres

import "sync"

func (s *session) plainly() bool {
	if s.link == nil {
		return s.store.plain.Load()
	}
	return !s.link.named
}

// opening is the first statement of a transaction: it tells the time, and behind a
// pooler it makes the settings, which no session keeps. A transaction that writes takes
// the lock of its token, by which others can wait for its end, is durable when it is done,
// and has the guards look at it, even where the database was told otherwise.
func (s *session) opening(answer *result) (statement, error) {
	args := make([]any, 0, 8)
	if s.token != 0 {
		args = append(args, s.token)
	}
	s.opens.plain, s.opens.writes = s.plainly(), s.token != 0
	if s.opens.plain { // else the server was looked at when it was connected to
		s.opens.left = s.store.succession.array()
	}
	t := s.opens.text()
	values, err := t.bind(s.parcel, append(args, s.moreArgs...))
	return statement{query: t.query, args: values, answer: answer}, err
}

// opens is what the text of an opening depends on.
type opens struct {
	plain, writes bool
	left          string // databases that it refuses to be in, as an array
	more          string // other locks that it takes
	timed         bool   // whether the clock is near what was guessed
}

var openings sync.Map // text by opens

func (o opens) text() text {
	if t, ok := openings.Load(o); ok {
		return t.(text)
	}
	t := rewrite("SELECT " + o.expressions())
	openings.Store(o, t)
	return t
}

// expressions are what an opening asks, the time first.
func (o opens) expressions() string {
	query := `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
	if o.plain {
		for _, set := range settings {
			query += `, set_config('` + set.name + `', '` + set.value + `', true)`
		}
	}
	if o.left != "" {
		query += `, CASE WHEN (` + databaseQuery + `) = ANY (CAST('` + o.left + `' AS text[])) THEN CAST('` + oldServer + `' || concat_ws(':', host(inet_server_addr()), inet_server_port()) AS int) END`
	}
	if o.writes {
		query += `, pg_advisory_xact_lock(?), CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`
		query += `, CASE current_setting('session_replication_role') WHEN 'replica' THEN set_config('session_replication_role', 'origin', true) END`
	}
	query += o.more
	if o.timed {
		query += `, 1 / (clock_timestamp() BETWEEN CAST(? AS timestamptz) - interval '2 milliseconds' AND CAST(? AS timestamptz) + interval '1 millisecond' * ?)::int`
	}
	return query
}

// openedAndXID is what a statement gives that opens its transaction, by whether the clock
// was guessed.
var openedAndXID = map[bool]string{
	false: opens{writes: true}.expressions() + ", " + xid,
	true:  opens{writes: true, timed: true}.expressions() + ", " + xid,
}
