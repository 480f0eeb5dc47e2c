package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"indoubt/ledger/lazyregexp"
)

// succession is what this process has seen of the databases that the ledger has lived in.
// A server that another one took over from may come back, and be the first of the address:
// it lacks what was recorded since, and does not know it.
type succession struct {
	news func() // is called where one was left that was not known to be
	mu   sync.Mutex
	any  bool            // one was seen
	left map[string]bool // those that another one follows
}

// databaseQuery gives the database of this server: its home, and when it was adopted there, if
// it was. Two standbys that are promoted may come to have the same home.
const databaseQuery = `SELECT CASE WHEN split_part(h.value, '@', 1) = indoubt.home() THEN h.value ELSE indoubt.home() END
	FROM (SELECT regexp_replace(value, '.* ', '') AS value FROM indoubt.meta WHERE name = 'homes') h`

// successionQuery gives those of the ledger in their order, and last the one of this server.
const successionQuery = `SELECT concat_ws(' ', value, (` + databaseQuery + `)) FROM indoubt.meta WHERE name = 'homes'`

// databaseShape is what is taken in of them.
var databaseShape = lazyregexp.New(`^[0-9A-Za-z.@]+$`)

// learns takes in what a server says of them. It reports whether that server was left.
func (s *succession) learns(told string) bool {
	old, news := s.sees(told)
	if news {
		s.news()
	}
	return old
}

// sees is learns, and reports whether there is news.
func (s *succession) sees(told string) (old, news bool) {
	all := strings.Fields(told)
	if len(all) == 0 {
		return false, false
	}
	for _, line := range all {
		if !databaseShape.MatchString(line) {
			return false, false
		}
	}
	here := all[len(all)-1]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left[here] {
		return true, false
	}
	if s.any = true; s.left == nil {
		s.left = map[string]bool{}
	}
	for _, line := range all {
		if line != here && !s.left[line] {
			s.left[line], news = true, true
		}
	}
	return false, news
}

// oldServer begins what is no number, and ends a transaction on a server that was left: a
// pooler may give another one at any time.
const oldServer = "old server: "

// array gives those that were left, as PostgreSQL writes an array; "" where none was.
func (s *succession) array() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.left) == 0 {
		return ""
	}
	return "{" + strings.Join(slices.Sorted(maps.Keys(s.left)), ",") + "}"
}

// knows reports whether any database was seen.
func (s *succession) knows() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.any
}

// validate refuses a server that was left, so that the next host of the address is tried.
// What is no ledger yet, or none any more, is let through.
func (s *succession) validate(ctx context.Context, conn *pgconn.PgConn, shown string) error {
	if !s.knows() { // what is found first is taken in when it is described
		return nil
	}
	answers, err := conn.Exec(ctx, successionQuery).ReadAll()
	if said := (*pgconn.PgError)(nil); err != nil {
		if errors.As(err, &said) && !ended(said) {
			return nil
		}
		return err
	}
	if len(answers) != 1 || len(answers[0].Rows) != 1 {
		return nil
	}
	if s.learns(string(answers[0].Rows[0][0])) {
		return &Error{Old, shown, conn.Conn().RemoteAddr().String(), "", nil}
	}
	return nil
}

// succeeds adds that to what a connection is tried for.
func (a *address) succeeds(s *succession) {
	config := a.config.ConnConfig
	before := config.ValidateConnect
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		return s.validate(ctx, conn, a.shown)
	}
}
