package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Changes that ask nothing travel together where a process makes many at once: what waits
// for an exchange that is under way shares the next one, and is one transaction with it.
// Where one of them fails nothing has happened, and the others are made again, alone.
type lanes struct {
	most    int           // exchanges at the same time
	longest time.Duration // how long one waits for another's end
	turns   chan struct{} // of those that are being made

	mu      sync.Mutex
	busy    int
	waiting []*ride
	alone   time.Time // until then each travels alone, because one has failed
}

// ride is a change on its way.
type ride struct {
	session *session
	drive   chan []*ride  // it is to send these, itself the first
	done    chan struct{} // closed when it was sent by another
	err     error
}

const (
	together   = 16                     // changes in one transaction at most
	apart      = 100 * time.Millisecond // how long each travels alone after one has failed
	longWait   = 25 * time.Millisecond  // after so long one goes, whatever is under way: it may wait for a lock
	shortWait  = "50"                   // milliseconds that one may keep those beside it waiting for a lock
	perLane    = 8                      // connections of a pool for each exchange
	fewestLane = 2
)

func newLanes(connections int) *lanes {
	most := min(connections, max(fewestLane, connections/perLane))
	return &lanes{most: most, longest: longWait, turns: make(chan struct{}, max(connections, 2*most*together))} // as many wait as are under way
}

// enter waits until a change may be made: what it guesses of the clock does not hold for
// as long as a crowd may have to wait for its exchange.
func (l *lanes) enter(ctx context.Context) (leave func(), err error) {
	select {
	case l.turns <- struct{}{}:
		return func() { <-l.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ride sends the change, or has it sent, and returns what commit does.
func (l *lanes) ride(s *session) error {
	r := &ride{session: s, drive: make(chan []*ride, 1), done: make(chan struct{})}
	l.mu.Lock()
	if l.busy < l.most || time.Now().Before(l.alone) {
		l.busy++
		l.mu.Unlock()
		return l.lead([]*ride{r})
	}
	l.waiting = append(l.waiting, r)
	l.mu.Unlock()
	long := time.NewTimer(l.longest)
	defer long.Stop()
	select {
	case <-s.ctx.Done():
		if l.leaves(r) {
			return s.ctx.Err()
		}
	case <-long.C:
		if rides := l.take(r); rides != nil {
			return l.lead(rides)
		}
	case <-r.done:
		return r.err
	case rides := <-r.drive:
		return l.lead(rides)
	}
	select { // it was on its way already
	case <-r.done:
		return r.err
	case rides := <-r.drive:
		return l.lead(rides)
	}
}

// leaves takes one back that no one has sent yet.
func (l *lanes) leaves(r *ride) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.waiting)
	l.waiting = slices.DeleteFunc(l.waiting, func(w *ride) bool { return w == r })
	return len(l.waiting) < n
}

// take opens one more lane for one that has waited for long, and for those around it.
func (l *lanes) take(r *ride) []*ride {
	if !l.leaves(r) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy++
	return append([]*ride{r}, l.next(together-1)...)
}

// next takes the first who wait.
func (l *lanes) next(n int) []*ride {
	n = min(n, len(l.waiting))
	rides := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	return rides
}

// lead sends changes, and then lets the next who wait be sent.
func (l *lanes) lead(rides []*ride) error {
	failed := send(rides)
	l.mu.Lock()
	if failed && len(rides) > 1 {
		l.alone = time.Now().Add(apart)
	}
	l.busy--
	for alone := time.Now().Before(l.alone); len(l.waiting) > 0 && (alone || l.busy < l.most); {
		n := together
		if alone {
			n = 1
		}
		next := l.next(n)
		l.busy++
		next[0].drive <- next
	}
	l.mu.Unlock()
	for _, r := range rides[1:] {
		close(r.done)
	}
	return rides[0].err
}

// send sends changes as one transaction over a connection of the first, and notes for each
// what came of it.
func send(rides []*ride) (failed bool) {
	all := func(err error) {
		for _, r := range rides {
			r.err = err
		}
	}
	lead := rides[0].session
	if err := lead.connect(); err != nil {
		all(errAgain) // one who waited makes its own connection
		rides[0].err = err
		return true
	}
	defer lead.pooled.Release()
	var statements []statement
	var opening *result
	ends := make([]int, len(rides)) // of the statements of each
	if lead.used {                  // by a transaction that is over
		statements, lead.used = append(statements, statement{query: "ROLLBACK"}), false
	}
	if len(rides) > 1 {
		statements = append(statements, statement{query: `SELECT set_config('lock_timeout', '` + shortWait + `', true)`})
	}
	for i, r := range rides {
		r.session.whole = true
		more, first, err := r.session.statements()
		if err != nil {
			all(errAgain)
			r.err = err
			return true
		}
		if i == 0 {
			opening = first
		}
		statements = append(statements, more...)
		ends[i] = len(statements)
	}
	steady := lead.store.steady()
	lead.link.warned = false
	err := lead.link.exchange(context.WithoutCancel(lead.ctx), statements)
	switch said := (*pgconn.PgError)(nil); {
	case err == nil && lead.link.warned:
		all(&lostCommit{errBrokenOff})
	case err == nil:
		_, err = lead.store.told(opening, steady)
	case !definite(err):
		all(&lostCommit{err})
	default:
		all(errAgain)
		at, _ := slices.BinarySearch(ends, lead.link.failed+1) // beyond the last: the commit failed
		waited := errors.As(err, &said) && said.Code == codeLockTimeout
		if len(rides) == 1 || at < len(rides) && !waited { // alone it waits for longer
			rides[min(at, len(rides)-1)].err = err
		}
	}
	return err != nil
}
