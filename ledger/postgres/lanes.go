package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Changes that ask nothing travel together where a process makes many at once: what waits
// for an exchange that is under way shares the next one, and is one transaction with it.
// Where one of them fails nothing has happened, and the others are sent again without it.
type lanes struct {
	most    int           // exchanges at the same time
	longest time.Duration // how long one waits for another's end
	turns   chan struct{} // of those that are being made

	mu      sync.Mutex
	busy    int
	waiting []*ride
}

// ride is a change on its way.
type ride struct {
	session *session
	drive   chan []*ride  // it is to send these, itself the first
	done    chan struct{} // closed when it was sent by another
	err     error

	statements []statement
	first      *result // of these: it tells the time
}

const (
	together   = 16                    // changes in one transaction at most
	sendings   = 3                     // of one transaction, each without one more that failed
	longWait   = 25 * time.Millisecond // after so long one goes, whatever is under way: it may wait for a lock
	shortWait  = "50"                  // milliseconds that one may keep those beside it waiting for a lock
	perLane    = 8                     // connections of a pool for each exchange
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
	r := &ride{session: s, err: &lostCommit{errNotTold}}
	l.mu.Lock()
	if l.busy < l.most {
		l.busy++
		l.mu.Unlock()
		return l.lead([]*ride{r})
	}
	r.drive, r.done = make(chan []*ride, 1), make(chan struct{})
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

// errNotTold: who had to send a change has not said what came of it.
var errNotTold = errors.New("the sender was stopped")

// lead sends changes, and then lets the next who wait be sent, whatever comes of it.
func (l *lanes) lead(rides []*ride) error {
	defer func() {
		l.mu.Lock()
		l.busy--
		for len(l.waiting) > 0 && l.busy < l.most {
			next := l.next(together)
			l.busy++
			next[0].drive <- next
		}
		l.mu.Unlock()
		for _, r := range rides[1:] {
			close(r.done)
		}
	}()
	send(rides)
	return rides[0].err
}

// send sends changes as one transaction over a connection of the first, and notes for each
// what came of it.
func send(rides []*ride) {
	all := func(rides []*ride, err error) {
		for _, r := range rides {
			r.err = err
		}
	}
	lead := rides[0].session
	if err := lead.connect(); err != nil {
		all(rides, errAgain) // one who waited makes its own connection
		rides[0].err = err
		return
	}
	defer lead.pooled.Release()
	for _, r := range rides {
		var err error
		r.session.whole = true
		if r.statements, r.first, err = r.session.statements(); err != nil {
			all(rides, errAgain)
			r.err = err
			return
		}
	}
	for range sendings {
		failed, err := lead.exchangeAll(rides)
		switch {
		case err == nil || !definite(err):
			if err != nil {
				err = &lostCommit{err}
			}
			all(rides, err)
			return
		case len(rides) == 1:
			rides[0].err = err
			return
		case failed == len(rides):
			all(rides, errAgain)
			return
		}
		rides[failed].err = fmt.Errorf("%w: %w", errAgain, err) // what it met may be another's that is undone, too; and alone it waits for longer
		rides = slices.Delete(slices.Clone(rides), failed, failed+1)
	}
	all(rides, errAgain)
}

// exchangeAll makes one transaction of changes, and reports which of them has failed: none
// of them where the commit did.
func (s *session) exchangeAll(rides []*ride) (failed int, err error) {
	statements := s.anew(nil)
	if len(rides) > 1 {
		statements = append(statements, statement{query: `SELECT set_config('lock_timeout', '` + shortWait + `', true)`})
	}
	ends := make([]int, len(rides)) // of the statements of each
	for i, r := range rides {
		for _, one := range r.statements {
			if one.answer != nil {
				*one.answer = result{} // of a sending before
			}
		}
		statements = append(statements, r.statements...)
		ends[i] = len(statements)
	}
	steady := s.store.steady()
	s.link.warned = false
	err = s.link.exchange(context.WithoutCancel(s.ctx), statements)
	failed, _ = slices.BinarySearch(ends, s.link.failed+1)
	switch {
	case err == nil && s.link.warned:
		err = errBrokenOff
	case err == nil:
		_, _ = s.store.told(rides[0].first, steady) // it is committed, whatever the clock shows
	}
	return failed, err
}
