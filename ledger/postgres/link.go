package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// statement is one statement on its way. Values travel as text, both ways: PostgreSQL
// knows the type of each place, and a statement needs no round trip to learn it.
type statement struct {
	query  string // numbered
	args   [][]byte
	answer *result // nil where it does not matter
}

// link is a connection with the statements that are prepared on it.
type link struct {
	conn     *pgconn.PgConn
	silence  time.Duration // after which it is given up
	late     func()        // is called where an answer has not come for lateAfter
	named    bool          // statements are prepared and kept
	prepared map[string]*pgconn.StatementDescription
	names    int  // given so far
	warned   bool // the server warned of something since this was last set to false
	failed   int  // which statement of the last exchange did, or how many it had
}

// keptStatements is how many statements a session keeps. Filters are many; those
// above are parsed each time.
const keptStatements = 300

const linkKey = "indoubt.link"

// linkOf is the link of a connection of the pool, the same each time.
func linkOf(s *handle, conn *pgconn.PgConn, named bool) *link {
	if l, ok := conn.CustomData()[linkKey].(*link); ok {
		return l
	}
	l := &link{conn: conn, silence: s.silence, late: func() { late(s) }, named: named, prepared: map[string]*pgconn.StatementDescription{}}
	conn.CustomData()[linkKey] = l
	return l
}

// notice is told what the server remarks.
func notice(conn *pgconn.PgConn, n *pgconn.Notice) {
	if l, ok := conn.CustomData()[linkKey].(*link); ok && n.SeverityUnlocalized == "WARNING" {
		l.warned = true
	}
}

// exchange sends statements in one go and reads their answers: one round trip. After
// one that fails the server skips the others.
func (l *link) exchange(ctx context.Context, statements []statement) error {
	wire := l.conn.Conn()
	if err := wire.SetDeadline(time.Now().Add(l.silence)); err != nil {
		return err
	}
	defer func() {
		if !l.conn.IsClosed() { // else it has the time it takes to say so
			_ = wire.SetDeadline(time.Time{})
		}
	}()
	defer time.AfterFunc(lateAfter, l.late).Stop()
	p := l.conn.StartPipeline(ctx)
	parsing := make([]bool, len(statements))
	for i, s := range statements {
		switch known, ok := l.prepared[s.query]; {
		case ok && known.SQL != "":
			p.SendQueryStatement(known, s.args, nil, nil)
		case ok: // parsed by a statement before this one
			p.SendQueryPrepared(known.Name, s.args, nil, nil)
		case l.named && len(l.prepared) < keptStatements:
			l.names++
			name := "indoubt_" + strconv.Itoa(l.names)
			l.prepared[s.query] = &pgconn.StatementDescription{Name: name}
			parsing[i] = true
			p.SendPrepare(name, s.query, nil)
			p.SendQueryPrepared(name, s.args, nil, nil)
		default:
			p.SendQueryParams(s.query, s.args, nil, nil, nil)
		}
	}
	err := p.Sync()
	for i := 0; i < len(statements) && err == nil; i++ {
		if parsing[i] {
			err = l.parsed(p, statements[i].query)
		}
		if err == nil {
			err = read(p, statements[i].answer)
		}
		if l.failed = i; err == nil {
			l.failed++
		}
	}
	if closed := p.Close(); err == nil {
		err = closed
	}
	if err != nil {
		l.forget()
		if pgconn.Timeout(err) && ctx.Err() == nil {
			err = errSilent
		}
	}
	return err
}

var errSilent = fmt.Errorf("the server has not answered for %s", silence)

// parsed takes the answer to the parsing of a statement.
func (l *link) parsed(p *pgconn.Pipeline, query string) error {
	answer, err := p.GetResults()
	if err != nil {
		return err
	}
	known, ok := answer.(*pgconn.StatementDescription)
	if !ok {
		return fmt.Errorf("the server answered %T to a statement", answer)
	}
	known.Name, known.SQL = l.prepared[query].Name, query
	l.prepared[query] = known
	return nil
}

// forget drops what an exchange that failed has not parsed.
func (l *link) forget() {
	for query, known := range l.prepared {
		if known.SQL == "" {
			delete(l.prepared, query)
		}
	}
}

// read reads the rows of one statement.
func read(p *pgconn.Pipeline, into *result) error {
	answer, err := p.GetResults()
	if err != nil {
		return err
	}
	rows, ok := answer.(*pgconn.ResultReader)
	if !ok {
		return fmt.Errorf("the server answered %T to a statement", answer)
	}
	if into != nil {
		fields := rows.FieldDescriptions()
		into.columns, into.types = len(fields), make([]uint32, len(fields))
		for i, f := range fields {
			into.types[i] = f.DataTypeOID
		}
	}
	for rows.NextRow() {
		if into != nil {
			into.keep(rows.Values())
		}
	}
	tag, err := rows.Close()
	if into != nil {
		into.tag = tag
	}
	return err
}
