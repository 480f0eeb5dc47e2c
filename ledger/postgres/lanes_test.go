//go:build soak

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/tables"
)

// begins begins an operation with a key.
func begins(ctx context.Context, s *Store, key string) error {
	_, err := ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "k", Key: key,
		Sender: "pipeline", Deadline: time.Minute, Actor: ledger.Actor{Name: "bench", Machine: true}})
	return err
}

// crowd begins several operations at once, while a lane waits for a lock that another
// holds, and returns their errors.
func crowd(t *testing.T, s, holder *Store, by func(string) context.Context, before func(), keys ...string) []error {
	t.Helper()
	s.lanes.most, s.lanes.longest = 1, time.Minute
	defer func() { s.lanes.longest = longWait }()
	other := need.Get(holder.pool.Load().Acquire(ctx))(t)
	defer other.Release()
	need.Get(other.Exec(ctx, `SELECT pg_advisory_lock(`+strings.ReplaceAll(nameKey, "?", "$1")+`)`, tables.KeyName("", keys[0])))(t)
	errs := make([]error, len(keys))
	var all sync.WaitGroup
	patience := time.Now().Add(lockTimeout / 2) // a change whose guess is wrong goes alone, and the first waits no longer for its lock
	for i, key := range keys {
		all.Go(func() {
			defer func() {
				if said := recover(); said != nil {
					errs[i] = fmt.Errorf("panic: %v", said)
				}
			}()
			errs[i] = begins(by(key), s, key)
		})
		for onTheWay(s) <= i && time.Now().Before(patience) {
			time.Sleep(time.Millisecond)
		}
	}
	before()
	need.Get(other.Exec(ctx, `SELECT pg_advisory_unlock_all()`))(t)
	all.Wait()
	return errs
}

func unhurried(string) context.Context { return ctx }

func waits(s *Store) int {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	return len(s.lanes.waiting)
}

func onTheWay(s *Store) int {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	return s.lanes.busy + len(s.lanes.waiting)
}

// What waits for a lane is one transaction, and so are the others where some of them are
// refused.
func TestChangesTravelTogether(t *testing.T) {
	s := opened(t, with(made(t), "pool_max_conns=4"), Options{})
	need.OK(t, begins(ctx, s, "warm"))
	for i, err := range crowd(t, s, s, unhurried, func() {}, "a", "b", "c", "d", "e") {
		need.That(t, err == nil, "%d: %v", i, err)
	}
	transactions := func(keys string) any {
		return scalar(t, s, `SELECT count(DISTINCT e.xid) FROM indoubt.events e JOIN indoubt.operations o ON o.id = e.operation_id WHERE o.key IN (`+keys+`)`)
	}
	if n := transactions(`'b', 'c', 'd', 'e'`); n != int64(1) {
		t.Errorf("four that waited were %v transactions", n)
	}
	for i, err := range crowd(t, s, s, unhurried, func() {}, "f", "g", "warm", "h", strings.Repeat("k", 3000), "i") { // a key in use, and one that is too long
		if refused := i == 4; refused != (err != nil) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := transactions(`'g', 'h', 'i'`); n != int64(1) {
		t.Errorf("those beside two that were refused were %v transactions", n)
	}
	for attempt, memo := range s.memory.begun {
		if xid := scalar(t, s, `SELECT xmin::text::bigint FROM indoubt.attempts WHERE id = ?`, attempt); fmt.Sprint(xid) != memo.xid {
			t.Errorf("transaction %d is remembered as %s", xid, memo.xid)
		}
	}
	if n := scalar(t, s, `SELECT count(*) FROM events`); n != int64(10) {
		t.Errorf("%v events", n)
	}
}

// A crowd that one process makes at once travels together to its last change, however long
// that waits: what it guesses of the clock is guessed when its turn comes.
func TestACrowdTravelsTogether(t *testing.T) {
	relay, address := pgtest.Through(t, with(made(t), "pool_max_conns=4"))
	relay.Delay = 20 * time.Millisecond
	s := opened(t, address, Options{})
	need.OK(t, begins(ctx, s, "warm"))
	s.lanes.longest = time.Minute // on a busy machine many would wait for long and go by themselves
	const n = 2000
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := begins(ctx, s, fmt.Sprint("key", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if recorded := scalar(t, s, `SELECT count(*) FROM operations`); recorded != n+1 {
		t.Errorf("%d operations", recorded)
	}
	if made := scalar(t, s, `SELECT count(DISTINCT xid) FROM indoubt.events`); made > n/4 {
		t.Errorf("%d changes were %d transactions", n, made)
	}
}

// One whose lock another holds keeps no other waiting, and one that is given up while it
// waits for a lane is not made.
func TestAWaitIsNotShared(t *testing.T) {
	s := opened(t, with(made(t), "pool_max_conns=8"), Options{})
	need.OK(t, begins(ctx, s, "warm"))
	other := need.Get(s.pool.Load().Acquire(ctx))(t)
	defer other.Release()
	lock := `SELECT pg_advisory_lock(` + strings.ReplaceAll(nameKey, "?", "$1") + `)`
	need.Get(other.Exec(ctx, lock, tables.KeyName("", "slow")))(t)
	slow := make(chan error, 1)
	s.lanes.most = 1
	go func() { slow <- begins(ctx, s, "slow") }()
	for i := range 20 {
		need.OK(t, begins(ctx, s, fmt.Sprint("more", i)))
	}
	select {
	case err := <-slow:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	need.Get(other.Exec(ctx, `SELECT pg_advisory_unlock_all()`))(t)
	need.OK(t, <-slow)

	for free := false; !free; time.Sleep(time.Millisecond) { // who has sent tells the others before it goes
		s.lanes.mu.Lock()
		if free = s.lanes.busy == 0; free {
			s.lanes.busy = s.lanes.most
		}
		s.lanes.mu.Unlock()
	}
	given, up := context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, up)
	if err := begins(given, s, "given up"); !errors.Is(err, context.Canceled) || waits(s) != 0 {
		t.Errorf("%v, %d wait", err, waits(s))
	}
	if n := scalar(t, s, `SELECT count(*) FROM operations WHERE key = 'given up'`); n != int64(0) {
		t.Errorf("%v of it", n)
	}
}

// I10: wherever the connection is cut while several changes share a transaction, each is
// recorded once, and its caller is told so.
func TestI10_ASharedCommitThatIsCut(t *testing.T) {
	url := made(t)
	holder := opened(t, url, Options{})
	r, through := pgtest.Through(t, with(url, "pool_max_conns=4"))
	s := opened(t, through, Options{})
	need.OK(t, begins(ctx, s, "warm"))
	crowded := func(name string, up, down int) {
		for i, err := range crowd(t, s, holder, unhurried, func() { r.Arm(up, down) }, name+"a", name+"b", name+"c", name+"d") {
			need.That(t, err == nil, "%s, %d: %v", name, i, err)
		}
	}
	crowded("prepared", -1, -1)
	crowded("counted", -1, -1)
	up, down := r.Disarm()
	cuts := 0
	for k := 40; k < up+down; k += (up + down) / 40 {
		if cuts++; k < up {
			crowded(fmt.Sprint("up", k), k, -1)
		} else {
			crowded(fmt.Sprint("down", k), -1, k-up)
		}
	}
	if n := scalar(t, holder, `SELECT count(*) FROM events`); n != int64(1+4*(cuts+2)) {
		t.Errorf("%v events of %d cuts", n, cuts)
	}
}

// aborts is a context that panics when it is asked, once that is wanted.
type aborts struct {
	context.Context
	now *atomic.Bool
}

func (a aborts) Done() <-chan struct{} {
	if a.now.Load() {
		panic("aborted")
	}
	return a.Context.Done()
}

// One who panics while he sends for others leaves none of them waiting, nor the lane taken.
func TestASenderThatPanics(t *testing.T) {
	s := opened(t, with(made(t), "pool_max_conns=4"), Options{})
	need.OK(t, begins(ctx, s, "warm"))
	var now atomic.Bool
	by := func(key string) context.Context {
		if key == "b" { // who sends what waits
			return aborts{ctx, &now}
		}
		return ctx
	}
	for i, err := range crowd(t, s, s, by, func() { now.Store(true) }, "a", "b", "c", "d") {
		if panicked := i == 1; panicked != (err != nil && err.Error() == "panic: aborted") || !panicked && err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := scalar(t, s, `SELECT count(*) FROM operations WHERE key IN ('a', 'c', 'd')`); n != int64(3) || onTheWay(s) != 0 {
		t.Errorf("%v operations, %d are on the way", n, onTheWay(s))
	}
}
